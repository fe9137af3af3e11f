use super::*;
use crate::api::body;

fn template(json: &str) -> Result<Template, ApiError> {
    body::parse::<NewTemplate>(json.as_bytes())?.read()
}

#[test]
fn a_slug_is_made_of_the_name() {
    let long = "x ".repeat(64);
    let table = [
        ("Welcome", "welcome"),
        ("Order #42: paid!", "order-42-paid"),
        ("a--b", "a-b"),
        ("Größe 5", "gr-e-5"),
        ("Render", "render-1"),
        (long.trim_end(), &"x-".repeat(64)[..127]),
    ];
    for (name, slug) in table {
        assert_eq!(slug_of(name).unwrap(), slug, "{name}");
        assert!(is_slug(slug), "{slug}");
    }
    assert!(slug_of("日本").is_err());
    for wrong in ["", "-a", "a-", "A", "a_b", "a b", "ä", &"a".repeat(129)] {
        assert!(!is_slug(wrong), "{wrong}");
    }
}

#[test]
fn faults_name_their_field() {
    let long = "x".repeat(1025);
    let big = "x".repeat(EMAIL_TEXT_BYTES_MAX + 1);
    let table = [
        (r#"{}"#.to_owned(), "missing_field", "name"),
        (r#"{"name": ""}"#.to_owned(), "invalid_field", "name"),
        (r#"{"name": "日本"}"#.to_owned(), "missing_field", "slug"),
        (r#"{"name": "a", "slug": "A"}"#.to_owned(), "invalid_field", "slug"),
        (r#"{"name": "a", "slug": "render"}"#.to_owned(), "invalid_field", "slug"),
        (format!(r#"{{"name": "a", "description": "{long}"}}"#), "invalid_field", "description"),
        (format!(r#"{{"name": "a", "subject": "{long}"}}"#), "invalid_field", "subject"),
        (format!(r#"{{"name": "a", "html": "{big}"}}"#), "invalid_field", "html"),
        (r#"{"name": "a", "text": "a\u0000"}"#.to_owned(), "invalid_field", "text"),
        (r#"{"name": "a", "props": [1]}"#.to_owned(), "invalid_field", "props"),
        (format!(r#"{{"name": "a", "props": {{"x": "{}"}}}}"#, "x".repeat(65536)), "invalid_field", "props"),
        (r#"{"name": "a", "html": "a\n{{ b"}"#.to_owned(), "template_syntax", "html"),
        (r#"{"name": "a", "subject": "{% if %}"}"#.to_owned(), "template_syntax", "subject"),
        (r#"{"name": "a", "content": "x"}"#.to_owned(), "unknown_field", "content"),
    ];
    for (json, code, param) in table {
        let error = template(&json).unwrap_err();
        let body = serde_json::to_value(error.body("r")).unwrap();
        let place = &json[..json.len().min(80)];
        assert_eq!((error.status.as_u16(), &body["error"]["code"]), (422, &code.into()), "{place}: {body}");
        assert_eq!(body["error"]["param"], param, "{place}: {body}");
    }
}

#[test]
fn a_syntax_error_tells_its_line() {
    let error = template(r#"{"name": "a", "html": "<p>\n<b>\n{% if %}"}"#).unwrap_err();
    let body = serde_json::to_value(error.body("r")).unwrap();
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("html line 3: "), "{message}");
}

#[test]
fn a_copy_has_a_name_and_a_slug_that_fit() {
    let original = Template {
        name: "n".repeat(128),
        slug: "s".repeat(128),
        published: Some(3),
        ..template(r#"{"name": "a", "description": "d", "text": "t"}"#).unwrap()
    };
    let copies = CopyInput::default().copies(&original).unwrap();
    assert_eq!(copies.len(), 20);
    assert_eq!(copies[0].name, format!("{} (copy)", "n".repeat(121)));
    assert_eq!(copies[0].slug, format!("{}-copy", "s".repeat(123)));
    assert_eq!(copies[19].slug, format!("{}-copy-20", "s".repeat(120)));
    assert_eq!((copies[0].published, &copies[0].draft), (None, &original.draft));
    assert_eq!(copies[0].description.as_deref(), Some("d"));
    let named = CopyInput { name: Some("b".into()), slug: Some("c".into()) };
    let copies = named.copies(&original).unwrap();
    assert_eq!((copies.len(), copies[0].name.as_str(), copies[0].slug.as_str()), (1, "b", "c"));
}
