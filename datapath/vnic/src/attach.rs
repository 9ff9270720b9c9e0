//! The program's side of an attachment: connect, ask to attach, and map the region. After the daemon has ended, the program does
//! this again without blocking.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use am_ring::lane::Duplex;
use am_ring::{Layout, Own, Pool};
use am_transport::{LentQueue, memory};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::VnicOpenError;
use crate::errors::system;
use crate::options::VnicOptions;
use crate::protocol::{FromDaemon, Hello, Secret, VERSION, Welcome};
use crate::region::{End, Region};
use crate::socket::{self, Received};

/// How long a daemon may take to answer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A request to attach that was sent.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) socket: Own,
    since: Instant,
}

/// An attachment.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) socket: Arc<Own>,
    pub(crate) region: Region,
    pub(crate) lanes: Duplex,
    /// The queue that the daemon lent to the program, until it is used.
    pub(crate) queue: Option<Box<LentQueue>>,
}

/// The state of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The daemon has not answered yet.
    Waiting(Request),
    /// The program is attached.
    Attached(Box<(Attachment, Welcome)>),
    /// The program is not attached: why.
    Failed(VnicOpenError),
}

impl Request {
    /// Connect to the daemon and ask to attach.
    pub(crate) fn send(options: &VnicOptions, secret: Option<Secret>) -> Result<Request, VnicOpenError> {
        let path = &options.path;
        let connected = socket::connect_to(path).and_then(|socket| {
            let max_frame = options.max_frame.map(|frame| frame as u32);
            let &VnicOptions { ethertype, can_use_queue, node: name, .. } = options;
            let hello = Hello { version: VERSION, max_frame, ethertype, secret, can_use_queue, name };
            match socket::send_packet(&socket, &hello.to_bytes()) {
                // The daemon has closed the connection. Its reason may wait in the socket.
                Err(why) if why.kind() != io::ErrorKind::BrokenPipe => Err(why),
                _ => Ok(socket),
            }
        });
        match connected {
            Ok(socket) => Ok(Request { socket, since: Instant::now() }),
            Err(why) => Err(VnicOpenError::of_connection(path.clone(), why)),
        }
    }

    /// Look for the answer.
    pub(crate) fn poll(self, path: &Path) -> Answer {
        let path = path.to_owned();
        let (packet, descriptors) = match socket::receive_with_descriptors(&self.socket) {
            Err(source) => return Answer::Failed(VnicOpenError::Descriptors { path, source }),
            Ok(Received::Packet(received)) => received,
            Ok(Received::Nothing) if self.since.elapsed() < ANSWER_TIMEOUT => return Answer::Waiting(self),
            Ok(Received::Nothing) => {
                return Answer::Failed(VnicOpenError::Silent { path, seconds: ANSWER_TIMEOUT.as_secs() });
            }
            Ok(Received::Closed) => return Answer::Failed(VnicOpenError::closed(path)),
        };
        let mut descriptors = descriptors.into_iter();
        let (welcome, memory) = match (FromDaemon::from_bytes(&packet), descriptors.next()) {
            (Some(FromDaemon::Welcome(welcome)), Some(memory)) => (welcome, memory),
            (Some(FromDaemon::Refused(why)), _) => return Answer::Failed(VnicOpenError::Refused { path, why }),
            _ => return Answer::Failed(VnicOpenError::Foreign { path }),
        };
        let queue = match (welcome.queue, descriptors.next(), descriptors.next()) {
            (Some(shape), Some(socket), Some(memory)) => Some(Box::new(LentQueue { socket, memory, shape })),
            _ => None,
        };
        match Region::map(memory, welcome.max_frame as usize, welcome.session, End::Program) {
            Ok((region, lanes)) => Answer::Attached(Box::new((
                Attachment { socket: Arc::new(self.socket), region, lanes, queue },
                welcome,
            ))),
            Err(why) => Answer::Failed(system("cannot map the memory of the port")(why)),
        }
    }

    /// Wait for the answer.
    pub(crate) fn wait(mut self, path: &Path) -> Result<(Attachment, Welcome), VnicOpenError> {
        loop {
            self = match self.poll(path) {
                Answer::Waiting(request) => request,
                Answer::Attached(attached) => return Ok(*attached),
                Answer::Failed(why) => return Err(why),
            };
            let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            // After a signal or a time-out the loop polls again.
            let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout));
        }
    }
}

pub(crate) fn pool(frames: usize, max_frame: usize) -> Result<Pool, VnicOpenError> {
    let layout = Layout::spread(frames, max_frame);
    memory::check(frames, layout.stride)?;
    Ok(Pool::heap(layout)?)
}
