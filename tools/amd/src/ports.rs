//! The life of a port: a program attaches, announces its name, and leaves.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use am_transport::LentQueue;
use am_vnic::protocol::{FromDaemon, Hello, Secret, VERSION, Welcome};
use am_vnic::{MIN_FRAME, Port, Visitor, WelcomeError};
use am_wire::Address;
use am_wire::control::Name;

use crate::address::{MAX_PORTS, address_of};
use crate::admin::{Answer, Listing, PortListing, Question};
use crate::daemon::{Daemon, KEEP_TIME, PROCESSES};
use crate::grants::Granted;
use crate::judge::{Guard, Refusal};
use crate::member::{MAX_REFUSED, Member, Owner};
use crate::process::{self, Fate, Process};
use crate::queues::Lending;
use crate::record::SavedPort;
use crate::schedule::MAX_WEIGHT;
use crate::state::Saved;
use crate::visit::Visit;

/// The most frames that are forwarded of a program that has ended.
const MAX_LAST_FRAMES: usize = 8192;

/// If one user's programs are refused again and again, the log has one line in this time.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(1);

impl Daemon {
    /// Restore the ports of an earlier daemon. They wait for their programs.
    pub(crate) fn restore(&mut self, saved: Saved) {
        let fates: Vec<_> = saved.ports.iter().map(|port| (port.number, port.process.fate())).collect();
        for SavedPort { number, owner, weight, secret, name, process } in saved.ports {
            let mut guard =
                Guard::new(address_of(self.switch.base, number), self.switch.ethertype, self.random.number());
            name.into_iter().for_each(|name| guard.set_name(name));
            let mut member = Member::new(None, guard, owner, secret, weight);
            (member.process, member.kept_until) = (process, Some(Instant::now() + KEEP_TIME));
            // The state file does not record which ports this one has exchanged control frames with, so assume all.
            member.known = u128::MAX;
            // An error is ignored here: attaching tries again, and reports it to the program.
            _ = self.switch.serve_address(member.guard.address(), true);
            self.insert(number, member);
        }
        for grant in saved.grants {
            if let Some(member) = self.switch.members.get_mut(grant.port).and_then(Option::as_deref_mut) {
                let record = self.switch.state.free_grant();
                // If a daemon was killed while it restored, the file may have the same grant twice.
                if let Granted::New(None) = member.guard.grants.grant(grant.grant, grant.granter, record) {
                    self.switch.state.put_grant(record, grant.port, grant.granter, grant.grant);
                }
            }
        }
        for (number, fate) in fates {
            match fate {
                Fate::Ended => self.detach(number),
                Fate::Runs(process) => self.expect(number, process),
                Fate::Unknown => (),
            }
        }
    }

    /// Watch the process of a port's program. The port stays the program's, attached or expected, until this process ends.
    fn expect(&mut self, number: usize, process: OwnedFd) {
        if let Some(member) = &mut self.switch.members[number]
            && self.watched.add(&process, PROCESSES + number as u64).is_ok()
        {
            member.runs = Some(process);
        }
    }

    /// Whether a port waits for the program with this hello.
    pub(crate) fn expects(&self, hello: &Hello) -> bool {
        let mut places = self.switch.members.iter().flatten().filter(|member| member.port.is_none());
        hello.secret.is_some() && places.any(|member| Some(member.secret) == hello.secret)
    }

    /// Add a port.
    fn insert(&mut self, number: usize, member: Member) {
        let weight = member.weight;
        self.switch.members[number] = Some(Box::new(member));
        self.switch.schedule.set(number, weight);
        self.save(number);
    }

    fn save(&self, number: usize) {
        let Some(member) = &self.switch.members[number] else { return };
        let Member { owner, weight, secret, guard, process, .. } = &**member;
        let (owner, weight, secret, process) = (*owner, *weight, *secret, *process);
        let saved = SavedPort { number, owner, weight, secret, name: guard.name(), process };
        self.switch.state.put_port(&saved);
    }

    /// Answer a visitor that does not ask for a port.
    pub(crate) fn answer_visitor(&mut self, visitor: Visitor, owner: Owner, packet: &[u8]) {
        match serde_json::from_slice::<Question>(packet) {
            // A failed answer is ignored: the administrator's tool has gone.
            Ok(question) => _ = visitor.answer(&serde_json::to_vec(&self.answer(owner, question)).unwrap_or_default()),
            Err(_) => visitor.refuse("this socket is for `amd:` transports and for `amd list`".into()),
        }
    }

