//! What the help of each command says otherwise than the help of all.

/// The options that a command does not take: command, options.
pub(super) const NOT_FOR: [(&str, &[&str]); 13] = [
    // It chooses these itself.
    ("demo", &["hosts", "serve", "peer", "on", "name", "mtu", "trace"]),
    // It has its own rows and sizes.
    ("ablation", &["driver", "size", "trace"]),
    // It has its own rows and its own cable.
    ("compare", &["serve", "peer", "on", "name", "driver", "coalesce", "trace"]),
    // Both rows are ours, and both sides are here.
    ("bounce", &["serve", "peer", "on", "name", "driver", "coalesce", "trace"]),
    // It has its own messages, and no rounds; both sides are here.
    ("stress", &["serve", "peer", "on", "name", "driver", "size", "rounds", "time", "warm_up", "trace"]),
    // It times a fixed number of single messages; both sides are here.
    ("phases", &["serve", "peer", "on", "name", "driver", "coalesce", "time", "warm_up", "trace"]),
    // It has its own cable, rows and sizes.
    ("table2", &["hosts", "serve", "peer", "on", "name", "driver", "size", "coalesce", "trace"]),
    // It is the near side, and sends one message a frame.
    ("logp", &["serve", "coalesce", "trace"]),
    // All hosts are here, and measure our messages.
    ("contention", &["serve", "peer", "on", "name", "driver", "trace"]),
    ("permute", &["serve", "peer", "on", "name", "driver", "trace"]),
    // All hosts are simulated: each round would have the same figures.
    ("scale", &["hosts", "serve", "peer", "on", "name", "cores", "driver", "size", "xdp", "rounds", "trace"]),
    // Its sides are threads, which take turns.
    (
        "wakeup",
        &[
            "hosts", "serve", "peer", "on", "name", "mtu", "cores", "driver", "size", "framing", "coalesce", "xdp",
            "time", "warm_up", "trace",
        ],
    ),
    // The near side chooses what to measure.
    (
        "serve",
        &[
            "hosts", "serve", "peer", "mtu", "driver", "size", "coalesce", "rounds", "time", "warm_up", "json", "save",
            "trace",
        ],
    ),
];

/// The values of options of which a command takes only some: command, option, values. Without a value the help names them.
pub(super) const OWN_VALUES: [(&str, &str, &[&str]); 10] = [
    ("bounce", "hosts", &["veth", "udp", "tcp", "shm", "memif", "virtio-user", "sim"]),
    ("stress", "hosts", &["veth", "udp", "tcp", "shm", "memif", "virtio-user"]),
    ("compare", "hosts", &[]),
    ("phases", "hosts", &[]),
    ("contention", "hosts", &[]),
    ("permute", "hosts", &[]),
    ("bandwidth", "driver", FRAMES),
    ("rate", "driver", FRAMES),
    ("logp", "driver", FRAMES),
    ("demo", "driver", FRAMES),
];

/// The drivers that have more than round trips.
const FRAMES: &[&str] = &["am", "raw", "udp"];

