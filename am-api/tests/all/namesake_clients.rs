//! Two clients of one name, connected to one server, without a path between them. The displaced client learns why it was
//! displaced, and so does the server. Clients with unique names do not displace each other.

use std::time::{Duration, Instant};

use crate::common::{LONG, Side, plain, problem_of};
use am_api::{Connection, ConnectionChange, NotOpen, Problem, Refusal, ReturnReason, transports};

#[derive(Default)]
struct State {
    ends: Vec<ReturnReason>,
    opened: usize,
}

type Program = Side<State>;

/// A program of this name over sockets. Clients know the place of the server only.
fn open(builder: am_api::Builder, on: &str) -> Program {
    let transport = transports::open(on).unwrap_or_else(|error| panic!("{error}"));
    let mut program = Program::open(builder.beacon(Duration::from_millis(300)), transport);
    program.endpoint.on_connection(|state, event| match event.change {
        ConnectionChange::Accepted => state.opened += 1,
        ConnectionChange::Ended(reason) => state.ends.push(reason),
        _ => (),
    });
    program
}

fn connect(client: &Program) -> Connection {
    client.endpoint.connect("server", "main").unwrap()
}

/// Poll all programs until it is so.
fn run(what: &str, programs: &mut [&mut Program], is_so: impl Fn(&[&mut Program]) -> bool) {
    let start = Instant::now();
    while !is_so(programs) {
        let health = |programs: &[&mut Program]| programs.iter().map(|it| it.node.health()).collect::<Vec<_>>();
        assert!(start.elapsed() < LONG, "not {what}: {:?}", health(programs));
        programs.iter_mut().for_each(|it| _ = it.poll());
    }
}

#[test]
fn the_first_learns_why_it_is_displaced_at_both_ends() {
    for on in ["udp:127.0.0.1:0", "tcp:127.0.0.1:0"] {
        let mut server = open(plain("server"), on);
        let place = server.node.local_address();
        let client = || {
            let client = open(plain("alpha"), on);
            client.node.add_peer_address(&place).unwrap();
            client
        };
        let mut first = client();
        let old = connect(&first);
        run("open", &mut [&mut server, &mut first], |all| all[1].endpoint.ready(old).is_ok());
        let mut second = client();
        let new = connect(&second);
        let is_displaced = |all: &[&mut Program]| all[2].endpoint.ready(new).is_ok() && all[1].state.ends.len() == 1;
        run("displaced", &mut [&mut server, &mut first, &mut second], is_displaced);
        assert_eq!(first.state.ends, [ReturnReason::NameTaken], "{on}");
        let problem = first.node.health().unwrap_err();
        assert!(
            matches!(problem, Problem::NameTaken { .. }) && problem.to_string().contains(&place),
            "{on}: {problem}"
        );
        run("said at the server", &mut [&mut server, &mut first, &mut second], |all| {
            problem_of(&all[0].node).is_some()
        });
        let problem = server.node.health().unwrap_err().to_string();
        assert!([&first, &second].iter().all(|it| problem.contains(&it.node.local_address())), "{on}: {problem}");
        // It says so as long as it lasts, and to each new attempt.
        let again = connect(&first);
        let refused = Err(NotOpen::Refused(Refusal::Name));
        run("refused", &mut [&mut server, &mut first, &mut second], |all| all[1].endpoint.ready(again) == refused);
        assert_eq!(second.endpoint.ready(new), Ok(()), "{on}");
        // The other one ends. Then the name is free.
        drop(second);
        come_back(&mut server, &mut first);
        run("well again", &mut [&mut server, &mut first], |all| all.iter().all(|it| problem_of(&it.node).is_none()));
    }
}

/// The client connects until it succeeds. A refused connection keeps its flow id until it is closed.
fn come_back(server: &mut Program, client: &mut Program) {
    let (start, mut to) = (Instant::now(), connect(client));
    while client.endpoint.ready(to).is_err() {
        assert!(start.elapsed() < LONG, "{:?}", client.endpoint.ready(to));
        if client.endpoint.ready(to) != Err(NotOpen::Connecting) {
            client.endpoint.close(to);
            to = connect(client);
        }
        [&mut *server, &mut *client].into_iter().for_each(|it| _ = it.poll());
    }
}

#[test]
fn unique_names_do_not_meet() {
    for (on, name) in [("udp:127.0.0.1:0", "alpha"), ("tcp:127.0.0.1:0", "alpha"), ("udp:127.0.0.1:0", "")] {
        let mut server = open(plain("server"), on);
        let place = server.node.local_address();
        let mut clients: Vec<Program> = (0..4).map(|_| open(plain(name).unique_name(), on)).collect();
        let connections: Vec<Connection> = clients
            .iter()
            .map(|client| {
                client.node.add_peer_address(&place).unwrap();
                connect(client)
            })
            .collect();
        let mut all: Vec<&mut Program> = clients.iter_mut().chain([&mut server]).collect();
        run("open", &mut all, |all| connections.iter().zip(all).all(|(to, it)| it.endpoint.ready(*to).is_ok()));
        // The server's own event comes with its next poll.
        run("open at the server", &mut all, |all| all[4].state.opened == 4);
        assert_eq!((server.state.opened, server.state.ends.len()), (4, 0), "{on}");
        assert!(clients.iter().all(|it| it.node.name().starts_with(name) && problem_of(&it.node).is_none()), "{on}");
    }
}
