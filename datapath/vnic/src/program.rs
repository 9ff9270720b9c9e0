//! The program's end of an attachment: a transport.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use am_ring::lane::{Burst, LaneCounters};
use am_ring::{Frame, Owner};
use am_transport::{Caps, Command, Notice, PeerAddressError, Steering, Transport};
use am_wire::{Address, Buffer};

use crate::VnicOpenError;
use crate::attach::{ANSWER_TIMEOUT, Answer, Attachment, Request, pool};
use crate::departed::Departed;
use crate::errors::system;
use crate::heartbeat::Heartbeat;
use crate::options::VnicOptions;
use crate::protocol::{FromDaemon, MAX_PACKET, Secret, Welcome};
use crate::readiness::Readiness;
use crate::socket::{self, Received};

/// A thread that spins checks the lanes after this many empty receives in a row.
const EMPTY_RECEIVES_TO_CHECK: u32 = 512;

/// The pause between two attempts to attach for the first time.
const OPEN_PAUSE: Duration = Duration::from_millis(1);

/// The pause between two attempts to attach to a daemon that has ended.
const ATTACH_PAUSE: Duration = Duration::from_millis(20);

/// The pause after a refusal: the daemon's rules seldom change.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// The most packets that one call reads.
const MAX_PACKETS: usize = 64;

/// A virtual NIC. See the [crate](crate).
#[derive(Debug)]
pub struct Vnic {
    pub(crate) caps: Caps,
    pub(crate) steering: Steering,
    pub(crate) options: VnicOptions,
    pub(crate) state: State,
    pub(crate) readiness: Readiness,
    heartbeat: Arc<Heartbeat>,
    secret: Secret,
    /// The link error. Empty while frames leave and arrive.
    trouble: String,
    departed: Departed,
    /// Empty receives in a row.
    empty_receives: u32,
    /// Whether the daemon was asked to wake this program.
    is_armed: bool,
    counters: Counters,
    lane_counters: LaneCounters,
    owner: Owner,
}

