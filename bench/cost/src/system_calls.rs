//! The system calls of a round trip between nodes that sleep ([`sleeps`](crate::sleeps)), as valgrind lists them.
//!
//! ```text
//! SYSCALL[2057,1](271) sys_ppoll ( 0x1ffefff3c8, 1, 0x1ffefff310, 0x0, 8 )     by the process's first thread
//! SYSCALL[2057,1](271) ... [async] --> Success(0x1)                            its end
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::str::FromStr;

use crate::Error;
use crate::sleeps::{TRIPS, Via};

/// Runs in which no trip was made by half of all trips. Then the machine had no time for the threads.
const RUNS: usize = 5;

/// Marks the calls that count. See [`sleeps`](crate::sleeps).
const MARK: &str = "getppid";
/// No system call outside of valgrind, which hides the page by which the kernel tells the time.
const NO_CALL: &str = "clock_gettime";
/// By which a node's thread sleeps, and how it ends if nothing has happened.
const SLEEP: &str = "ppoll";
const NOTHING: &str = "--> Success(0x0)";
/// The process's first thread, whose marks begin trips.
const FIRST: &str = "1";

/// How often each system call is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Calls(pub(crate) BTreeMap<String, u64>);

impl Calls {
    pub(crate) fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(name, count)| format!("{name} {count}")).collect();
        f.write_str(&all.join(", "))
    }
}

impl FromStr for Calls {
    type Err = Error;

    fn from_str(text: &str) -> Result<Calls, Error> {
        let one = |text: &str| {
            let (name, count) = text.split_once(' ')?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        let all: Option<BTreeMap<_, _>> = text.split(", ").map(one).collect();
        all.map(Calls).ok_or_else(|| format!("`{text}` is no list of system calls").into())
    }
}

/// The system calls of a trip, both sides together, as most trips make them. A transport looks after its descriptors in some trips only,
/// and a thread that gets no processor for milliseconds wakes once more.
pub(crate) fn of_a_trip(via: Via) -> Result<Calls, Error> {
    for _ in 0..RUNS {
        let trips = run(via)?;
        if let Some(calls) = of_most(&trips) {
            return Ok(calls);
        }
    }
    Err(format!("the system calls over {} differ from trip to trip", via.name()).into())
}

fn run(via: Via) -> Result<Vec<Calls>, Error> {
    let mut child = Command::new("valgrind")
        .args(["--tool=none", "--trace-syscalls=yes", "--log-fd=2"])
        .arg(std::env::current_exe()?)
        .args(["sleep", &via.name()])
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("valgrind: {error}; it is a package of its own"))?;
    // Under valgrind the daemon may need longer to fall asleep than a program sleeps at most.
    let sleeps_again = via == Via::Amd;
    let trips = read(BufReader::new(child.stderr.take().ok_or("no list of system calls")?), sleeps_again)?;
    if !child.wait()?.success() || trips.len() < TRIPS - 1 {
        return Err(format!("{} trips of sleeping nodes over {} are too few", trips.len(), via.name()).into());
    }
    Ok(trips)
}

/// The system calls of each trip but the last, which does not end. If a thread `sleeps_again`, a sleep in which nothing happens does not
/// count, nor do the calls from it to the next sleep.
fn read(mut list: impl BufRead, sleeps_again: bool) -> Result<Vec<Calls>, Error> {
    let mut trips: Vec<Calls> = vec![];
    // The threads whose calls count, and the last call of each.
    let mut counting: HashMap<String, String> = HashMap::new();
    let mut line = vec![];
    while {
        line.clear();
        list.read_until(b'\n', &mut line)? > 0
    } {
        let text = String::from_utf8_lossy(&line);
        let Some((thread, name)) = parse(&text) else { continue };
        if name == MARK {
            if counting.remove(thread).is_none() {
                counting.insert(thread.to_owned(), String::new());
                trips.extend((thread == FIRST).then(Calls::default));
            }
            continue;
        }
        let (Some(last), Some(Calls(trip))) = (counting.get_mut(thread), trips.last_mut()) else { continue };
        match name {
            "" if sleeps_again && last == SLEEP && text.trim_end().ends_with(NOTHING) => {
                trip.entry(SLEEP.to_owned()).and_modify(|count| *count -= 1);
                NOTHING.clone_into(last);
            }
            "" | NO_CALL => {}
            _ if last == NOTHING && name != SLEEP => {}
            _ => {
                *trip.entry(name.to_owned()).or_default() += 1;
                name.clone_into(last);
            }
        }
    }
    trips.pop();
    Ok(trips)
}

