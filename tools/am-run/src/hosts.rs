//! The list of hosts, and which ranks go where.

use std::path::Path;

use am_input::text_file;

/// The most processes of a job: each sends its address to all others.
pub(crate) const MAX_PROCESSES: usize = 65_536;

/// A host, and how many processes it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostSlots {
    pub(crate) name: String,
    pub(crate) slots: usize,
}

/// A host, and the ranks on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) host: String,
    pub(crate) ranks: Vec<u32>,
}

/// Why the processes cannot be placed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HostsError {
    #[error("the list of hosts cannot be read from `{path}`: {why}")]
    File { path: String, why: String },
    #[error(
        "`{0}` is no host: write NAME, NAME:SLOTS or USER@NAME:SLOTS, as in `alpha:4,beta`; slots go up to {MAX_PROCESSES}"
    )]
    Entry(String),
    #[error("the list of hosts is empty")]
    Empty,
    #[error("{processes} processes, but the hosts have {slots} slots: give them more, as in `-H {host}:{processes}`")]
    TooFewSlots { processes: usize, slots: usize, host: String },
    #[error("no process is to be started: give -n a number from 1")]
    NoProcess,
    #[error("{0} processes are too many for one job: {MAX_PROCESSES} at most")]
    TooMany(usize),
}

/// The hosts of `-H`: names separated by commas, or a file with one host a line.
pub(crate) fn parse(text: &str) -> Result<Vec<HostSlots>, HostsError> {
    let mut hosts: Vec<HostSlots> = vec![];
    let mut add = |host: HostSlots| match hosts.iter_mut().find(|other| other.name == host.name) {
        Some(known) => known.slots += host.slots,
        None => hosts.push(host),
    };
    if text.contains('/') || Path::new(text).is_file() {
        let lines = text_file::read(Path::new(text))
            .map_err(|error| HostsError::File { path: text.to_owned(), why: error.to_string() })?;
        // Editors of other systems write a mark of the encoding first.
        let lines = lines.strip_prefix('\u{feff}').unwrap_or(&lines);
        for line in lines.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
            if !line.is_empty() {
                add(entry(line)?);
            }
        }
    } else {
        text.split(',').try_for_each(|text| entry(text.trim()).map(&mut add))?;
    }
    if hosts.is_empty() { Err(HostsError::Empty) } else { Ok(hosts) }
}

/// `NAME`, `NAME:4`, and in files also `NAME slots=4`. An IPv6 address has brackets if slots follow.
fn entry(text: &str) -> Result<HostSlots, HostsError> {
    let bad = || HostsError::Entry(text.to_owned());
    let (name, slots) = match text.split_once(char::is_whitespace) {
        Some((name, rest)) => (name, rest.trim().strip_prefix("slots=").ok_or_else(bad)?),
        None => match text.rsplit_once(':') {
            Some((name, slots)) if !name.contains(':') || name.ends_with(']') => (name, slots),
            _ => (text, "1"),
        },
    };
    let slots = slots.parse().ok().filter(|slots| (1..=MAX_PROCESSES).contains(slots)).ok_or_else(bad)?;
    // A name that begins so would be an option of the remote shell.
    if name.is_empty() || name.starts_with('-') || name.contains(char::is_whitespace) {
        return Err(bad());
    }
    Ok(HostSlots { name: name.to_owned(), slots })
}

/// Fill the hosts in their order. Without a number every slot gets a process.
pub(crate) fn place(hosts: &[HostSlots], processes: Option<usize>) -> Result<Vec<Placed>, HostsError> {
    let slots = hosts.iter().map(|host| host.slots).sum();
    let processes = processes.unwrap_or(slots);
    let host = hosts.first().ok_or(HostsError::Empty)?.name.clone();
    match processes {
        0 => return Err(HostsError::NoProcess),
        _ if processes > MAX_PROCESSES => return Err(HostsError::TooMany(processes)),
        _ if processes > slots => return Err(HostsError::TooFewSlots { processes, slots, host }),
        _ => {}
    }
    let mut ranks = 0..u32::try_from(processes).unwrap_or(u32::MAX);
    let fill = |host: &HostSlots| Placed { host: host.name.clone(), ranks: ranks.by_ref().take(host.slots).collect() };
    Ok(hosts.iter().map(fill).filter(|placed| !placed.ranks.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn hosts(text: &str) -> Vec<(String, usize)> {
        parse(text).unwrap().into_iter().map(|HostSlots { name, slots }| (name, slots)).collect()
    }

    #[test]
    fn hosts_have_names_and_slots() {
        let is = |text: &str, want: &[(&str, usize)]| {
            assert_eq!(hosts(text), want.iter().map(|(name, slots)| ((*name).to_owned(), *slots)).collect::<Vec<_>>());
        };
        is("alpha", &[("alpha", 1)]);
        is("alpha:2,me@beta:3", &[("alpha", 2), ("me@beta", 3)]);
        is("a,b,a", &[("a", 2), ("b", 1)]);
        is("[fd00::7]:2,fd00::8", &[("[fd00::7]", 2), ("fd00::8", 1)]);
        for bad in ["", "a,", "a:0", "a:x", "a:65537", "a:18446744073709551615", "-oProxyCommand=x", ":4"] {
            assert!(matches!(parse(bad), Err(HostsError::Entry(_))), "{bad}");
        }
        assert!(matches!(parse("no/such/file"), Err(HostsError::File { .. })));
    }

    #[test]
    fn a_file_has_a_host_a_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, "# ours\nalpha slots=4\n\nbeta:2 # the small one\ngamma\n").unwrap();
        let path = file.path().to_string_lossy().into_owned();
        assert_eq!(hosts(&path), [("alpha".into(), 4), ("beta".into(), 2), ("gamma".into(), 1)]);
        fs::write(&file, "\u{feff}alpha:2\r\nbeta\r\n").unwrap();
        assert_eq!(hosts(&path), [("alpha".into(), 2), ("beta".into(), 1)]);
        fs::write(&file, "# nobody\n").unwrap();
        assert_eq!(parse(&path), Err(HostsError::Empty));
    }

    #[test]
    fn ranks_fill_the_hosts_in_order() {
        let placed = |processes| {
            let placed = place(&parse("a:2,b:2,c").unwrap(), processes)?;
            Ok(placed.into_iter().map(|Placed { host, ranks }| (host, ranks)).collect::<Vec<_>>())
        };
        assert_eq!(placed(Some(3)), Ok(vec![("a".into(), vec![0, 1]), ("b".into(), vec![2])]));
        assert_eq!(placed(None).unwrap().len(), 3);
        assert_eq!(placed(Some(0)), Err(HostsError::NoProcess));
        assert_eq!(placed(Some(usize::MAX)), Err(HostsError::TooMany(usize::MAX)));
        assert_eq!(place(&parse("a:65536,b").unwrap(), None), Err(HostsError::TooMany(65_537)));
        let error = placed(Some(6)).unwrap_err().to_string();
        assert!(error.contains("6 processes, but the hosts have 5 slots") && error.contains("-H a:6"), "{error}");
    }
}
