//! Lists the dashboard's files, so that each is compiled into the library.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("assets");
    let mut files = Vec::new();
    walk(&root, &mut files)?;
    files.sort();
    let mut list = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned();
        list.push_str(&format!("    ({name:?}, include_bytes!({:?})),\n", file.to_string_lossy()));
    }
    list.push(']');
    fs::write(Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("assets.rs"), list)
}

/// Collects files for browsers; notes for people stay out.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    // A folder's time changes with what is in it, a file's with what it holds: the latter the compiler sees.
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension != "md") {
            files.push(path);
        }
    }
    Ok(())
}