am_transport::counters! {
    Counters, "amd_": sent, received, full, lost_too_long, lost_detached, rings, sleeps, attached
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one, and each frame would pay for a pointer to it")]
pub(crate) enum State {
    Attached(Attachment),
    /// The daemon has ended. This is the time of the next attempt to attach.
    Lost(Instant),
    /// The daemon was asked to attach this program again.
    Asked(Request),
    /// This program must not attach again.
    Ended,
}

/// Attach to a daemon. If its backlog of connections is full, or if it ends before it answers, try again for a while: the backlog soon has
/// room, and the daemon may be restarting.
///
/// # Errors
/// See [`VnicOpenError`].
pub fn open(options: &VnicOptions) -> Result<Vnic, VnicOpenError> {
    let start = Instant::now();
    let mut was_there = false;
    loop {
        match begin(options).and_then(Attaching::finish) {
            Err(VnicOpenError::NoDaemon { source, .. })
                if source.kind() == io::ErrorKind::ConnectionReset && start.elapsed() < ANSWER_TIMEOUT =>
            {
                was_there = true;
            }
            Err(VnicOpenError::Crowded { .. }) if start.elapsed() < ANSWER_TIMEOUT => (),
            Err(VnicOpenError::NoDaemon { .. }) if was_there && start.elapsed() < ANSWER_TIMEOUT => (),
            result => return result,
        }
        std::thread::sleep(OPEN_PAUSE);
    }
}

/// A request to attach that the daemon has not answered yet.
#[derive(Debug)]
pub struct Attaching {
    request: Request,
    options: VnicOptions,
    owner: Owner,
}

/// Ask a daemon to attach this program, without waiting for its answer. For a thread that also runs the daemon's loop; others call
/// [`open`].
///
/// # Errors
/// See [`VnicOpenError`].
pub fn begin(options: &VnicOptions) -> Result<Attaching, VnicOpenError> {
    options.check()?;
    let owner = Owner::new().map_err(system("no memory"))?;
    Ok(Attaching { request: Request::send(options, None)?, options: options.clone(), owner })
}

impl Attaching {
    /// Wait for the daemon's answer.
    ///
    /// # Errors
    /// See [`VnicOpenError`].
    pub fn finish(self) -> Result<Vnic, VnicOpenError> {
        let Attaching { request, options, owner } = self;
        let (attachment, welcome) = request.wait(&options.path)?;
        let readiness = Readiness::new().map_err(system("cannot make a descriptor to wait on"))?;
        readiness.add(&attachment.socket).map_err(system("cannot wait on the socket"))?;
        let Welcome { address, max_frame, hears_all, wire, secret, .. } = welcome;
        let heartbeat = Arc::new(Heartbeat::default());
        heartbeat.set_socket(Some(attachment.socket.clone()));
        let max_frame = max_frame as usize;
        let caps = Caps {
            name: format!("amd:{}", options.path.display()),
            mode: wire,
            address,
            max_frame,
            // A frame is lost if the program does not keep up, or if the daemon ends while it is in a lane.
            reliable: false,
            ordered: true,
            hears_all,
            pool: pool(options.frames, max_frame)?,
            wake: Some(vec![readiness.descriptor()]),
            wakes_by_level: false,
            out_of_band: Some(heartbeat.clone()),
        };
        let options = VnicOptions { max_frame: Some(max_frame), ..options };
        Ok(Vnic {
            caps,
            steering: Steering::gated(options.ethertype, address),
            options,
            state: State::Attached(attachment),
            readiness,
            heartbeat,
            secret,
            trouble: String::new(),
            departed: Departed::new(),
            empty_receives: 0,
            is_armed: false,
            counters: Counters { attached: 1, ..Counters::default() },
            lane_counters: LaneCounters::default(),
            owner,
        })
    }
}

impl Vnic {
    // Not inlined: a turn that finds nothing would save and restore its registers.
    #[inline(never)]
    fn receive_frames(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let State::Attached(Attachment { lanes, .. }) = &mut self.state else { return 0 };
        let (mut burst, mut taken) = (Burst::default(), 0);
        while taken < budget
            && let Some(frame) = lanes.next(&mut burst, &self.caps.pool, &mut self.lane_counters)
        {
            if self.steering.admits(frame.bytes()) {
                taken += 1;
                each(frame);
            }
        }
        taken
    }

    /// Nothing has arrived for a while: repair the lanes, if they were overwritten.
    #[cold]
    fn check_lanes(&mut self) {
        if let State::Attached(Attachment { lanes, .. }) = &mut self.state {
            self.lane_counters.nonsense += lanes.repair();
        }
    }

    /// The thread is about to sleep: ask the daemon to wake it. The caller looks for frames once more.
    #[cold]
    fn before_sleep(&mut self) {
        self.check_lanes();
        let State::Attached(Attachment { region, .. }) = &self.state else { return self.attend() };
        // This program is still armed: it woke only for frames that steering dropped.
        if self.is_armed && region.asleep().is_set() {
            return;
        }
        // Read the socket first: a packet in it would end the sleep at once.
        self.attend();
        if let State::Attached(Attachment { region, .. }) = &self.state {
            region.asleep().set(false);
            self.is_armed = true;
            self.counters.sleeps += 1;
        }
    }

    /// Read the daemon's packets. After the daemon has ended, try to attach again.
    fn attend(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Ended) {
            State::Attached(attachment) => self.read_packets(attachment),
            State::Lost(next) if Instant::now() >= next => match Request::send(&self.options, Some(self.secret)) {
                Ok(request) => {
                    // If the socket cannot be watched, the node's own timers make it poll.
                    let _ = self.readiness.add(&request.socket);
                    self.readiness.set_timer(Duration::ZERO);
                    State::Asked(request)
                }
                Err(why) => self.lose(why.to_string(), ATTACH_PAUSE),
            },
            State::Asked(request) => self.ask(request),
            other => other,
        };
    }

    fn read_packets(&mut self, attachment: Attachment) -> State {
        let mut bytes = [0; MAX_PACKET];
        for _ in 0..MAX_PACKETS {
            match socket::receive(&attachment.socket, &mut bytes) {
                Received::Packet(packet) => match FromDaemon::from_bytes(packet) {
                    Some(FromDaemon::PeerGone(address)) => {
                        let (read, written) = attachment.lanes.from.positions();
                        self.departed.add(address, read, written);
                    }
                    Some(FromDaemon::Trouble(why)) => self.trouble = why,
                    Some(FromDaemon::Detached(why)) => {
                        self.trouble = format!("the daemon has detached this program: {why}");
                        return State::Ended;
                    }
                    _ => (),
                },
                Received::Nothing => break,
                Received::Closed => return self.lose("the daemon has ended".into(), ATTACH_PAUSE),
            }
        }
        State::Attached(attachment)
    }

    /// There is no daemon now: try again after a pause.
    #[cold]
    fn lose(&mut self, why: String, pause: Duration) -> State {
        self.trouble = why;
        self.is_armed = false;
        self.heartbeat.set_socket(None);
        self.readiness.set_timer(pause);
        State::Lost(Instant::now() + pause)
    }

    #[cold]
    fn ask(&mut self, request: Request) -> State {
        let (attachment, welcome) = match request.poll(&self.options.path) {
            Answer::Waiting(request) => return State::Asked(request),
            Answer::Failed(why @ VnicOpenError::Refused { .. }) => return self.lose(why.to_string(), REFUSED_PAUSE),
            Answer::Failed(why) => return self.lose(why.to_string(), ATTACH_PAUSE),
            Answer::Attached(attached) => *attached,
        };
        if welcome.address != self.caps.address || (welcome.max_frame as usize) < self.caps.max_frame {
            self.trouble = format!(
                "the daemon at {} has forgotten this program, and gave it another address: open the node again",
                self.options.path.display()
            );
            return State::Ended;
        }
        self.heartbeat.set_socket(Some(attachment.socket.clone()));
        self.secret = welcome.secret;
        self.trouble.clear();
        self.counters.attached += 1;
        State::Attached(attachment)
    }
}

