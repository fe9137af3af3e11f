//! Settings from everywhere.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use super::{Desk, bare, table, talk};
use crate::process::KEY;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_is_made_used_and_removed_and_only_its_owner_reads_it() {
    let desk = Desk::open().await;
    let url = format!("http://{}", desk.server.address);
    let mine = |arguments: &[&str]| bare(&desk.home, arguments).output().unwrap();

    let set = ["profiles", "set", "local", "--url", &url, "--api-key", "-"];
    let mut child = bare(&desk.home, &set).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{KEY}\n").as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let file = desk.home.join(".config/restante/config.toml");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let written = format!("profile = \"local\"\n\n[profiles.local]\nurl = \"{url}\"\napi_key = \"{KEY}\"\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), written);

    assert!(mine(&["sources", "list"]).status.success(), "the first profile is in use");
    mine(&[
        "profiles",
        "set",
        "other",
        "--url",
        "http://127.0.0.1:1",
        "--api-key",
        "rst_live_other",
        "--workspace",
        "ws_1",
    ]);
    let listed = String::from_utf8(mine(&["profiles", "list"]).stdout).unwrap();
    assert!(!listed.contains(KEY), "{listed}");
    assert_eq!(
        table(&listed),
        [
            "NAME | USED | KEY | WORKSPACE | URL".to_owned(),
            format!("local | yes | …stuv | - | {url}"),
            "other | - | …ther | ws_1 | http://127.0.0.1:1".to_owned(),
        ]
    );
    assert!(mine(&["profiles", "use", "other"]).status.success());
    assert_eq!(mine(&["sources", "list"]).status.code(), Some(6));
    assert!(mine(&["sources", "list", "--profile", "local"]).status.success());
    let output = bare(&desk.home, &["sources", "list"]).env("RESTANTE_PROFILE", "local").output().unwrap();
    assert!(output.status.success(), "{}", talk(&output));
    let output = mine(&["profiles", "use", "locla"]);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(talk(&output), "error: there is no profile \"locla\"\nhint: did you mean local?\n");
    assert!(mine(&["profiles", "remove", "other", "--yes"]).status.success());
    assert_eq!(mine(&["sources", "list"]).status.code(), Some(3), "none is in use any more");

    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = mine(&["sources", "list", "--profile", "local"]);
    assert!(
        output.status.success() && talk(&output).starts_with("warning: others can read "),
        "{}",
        talk(&output)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_projects_file_names_a_server_and_cannot_take_a_profiles_key_elsewhere() {
    let desk = Desk::open().await;
    let url = format!("http://{}", desk.server.address);
    let project = desk.home.join("restante.toml");
    std::fs::write(&project, format!("log = \"warn\"\n\n[client]\nurl = \"{url}\"\n")).unwrap();
    let mine = |arguments: &[&str]| bare(&desk.home, arguments).output().unwrap();
    let output = bare(&desk.home, &["sources", "list"]).env("RESTANTE_API_KEY", KEY).output().unwrap();
    assert!(output.status.success(), "{}", talk(&output));

    mine(&["profiles", "set", "elsewhere", "--url", "http://127.0.0.1:1", "--api-key", KEY]);
    let output = mine(&["sources", "list"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        talk(&output).contains("and the key is the profile elsewhere's, which is for another"),
        "{}",
        talk(&output)
    );
    mine(&["profiles", "set", "elsewhere", "--url", &url]);
    assert!(mine(&["sources", "list"]).status.success());

    let shown = String::from_utf8(mine(&["doctor"]).stdout).unwrap();
    assert!(
        shown.contains(
            " (from restante.toml), key …stuv (from the profile elsewhere), profile elsewhere (in use)"
        ),
        "{shown}"
    );
    std::fs::write(&project, "[client]\ntoken = \"canary\"\n").unwrap();
    let output = mine(&["sources", "list"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        talk(&output).starts_with("error: restante.toml, [client]: unknown field `token`"),
        "{}",
        talk(&output)
    );
    assert!(!talk(&output).contains("canary"));
}

#[test]
fn a_server_leaves_a_clients_settings_alone() {
    let home = crate::process::data_directory();
    std::fs::write(
        home.path().join("restante.toml"),
        "listen = \"nowhere\"\n[client]\nurl = \"http://127.0.0.1:1\"\n",
    )
    .unwrap();
    let output = bare(home.path(), &["serve"])
        .env("RESTANTE_URL", "http://127.0.0.1:1")
        .env("RESTANTE_API_KEY", KEY)
        .env("RESTANTE_PROFILE", "p")
        .env("RESTANTE_WORKSPACE", "ws_1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).starts_with("error: setting `listen` from restante.toml: "), "{}", talk(&output));
}
