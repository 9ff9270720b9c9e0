use super::*;
use crate::deploy::processes::LocalTransport;

fn task(line: &str) -> Result<Task, Error> {
    Cli::try_parse_from(std::iter::once("am-bench").chain(line.split_whitespace())).expect(line).task()
}

/// The defaults.
fn stress() -> StressArgs {
    let (stalls, stops) = (Switch::On, Switch::On);
    StressArgs { messages: 1_000_000, bytes: None, loss: 1000, stalls, stops, seed: None }
}

#[test]
fn what_makes_sense() {
    let latency = |place| Task::Measure(Bench::Latency, place);
    let on = || "xdp:eth1".to_owned();
    for (line, expected) in [
        ("latency --hosts veth", latency(Topology::Veth(1500))),
        ("latency --hosts veth --mtu 3000 --cores 1,2", latency(Topology::Veth(3000))),
        ("--hosts loopback latency --driver am", latency(Topology::Loopback)),
        ("latency --peer beta --on xdp:eth1", latency(Topology::Peer("beta".to_owned(), on()))),
        ("latency --hosts udp --driver am,raw", latency(Topology::Processes(LocalTransport::Udp, None))),
        (
            "latency --hosts virtio-user --mtu 3000",
            latency(Topology::Processes(LocalTransport::VirtioUser, Some(3000))),
        ),
        ("latency --hosts shm --driver am,cacheline", latency(Topology::Processes(LocalTransport::Shm, None))),
        ("bandwidth --hosts loopback", Task::Measure(Bench::Bandwidth, Topology::Loopback)),
        ("bandwidth --sweep --hosts loopback", Task::Sweep(Topology::Loopback, None)),
        ("bandwidth --sweep --plot a.svg --hosts veth", Task::Sweep(Topology::Veth(1500), Some("a.svg".into()))),
        ("bandwidth --bulk --hosts veth", Task::Measure(Bench::Bulk, Topology::Veth(1500))),
        (
            "bandwidth --bulk --loss 0.01,1 --hosts veth",
            Task::Loss(Bench::Bulk, vec![Loss::NONE, Loss(10), Loss(1000)], Topology::Veth(1500), None),
        ),
        ("latency --peer beta --on xdp:eth1 --cores 1", latency(Topology::Peer("beta".to_owned(), on()))),
        ("--serve --on xdp:eth1", Task::Serve(on())),
        ("latency --serve --on xdp:eth1 --name beta", Task::Serve(on())),
        ("serve --on xdp:eth1", Task::Serve(on())),
        ("serve --on udp:10.0.0.2:7000", Task::Serve("udp:10.0.0.2:7000".to_owned())),
        ("latency --hosts sim", latency(Topology::Sim("sim:1,frame=1514".to_owned()))),
        ("latency --hosts sim --mtu 9000", latency(Topology::Sim("sim:1,frame=9014".to_owned()))),
        ("latency --hosts sim --on sim:7,loss=1%", latency(Topology::Sim("sim:7,loss=1%,frame=1514".to_owned()))),
        ("latency --peer beta --on shm:lab", latency(Topology::Peer("beta".to_owned(), "shm:lab".to_owned()))),
        ("demo", Task::Demo),
    ] {
        assert_eq!(task(line).expect(line), expected, "{line}");
    }
}

#[test]
fn wakeup_has_sides_of_its_own() {
    for option in ["--hosts shm", "--size 8", "--cores none"] {
        refused_with(&format!("wakeup {option}"), "--rounds");
    }
}

#[test]
fn phases_and_table2_have_sizes_and_rows_of_their_own() {
    let Ok(Task::Phases(topologies, sizes, None)) = task("phases") else { panic!("no phases") };
    assert_eq!((topologies.len(), sizes.first(), sizes.last()), (3, Some(&1), Some(&16384)));
    for (line, says) in [
        ("phases --hosts loopback", "--hosts veth"),
        ("phases --hosts sim", "real transport"),
        ("phases --time 1", "--rounds"),
        ("phases --size full", "--size in bytes"),
        ("phases --size 1M", "up to 65536"),
        ("phases --cores 1", "--cores A,B"),
        ("phases --xdp native", "--hosts veth"),
        ("table2 --hosts shm", "omit --hosts"),
        ("table2 --driver am", "--driver"),
        ("table2 --size 8", "--size"),
    ] {
        refused_with(line, says);
    }
}