impl Transport for Vnic {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, budget: usize, each: &mut dyn FnMut(Frame)) -> usize {
        let taken = if let State::Attached(Attachment { lanes, .. }) = &mut self.state
            && lanes.is_quiet()
        {
            0
        } else {
            self.receive_frames(budget, each)
        };
        if taken > 0 {
            self.counters.received += taken as u64;
            self.empty_receives = 0;
            // The thread does not sleep.
            if self.is_armed
                && let State::Attached(Attachment { region, .. }) = &self.state
            {
                self.is_armed = false;
                region.asleep().clear();
            }
        } else {
            self.empty_receives = self.empty_receives.wrapping_add(1);
            if self.empty_receives.is_multiple_of(EMPTY_RECEIVES_TO_CHECK) {
                self.check_lanes();
            }
        }
        taken
    }

    fn send(&mut self, _to: Address, frame: &Frame) -> bool {
        let bytes = frame.bytes();
        let State::Attached(Attachment { lanes, .. }) = &mut self.state else {
            self.counters.lost_detached += 1;
            return true;
        };
        if lanes.to.push(bytes).is_ok() {
            self.counters.sent += 1;
            return true;
        }
        let is_carried = (1..=self.caps.max_frame).contains(&bytes.len());
        *(if is_carried { &mut self.counters.full } else { &mut self.counters.lost_too_long }) += 1;
        !is_carried
    }

    fn flush(&mut self) {
        if let State::Attached(Attachment { region, lanes, socket, .. }) = &mut self.state
            && region.publish(lanes)
        {
            self.counters.rings += 1;
            socket::wake(socket);
        }
    }

    fn control(&mut self, command: Command<'_>) -> Result<(), PeerAddressError> {
        if matches!(command, Command::BeforeSleep) {
            self.before_sleep();
        }
        if matches!(command, Command::JoinGroup { .. }) {
            // The daemon's switch does not know groups.
            return command.without_peers(&self.caps);
        }
        self.steering.control(command, &self.caps)
    }

    fn poll_notices(&mut self, each: &mut dyn FnMut(Notice<'_>)) {
        self.attend();
        let read = match &self.state {
            State::Attached(Attachment { lanes, .. }) if !lanes.from.is_quiet() => Some(lanes.from.positions().0),
            _ => None,
        };
        self.departed.take(read).for_each(|address| each(Notice::PeerGone(address)));
        self.steering.notices(each);
        if !self.trouble.is_empty() {
            each(Notice::LinkError(&self.trouble));
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        self.counters.each(each);
        each("amd_no_frame", self.lane_counters.no_frame);
        each("amd_nonsense", self.lane_counters.nonsense);
        self.steering.counters(each);
    }
}

impl Drop for Vnic {
    /// Publish the sent frames, and shut the socket down, so that the port ends even if a child of this process has a copy of the socket.
    /// The daemon reads the frames before it frees the port. A forked child ends nothing.
    fn drop(&mut self) {
        if !self.owner.is_here() {
            return;
        }
        self.flush();
        self.heartbeat.set_socket(None);
        if let State::Attached(Attachment { socket, .. }) = &self.state {
            socket::end(socket);
        }
    }
}
