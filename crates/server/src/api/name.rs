//! Names that people give: the same rule for sources, workspaces and keys.

use restante_core::limits;

use super::body::Change;
use super::fault::Faults;

/// Sets a name, which cannot be null.
pub(crate) fn apply_name(change: Change<String>, name: &mut String, faults: &mut Faults) {
    match change {
        Change::Keep => {}
        Change::Reset => faults.add("name", "must not be null"),
        Change::Set(new) => {
            let chars = new.chars().count();
            let fine = (1..=limits::NAME_CHARS_MAX).contains(&chars)
                && new.trim() == new
                && !new.chars().any(char::is_control);
            let message = "must be 1 to 128 characters, without control characters or white space around it";
            faults.unless(fine, "name", message);
            *name = new;
        }
    }
}
