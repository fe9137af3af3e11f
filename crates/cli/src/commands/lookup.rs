//! Names for ids.

use restante_sdk::blocking::Client;
use restante_sdk::wire::Paging;

use crate::exit;
use crate::nearest::nearest;
use crate::output::hinted;

/// Characters of an id behind its prefix.
const ID_CHARS: usize = 26;

/// The id of a source that is named by its id or its name.
///
/// # Errors
/// There is none; the hint may know which is meant.
pub(super) fn source_id(client: &Client, given: &str) -> anyhow::Result<String> {
    if is_id(given, "src_") {
        return Ok(given.to_owned());
    }
    let mut names = Vec::new();
    for source in client.sources().list(&Paging::default()).items() {
        let source = source?;
        if source.name == given {
            return Ok(source.id);
        }
        names.push(source.name);
    }
    let hint = match nearest(given, names.iter().map(String::as_str)) {
        Some(name) => format!("did you mean {name}?"),
        None if names.is_empty() => format!("there are no sources yet: restante sources create {given}"),
        None => "restante sources list shows those there are".to_owned(),
    };
    Err(hinted(format!("there is no source {given:?}"), &hint, exit::NOT_FOUND))
}

/// As [`source_id`], of a flag that may not be given.
pub(super) fn source_id_of(client: &Client, given: Option<&str>) -> anyhow::Result<Option<String>> {
    given.map(|given| source_id(client, given)).transpose()
}

fn is_id(text: &str, prefix: &str) -> bool {
    let rest = text.strip_prefix(prefix);
    rest.is_some_and(|rest| {
        rest.len() == ID_CHARS && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_the_beginning_of_an_id() {
        assert!(is_id("src_01jdx3s0mze5tr5yk9v1qx7b2h", "src_"));
        for name in ["src_live", "shop", "dst_01jdx3s0mze5tr5yk9v1qx7b2h", "src_01JDX3S0MZE5TR5YK9V1QX7B2H"] {
            assert!(!is_id(name, "src_"), "{name}");
        }
    }
}
