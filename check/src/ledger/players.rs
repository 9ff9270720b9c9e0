//! Server and clients as processes: where they run, and when each was started, stopped and killed.

use std::fs::{File, read_to_string};
use std::io::Write;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use am_netns::{Bridge, BridgeOptions, Host, Interface, VethOptions, veth};
use clap::ValueEnum;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::unistd::Pid;

use super::book::now;
use super::process::{Place, Role, SERVER};
use crate::Error;
use am_testing::example::Running;

const INTERFACE: &str = "am0";
const SUBNET: &str = "10.77.0";

/// What they are reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Xdp,
    Shm,
    Udp,
    Tcp,
    /// Two daemons and a cable between them: the server is behind one, the clients are behind the other.
    Amd,
    /// Shared memory first; beside it UDP.
    #[value(name = "shm+udp")]
    ShmUdp,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        ["xdp", "shm", "udp", "tcp", "amd", "shm+udp"][self as usize]
    }

    /// The number of hosts for this number of clients.
    fn hosts(self, clients: usize) -> usize {
        match self {
            Kind::Shm => 0,
            Kind::Amd => DAEMONS,
            _ => clients + 1,
        }
    }
}

/// Of [`Kind::Amd`], on a host each.
const DAEMONS: usize = 2;

/// How the life of a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Lives,
    Killed(u64),
    Left,
}

/// A process that was, or is.
#[derive(Debug)]
pub(crate) struct Life {
    /// 0 is the server, clients are next, then daemons.
    pub(crate) player: usize,
    /// Whether others ask it.
    pub(crate) serves: bool,
    pub(crate) book: PathBuf,
    pub(crate) end: End,
}

/// A player that could not be heard: it was stopped, or its interface was down, or the daemon between it and the others was away. A
/// silence of 0, the server, concerns all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    pub(crate) player: usize,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// All players of one transport. Host 0 is the server's, the others are the clients'; shared memory needs none.
pub(crate) struct Players {
    /// First, so that they end before what they run on.
    running: Vec<Option<(Running, usize)>>,
    /// The server and the clients.
    asking: usize,
    pub(crate) kind: Kind,
    hosts: Vec<Host>,
    ends: Vec<Interface>,
    _switch: Option<Bridge>,
    directory: PathBuf,
    seed: u64,
    twice: bool,
    loss: f64,
    /// The names of the nodes, where all of them ask and answer. No server is started then.
    mesh: Option<Vec<String>>,
    pub(crate) lives: Vec<Life>,
    pub(crate) silences: Vec<Silence>,
}

/// A process that is told to leave and has not by then is at fault.
const LEAVES: Duration = Duration::from_secs(15);

impl Players {
    /// A cable for one client, a switch for several.
    pub(crate) fn new(
        kind: Kind,
        clients: usize,
        directory: &Path,
        seed: u64,
        twice: bool,
        loss: f64,
    ) -> Result<Players, Error> {
        let hosts = (0..kind.hosts(clients)).map(|n| Host::new(&format!("host{n}"))).collect::<Result<Vec<_>, _>>()?;
        let (mut ends, mut switch) = (vec![], None);
        if let [server, client] = &hosts[..] {
            let (near, far) = veth(server, INTERFACE, client, INTERFACE, &VethOptions::default())?;
            ends = vec![near, far];
        } else if !hosts.is_empty() {
            let bridge = Bridge::new(&hosts.iter().collect::<Vec<_>>(), INTERFACE, &BridgeOptions::default())?;
            ends = bridge.ends().to_vec();
            switch = Some(bridge);
        }
        for (at, end) in ends.iter().enumerate() {
            end.add_ip(&format!("{SUBNET}.{}/24", at + 1))?;
        }
        let daemons = if kind == Kind::Amd { DAEMONS } else { 0 };
        Ok(Players {
            running: (0..clients + 1 + daemons).map(|_| None).collect(),
            asking: clients + 1,
            kind,
            hosts,
            ends,
            _switch: switch,
            directory: directory.to_owned(),
            seed,
            twice,
            loss,
            mesh: None,
            lives: vec![],
            silences: vec![],
        })
    }

    /// Players 1 to `count`, each of which asks all others over AF_XDP.
    pub(crate) fn mesh(count: usize, directory: &Path, seed: u64) -> Result<Players, Error> {
        let names = (0..=count).map(|player| format!("m{player}")).collect();
        Ok(Players { mesh: Some(names), ..Players::new(Kind::Xdp, count, directory, seed, false, 0.0)? })
    }

    /// The next node of this player has another name.
    pub(crate) fn rename(&mut self, player: usize) {
        let run = self.lives.len();
        self.mesh.iter_mut().for_each(|names| names[player] = format!("m{player}-{run}"));
    }

    /// On purpose, or because a receiver's buffer is full, or an interface is down.
    pub(crate) fn loses_frames(&self) -> bool {
        self.loss > 0.0 || !matches!(self.kind, Kind::Shm | Kind::Tcp)
    }

    /// Server and clients.
    pub(crate) fn count(&self) -> usize {
        self.asking
    }

    /// The daemons between them.
    pub(crate) fn daemons(&self) -> Range<usize> {
        self.asking..self.running.len()
    }

    pub(crate) fn is_running(&self, player: usize) -> bool {
        self.running[player].is_some()
    }

