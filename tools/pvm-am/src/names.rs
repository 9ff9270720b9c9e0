//! The names of transports: whether the library could read them. It reads them again, and knows more of each.

use am_api::transports;

/// What stands alone.
const SHORT: [&str; 3] = ["shm", "udp", "tcp"];
/// Why these names are refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no transport: write `shm`, `udp` or `tcp`, or a whole name, as `amd:SOCKET`, `xdp:INTERFACE`, `udp:IP:PORT`; several are joined by `+`, as in `shm+udp`"
)]
pub(crate) struct NameError(String);

/// # Errors
/// One of these names has no scheme that there is, or nothing behind it.
pub(crate) fn check(names: &str) -> Result<(), NameError> {
    let is_whole = |name: &str| {
        name.split_once(':').is_some_and(|(scheme, rest)| transports::is_scheme(scheme) && !rest.is_empty())
    };
    match transports::split(names).into_iter().find(|name| !SHORT.contains(name) && !is_whole(name)) {
        Some(name) => Err(NameError(name.to_owned())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_library_reads_pass() {
        for good in ["shm", "udp", "shm+tcp", "shm+udp:10.0.0.7:0,frame=1514", "amd:/run/amd.sock", "xdp:eth+1+udp"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, part) in [
            ("bogus", "bogus"),
            ("", ""),
            ("UDP", "UDP"),
            ("shm udp", "shm udp"),
            ("shm:", "shm:"),
            ("shm+", ""),
            ("xdp", "xdp"),
            ("shm+pigeon:7", "pigeon:7"),
        ] {
            assert_eq!(check(bad), Err(NameError(part.to_owned())), "{bad}");
        }
    }
}
