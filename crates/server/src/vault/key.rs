//! Where the vault's key comes from: the setting `secret_key`, or the file `secret.key` in the data directory.
//!
//! Both hold a text, and the key is the SHA-256 of its characters as they stand. No spelling is taken for an encoded
//! key: each would be a second rule that decides, by how a text looks, what every secret is sealed with. The content
//! of the file can thus become the setting when a server moves, and everything opens as before.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::random;
use crate::clock::Clock;

/// In the data directory: 32 random bytes in hexadecimal digits, and a line feed.
pub const FILE: &str = "secret.key";
/// Fewer characters could be guessed by whoever has the database.
const KEY_CHARS_MIN: usize = 16;
const FILE_DIGITS: usize = 64;
/// Who may do what with the file, at most.
const FILE_MODE: u32 = 0o600;

/// Why there is no key. Each message says what to do; none shows anything of a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFault {
    #[error(
        "the secret key must be at least {KEY_CHARS_MIN} visible ASCII characters without spaces; `openssl rand -hex 32` makes a good one"
    )]
    Unusable,
    #[error("a database that nodes share needs RESTANTE_SECRET_KEY, the same on every node")]
    Unset,
    #[error("others may use {} (mode {mode:04o}); run: chmod 600 {}", path.display(), path.display())]
    Permissions { path: PathBuf, mode: u32 },
    #[error("{} is damaged: it must hold {FILE_DIGITS} hexadecimal digits and nothing else; restore it from a backup", .0.display())]
    Damaged(PathBuf),
    #[error("the secrets in the database need the key they were made with: set RESTANTE_SECRET_KEY as it was then, or restore {}", .0.display())]
    Missing(PathBuf),
    #[error("{} holds another key", .0.display())]
    Taken(PathBuf),
    #[error(
        "RESTANTE_SECRET_KEY is not the key that the secrets in the database were made with; set it as it was then"
    )]
    WrongSetting,
    #[error("{} is not the key that the secrets in the database were made with; restore that file, or set RESTANTE_SECRET_KEY if it was set then", .0.display())]
    WrongFile(PathBuf),
    #[error("cannot read the key file {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot make the key file {}", path.display())]
    Make {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The master key that a text stands for.
///
/// # Errors
/// `KeyFault::Unusable` for a text that is too short, or that a shell or an editor might change unseen.
pub(crate) fn master(text: &str) -> Result<[u8; 32], KeyFault> {
    if text.len() < KEY_CHARS_MIN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(KeyFault::Unusable);
    }
    Ok(Sha256::digest(text).into())
}

/// The master key of the file at `path`, which is made if it is missing.
///
/// Of several processes that do so at the same time all get the key of one of them.
///
/// # Errors
/// As [`read`], and `KeyFault::Make`.
pub(super) fn read_or_make(path: &Path, clock: &dyn Clock) -> Result<[u8; 32], KeyFault> {
    match read(path) {
        Err(KeyFault::Missing(_)) => {
            let fresh = HEXLOWER.encode(&random::<32>(clock));
            make(path, &fresh, clock).map_err(|source| KeyFault::Make { path: path.to_owned(), source })?;
            read(path)
        }
        done => done,
    }
}

/// The master key of the file at `path`. When this returns, the file is on the disk under its name.
///
/// # Errors
/// `KeyFault::Missing`, `Permissions`, `Damaged`, or `Read`.
pub(super) fn read(path: &Path) -> Result<[u8; 32], KeyFault> {
    master(&read_text(path)?)
}

/// The text in the file at `path`, as [`read`].
pub(super) fn read_text(path: &Path) -> Result<String, KeyFault> {
    let fault = |source: io::Error| {
        let path = path.to_owned();
        if source.kind() == io::ErrorKind::NotFound {
            KeyFault::Missing(path)
        } else {
            KeyFault::Read { path, source }
        }
    };
    let file = File::open(path).map_err(fault)?;
    let mode = file.metadata().map_err(fault)?.permissions().mode() & 0o777;
    if mode & !FILE_MODE != 0 {
        return Err(KeyFault::Permissions { path: path.to_owned(), mode });
    }
    let mut text = Vec::with_capacity(FILE_DIGITS + 2);
    file.take(FILE_DIGITS as u64 + 2).read_to_end(&mut text).map_err(fault)?;
    // Whoever made the file may have died before its name was durable; what we seal with it must not outlive it.
    sync_directory(path).map_err(fault)?;

    let digits = text.strip_suffix(b"\n").unwrap_or(&text);
    match std::str::from_utf8(digits) {
        Ok(text) if text.len() == FILE_DIGITS && HEXLOWER.decode(digits).is_ok() => Ok(text.to_owned()),
        _ => Err(KeyFault::Damaged(path.to_owned())),
    }
}

/// Puts this text of a key file into one at `path`. When this returns, the file is on the disk under its name.
///
/// # Errors
/// `Taken` when it holds another; as [`read`], and `Make`.
pub(super) fn put(path: &Path, text: &str, clock: &dyn Clock) -> Result<(), KeyFault> {
    make(path, text, clock).map_err(|source| KeyFault::Make { path: path.to_owned(), source })?;
    match read_text(path)? == text {
        true => Ok(()),
        false => Err(KeyFault::Taken(path.to_owned())),
    }
}

/// Makes a file with a key, unless there is one by now.
///
/// It is written under another name and is durable before it gets its own: a crash leaves no key or a whole one. What
/// it may leave besides is a file that is never read. A link, unlike a rename, replaces nothing.
fn make(path: &Path, text: &str, clock: &dyn Clock) -> io::Result<()> {
    let unfinished = path.with_extension(format!("key.{:016x}.unfinished", clock.draw()));
    let made = write(&unfinished, text).and_then(|()| match fs::hard_link(&unfinished, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    made.and(fs::remove_file(&unfinished))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()
}

fn sync_directory(of: &Path) -> io::Result<()> {
    let directory = of.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests;