#[test]
fn what_makes_sense_of_two_sides() {
    for (line, expected) in [
        ("scale", Task::Scale(vec![1, 2, 4, 8, 16])),
        ("scale --members 3,5 --json --hosts sim", Task::Scale(vec![3, 5])),
        ("scale --mtu 3000", Task::Scale(vec![1, 2, 4, 8, 16])),
        ("wakeup", Task::Wakeup),
        ("wakeup --rounds 2 --json", Task::Wakeup),
        ("table2", Task::Table2(1500, None)),
        ("table2 --wire 100mbit", Task::Table2(1500, "100mbit".parse().ok())),
        ("table2 --hosts veth --mtu 3000", Task::Table2(3000, None)),
        (
            "phases --size 64,1 --hosts shm",
            Task::Phases(vec![Topology::Processes(LocalTransport::Shm, Some(1500))], vec![1, 64], None),
        ),
        ("bounce", Task::Bounce(Topology::Veth(1500))),
        ("bounce --size 64 --rounds 3", Task::Bounce(Topology::Veth(1500))),
        ("bounce --hosts veth", Task::Bounce(Topology::Veth(1500))),
        ("bounce --mtu 3000", Task::Bounce(Topology::Veth(3000))),
        ("ablation --mtu 3000", Task::Ablation(Topology::Veth(3000))),
        ("ablation", Task::Ablation(Topology::Veth(1500))),
        ("ablation --hosts veth --mtu 3000", Task::Ablation(Topology::Veth(3000))),
        ("ablation --hosts loopback", Task::Ablation(Topology::Loopback)),
        ("logp --hosts sim", Task::LogP(vec![Topology::Sim("sim:1,frame=1514".to_owned())], None)),
        ("logp --peer beta --on xdp:eth1", Task::LogP(vec![Topology::Peer("beta".into(), "xdp:eth1".into())], None)),
        ("ablation --hosts udp --mtu 1500", Task::Ablation(Topology::Processes(LocalTransport::Udp, Some(1500)))),
        ("bounce --hosts shm", Task::Bounce(Topology::Processes(LocalTransport::Shm, None))),
        ("stress --hosts memif", Task::Stress(stress(), Topology::Processes(LocalTransport::Memif, None))),
        ("bandwidth --sweep --hosts tcp", Task::Sweep(Topology::Processes(LocalTransport::Tcp, None), None)),
        ("stress", Task::Stress(stress(), Topology::Veth(1500))),
        ("stress --hosts veth --mtu 3000 --messages 1e6", Task::Stress(stress(), Topology::Veth(3000))),
    ] {
        assert_eq!(task(line).expect(line), expected, "{line}");
    }
}

#[test]
fn what_makes_sense_of_many_hosts() {
    let hosts = |is_simulated, counts: &[usize], sizes: &[usize]| ManyHosts {
        is_simulated,
        counts: Clients(counts.to_vec()),
        sizes: sizes.to_vec(),
        plot: None,
    };
    let bridged = hosts(false, &[1, 2, 4, 8, 16], &[16, 1024]);
    for (line, expected) in [
        ("contention", Task::Contention(bridged.clone(), Server::ALL.to_vec())),
        ("contention --mtu 9000 --server one", Task::Contention(bridged, vec![Server::One])),
        (
            "contention --hosts sim --clients 1,256 --size 64",
            Task::Contention(hosts(true, &[1, 256], &[64]), vec![Server::One, Server::Polled]),
        ),
        ("permute", Task::Permute(hosts(false, &[16], &[1024]), Some(4))),
        ("permute --hosts sim --oversubscription 1", Task::Permute(hosts(true, &[16, 92, 256], &[1024]), None)),
    ] {
        assert_eq!(task(line).expect(line), expected, "{line}");
    }
}

#[test]
fn what_does_not() {
    for line in [
        "",
        "latency",
        "latency --hosts veth --peer beta",
        "latency --hosts veth --on xdp:eth1",
        "latency --hosts veth --driver am,am",
        "latency --hosts loopback --driver udp",
        "latency --hosts loopback --mtu 1500",
        "latency --hosts loopback --xdp native",
        "latency --peer beta",
        "latency --peer beta --name beta --on xdp:eth1",
        "latency --peer beta --on eth1",
        "latency --peer beta --on xdp:",
        "serve",
        "serve --on xdp:eth1 --peer alpha",
        "demo --hosts veth",
        "latency --hosts veth --save .",
        "latency --hosts veth --save no/such/directory/a.jsonl",
        "demo --serve",
        "demo --name alpha",
        "contention --hosts shm",
        "contention --clients 17",
        "contention --hosts sim --server threads",
        "contention --size 8",
        "contention --driver am",
        "permute --nodes 3",
        "permute --oversubscription 4",
        "permute --size 16,1024",
        "permute --peer beta --on xdp:eth1",
        "logp --driver am",
        "logp --mtu 3000",
        "logp --hosts veth --coalesce on",
    ] {
        refused(line);
    }
}

