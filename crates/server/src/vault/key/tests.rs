use restante_core::Timestamp;
use restante_core::endpoint::Sealed;
use tempfile::TempDir;

use super::*;
use crate::clock::{ManualClock, SystemClock};
use crate::vault::{Purpose, Vault};

const DIGITS: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_millis(0), 1)
}

/// A data directory with this key file.
fn with_file(content: &[u8], mode: u32) -> TempDir {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join(FILE);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    data
}

fn load(data: &TempDir) -> Result<Vault, KeyFault> {
    Vault::load(None, data.path(), None, &SystemClock::start())
}

fn names(data: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(data.path()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_text_that_could_be_guessed_or_misread_is_no_key() {
    for (text, usable) in [
        ("", false),
        ("fifteen-letters", false),
        ("sixteen--letters", true),
        (DIGITS, true),
        ("with white spaces", false),
        ("with-line-feed--\n", false),
        ("with-umlaut-----ä", false),
        ("ääääääääääääääää", false),
    ] {
        let made = master(text);
        assert_eq!(made.is_ok(), usable, "{text}");
        if let (Err(fault), false) = (made, text.is_empty()) {
            assert!(!fault.to_string().contains(text));
        }
    }
}

#[test]
fn the_key_is_the_hash_of_the_text() {
    // printf %s sixteen--letters | sha256sum
    let expected = "98e639686d641586e0f055dcb30c085dfe7d4803dfe3e67ea5887e2d641c0d35";
    assert_eq!(HEXLOWER.encode(&master("sixteen--letters").unwrap()), expected);
}

#[test]
fn the_first_start_makes_a_private_file_and_the_next_uses_it() {
    let data = tempfile::tempdir().unwrap();
    let kept = load(&data).unwrap().check(&clock());
    assert_eq!(names(&data), [FILE]);
    let path = data.path().join(FILE);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let content = fs::read_to_string(&path).unwrap();
    assert_eq!((content.len(), content.trim_end().len()), (65, 64));

    assert!(load(&data).unwrap().opens(&kept));
    assert_eq!(fs::read_to_string(&path).unwrap(), content);
}

#[test]
fn two_data_directories_have_two_keys() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert!(!load(&one).unwrap().opens(&load(&other).unwrap().check(&clock())));
}

#[test]
fn the_file_may_become_the_setting() {
    let data = with_file(DIGITS.as_bytes(), 0o600);
    let sealed = load(&data).unwrap().seal(Purpose::HeaderValue, "x", &clock());
    let elsewhere = tempfile::tempdir().unwrap();
    let vault = Vault::load(Some(DIGITS), elsewhere.path(), None, &clock()).unwrap();
    assert_eq!(vault.open(Purpose::HeaderValue, &sealed).unwrap().expose(), "x");
    assert!(names(&elsewhere).is_empty(), "no file is made beside a setting");
}

#[test]
fn the_setting_wins_over_the_file() {
    let data = with_file(b"damaged", 0o644);
    let vault = Vault::load(Some("sixteen--letters"), data.path(), None, &clock()).unwrap();
    assert!(vault.opens(&Vault::new(master("sixteen--letters").unwrap()).check(&clock())));
}

#[test]
fn a_file_that_others_may_use_is_refused() {
    for mode in [0o644, 0o640, 0o660, 0o604, 0o602, 0o610, 0o700, 0o777] {
        let data = with_file(DIGITS.as_bytes(), mode);
        let fault = load(&data).unwrap_err().to_string();
        let path = data.path().join(FILE).display().to_string();
        assert!(
            fault.starts_with("others may use") && fault.ends_with(&format!("chmod 600 {path}")),
            "{fault}"
        );
    }
    for mode in [0o600, 0o400] {
        load(&with_file(DIGITS.as_bytes(), mode)).unwrap();
    }
}

#[test]
fn a_damaged_file_is_refused_and_left_alone() {
    let upper = DIGITS.to_uppercase();
    let (longer, two_lines) = (format!("{DIGITS}0"), format!("{DIGITS}\n\n"));
    for content in [
        b"".as_slice(),
        b"\n",
        &DIGITS.as_bytes()[..63],
        upper.as_bytes(),
        longer.as_bytes(),
        two_lines.as_bytes(),
        &[0; 64],
        &[0xff; 64],
    ] {
        let data = with_file(content, 0o600);
        let fault = load(&data).unwrap_err();
        assert!(matches!(fault, KeyFault::Damaged(_)), "{fault}");
        assert_eq!(fs::read(data.path().join(FILE)).unwrap(), content);
    }
}

#[test]
fn what_a_crash_left_unfinished_is_never_used() {
    let data = tempfile::tempdir().unwrap();
    let unfinished = data.path().join(format!("{FILE}.0123456789abcdef.unfinished"));
    fs::write(&unfinished, &DIGITS[..10]).unwrap();
    let kept = load(&data).unwrap().check(&clock());
    fs::remove_file(&unfinished).unwrap();
    assert!(load(&data).unwrap().opens(&kept));
    assert_eq!(names(&data), [FILE]);
}

#[test]
fn a_key_is_never_replaced() {
    let data = with_file(DIGITS.as_bytes(), 0o600);
    make(&data.path().join(FILE), DIGITS, &clock()).unwrap();
    assert_eq!(fs::read_to_string(data.path().join(FILE)).unwrap(), DIGITS);
    assert_eq!(names(&data), [FILE]);
}

#[test]
fn processes_that_start_together_agree_on_a_key() {
    for _ in 0..20 {
        let data = tempfile::tempdir().unwrap();
        let vaults: Vec<Vault> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| load(&data).unwrap())).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        let kept = vaults[0].check(&clock());
        assert!(vaults.iter().all(|vault| vault.opens(&kept)));
        assert_eq!(names(&data), [FILE]);
    }
}