/// The thread that begins a system call, and its name, or that ends one, without a name. Some names have `sys_` before them, some have not.
fn parse(line: &str) -> Option<(&str, &str)> {
    let (thread, rest) = line.strip_prefix("SYSCALL[")?.split_once(']')?;
    let text = rest.split_once(')')?.1.trim_start();
    let name = text.strip_prefix("sys_").unwrap_or(text);
    let length = name.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(name.len());
    Some((thread.split_once(',')?.1, &name[..length]))
}

/// What over half of the trips make.
fn of_most(trips: &[Calls]) -> Option<Calls> {
    let mut found: HashMap<&Calls, usize> = HashMap::new();
    trips.iter().for_each(|trip| *found.entry(trip).or_default() += 1);
    let (calls, count) = found.into_iter().max_by_key(|(_, count)| *count)?;
    (2 * count > trips.len()).then(|| calls.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(text: &str) -> Calls {
        text.parse().unwrap()
    }

    #[test]
    fn a_line_is_read() {
        let begins = "SYSCALL[2057,2](271) sys_ppoll ( 0x4c51888, 1, 0x4c517d0, 0x0, 8 )";
        assert_eq!(parse(begins), Some(("2", "ppoll")));
        assert_eq!(
            parse("SYSCALL[2057,12](230) sys_clock_nanosleep( 1, 0 ) --> [async] ..."),
            Some(("12", "clock_nanosleep"))
        );
        assert_eq!(parse("SYSCALL[2057,2]( 24) sched_yield() --> [async] ..."), Some(("2", "sched_yield")));
        assert_eq!(parse("SYSCALL[2057,1](271) ... [async] --> Success(0x1)"), Some(("1", "")));
        assert_eq!(parse("sys_ppoll ( 0x4c51888, 1, 0x4c517d0, 0x0, 8 )"), None);
    }

    #[test]
    fn what_is_between_marks_counts() {
        let on = |thread: &str, names: &[&str]| -> String {
            names.iter().map(|name| format!("SYSCALL[9,{thread}](0) sys_{name} ( )\n")).collect()
        };
        let served = on("2", &["ppoll", MARK, "pread64", MARK, "sendto"]);
        let trip = on("1", &[MARK, "sendto", NO_CALL, "ppoll"]) + &served + &on("1", &[MARK, "pread64"]);
        let trips = read((on("2", &["read", MARK]) + &trip + &trip + &on("1", &[MARK])).as_bytes(), true).unwrap();
        assert_eq!(trips, [calls("ppoll 2, sendto 2"), calls("ppoll 2, sendto 2")]);
    }

    #[test]
    fn a_sleep_in_which_nothing_happens_may_count() {
        let begin = |name: &str| format!("SYSCALL[9,1](0) sys_{name} ( )\n");
        let end = |result: u32| format!("SYSCALL[9,1](0) ... [async] --> Success(0x{result}) \n");
        let idle = begin("ppoll") + &end(0) + &begin("recvfrom") + &end(0);
        let list = begin(MARK) + &begin("write") + &idle + &idle + &begin("ppoll") + &end(1) + &begin("read");
        let list = list + &begin(MARK) + &begin(MARK);
        let all = |sleeps_again| read(list.as_bytes(), sleeps_again).unwrap();
        assert_eq!(all(false), [calls("ppoll 3, read 1, recvfrom 2, write 1")]);
        assert_eq!(all(true), [calls("ppoll 1, read 1, write 1")]);
    }

    #[test]
    fn most_trips_say_what_a_trip_is() {
        let (one, other) = (calls("ppoll 2"), calls("ppoll 3"));
        assert_eq!(of_most(&[one.clone(), other.clone(), one.clone()]), Some(one.clone()));
        assert_eq!(of_most(&[one, other]), None);
    }
}
