//! The names of nodes.

use am_wire::control::Name;

use crate::error::Error;

/// # Errors
///
/// [`Error::Usage`] if no node can have this name.
pub(crate) fn check(name: &str) -> Result<(), Error> {
    match Name::new(name) {
        Some(_) => Ok(()),
        None => Err(Error::Usage(format!(
            "`{name}` is no name for a node: 1 to {} bytes, no control characters",
            Name::LONGEST
        ))),
    }
}

/// The host's name, cut to the length of a node's.
pub(crate) fn of_this_host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().filter(char::is_ascii).take(Name::LONGEST).collect();
    if name.is_empty() { "am-bench".to_owned() } else { name }
}