#[test]
fn a_trace_is_of_our_messages_and_in_a_file_of_its_own() {
    for (line, named) in [
        ("serve --on xdp:eth1 --trace a.pcap", "--trace"),
        ("latency --serve --on xdp:eth1 --trace a.pcap", "--trace"),
        ("ablation --trace a.pcap", "--trace"),
        ("compare --trace a.pcap", "--trace"),
        ("latency --hosts sim --trace /proc/a.pcap", "where this user may write"),
        ("latency --hosts sim --driver raw --trace a.pcap", "--trace is for am"),
        ("latency --hosts sim --save a --trace ./a", "name two"),
    ] {
        let said = task(line).expect_err(line).to_string();
        assert!(said.contains(named), "{line}: {said}");
    }
}

/// An option that would be ignored is refused, and the text names it.
#[test]
fn what_has_no_effect_is_refused() {
    for (line, named) in [
        ("stress --rounds 2", "--rounds"),
        ("stress --warm-up 1", "--warm-up"),
        ("compare --cores 0", "--cores A,B"),
        ("latency --hosts sim --save /proc/a.jsonl", "where this user may write"),
        ("compare --plot /proc/a.svg", "--plot /proc/a.svg"),
        ("logp --plot a.png", "a name that ends with .svg"),
        ("bandwidth --hosts veth --loss 1 --plot a", "a name that ends with .svg"),
        ("latency --peer beta --on xdp:eth1 --cores 0,1", "each takes its own: --cores 0"),
        ("serve --on xdp:eth1 --cores 0,1", "each takes its own: --cores 0"),
        ("serve --on xdp:eth1 --rounds 3", "--rounds"),
        ("serve --on xdp:eth1 --json", "--json"),
        ("bounce --serve --on xdp:eth1", "--serve"),
        ("bounce --coalesce on", "--coalesce"),
        ("scale --rounds 3", "--rounds"),
        ("bandwidth --hosts veth --loss 1 --driver raw", "--loss is for am"),
        ("bandwidth --hosts veth --bulk --plot a.svg", "--plot needs a curve: add --sweep or --loss"),
        ("latency --hosts veth --size 8,64K,65536", "--size names 65536 twice"),
        ("bandwidth --hosts veth --size full,full", "--size names full twice"),
        ("latency --hosts loopback --mtu 9000", "--hosts loopback has frames of one length"),
        ("bounce --name alpha", "--name"),
        ("rate --hosts shm --driver am,cacheline", "for latency"),
        ("latency --peer beta --on udp:10.0.0.1:7000 --driver udp", "--on udp"),
        ("latency --peer beta --on shm:lab --driver raw", "--on shm"),
        ("serve --on udp:10.0.0.1:7000 --xdp native", "--xdp"),
        ("serve --on xdp:eth1,attach=native", "--on xdp:eth1 alone"),
        ("latency --peer beta --on xdp:eth1,queue=1", "takes no settings of an interface, and its queue 0"),
        (
            "serve --on moon:7",
            "no transport that am-bench knows; it knows shm:lab, amd:/run/amd/amd.sock, dpdk:net_memif0,role=server, xdp:eth1, udp:10.0.0.7:7000, tcp:10.0.0.7:7000",
        ),
    ] {
        refused_with(line, named);
    }
}

/// Hosts and transports that a task cannot use are refused, and the text names what it can.
#[test]
fn what_does_not_fit_the_hosts_is_refused() {
    for (line, named) in [
        ("latency", "--hosts shm, udp or tcp"),
        ("ablation --peer beta --on udp:10.0.0.1:7000", "--on xdp:INTERFACE"),
        ("bounce --hosts loopback", "no loopback"),
        ("bounce --hosts shm --xdp native", "--xdp is for interfaces"),
        ("stress --hosts loopback", "two processes"),
        ("stress --name alpha", "--name"),
        ("compare --hosts loopback", "--hosts veth for every row"),
        ("latency --hosts veth --driver cacheline", "--hosts shm"),
        ("latency --hosts veth --name alpha", "--name"),
    ] {
        refused_with(line, named);
    }
}

