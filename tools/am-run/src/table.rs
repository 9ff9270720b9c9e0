//! The rendezvous of a host's processes: an abstract UNIX socket, a secret, and a thread for each process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use am_spmd::rendezvous::{self, Answer, Call, MAX_CALL, variables};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd;

use crate::protocol::{FromAgent, Job, ToLauncher};

/// The pause after a failed accept. Without it the loop would spin while the process has no free descriptors.
const PAUSE: Duration = Duration::from_millis(10);

type Blobs = Arc<Vec<Vec<u8>>>;

/// The connected processes, by rank, each with the channel to its thread.
type Seats = Arc<Mutex<BTreeMap<u32, Sender<Blobs>>>>;

/// The agent's side of the rendezvous.
#[derive(Debug)]
pub(crate) struct Table {
    seats: Seats,
    socket: String,
    secret: String,
}

/// The state shared by all threads.
#[derive(Clone, Debug)]
struct Host {
    seats: Seats,
    secret: String,
    ranks: Vec<u32>,
    to: ToLauncher,
}

/// Random bytes in hexadecimal digits.
///
/// # Errors
/// The system has no random numbers.
pub(crate) fn random<const BYTES: usize>() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Table {
    pub(crate) fn open(job: &Job, to: &ToLauncher) -> io::Result<Table> {
        let (socket, secret) = (format!("am-run-{}", random::<16>()?), random::<16>()?);
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&socket)?)?;
        let seats = Seats::default();
        let host = Host { seats: seats.clone(), secret: secret.clone(), ranks: job.ranks.clone(), to: to.clone() };
        thread::Builder::new().spawn(move || {
            for stream in listener.incoming() {
                let host = host.clone();
                // Without a free descriptor or a thread, this process gets no answer. The loop goes on for the next one.
                let served = stream.and_then(|stream| thread::Builder::new().spawn(move || host.serve(stream)));
                if served.is_err() {
                    thread::sleep(PAUSE);
                }
            }
        })?;
        Ok(Table { seats, socket, secret })
    }

    /// The environment variables by which the processes find the rendezvous.
    pub(crate) fn variables(&self) -> [(&'static str, &str); 2] {
        [(variables::RENDEZVOUS, &self.socket), (variables::SECRET, &self.secret)]
    }

    /// Send all ranks' blobs of an exchange to all processes.
    pub(crate) fn answer(&self, blobs: Vec<Vec<u8>>) {
        let blobs = Arc::new(blobs);
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        // An error is ignored: the process has ended.
        seats.values().for_each(|seat| _ = seat.send(blobs.clone()));
    }
}

impl Host {
    fn serve(&self, mut stream: UnixStream) {
        // Close the connection of another user at once: it cannot know the secret.
        let user = getsockopt(&stream, PeerCredentials).map(|peer| peer.uid());
        if user != Ok(unistd::geteuid().as_raw()) {
            return;
        }
        let done = match rendezvous::read(&mut stream, MAX_CALL) {
            Ok(Some(Call::Hello { secret, rank })) => self
                .check(&secret, rank)
                .and_then(|()| self.seat(rank))
                .map(|blobs| self.carry(rank, &blobs, &mut stream)),
            Ok(Some(Call::EndJob { secret, rank, code })) => self.check(&secret, rank).map(|()| {
                self.to.say(&FromAgent::EndJob(rank, code));
                // It fails only if the process has ended meanwhile.
                _ = rendezvous::write(&mut stream, &Answer::Ending);
            }),
            _ => Err("it did not say who it is"),
        };
        if let Err(why) = done {
            _ = rendezvous::write(&mut stream, &Answer::Refused(why.to_owned()));
        }
    }

    /// Whether a process belongs here.
    fn check(&self, secret: &str, rank: u32) -> Result<(), &'static str> {
        let is_ours = secret == self.secret && self.ranks.contains(&rank);
        if is_ours { Ok(()) } else { Err("it does not belong to the job that runs here") }
    }

    fn seat(&self, rank: u32) -> Result<Receiver<Blobs>, &'static str> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if seats.contains_key(&rank) {
            return Err("another process has this rank already; a rank is one process, and finds its place once");
        }
        let (sender, blobs) = mpsc::channel();
        seats.insert(rank, sender);
        Ok(blobs)
    }

    /// Carry the blobs of one process, until it or the agent ends.
    fn carry(&self, rank: u32, blobs: &Receiver<Blobs>, stream: &mut UnixStream) {
        let mut answered = rendezvous::write(stream, &Answer::Welcome);
        while answered.is_ok()
            && let Ok(Some(Call::Exchange(blob))) = rendezvous::read(stream, MAX_CALL)
        {
            self.to.say(&FromAgent::Blob(rank, blob));
            let Ok(all) = blobs.recv() else { return };
            answered = rendezvous::write(stream, &Answer::Blobs(all.to_vec()));
        }
    }
}