    /// Give a port to a visitor that asks for one, or answer why not.
    pub(crate) fn attach_visitor(&mut self, mut visit: Visit, hello: &Hello, now: Instant) {
        let owner = visit.owner;
        let (number, weight) = match self.admit(owner, hello) {
            Ok(admitted) => admitted,
            Err(why) => return self.refuse_visitor(visit.visitor, owner, why),
        };
        let address = address_of(self.switch.base, number);
        let lending =
            self.switch.serve_address(address, true).map(|()| self.lend_queue(&mut visit, hello, address, now));
        let refused = match lending {
            Ok(Lending::Done(queue)) => match self.attach(visit.visitor, owner, hello, (number, weight), queue) {
                Ok(()) => return,
                Err(refused) => refused,
            },
            Ok(Lending::Later) => {
                self.visits.push(visit);
                None
            }
            Err(why) => Some((visit.visitor, why)),
        };
        // The visitor gets no port, so its address is no longer served; a port that waits for its program keeps its address.
        if self.switch.members[number].is_none() {
            _ = self.switch.serve_address(address, false);
        }
        if let Some((visitor, why)) = refused {
            self.refuse_visitor(visitor, owner, why);
        }
    }

    fn refuse_visitor(&mut self, visitor: Visitor, owner: Owner, why: String) {
        // A refused program tries again and again; do not log each attempt.
        let is_said = self.refused.is_some_and(|(uid, at)| uid == owner.uid && at.elapsed() < REFUSAL_LOG_INTERVAL);
        if !is_said && self.budgets.has_line(owner.uid, Instant::now()) {
            tracing::info!("user {} was refused: {why}", owner.uid);
            self.refused = Some((owner.uid, Instant::now()));
        }
        visitor.refuse(why);
    }

    /// Give this port to a visitor. An error returns the visitor and the reason, or `None` if the visitor has left.
    fn attach(
        &mut self,
        visitor: Visitor,
        owner: Owner,
        hello: &Hello,
        (number, weight): (usize, u32),
        queue: Result<Option<LentQueue>, String>,
    ) -> Result<(), Option<(Visitor, String)>> {
        let address = address_of(self.switch.base, number);
        let (queue, no_queue) = match queue {
            Ok(queue) => (queue, None),
            Err(why) => (None, Some(why)),
        };
        let welcome = self.greet(address, hello);
        let secret = welcome.secret;
        let number_of_queue = queue.as_ref().map(|queue| queue.shape.queue);
        let port = match visitor.welcome(welcome, queue) {
            Ok(port) => port,
            Err((_, WelcomeError::Left)) => return Err(None),
            Err((visitor, why)) => return Err(Some((visitor, why.to_string()))),
        };
        // Renumbering a watched descriptor cannot fail.
        if self.watched.renumber(port.socket(), number as u64).is_err() {
            return Err(None);
        }
        if !self.trouble.is_empty() {
            port.tell(&FromDaemon::Trouble(self.trouble.clone()));
        }
        if self.budgets.has_line(owner.uid, Instant::now()) {
            tracing::info!("port {number}: {owner} has attached");
        }
        let runs = process::peer(port.socket(), owner.pid);
        self.place(number, port, owner, secret, weight);
        if let Some(member) = &mut self.switch.members[number] {
            (member.queue, member.no_queue, member.reserved) = (number_of_queue, no_queue, hello.name);
        }
        // Without a pidfd, the daemon takes the socket's end for the program's end.
        runs.into_iter().for_each(|process| self.expect(number, process));
        Ok(())
    }

    /// The welcome for a program, with a fresh secret.
    fn greet(&mut self, address: Address, hello: &Hello) -> Welcome {
        let wanted = hello.max_frame.map_or(self.max_frame, |frame| frame as usize);
        Welcome {
            address,
            max_frame: wanted.clamp(MIN_FRAME, self.max_frame) as u32,
            session: self.random.number() as u32,
            secret: Secret(self.random.bytes()),
            queue: None,
            hears_all: self.hears_all,
            wire: self.wire.clone(),
        }
    }

    /// Connect a program to its port: the port that it had before the daemon restarted, or a new one.
    fn place(&mut self, number: usize, port: Port, owner: Owner, secret: Secret, weight: u32) {
        let process = Process::of(owner.pid);
        if let Some(member) = self.switch.members[number].as_deref_mut() {
            let missed = std::mem::take(&mut member.missed);
            missed.into_iter().for_each(|address| _ = port.tell(&FromDaemon::PeerGone(address)));
            (member.port, member.owner, member.secret, member.kept_until) = (Some(port), owner, secret, None);
            (member.process, member.runs) = (process, None);
            return self.save(number);
        }
        let guard = Guard::new(address_of(self.switch.base, number), self.switch.ethertype, self.random.number());
        let mut member = Member::new(Some(port), guard, owner, secret, weight);
        member.process = process;
        self.next_port = number + 1;
        self.insert(number, member);
    }

