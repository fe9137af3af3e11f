//! What people meet at the command line.

use std::process::{Command, Output};

use crate::process::{Process, data_directory};

fn restante(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
    command.args(arguments).env_clear();
    command
}

fn talk(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn an_unknown_setting_is_a_usage_error_with_a_hint() {
    let output = restante(&["serve"]).env("RESTANTE_LISTN", "127.0.0.1:0").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let talk = talk(&output);
    assert!(talk.contains("did you mean `listen`?") && talk.contains("hint: "), "{talk}");
    assert!(output.stdout.is_empty());
}

#[test]
fn an_unusable_flag_names_itself() {
    let output = restante(&["--listen", "nowhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(talk(&output).contains("setting `listen` from the command line"), "{}", talk(&output));
}

#[test]
fn a_protocol_of_traces_that_is_not_spoken_names_its_variable() {
    let mut command = restante(&["serve"]);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let talk = talk(&output);
    assert!(talk.contains("OTEL_EXPORTER_OTLP_PROTOCOL") && talk.contains("http/protobuf"), "{talk}");
}

#[tokio::test]
async fn a_second_process_on_a_data_directory_is_refused_with_a_hint() {
    let data = data_directory();
    let _first = Process::start(data.path()).await;
    let path = data.path().to_str().unwrap();
    let output = restante(&["--data", path, "--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    let talk = talk(&output);
    assert!(talk.contains("in use by another process") && talk.contains("--data"), "{talk}");
}

#[test]
fn the_tour_shows_attempts_a_retry_by_hand_and_a_replay() {
    let output = restante(&["tour"]).output().unwrap();
    let shown = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{shown}\n{}", talk(&output));
    for part in ["flaky   attempt 3: 200", "next: attempt 2 of 3, 1 s", "attempt 1 by hand: 200", "Replay"] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colours when piped");
}
