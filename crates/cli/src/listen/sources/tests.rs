use super::*;
use crate::listen::testbed::Server;
use crate::output::Hint;

const DESTINATION: &str = "http://localhost:8080/own";

/// Who was chosen, with where requests go, and what was said; or the error with its exit code.
async fn choose_of(
    server: &Server,
    argument: Option<&str>,
    (sources, create): (&[&str], bool),
) -> Result<(Vec<(String, String)>, Vec<String>), (String, u8)> {
    let client = Client::new(&server.url, "rst_live_0123456789abcdefghijklmnopqrstuv").unwrap();
    let sources: Vec<String> = sources.iter().map(|it| (*it).to_owned()).collect();
    let local = Local::parse(argument, None).unwrap();
    let mut said = Vec::new();
    let wanted = Wanted { sources: &sources, create, local: &local };
    let chosen = choose(&client, &wanted, &mut |text| said.push(text.to_owned())).await;
    match chosen {
        Ok(chosen) => Ok((chosen.into_iter().map(|it| (it.name, it.targets.join(", "))).collect(), said)),
        Err(error) => {
            let code =
                error.chain().find_map(|cause| cause.downcast_ref::<Hint>()).map_or(0, |hint| hint.code);
            Err((error.to_string(), code))
        }
    }
}

fn one(name: &str, target: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), target.to_owned())]
}

#[tokio::test]
async fn the_only_source_is_meant_when_none_is_named() {
    let server = Server::start().await;
    let none = choose_of(&server, Some("3000"), (&[], true)).await;
    assert_eq!(none, Err(("there is no source yet".to_owned(), exit::NOT_FOUND)));
    let server = server.with_source("orders", Some(DESTINATION));
    let (chosen, said) = choose_of(&server, None, (&[], false)).await.unwrap();
    assert_eq!((chosen, said), (one("orders", DESTINATION), vec![]), "the destination's own URL");
    let (chosen, _) = choose_of(&server, Some("3000"), (&[], false)).await.unwrap();
    assert_eq!(chosen, one("orders", "http://127.0.0.1:3000"));
    let server = server.with_source("billing", None);
    let several = choose_of(&server, Some("3000"), (&[], false)).await;
    assert_eq!(several, Err(("there are 2 sources: orders, billing".to_owned(), exit::USAGE)));
}

#[tokio::test]
async fn sources_are_found_by_name_and_by_id_and_each_once() {
    let server =
        Server::start().await.with_source("orders", Some(DESTINATION)).with_source("mail", Some(DESTINATION));
    let names = ["mail", "src_orders", "orders"];
    let (chosen, _) = choose_of(&server, Some("3000"), (&names, false)).await.unwrap();
    let names: Vec<&str> = chosen.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["mail", "orders"]);
}

/// What is said of a name that no source has.
async fn said_of_unknown(server: &Server, name: &str) -> (String, String) {
    let client = Client::new(&server.url, "rst_live_0123456789abcdefghijklmnopqrstuv").unwrap();
    let local = Local::parse(Some("3000"), None).unwrap();
    let wanted = Wanted { sources: &[name.to_owned()], create: false, local: &local };
    let error = choose(&client, &wanted, &mut |_| {}).await.unwrap_err();
    let hint = error.chain().find_map(|cause| cause.downcast_ref::<Hint>()).unwrap();
    assert_eq!(hint.code, exit::NOT_FOUND);
    (error.to_string(), hint.text.clone())
}

#[tokio::test]
async fn a_slip_of_the_finger_is_answered_with_the_source_that_is_meant() {
    let server = Server::start().await.with_source("mail", None).with_source("shop", None);
    let expected = ("there is no source \"shp\"".to_owned(), "did you mean shop?".to_owned());
    assert_eq!(said_of_unknown(&server, "shp").await, expected);
    let (message, hint) = said_of_unknown(&server, "billing").await;
    assert_eq!(message, "there is no source \"billing\"; there are: mail, shop");
    assert_eq!(hint, "--create makes it");
}

#[tokio::test]
async fn of_many_sources_the_nearest_are_named() {
    let mut server = Server::start().await;
    for count in 10..30 {
        server = server.with_source(&format!("a-long-name-{count}"), None);
    }
    let server = server.with_source("stripe-live", None);
    let (message, hint) = said_of_unknown(&server, "stripe").await;
    assert!(message.starts_with("there is no source \"stripe\"; there are: stripe-live, a-long-name-10, "));
    assert!(message.ends_with("a-long-name-18, …"), "{message}");
    assert_eq!(hint, "--create makes it");
}

#[tokio::test]
async fn what_is_missing_is_made_and_said() {
    let server = Server::start().await.with_source("mail", None);
    let (chosen, said) = choose_of(&server, Some("3000"), (&["orders", "mail"], true)).await.unwrap();
    let target = "http://127.0.0.1:3000";
    assert_eq!(chosen, [one("orders", target), one("mail", target)].concat());
    assert_eq!(
        said,
        [
            "made the source \"orders\"",
            "made a cli destination of \"orders\", to http://127.0.0.1:3000",
            "made a cli destination of \"mail\", to http://127.0.0.1:3000",
        ]
    );
    let (_, said) = choose_of(&server, Some("3000"), (&["orders", "mail"], true)).await.unwrap();
    assert_eq!(said, Vec::<String>::new(), "once");
}

#[tokio::test]
async fn nothing_is_made_without_knowing_where_to() {
    let server = Server::start().await.with_source("mail", None);
    for (name, create) in [("orders", true), ("mail", false)] {
        let (message, code) = choose_of(&server, None, (&[name], create)).await.unwrap_err();
        assert_eq!(message, format!("{name:?} has no cli destination, and there is no URL to make one with"));
        assert_eq!(code, exit::USAGE);
    }
    let made = server.calls().iter().any(|call| call.starts_with("POST"));
    assert!(!made);
}