/// The help of options with another meaning for one command: command, option, help.
pub(super) const OWN_HELP: [(&str, &str, &str); 77] = [
    ("latency", "size", "Payload bytes of a message (64K, 1M), or `full` for as many as a frame holds [default: 16]"),
    ("latency", "time", "Length of one measurement [default: 0.25]"),
    ("latency", "coalesce", COALESCE),
    ("rate", "size", "Payload bytes of a message, or `full` for as many as a frame holds [default: 64]"),
    ("rate", "time", "Length of one measurement [default: 0.25]"),
    ("rate", "coalesce", COALESCE),
    (
        "bandwidth",
        "size",
        "Payload bytes of a message (64K, 1M), or `full` for as many as a frame holds [default: full; with --bulk 1M,64K,16M; \
         with --bulk --loss 1M]",
    ),
    ("bandwidth", "time", "Length of one measurement [default: 0.25; with --sweep 0.05]"),
    (
        "compare",
        "hosts",
        "The rows over one transport: udp, tcp, shm, memif or virtio-user; `veth` for every row [default: veth]",
    ),
    ("compare", "rounds", "How many turns each peer takes; ratios are medians over these rounds [default: 3]"),
    ("compare", "time", "Length of one measurement [default: 0.1]"),
    ("compare", "size", "Bytes of a message (64K, 1M) [default: 8,64,512,4K,32K,256K,1M]"),
    ("compare", "mtu", CABLE_MTU),
    ("compare", "cores", CORES),
    ("compare", "framing", BARE),
    ("ablation", "hosts", "Run both hosts on this machine [default: veth]"),
    ("ablation", "time", "Length of one measurement [default: 0.05]"),
    ("ablation", "framing", "Where our messages carry their header [default: bare; with --peer auto]"),
    ("ablation", "coalesce", COALESCE),
    ("bounce", "hosts", "Run both hosts on this machine: any but loopback [default: veth]"),
    ("bounce", "time", "Length of one measurement [default: 0.25]"),
    ("bounce", "size", "Payload bytes of a request, one size [default: 16]"),
    ("bounce", "cores", CORES),
    ("bounce", "framing", BARE),
    ("logp", "hosts", "Run both hosts on this machine [default: veth, udp, tcp and shm in turn]"),
    ("logp", "time", "Length of one measurement [default: 0.1]"),
    ("logp", "size", "Payload bytes of a request (64K, 1M), or `full` for as many as one frame holds [default: 16]"),
    ("logp", "framing", "Where our messages carry their header [default: bare; with --peer auto]"),
    ("logp", "driver", "With --hosts or --peer: the drivers to measure, in turn [default: all that it offers]"),
    (
        "logp",
        "mtu",
        "With --hosts: the MTU of the veth pair, 148 to 65535 [default: 1500], or the payload bytes of another transport's \
         frame, within its limits [default: the transport's own]",
    ),
    ("contention", "hosts", MANY_HOSTS),
    ("contention", "rounds", MANY_ROUNDS),
    ("contention", "time", "Length of one measurement [default: 0.2; with --hosts sim 0.01, in virtual time]"),
    ("contention", "warm_up", MANY_WARM_UP),
    ("contention", "size", "Bytes of a message, 16 or more [default: 16,1024]"),
    ("contention", "mtu", MANY_MTU),
    (
        "contention",
        "cores",
        "Two cores, or `none`; on a bridge the polling server has the second [default: the last two]",
    ),
    ("contention", "framing", SPLIT),
    ("contention", "coalesce", COALESCE_OURS),
    ("permute", "hosts", MANY_HOSTS),
    ("permute", "rounds", MANY_ROUNDS),
    ("permute", "time", "Length of one measurement [default: 0.2; with --hosts sim 0.001, in virtual time]"),
    ("permute", "warm_up", MANY_WARM_UP),
    ("permute", "size", "Bytes of a message, 16 or more, one size [default: 1024]"),
    ("permute", "mtu", MANY_MTU),
    (
        "permute",
        "cores",
        "Two cores, or `none`; the hosts on a bridge leave the second to others [default: the last two]",
    ),
    ("permute", "framing", SPLIT),
    ("permute", "coalesce", COALESCE_OURS),
    ("scale", "time", "Length of one measurement, in virtual time [default: 0.01]"),
    ("scale", "warm_up", MANY_WARM_UP),
    ("scale", "mtu", "Payload bytes of a frame, 1500 to 65522 [default: 1500]"),
    ("scale", "framing", SPLIT),
    ("scale", "coalesce", COALESCE_OURS),
    ("wakeup", "rounds", "How many turns each way to wait takes [default: 5]"),
    (
        "phases",
        "hosts",
        "Run both sides in threads of this process, over veth, udp, tcp, shm, memif or virtio-user [default: veth (where \
         rights allow), shm and udp in turn]",
    ),
    ("phases", "rounds", "How many turns each transport takes; figures are of all rounds' calls [default: 5]"),
    ("phases", "size", "Payload bytes of a message, up to 64K [default: 1,16,64,256,1K,1500,4K,16K]"),
    ("phases", "mtu", "Payload bytes of a frame over each transport, within its limits [default: 1500]"),
    ("phases", "cores", CORES),
    ("phases", "framing", BARE),
    ("table2", "time", "Length of one measurement [default: 0.25]"),
    ("table2", "mtu", CABLE_MTU),
    ("table2", "cores", CORES),
    ("table2", "framing", BARE),
    ("stress", "hosts", "Run both hosts on this machine, as two processes [default: veth]"),
    ("stress", "cores", CORES),
    ("stress", "framing", BARE),
    ("stress", "coalesce", "Whether several messages may share a frame [default: on]"),
    ("demo", "driver", "The drivers to measure, in turn [default: all]"),
    (
        "demo",
        "size",
        "Payload bytes of a message (64K, 1M), or `full` for as many as a frame holds [default: round trip 16, bandwidth \
         full]",
    ),
    ("demo", "time", "Length of one measurement [default: 0.1]"),
    ("demo", "cores", CORES),
    ("demo", "framing", BARE),
    ("demo", "coalesce", COALESCE),
    (
        "serve",
        "on",
        "The transport to the near sides, such as xdp:eth1 or udp:10.0.0.2:7000. An interface is named without queue= and \
         other settings",
    ),
    ("serve", "cores", "The core of this side, or `none` [default: the last]"),
    ("serve", "framing", "Where our messages carry their header until the near side says it [default: auto]"),
];

/// Both sides are here.
const CORES: &str = "Cores of the near and the far side, or `none` [default: the last two]";
const BARE: &str = "Where our messages carry their header [default: bare]";
const CABLE_MTU: &str = "MTU of the veth pair, 148 to 65535 [default: 1500]";
/// Without a sweep.
const COALESCE: &str = "Whether several of our messages may share a frame [default: off, so that each message has a frame, as \
                        with the other drivers]";
const COALESCE_OURS: &str = "Whether several messages may share a frame [default: off]";
/// Bare frames are for two nodes.
const SPLIT: &str = "Where our messages carry their header [default: split]";
const MANY_HOSTS: &str = "Where the hosts run: `veth`, in network namespaces on a bridge (root), or `sim`, on a simulated switch \
                          in virtual time [default: veth]";
const MANY_MTU: &str = "MTU of the bridge, 148 to 65535; with --hosts sim the payload bytes of a frame, 1500 to 65522 [default: \
                        1500]";
const MANY_ROUNDS: &str = "How many turns each measurement takes [default: 3; with --hosts sim 1]";
const MANY_WARM_UP: &str = "Time before each measurement that is not counted [default: as long as --time]";
