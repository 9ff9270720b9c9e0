use am_papers::contention::Server;

use super::*;
use am_measure::Topology;
use am_measure::deploy::LocalTransport;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("am-bench").chain(line.split_whitespace()))
}

/// Where the command measures, after all checks before it begins.
fn places(line: &str) -> Result<Vec<Topology>, String> {
    let cli = parse(line).map_err(|error| error.to_string())?;
    let one = |topology: Result<Topology, Error>| topology.map(|topology| vec![topology]);
    let none = |_| vec![];
    let places = match cli.command.as_ref() {
        Some(Command::Latency(args)) => one(args.measured.topology()),
        Some(Command::Bandwidth(args)) => one(args.topology()),
        Some(Command::Rate(args)) => one(args.measured.topology()),
        Some(Command::Compare(args)) => args.over().map(|_| vec![]),
        Some(Command::Ablation(args)) => one(args.topology()),
        Some(Command::Bounce(args)) => one(args.topology()),
        Some(Command::LogP(args)) => args.topologies(),
        Some(Command::Contention(args)) => args.servers().map(|_| vec![]),
        Some(Command::Permute(args)) => args.trunks().map(|_| vec![]),
        Some(Command::Scale(args)) => args.check().map(none),
        Some(Command::Phases(args)) => args.topologies(),
        Some(Command::Busy(args)) => args.topologies(),
        Some(Command::Table2(args)) => one(args.topology()),
        Some(Command::Rpc(args)) => one(args.topology()),
        Some(Command::Ordered(args)) => one(args.topology()),
        Some(Command::Objects(args)) => one(args.topology()),
        Some(Command::Speedups(args)) => args.check().map(none),
        Some(Command::Pvm(args)) => args.check().map(none),
        Some(Command::Serve(args)) => args.transport().map(|_| vec![]),
        None if cli.serve => cli.end.transport().map(|_| vec![]),
        None => cli.run(&Watch::default()).map(none),
        Some(
            Command::Wakeup(_)
            | Command::Demo(_)
            | Command::Far(_)
            | Command::Turn
            | Command::Caller
            | Command::Member
            | Command::ObjectMember,
        ) => Ok(vec![]),
    };
    places.map_err(|error| {
        assert_eq!(error.exit_code(), 2, "{line}: {error}");
        error.to_string()
    })
}

#[test]
fn the_grammar_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn places_have_names() {
    let peer = |on: &str| Topology::Peer {
        peer: "beta".to_owned(),
        on: on.to_owned(),
        name: am_measure::options::host_name(),
    };
    let sim = |on: &str| Topology::Sim(on.to_owned());
    for (line, expected) in [
        ("latency --hosts veth", Topology::Veth(1500, None)),
        ("latency --hosts veth --mtu 3000 --cores 1,2", Topology::Veth(3000, None)),
        ("latency --driver am --hosts loopback", Topology::Loopback),
        ("latency --peer beta --on xdp:eth1 --cores 1", peer("xdp:eth1")),
        ("latency --peer beta --on shm:lab", peer("shm:lab")),
        ("latency --hosts udp --driver am,raw", Topology::Processes(LocalTransport::Udp, None)),
        ("latency --hosts virtio-user --mtu 3000", Topology::Processes(LocalTransport::VirtioUser, Some(3000))),
        ("latency --hosts shm --driver am,cacheline", Topology::Processes(LocalTransport::Shm, None)),
        ("latency --hosts sim", sim("sim:1,frame=1514")),
        ("latency --hosts sim --mtu 9000", sim("sim:1,frame=9014")),
        ("latency --hosts sim --on sim:7,loss=1%", sim("sim:7,loss=1%,frame=1514")),
        ("bandwidth --sweep --plot a.svg --hosts veth", Topology::Veth(1500, None)),
        ("bandwidth --bulk --loss 0.01,1 --hosts veth", Topology::Veth(1500, None)),
        ("table2 --mtu 3000", Topology::Veth(3000, None)),
        ("rpc", Topology::Veth(1500, None)),
        ("rpc --hosts udp --size 1K --plot a.svg", Topology::Processes(LocalTransport::Udp, None)),
        ("ordered", Topology::Veth(1500, None)),
        ("ordered --hosts sim --members 2,64", sim("sim:1,frame=1514")),
        ("ordered --hosts shm --members 2,8 --size 1K --plot a.svg", Topology::Processes(LocalTransport::Shm, None)),
        ("objects", Topology::Veth(1500, None)),
        ("objects --hosts shm --members 4 --rounds 2 --json", Topology::Processes(LocalTransport::Shm, None)),
        ("bounce", Topology::Veth(1500, None)),
        ("bounce --hosts shm --size 64 --rounds 3", Topology::Processes(LocalTransport::Shm, None)),
        ("ablation --mtu 3000", Topology::Veth(3000, None)),
        ("ablation --hosts loopback", Topology::Loopback),
        ("ablation --peer beta --on xdp:eth1", peer("xdp:eth1")),
        ("logp --hosts sim", sim("sim:1,frame=1514")),
        ("logp --peer beta --on xdp:eth1", peer("xdp:eth1")),
        ("phases --size 64,1 --hosts shm", Topology::Processes(LocalTransport::Shm, Some(1500))),
        ("busy --hosts udp --calls 100", Topology::Processes(LocalTransport::Udp, None)),
    ] {
        assert_eq!(places(line), Ok(vec![expected]), "{line}");
    }
    assert_eq!(["logp", "phases", "busy"].map(|line| places(line).unwrap().len()), [4, 3, 2]);
    for line in [
        "--serve --on xdp:eth1 --name beta",
        "serve --on udp:10.0.0.2:7000",
        "wakeup --rounds 2",
        "scale --members 3,5",
    ] {
        assert_eq!(places(line), Ok(vec![]), "{line}");
    }
}