/// There are no bare frames over several transports.
#[test]
fn what_several_transports_are_no_good_for_is_refused() {
    for (line, named) in [
        ("serve --on shm:lab+moon:7", "`moon:7` is no transport that am-bench knows"),
        ("latency --peer beta --on shm:lab+udp:10.0.0.1:7000 --driver raw", "--driver raw is not for --on shm+udp"),
        ("latency --peer beta --on xdp:eth1+udp:10.0.0.1:7000 --xdp native", "--xdp is for interfaces"),
        ("ablation --peer beta --on xdp:eth1+udp:10.0.0.1:7000", "--on xdp:INTERFACE"),
    ] {
        refused_with(line, named);
    }
}

/// A simulated network lives in one process.
#[test]
fn what_no_simulated_network_is_good_for_is_refused() {
    for (line, named) in [
        ("serve --on sim:7", "--hosts sim"),
        ("latency --peer beta --on sim:7,loss=0.01", "--hosts sim"),
        ("latency --hosts sim --on udp:127.0.0.1:0", "--on sim:7"),
        ("latency --hosts sim --on sim:7,loss=2", "loss=0.01"),
        ("latency --hosts sim --on sim:7,frame=4014 --mtu 4000", "omit one of them"),
        ("latency --hosts sim --mtu 100", "from 1500 to 65522"),
        ("latency --hosts sim --driver udp", "--driver am,raw"),
        ("latency --hosts sim --xdp native", "no --xdp"),
        ("latency --hosts sim --name alpha", "--name"),
        ("stress --hosts sim", "two processes"),
        ("compare --hosts sim", "--hosts veth for every row"),
    ] {
        refused_with(line, named);
    }
}

/// The command line is refused, and the text contains `named`.
fn refused_with(line: &str, named: &str) {
    let error = task(line).expect_err(line);
    assert!(error.exit_code() == 2 && error.to_string().contains(named), "{line}: {error}");
}

fn refused(line: &str) {
    refused_with(line, "");
}

#[test]
fn what_does_not_of_curves_and_tables() {
    for line in [
        "bandwidth --sweep",
        "bandwidth --sweep --hosts veth --size 16",
        "bandwidth --sweep --hosts veth --plot .",
        "bandwidth --sweep --hosts veth --plot no/such/directory/a.svg",
        "bandwidth --sweep --hosts loopback --driver udp",
        "bandwidth --sweep --hosts veth --save a.svg --plot a.svg",
        "bandwidth --sweep --hosts veth --save a.svg --plot ./a.svg",
        "bandwidth --loss 1 --hosts veth --save a.svg --plot a.svg",
        "compare --save a.svg --plot a.svg",
        "bandwidth --hosts veth --loss 1,1",
        "bandwidth --hosts veth --loss 1 --plot .",
        "bounce --driver am",
        "bounce --hosts loopback",
        "bounce --peer beta --on xdp:eth1",
        "bounce --size full",
        "ablation --driver am",
        "ablation --size 16",
        "ablation --on xdp:eth1",
        "stress --hosts loopback",
        "stress --peer beta --on xdp:eth1",
        "stress --size 16",
    ] {
        refused(line);
    }
}

#[test]
fn values_are_checked() {
    for line in [
        "latency --hosts veth --rounds 0",
        "latency --hosts veth --rounds 1001",
        "latency --hosts veth --rounds 18446744073709551615",
        "latency --peer a-name-of-more-than-thirty-one-bytes --on xdp:eth1",
        "serve --name= --on xdp:eth1",
        "latency --size 0",
        "latency --size huge",
        "latency --cores 1,1",
        "latency --cores 1,2,3",
        "latency --time 0",
        "latency --time -1",
        "latency --time 1e300",
        "latency --time NaN",
        "latency --framing tagged",
        "latency --driver tcp",
        "latency --xdp offload",
        "latency --hosts moon",
        "latency --sweep",
        "bandwidth --loss 0",
        "bandwidth --loss 51",
        "bandwidth --sweep --bulk",
        "bandwidth --sweep --loss 1",
        "stress --loss 100%",
        "stress --bytes many",
        "latency --messages 7",
    ] {
        let line = std::iter::once("am-bench").chain(line.split_whitespace());
        assert!(Cli::try_parse_from(line.clone()).is_err(), "{:?}", line.collect::<Vec<_>>());
    }
}
