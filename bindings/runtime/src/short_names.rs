//! Names of transports where a library completes the short ones, `shm`, `udp` and `tcp`: what is wrong with a name.

use am_api::{OpenError, transports};
use am_transport::NameError;

/// The schemes that may stand alone.
pub const SHORT_NAMES: [&str; 3] = ["shm", "udp", "tcp"];

/// Why no transport could be opened, with advice that has the short names too.
pub fn advice(error: &OpenError) -> String {
    let short = SHORT_NAMES.join("`, `");
    match error {
        OpenError::Transport(transports::OpenError::Missing(names)) => {
            format!("`{names}` has a `+` that joins nothing: write a name on both sides of it, as in `shm+udp`")
        }
        OpenError::Transport(transports::OpenError::Name(error)) => match error {
            NameError::Scheme(text) => format!(
                "`{text}` names no transport: write `{short}`, or SCHEME:REST as in `udp:10.0.0.7:7000`; several are joined by `+`, as in `shm+udp`"
            ),
            NameError::NoRest { scheme, example } if SHORT_NAMES.contains(&scheme.as_str()) => {
                format!("`{scheme}:` is not complete: write `{scheme}`, or `{scheme}:{example}`")
            }
            NameError::NoRest { scheme, example } => {
                format!("`{scheme}` is not complete: write `{scheme}:{example}`, for instance")
            }
            NameError::Unknown { scheme, known } => {
                format!("there is no transport `{scheme}` here; there are: `{short}`, `{}`", known.join("`, `"))
            }
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use am_api::Node;

    use super::*;

    fn said(names: &str) -> String {
        let error = Node::open("short-names", names).map(|_| ()).unwrap_err();
        advice(&error)
    }

    #[test]
    fn advice_has_the_short_names() {
        assert!(
            said("bogus")
                .starts_with("there is no transport `bogus` here; there are: `shm`, `udp`, `tcp`, `shm:lab`, ")
        );
        for wrong in ["UDP", "shm udp"] {
            let said = said(wrong);
            assert!(said.contains(&format!("`{wrong}` names no transport: write `shm`, `udp`, `tcp`, or ")), "{said}");
        }
        assert_eq!(said("shm:"), "`shm:` is not complete: write `shm`, or `shm:room1`");
        assert_eq!(said("amd"), "`amd` is not complete: write `amd:/run/amd/amd.sock`, for instance");
        assert!(said("udp:127.0.0.1:0+").ends_with("as in `shm+udp`"));
        assert!(said("tcp:127.0.0.1:0,frame=7").contains("frame"));
    }
}