#[test]
fn a_simulated_switch_has_more_hosts() {
    let of = |line| match parse(line).unwrap().command.unwrap() {
        Command::Contention(args) => (args.servers().unwrap(), args.clients, args.size),
        Command::Permute(args) => {
            (vec![], args.nodes.clone(), args.trunks().unwrap().iter().flatten().map(|_| 2).collect())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(
        of("contention"),
        (vec![Server::One, Server::Polled, Server::Threads], vec![1, 2, 4, 8, 16], vec![16, 1024])
    );
    let (servers, clients, _) = of("contention --hosts sim");
    assert_eq!((servers, clients.last()), (vec![Server::One, Server::Polled], Some(&256)));
    assert_eq!(of("contention --hosts sim --clients 1,9 --size 64").1, [1, 9]);
    assert_eq!(of("permute"), (vec![], vec![16], vec![]));
    assert_eq!(of("permute --hosts sim"), (vec![], vec![16, 92, 256], vec![2]));
    assert_eq!(of("permute --hosts sim --oversubscription 1").2, [0; 0]);
}

/// Wrong lines, and what names the mistake.
const WRONG: &[(&str, &str)] = &[
    ("", "name a command: latency, "),
    ("latency", "--hosts shm, udp or tcp"),
    ("latency --hosts veth --peer beta", "give one of them"),
    ("latency --hosts veth --on xdp:eth1", "--on is for two machines"),
    ("latency --hosts veth --name alpha", "--name is for two machines"),
    ("latency --hosts veth --driver am,am", "--driver names am twice"),
    ("latency --hosts veth --size 8,64K,65536", "--size names 65536 twice"),
    ("latency --hosts loopback --driver udp", "--driver am,raw"),
    ("latency --hosts loopback --mtu 1500", "--hosts loopback has frames of one length"),
    ("latency --hosts loopback --xdp native", "--xdp is for interfaces"),
    ("latency --hosts veth --driver cacheline", "--hosts shm"),
    ("rate --hosts shm --driver am,cacheline", "possible values: am, raw, udp"),
    ("latency --peer beta", "--on xdp:eth1"),
    ("latency --peer beta --name beta --on xdp:eth1", "have the same name"),
    ("latency --peer beta --on eth1", "no transport that am-bench knows"),
    ("latency --peer beta --on xdp:eth1 --mtu 1500", "an interface keeps its MTU"),
    ("latency --peer beta --on xdp:eth1 --cores 0,1", "each takes its own: --cores 0"),
    ("latency --peer beta --on xdp:eth1,queue=1", "takes no settings of an interface, and its queue 0"),
    ("latency --peer beta --on xdp:new+a,1,queue=1", "give --on xdp:new+a,1 alone"),
    ("serve --on xdp:eth1,queue", "give --on xdp:eth1 alone"),
    ("serve --on xdp:a,b,copy=always,queue=1", "give --on xdp:a,b alone"),
    ("latency --peer beta --on udp:10.0.0.1:7000 --driver udp", "--on udp"),
    ("latency --peer beta --on shm:lab+udp:10.0.0.1:7000 --driver raw", "--driver raw is not for --on shm+udp"),
    ("latency --peer beta --on xdp:eth1+udp:10.0.0.1:7000 --xdp native", "--xdp is for interfaces"),
    ("serve", "--on xdp:eth1"),
    ("serve --on shm:lab+moon:7", "`moon:7` is no transport that am-bench knows"),
    ("--serve --on sim:7", "--hosts sim"),
    (
        "serve --on moon:7",
        "no transport that am-bench knows; it knows shm:lab, amd:/run/amd/amd.sock, dpdk:net_memif0,role=server, xdp:eth1, udp:10.0.0.7:7000, tcp:10.0.0.7:7000",
    ),
    ("latency --peer beta --on sim:7,loss=0.01", "--hosts sim"),
    ("latency --hosts sim --on udp:127.0.0.1:0", "--on sim:7"),
    ("latency --hosts sim --on sim:7,loss=2", "loss=0.01"),
    ("latency --hosts sim --on sim:7,frame=4014 --mtu 4000", "omit one of them"),
    ("latency --hosts sim --mtu 100", "from 1500 to 65522"),
    ("bandwidth --sweep", "--hosts shm, udp or tcp"),
    ("bandwidth --sweep --hosts veth --size 16", "its own sizes"),
    ("bandwidth --hosts veth --bulk --plot a.svg", "--plot needs a curve: add --sweep or --loss"),
    ("bandwidth --hosts veth --loss 1,1", "--loss names 1 % twice"),
    ("bandwidth --hosts veth --loss 1 --driver raw", "--loss is for am"),
    ("ablation --peer beta --on udp:10.0.0.1:7000", "--on xdp:INTERFACE"),
    ("ablation --on xdp:eth1", "--on"),
    ("logp --driver am", "choose one with --hosts"),
    ("phases --xdp native", "--hosts veth"),
    ("busy --xdp native", "--hosts veth"),
    ("busy --calls 0", "--calls"),
    ("contention --clients 17", "at most 16 hosts"),
    ("contention --clients 4,2", "as in 1,4,16"),
    ("contention --hosts sim --server threads", "real threads"),
    ("permute --nodes 3", "even numbers"),
    ("permute --oversubscription 4", "a bridge has no trunk"),
    ("scale --members 17", "at most 16 members"),
    ("bounce --size full", "in bytes"),
    ("compare --cores 0", "two cores"),
    ("contention --size 8", "16 or more"),
    ("phases --size 1M", "up to 65536"),
    ("rpc --size 2M", "from 1 to 1048576"),
    ("rpc --size 1K,1K", "--size names 1024 twice"),
    ("ordered --members 17", "from 2 to 16"),
    ("ordered --hosts sim --members 65", "from 2 to 64"),
    ("ordered --hosts sim --size 1K", "null messages alone"),
    ("ordered --members 4,4", "--members names 4 twice"),
    ("ordered --size 2M", "from 1 to 1048576"),
    ("ordered --hosts memif", "possible values: veth, udp"),
    ("objects --members 1", "from 2 to 16"),
    ("objects --hosts sim", "possible values: veth, udp"),
    ("rpc --hosts loopback", "possible values: veth, udp"),
    ("pvm --slaves 5", "1, 2, 3, 4, 6"),
    ("pvm --hosts udp", "possible values: veth"),
    ("pvm --size 1K,1K", "--size names 1024 twice"),
    ("latency --peer a-name-of-more-than-thirty-one-bytes --on xdp:eth1", "--peer"),
    ("latency --size huge", "--size"),
    ("latency --cores 1,1", "--cores"),
    ("latency --time NaN", "--time"),
    ("bandwidth --loss 51", "--loss"),
];

#[test]
fn a_wrong_line_is_refused_by_what_is_wrong() {
    for (line, named) in WRONG {
        let said = places(line).expect_err(line);
        assert!(said.contains(named), "{line}: {said}");
    }
}

#[test]
fn files_are_checked_before_the_measurements() {
    for (line, named) in [
        ("latency --hosts veth --save .", "--save . cannot be written"),
        ("latency --hosts veth --save no/such/directory/a.jsonl", "a directory that exists"),
        ("latency --hosts sim --save /proc/a.jsonl", "where this user may write"),
        ("latency --hosts sim --trace /proc/a.pcap", "where this user may write"),
        ("latency --hosts sim --driver raw --trace a.pcap", "--trace is for am"),
        ("latency --hosts sim --save a --trace ./a", "name two"),
        ("compare --plot /proc/a.svg", "--plot /proc/a.svg"),
        ("compare --save a.svg --plot a.svg", "name two files"),
        ("logp --plot a.png", "a name that ends with .svg"),
        ("bandwidth --sweep --hosts veth --plot .", "--plot . cannot be written"),
        ("bandwidth --sweep --hosts veth --plot no/such/directory/a.svg", "a directory that exists"),
        ("bandwidth --loss 1 --hosts veth --save a.svg --plot ./a.svg", "name two files"),
    ] {
        let said = places(line).expect_err(line);
        assert!(said.contains(named), "{line}: {said}");
    }
}
