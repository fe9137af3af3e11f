//! The public API as `public-api.txt` lists it, and what a change of it means for the version.
//!
//! `UPDATE_PUBLIC_API=1 cargo nextest run -p restante-sdk --test public_api` writes the list anew. It refuses to drop
//! what users may rely on unless the version says that this release breaks them.
#![expect(clippy::unwrap_used, reason = "a list that cannot be made fails the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Every public item, one a line, as rustdoc knows it.
fn listed() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // A folder of its own: some dependencies look different to a compiler that takes unstable options.
    let target = target().join("public-api");
    let output = Command::new(env!("CARGO"))
        .args(["rustdoc", "--lib", "--all-features", "--quiet", "--manifest-path"])
        .arg(root.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let api = public_api::Builder::from_rustdoc_json(target.join("doc/restante_sdk.json"))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .unwrap();
    api.items().map(ToString::to_string).collect()
}

/// Where this test was built.
fn target() -> PathBuf {
    let test = env::current_exe().unwrap();
    let target = test.ancestors().find(|path| path.join("CACHEDIR.TAG").exists());
    target.unwrap().to_owned()
}

/// What must differ between versions for the later to break users of the earlier: below 1.0, the minor number.
fn series(version: &str) -> String {
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next().unwrap(), numbers.next().unwrap());
    if major == "0" { format!("0.{minor}") } else { major.to_owned() }
}

#[test]
fn the_public_api_is_the_listed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("public-api.txt");
    let known = fs::read_to_string(&path).unwrap_or_default();
    let (known_version, known) = known.split_once('\n').unwrap_or(("0.0.0", ""));
    let known: BTreeSet<&str> = known.lines().collect();
    let listed = listed();
    let now: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    assert!(now.len() > 100, "this is not the list of the crate");

    let version = env!("CARGO_PKG_VERSION");
    let gone: Vec<_> = known.difference(&now).copied().collect();
    let new: Vec<_> = now.difference(&known).copied().collect();
    let breaks = !gone.is_empty() && series(known_version) == series(version);
    assert!(
        !breaks,
        "users of {known_version} may rely on what is gone: keep it, or raise the version in Cargo.toml so that it \
         says so\n{}",
        gone.join("\n")
    );
    if env::var_os("UPDATE_PUBLIC_API").is_some() {
        fs::write(&path, format!("{version}\n{}\n", listed.join("\n"))).unwrap();
        eprintln!("{} lines are new, {} are gone", new.len(), gone.len());
        return;
    }
    let hint = "look at each line, then run: UPDATE_PUBLIC_API=1 cargo nextest run -p restante-sdk --test public_api";
    assert!(new.is_empty() && gone.is_empty(), "public-api.txt is not current; {hint}\n{}", new.join("\n"));
}

#[test]
fn a_series_is_what_cargo_takes_for_compatible() {
    for (version, expected) in
        [("0.1.0", "0.1"), ("0.1.7", "0.1"), ("0.2.0", "0.2"), ("1.2.3", "1"), ("2.0.0", "2")]
    {
        assert_eq!(series(version), expected);
    }
}
