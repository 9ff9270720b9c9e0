//! The names of transports: whether the library could read them. It reads them again, and knows more of each.

/// What stands alone.
const SHORT: [&str; 3] = ["shm", "udp", "tcp"];
/// What has a part behind a colon: transports, and the settings of a node.
const SCHEMES: [&str; 8] = ["shm", "udp", "tcp", "amd", "xdp", "dpdk", "sim", "node"];

/// Why these names are refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` names no transport: write `shm`, `udp` or `tcp`, or a whole name, as `amd:SOCKET`, `xdp:INTERFACE`, `udp:IP:PORT`; several are joined by `+`, as in `shm+udp`"
)]
pub(crate) struct NameError(String);

/// # Errors
/// One of these names has no scheme that there is, or nothing behind it.
pub(crate) fn check(names: &str) -> Result<(), NameError> {
    let mut is_interface = false;
    for name in names.split('+') {
        let is_whole = name.split_once(':').is_some_and(|(scheme, rest)| SCHEMES.contains(&scheme) && !rest.is_empty());
        // An interface's name may have a `+`.
        if !(is_whole || SHORT.contains(&name) || is_interface) {
            return Err(NameError(name.to_owned()));
        }
        is_interface = name.starts_with("xdp:") || is_interface && !is_whole;
    }
    Ok(())
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
