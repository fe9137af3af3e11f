//! On a terminal: colours, its width, and questions.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::Desk;

/// Runs a command on a terminal of its own, where this is typed; gives what stands there in the end, and the exit code.
fn on_terminal(desk: &Desk, arguments: &[&str], columns: u16, typed: &str) -> (String, Option<i32>) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = OsString::from_vec(ptsname(&terminal, Vec::new()).unwrap().into_bytes());
    let line = File::options().read(true).write(true).open(name).unwrap();
    tcsetwinsize(&line, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let mut command = desk.command(arguments);
    command.stdin(line.try_clone().unwrap()).stdout(line.try_clone().unwrap()).stderr(line);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut terminal = File::from(terminal);
    terminal.write_all(typed.as_bytes()).unwrap();
    let (mut shown, mut piece) = (Vec::new(), [0; 4096]);
    // The end of a terminal that nobody is at any more is an error.
    while let Ok(count @ 1..) = terminal.read(&mut piece) {
        shown.extend_from_slice(&piece[..count]);
    }
    (String::from_utf8(shown).unwrap().replace("\r\n", "\n"), child.wait().unwrap().code())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_are_asked_before_something_is_destroyed() {
    let desk = Desk::open().await;
    let id = desk.id(&["sources", "create", "shop"]);
    let delete = ["sources", "delete", "shop"];
    let question = "delete the source shop, with its destinations? [y/N] ";
    for answer in ["n\n", "\n", "\u{4}"] {
        let (shown, code) = on_terminal(&desk, &delete, 80, answer);
        assert!(shown.contains(question) && shown.ends_with("nothing was done\n"), "{shown}");
        assert_eq!(code, Some(1), "{shown}");
    }
    assert_eq!(desk.id(&["sources", "list"]), id);
    let (shown, code) = on_terminal(&desk, &delete, 80, "y\n");
    assert!(shown.ends_with(&format!("deleted {id}\n")), "{shown}");
    assert_eq!((code, desk.data(&["sources", "list"])), (Some(0), String::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_have_colours_and_keep_to_the_width() {
    let desk = Desk::open().await;
    let events = ["--event", "order.paid", "--event", "order.sent", "--event", "invoice.*"];
    let url = "http://127.0.0.1:1/a/rather/long/path/of/a/customer/that/has/many";
    desk.id(&[&["webhooks", "create", url][..], &events].concat());
    let (shown, _) = on_terminal(&desk, &["webhooks", "list"], 96, "");
    assert!(shown.contains("\u{1b}[32mactive\u{1b}[0m"), "{shown:?}");
    let (plain, _) = on_terminal(&desk, &["webhooks", "list", "--color", "never"], 96, "");
    let longest = plain.lines().map(|line| line.chars().count()).max().unwrap();
    assert_eq!(longest, 96, "{plain}");
    assert_eq!(plain.matches('…').count(), 2, "{plain}");
    assert!(desk.data(&["webhooks", "list"]).contains(url), "pipes have no width");
}