    /// The interface that alone leads to this player.
    fn link(&self, player: usize) -> Option<&Interface> {
        match self.kind {
            Kind::ShmUdp => None,
            Kind::Amd => self.ends.get(player.checked_sub(self.asking)?),
            _ => self.ends.get(player),
        }
    }

    pub(crate) fn has_link(&self, player: usize) -> bool {
        self.link(player).is_some()
    }

    pub(crate) fn set_link(&self, player: usize, up: bool) -> Result<(), Error> {
        let Some(end) = self.link(player) else { return Ok(()) };
        Ok(if up { end.set_up() } else { end.set_down() }?)
    }

    /// Whether somebody listens at this daemon's socket: one that was killed leaves the file.
    pub(crate) fn serves(&self, daemon: usize) -> bool {
        let connected = || {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
            connect(socket.as_raw_fd(), &UnixAddr::new(self.on(daemon).as_str())?)
        };
        connected().is_ok()
    }

    /// The transport of the server (0) or a client.
    fn on(&self, player: usize) -> String {
        let (scheme, host, place) = (self.kind.name(), player + 1, self.directory.display());
        let peer = if player == 0 { String::new() } else { format!(",peer={SUBNET}.1:7000") };
        match self.kind {
            Kind::Xdp => format!("xdp:{INTERFACE}"),
            Kind::Shm => format!("shm:ledger,dir={place}"),
            Kind::Udp | Kind::Tcp => format!("{scheme}:{SUBNET}.{host}:7000{peer}"),
            Kind::ShmUdp => format!("shm:ledger,dir={place}+udp:{SUBNET}.{host}:7000{peer}"),
            Kind::Amd if player < self.asking => format!("amd:{place}/amd{}", usize::from(player > 0)),
            // A daemon has a wire, and this socket.
            Kind::Amd => format!("{place}/amd{}", player - self.asking),
        }
    }

    pub(crate) fn start(&mut self, player: usize) -> Result<(), Error> {
        let run = self.lives.len();
        let book = self.directory.join(format!("{run}.book"));
        let daemon = player.checked_sub(self.asking);
        let (role, name) = match &self.mesh {
            _ if daemon.is_some() => (Role::Relay, format!("xdp:{INTERFACE}")),
            Some(names) => (Role::Mesh, names[player].clone()),
            None if player == 0 => (Role::Serve, SERVER.into()),
            None => (Role::Ask, format!("client{player}")),
        };
        // Programs find their daemon from everywhere.
        let host = if self.kind == Kind::Amd { daemon } else { Some(player) };
        let errors = File::create(book.with_extension("said"))?;
        let place = Place {
            role,
            on: self.on(player),
            book: book.clone(),
            name,
            host: host.and_then(|host| self.hosts.get(host)).map(Host::path),
            run: run as u64,
            seed: self.seed.wrapping_add(run as u64),
            twice: self.twice,
            loss: self.loss,
            keepalive: 20.0,
            // Where a process for each host shares few cores, one may have to wait for long.
            patience: if self.mesh.is_some() { 5.0 } else { 1.5 },
        };
        self.running[player] = Some((place.start(errors.into())?, run));
        self.lives.push(Life { player, serves: player == 0 || self.mesh.is_some(), book, end: End::Lives });
        // Others cannot attach before.
        while role == Role::Relay && !Path::new(&place.on).exists() {
            self.check()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// An error where a process has ended that was not told to.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        for (Running(child), run) in self.running.iter_mut().flatten() {
            if let Some(status) = child.try_wait()? {
                return Err(died(&self.lives[*run], &status.to_string()));
            }
        }
        Ok(())
    }

    pub(crate) fn kill(&mut self, player: usize) {
        if let Some((running, run)) = self.running[player].take() {
            self.lives[run].end = End::Killed(now());
            drop(running);
        }
    }

    /// Tell these to leave, and wait until they have.
    pub(crate) fn leave(&mut self, players: &[usize]) -> Result<(), Error> {
        for &player in players {
            if let Some((Running(child), _)) = &mut self.running[player] {
                // A process that has died already is found below.
                _ = child.stdin.as_mut().map(|stdin| stdin.write_all(b"leave\n"));
            }
        }
        let begin = Instant::now();
        for &player in players {
            let Some((Running(child), run)) = &mut self.running[player] else { continue };
            let status = loop {
                match child.try_wait()? {
                    Some(status) => break status,
                    None if begin.elapsed() > LEAVES => return Err(died(&self.lives[*run], "it does not leave")),
                    None => std::thread::sleep(Duration::from_millis(1)),
                }
            };
            if !status.success() {
                return Err(died(&self.lives[*run], &status.to_string()));
            }
            self.lives[*run].end = End::Left;
            self.running[player] = None;
        }
        Ok(())
    }

    pub(crate) fn signal(&self, player: usize, signal: Signal) -> Result<(), Error> {
        if let Some((Running(child), _)) = &self.running[player] {
            kill(Pid::from_raw(child.id() as i32), signal)?;
        }
        Ok(())
    }
}

fn died(life: &Life, how: &str) -> Error {
    let name = if life.player == 0 { "the server".to_owned() } else { format!("player {}", life.player) };
    let said = read_to_string(life.book.with_extension("said")).unwrap_or_default();
    let lines: Vec<&str> = said.lines().collect();
    format!("{name}: {how}\n{}", lines[lines.len().saturating_sub(5)..].join("\n")).into()
}
