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
use std::error::Error;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use am_api::Node;
use am_objects::{Shared, Space, Wire, object};
use clap::{Args, Parser};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A replicated key-value store: servers, and clients that are members for as long as they run.
#[derive(Parser)]
enum Options {
    /// Serve the values until SIGINT or SIGTERM.
    Serve {
        /// The name of this server's node.
        name: String,
        /// The network, such as `shm:lab`.
        transport: String,
        /// Servers that run already. Without one this is the first.
        members: Vec<String>,
    },
    /// Put a value, and print its version.
    Put {
        #[command(flatten)]
        client: Client,
        /// The new value.
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Print the value that was put last. The exit code is 1 if there is none.
    Get(Client),
    /// Print the value, and each that replaces it, until SIGINT or SIGTERM.
    Watch(Client),
}

#[derive(Args)]
struct Client {
    /// The name of this client's node.
    name: String,
    /// The network, such as `shm:lab`.
    transport: String,
    /// A server that runs.
    member: String,
    /// The name of the value.
    key: String,
}

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

/// Join, and do this.
fn run<R>(
    Client { name, transport, member, key }: Client,
    what: impl FnOnce(&mut Space, &Shared<Store>, &str) -> Result<R, Box<dyn Error>>,
) -> Result<R, Box<dyn Error>> {
    let (mut space, store) = open(&name, &transport, &[member])?;
    let result = what(&mut space, &store, &key)?;
    space.leave(PATIENCE)?;
    Ok(result)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::parse();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    match options {
        Options::Serve { name, transport, members } => {
            let (mut space, _store) = open(&name, &transport, &members)?;
            serve(&mut space, &mut signals)?;
            space.leave(PATIENCE)?;
        }
        Options::Put { client, value } => {
            let put = |space: &mut Space, store: &Shared<Store>, key: &str| {
                Ok(space.block_on(store.write().put(key, &value))?)
            };
            println!("{}", run(client, put)?);
        }
        Options::Get(client) => {
            let get = |space: &mut Space, store: &Shared<Store>, key: &str| {
                Ok(space.block_on(async { store.read_latest().await?.get(key).await })?)
            };
            match run(client, get)? {
                Some(value) => println!("{value}"),
                None => return Ok(ExitCode::FAILURE),
            }
        }
        Options::Watch(client) => run(client, |space, store, key| watch(space, store, key, &mut signals))?,
    }
    Ok(ExitCode::SUCCESS)
}