#[test]
fn a_database_with_secrets_gets_no_new_key() {
    let data = tempfile::tempdir().unwrap();
    let kept = Vault::new([1; 32]).check(&clock());
    let fault = Vault::load(None, data.path(), Some(&kept), &clock()).unwrap_err();
    assert!(matches!(fault, KeyFault::Missing(_)), "{fault}");
    assert!(names(&data).is_empty());
}

#[test]
fn a_wrong_key_is_noticed_at_once() {
    let data = with_file(DIGITS.as_bytes(), 0o600);
    let load = |setting, kept: &Sealed| Vault::load(setting, data.path(), Some(kept), &clock());
    let kept = Vault::new(master(DIGITS).unwrap()).check(&clock());
    let others = Vault::new([1; 32]).check(&clock());
    load(None, &kept).unwrap();
    load(Some(DIGITS), &kept).unwrap();
    assert!(matches!(load(None, &others).unwrap_err(), KeyFault::WrongFile(_)));
    let fault = load(Some("canary-canary-canary"), &kept).unwrap_err();
    assert!(matches!(fault, KeyFault::WrongSetting));
    assert!(!format!("{fault} {fault:?}").contains("canary"));
}

#[test]
fn a_directory_that_cannot_hold_the_file_is_named() {
    let data = tempfile::tempdir().unwrap();
    let missing = data.path().join("nowhere");
    let fault = Vault::load(None, &missing, None, &clock()).unwrap_err();
    assert_eq!(fault.to_string(), format!("cannot make the key file {}", missing.join(FILE).display()));
}

#[test]
fn a_key_from_a_backup_takes_no_other_ones_place() {
    let data = tempfile::tempdir().unwrap();
    assert!(crate::vault::kept_key(data.path()).unwrap().is_none());
    let path = data.path().join(FILE);
    put(&path, DIGITS, &clock()).unwrap();
    put(&path, DIGITS, &clock()).unwrap();
    let other = DIGITS.replace('f', "e");
    assert!(matches!(put(&path, &other, &clock()), Err(KeyFault::Taken(_))));
    let kept = crate::vault::kept_key(data.path()).unwrap().unwrap();
    assert_eq!((kept.expose(), names(&data)), (DIGITS, vec![FILE.to_owned()]));
}