    /// Choose a port for this program. Returns the port's number and weight, or the reason for which the program gets no port.
    fn admit(&mut self, owner: Owner, hello: &Hello) -> Result<(usize, u32), String> {
        if hello.version != VERSION {
            return Err(format!(
                "the program has version {} of the port, the daemon {VERSION}: use one version",
                hello.version
            ));
        }
        if hello.ethertype != self.switch.ethertype {
            let [its, own] = [hello.ethertype, self.switch.ethertype].map(|ethertype| ethertype.hidden());
            return Err(format!("the program's EtherType is {its:#06x}, the daemon's {own:#06x}: use one"));
        }
        let members = self.switch.members.iter().enumerate();
        let mut members = members.filter_map(|(number, member)| Some((number, member.as_deref()?)));
        if let Some((number, member)) = members.clone().find(|(_, member)| Some(member.secret) == hello.secret) {
            return match &member.port {
                None if member.owner.uid == owner.uid => Ok((number, member.weight)),
                _ => Err("another program has this port: open the transport again".into()),
            };
        }
        let free = |number: &usize| self.switch.members[*number].is_none();
        // Take the number that has been free for longest, because frames for its earlier program may still be in flight.
        let next = (0..MAX_PORTS).map(|step| (self.next_port + step) % MAX_PORTS).find(free);
        let number = next.ok_or_else(|| format!("all {MAX_PORTS} ports are in use: end a program"))?;
        let allowance = self.access.allowance(&owner)?;
        let its = members.by_ref().filter(|(_, member)| member.owner.uid == owner.uid).count();
        if its >= allowance.ports {
            return Err(format!(
                "user {} has {its} ports, and may not have more: end a program, or raise `ports`",
                owner.uid
            ));
        }
        if let Some(name) = &hello.name {
            self.taken(number, name).map_or(Ok(()), |(_, why)| Err(why))?;
            self.access.check_name(&owner, name)?;
        }
        Ok((number, allowance.weight))
    }

    /// The other port that has this name, or has attached to take it, and what to do.
    fn taken(&self, number: usize, name: &Name) -> Option<(usize, String)> {
        let members = self.switch.members.iter().enumerate().filter(|(other, _)| *other != number);
        let mut others = members.filter_map(|(other, member)| Some((other, member.as_deref()?)));
        let has = |member: &Member| member.guard.name().or(member.reserved) == Some(*name);
        let (other, member) = others.find(|(_, member)| has(member))?;
        let uid = member.owner.uid;
        let why = format!("port {other}, of user {uid}, has the name `{name}`: choose another, or end that program");
        Some((other, why))
    }

    /// Read the packets of a program whose socket is readable.
    pub(crate) fn read_packets(&mut self, number: usize) {
        let member = self.switch.members.get(number).and_then(Option::as_deref);
        let Some(port) = member.and_then(|member| member.port.as_ref()) else { return };
        let mut heartbeats = vec![];
        let is_alive = port.read_packets(&mut |frame| heartbeats.push(frame.to_vec()));
        heartbeats.iter().for_each(|frame| self.switch.on_heartbeat(number, frame));
        if !is_alive {
            self.end(number);
        }
    }

    /// Detach a program whose process has ended. The socket alone does not show this: a child process may have a copy of it.
    pub(crate) fn check_process(&mut self, number: usize) {
        let member = self.switch.members.get(number).and_then(Option::as_deref);
        // Another program may have this port by now.
        if member.and_then(|member| member.runs.as_ref()).is_some_and(process::has_ended) {
            self.end(number);
        }
    }

    fn end(&mut self, number: usize) {
        self.switch.serve_last(number, MAX_LAST_FRAMES);
        self.detach(number);
    }

    /// Remove the port of a program that has ended, with its name, flows and memory.
    pub(crate) fn detach(&mut self, number: usize) {
        let Some(mut member) = self.switch.members[number].take() else { return };
        let address = member.guard.address();
        if self.budgets.has_line(member.owner.uid, Instant::now()) {
            tracing::info!("port {number}: {} has ended", member.owner);
        }
        member.port.take().into_iter().for_each(Port::end);
        self.switch.schedule.remove(number);
        self.switch.state.forget_port(number);
        let state = &mut self.switch.state;
        member.guard.grants.records().for_each(|record| state.forget_grant(record));
        for other in self.switch.members.iter_mut().flatten() {
            let revoked = other.guard.grants.revoke_all_of(number as u16);
            revoked.into_iter().for_each(|record| state.forget_grant(record));
        }
        // An error is ignored: removing an address cannot fail.
        _ = self.switch.serve_address(address, false);
        self.switch.notify_of_end(number, address, member.known);
    }

    /// Detach a program that has sent too many refused frames.
    pub(crate) fn detach_offender(&mut self, number: usize, why: Refusal) {
        let Some(member) = self.switch.members[number].as_deref() else { return };
        let text = format!("{MAX_REFUSED} of its frames were refused, the last as `{}`", why.name());
        if self.budgets.has_line(member.owner.uid, Instant::now()) {
            tracing::warn!("port {number}: {} is detached: {text}", member.owner);
        }
        member.port.iter().for_each(|port| _ = port.tell(&FromDaemon::Detached(text.clone())));
        self.detach(number);
    }

