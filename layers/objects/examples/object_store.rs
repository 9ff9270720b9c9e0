//! A replicated key-value store. Every server has all values, and a client is a member of the space for as long as it runs.
//!
//! ```text
//! cargo build -p am-objects --example object_store
//! object_store serve alpha shm:lab                    the first server
//! object_store serve beta shm:lab alpha               another one, which joins by alpha
//! object_store put c1 shm:lab alpha color green       prints the version of the value
//! object_store get c2 shm:lab beta color              prints the value that was put last; exit code 1 if there is none
//! object_store watch c3 shm:lab beta color            prints the value, and each that replaces it, until SIGINT or SIGTERM
//! ```
//!
//! SIGINT and SIGTERM make a server leave. One that crashes counts as a member until its group puts it out, so three servers survive a
//! crash, and two do not.

use std::collections::BTreeMap;
use std::env::args;
use std::error::Error;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use am_api::Node;
use am_objects::{Shared, Space, Wire, object};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

const USAGE: &str =
    "object_store serve NAME TRANSPORT [MEMBER..], or object_store get|put|watch NAME TRANSPORT MEMBER KEY [VALUE]";
/// A client that has not joined, or a member that has not left, gives up after this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Signals are looked for this often.
const TURN: Duration = Duration::from_millis(50);

/// Values by their keys, each with its version. Versions begin at 1.
#[derive(Default, Wire)]
struct Store {
    values: BTreeMap<String, (u64, String)>,
}

#[object]
impl Store {
    #[read]
    fn get(&self, key: &str) -> Option<String> {
        self.values.get(key).map(|(_, value)| value.clone())
    }

    /// Returns the new version.
    #[write]
    fn put(&mut self, key: &str, value: &str) -> u64 {
        let version = self.version(key) + 1;
        self.values.insert(key.into(), (version, value.into()));
        version
    }

    /// Waits for a version after this one. Returns the newest version and its value.
    #[write]
    #[guard(self.version(key) > than)]
    fn newer(&mut self, key: &str, than: u64) -> (u64, String) {
        self.values.get(key).filter(|(version, _)| *version > than).cloned().unwrap_or_default()
    }

    /// 0 if there is no value.
    fn version(&self, key: &str) -> u64 {
        self.values.get(key).map_or(0, |(version, _)| *version)
    }
}

fn open(name: &str, transport: &str, contacts: &[String]) -> Result<(Space, Shared<Store>), Box<dyn Error>> {
    let node = Node::open(name, transport)?;
    let builder = Space::builder(&node).object::<Store>();
    let mut space = match contacts {
        [] => builder.found("store")?,
        _ => builder.join("store", contacts)?,
    };
    if !space.wait_until(PATIENCE, Space::is_primary) {
        return Err(space.health().unwrap_or_else(|| "no member answers: is a server running?".into()).into());
    }
    let store = space.create("store", &Store::default())?;
    Ok((space, store))
}

/// Serve until a signal comes.
fn serve(space: &mut Space, signals: &mut Signals) -> Result<(), Box<dyn Error>> {
    let mut known = None;
    while signals.pending().next().is_none() {
        space.wait(TURN);
        space.events().iter().for_each(|event| println!("* {event}"));
        let trouble = space.health();
        if let (Some(trouble), true) = (&trouble, trouble != known) {
            eprintln!("{trouble}");
        }
        known = trouble;
        if let Some(why) = space.ended() {
            return Err(format!("this server is no member any more: {why:?}").into());
        }
    }
    Ok(())
}

/// Print values until a signal comes. Of several writes between two turns only the last one's value is printed.
fn watch(space: &mut Space, store: &Shared<Store>, key: &str, signals: &mut Signals) -> Result<(), Box<dyn Error>> {
    let mut seen = 0;
    loop {
        let mut call = pin!(store.write().newer(key, seen));
        let newer = loop {
            if signals.pending().next().is_some() {
                return Ok(());
            }
            if let Some(newer) = space.block_on_for(call.as_mut(), TURN) {
                break newer?;
            }
        };
        println!("{}", newer.1);
        seen = newer.0;
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = args().skip(1).collect();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let contacts = match words[..] {
        ["serve", _, _, ..] => &args[3..],
        ["get" | "watch", _, _, _, _] | ["put", _, _, _, _, _] => &args[3..4],
        _ => return Err(USAGE.into()),
    };
    let (mut space, store) = open(words[1], words[2], contacts)?;
    let mut code = ExitCode::SUCCESS;
    match words[..] {
        ["put", .., key, value] => println!("{}", space.block_on(store.write().put(key, value))?),
        ["get", .., key] => match space.block_on(async { store.read_latest().await?.get(key).await })? {
            Some(value) => println!("{value}"),
            None => code = ExitCode::FAILURE,
        },
        ["watch", .., key] => watch(&mut space, &store, key, &mut signals)?,
        _ => serve(&mut space, &mut signals)?,
    }
    space.leave(PATIENCE)?;
    Ok(code)
}