    /// Accept or refuse the names that programs have claimed.
    #[cold]
    pub(crate) fn decide_claims(&mut self) {
        for (number, name, frame) in std::mem::take(&mut self.switch.claims) {
            let Some(member) = self.switch.members[number].as_deref() else { continue };
            let verdict = self.check_name(number, member.owner, &name);
            let Some(member) = self.switch.members[number].as_deref_mut() else { continue };
            match verdict {
                Ok(()) => {
                    member.guard.set_name(name);
                    member.counts.sent += 1;
                    member.trouble.clear();
                    self.save(number);
                    self.switch.admit_claim(number, &frame);
                }
                Err(why) => {
                    member.refuse(Refusal::BadName);
                    if member.trouble != why && self.budgets.has_line(member.owner.uid, Instant::now()) {
                        tracing::warn!("port {number}: nothing of it passes: {why}");
                    }
                    member.trouble = why;
                }
            }
            self.report_trouble();
        }
    }

    fn check_name(&mut self, number: usize, owner: Owner, name: &Name) -> Result<(), String> {
        if let Some((other, why)) = self.taken(number, name) {
            // Then this port is notified when the other one ends and the name is free.
            self.switch.know_each_other(number, other);
            return Err(why);
        }
        self.access.check_name(&owner, name)
    }

    /// Report to each program why its frames are not forwarded at present, if the reason has changed.
    pub(crate) fn report_trouble(&mut self) {
        for member in self.switch.members.iter_mut().flatten() {
            let why = if member.trouble.is_empty() { &self.trouble } else { &member.trouble };
            if *why != member.reported
                && member.port.as_ref().is_some_and(|port| port.tell(&FromDaemon::Trouble(why.clone())))
            {
                member.reported = why.clone();
            }
        }
    }

    fn answer(&mut self, owner: Owner, question: Question) -> Answer {
        match question {
            Question::List => Answer::List(self.list()),
            Question::Weight { weight, .. } if !(1..=MAX_WEIGHT).contains(&weight) => {
                Answer::Refused(format!("the weight {weight} is out of range: 1 to {MAX_WEIGHT}"))
            }
            Question::Weight { .. } if owner.uid != 0 && owner.uid != nix::unistd::geteuid().as_raw() => {
                Answer::Refused("only root and the daemon's user may set weights".into())
            }
            Question::Weight { name, weight } => self.set_weight(&name, weight),
        }
    }

    /// Set the weight, 1 to 64, of the port of the node with this name.
    pub fn set_weight(&mut self, name: &str, weight: u32) -> Answer {
        let members = self.switch.members.iter_mut().enumerate();
        let mut members = members.filter_map(|(number, member)| Some((number, member.as_deref_mut()?)));
        let found = members.find(|(_, member)| member.guard.name().is_some_and(|its| its.as_str() == name));
        let Some((number, member)) = found else {
            return Answer::Refused(format!("no port has the name `{name}`: `amd list` shows the names"));
        };
        member.weight = weight;
        self.switch.schedule.set(number, weight);
        self.save(number);
        Answer::Done
    }

    /// List the ports with their owners and counters.
    pub fn list(&self) -> Listing {
        let counts = &self.switch.counts;
        let members = self.switch.members.iter().enumerate();
        Listing {
            wire: self.wire.clone(),
            link_error: (!self.trouble.is_empty()).then(|| self.trouble.clone()),
            from_wire: counts.from_wire,
            to_wire: counts.to_wire,
            for_no_port: counts.for_no_port,
            spoofed: counts.spoofed,
            ports: members.filter_map(|(port, member)| Some(listing(port, member.as_deref()?))).collect(),
        }
    }
}

fn listing(port: usize, member: &Member) -> PortListing {
    let refused = Refusal::ALL.iter().map(|why| (why.name().to_owned(), member.counts.refused[*why as usize]));
    PortListing {
        port,
        name: member.guard.name().map(|name| name.to_string()),
        address: member.guard.address().to_string(),
        uid: member.owner.uid,
        pid: if member.port.is_some() { member.owner.pid } else { 0 },
        is_expected: member.port.is_none(),
        weight: member.weight,
        queue: member.queue.filter(|_| member.port.is_some()),
        no_queue: member.no_queue.clone(),
        sent: member.counts.sent,
        delivered: member.counts.delivered,
        dropped: member.counts.dropped,
        flows: member.guard.grants.len(),
        refused: refused.filter(|(_, count)| *count > 0).collect::<BTreeMap<_, _>>(),
    }
}
