//! Foreign programs, each turn in its own sandbox.

use std::process::Output;
use std::time::Duration;

use serde::Deserialize;

use super::rows::{Figures, Settings, Turn};
use am_measure::deploy::Pair;
use am_measure::sandbox::{self, Job, end_of, run, run_well};
use am_measure::{Error, Watch};

/// The files in the sandbox.
const FILES: [(&str, &str); 10] = [
    ("mpi.c", include_str!("../../peers/mpi.c")),
    ("sockperf.sh", include_str!("../../peers/sockperf.sh")),
    ("iperf3.sh", include_str!("../../peers/iperf3.sh")),
    ("ucx.sh", include_str!("../../peers/ucx.sh")),
    ("fi.sh", include_str!("../../peers/fi.sh")),
    ("mpi.sh", include_str!("../../peers/mpi.sh")),
    ("uring.c", include_str!("../../peers/uring.c")),
    ("uring.sh", include_str!("../../peers/uring.sh")),
    sandbox::PVM_FILES[0],
    sandbox::PVM_FILES[1],
];

/// The limit of a request for the version, on a busy machine with a slow disk.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// A line that a script prints.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Version { version: String },
    Figures(Figures),
}

/// A script in a sandbox. `far` is the network namespace of its far side.
fn job<'a>(script: &'a str, far: &'a str) -> Job<'a> {
    Job { script, far, files: &FILES, library: None }
}

/// The lines of JSON.
fn lines(output: &Output) -> Result<Vec<Line>, String> {
    let lines: Vec<Line> = sandbox::lines(output)?;
    let are_numbers = |line: &Line| match line {
        Line::Version { .. } => true,
        Line::Figures(Figures { p50, p99, mean, messages, cpu, .. }) => {
            [p50, p99, mean, messages, cpu].into_iter().flatten().all(|figure| *figure >= 0.0)
        }
    };
    if lines.iter().all(are_numbers) { Ok(lines) } else { Err(sandbox::unreadable(output)) }
}

/// The version of the program that a script of this peer drives.
pub(super) fn version(name: &str, script: &str, watch: &Watch) -> Result<String, String> {
    // All words but the last name the program.
    let program = script.rsplit_once(' ').map_or(script, |(program, _)| program);
    let output = run(&mut job(&format!("{program} version"), "").command(), &[], VERSION_TIMEOUT, watch);
    let output = output.map_err(|why| format!("{name} does not say its version: {why}"))?;
    if !output.status.success() {
        return Err(end_of(&[output.stdout, output.stderr].concat()));
    }
    let version = |line| if let Line::Version { version } = line { Some(version) } else { None };
    lines(&output)?.into_iter().find_map(version).ok_or_else(|| format!("{name} does not say its version"))
}

/// Measure everything once by the script of this peer, in this mode.
pub(super) fn turn(
    (name, script, mode): (&str, &str, &str),
    pair: &Pair,
    settings: &Settings,
    watch: &Watch,
) -> Result<Turn, Error> {
    let [near, far] = &pair.hosts;
    let mut command = job(script, &far.path()).measure(settings.amount, settings.cores, &settings.sizes);
    let output = near.enter(|| run_well(name, &mut command, settings.limit, watch))??;
    Ok(figures(lines(&output).map_err(Error::Facility)?, mode))
}

fn figures(lines: Vec<Line>, mode: &str) -> Turn {
    let figures = |line| if let Line::Figures(figures) = line { Some(figures) } else { None };
    Turn { mode: mode.to_owned(), all: lines.into_iter().filter_map(figures).collect() }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// The compiler's wrapper and the launcher are in another package than the header.
    #[test]
    fn a_compiler_without_the_header_is_not_installed() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        sandbox::FILES
            .iter()
            .chain(&FILES)
            .for_each(|(name, text)| fs::write(directory.path().join(name), text).unwrap());
        let found = |compiler: &str| {
            for name in ["mpicc.openmpi", "mpirun.openmpi"] {
                let path = directory.path().join(name);
                fs::write(&path, format!("#!/bin/sh\ncase $1 in --version) echo 4.1.4 && exit ;; esac\n{compiler}\n"))
                    .unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
            let mut command = Command::new("sh");
            command.args(["mpi.sh", "openmpi", "version"]).current_dir(&directory);
            command.envs([("PATH", path.as_str()), ("AM_BENCH_CORES", "none,none")]);
            let output = run(&mut command, &[], VERSION_TIMEOUT, &Watch::default()).unwrap();
            output.status.success().then_some(output.stdout).ok_or_else(|| end_of(&output.stderr))
        };
        assert_eq!(found("cat").unwrap(), b"{\"version\":\"4.1.4\"}\n");
        let said = found("echo 'fatal error: mpi.h: No such file or directory' && exit 1").unwrap_err();
        assert!(said.contains("mpicc.openmpi finds no mpi.h: scripts/setup --with-peers"), "{said}");
    }

    /// The lines that a script prints if the program it starts prints `sample`.
    fn read(script: &str, sample: &str) -> Result<Vec<Line>, String> {
        let directory = tempfile::tempdir().unwrap();
        sandbox::FILES
            .iter()
            .chain(&FILES)
            .for_each(|(name, text)| fs::write(directory.path().join(name), text).unwrap());
        let peer = sandbox::FILES.iter().find(|(name, _)| *name == "peer.sh").unwrap().1;
        let peer = format!("{peer}\nserve() {{ :; }}\nclient() {{ cp sample client; }}\n");
        fs::write(directory.path().join("peer.sh"), peer).unwrap();
        fs::write(directory.path().join("sample"), sample).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("sh {script}")]).current_dir(&directory);
        command.envs([("SIZES", "64"), ("TIME", "1000"), ("WARM_UP", "0"), ("AM_BENCH_CORES", "none,none")]);
        let output = run(&mut command, &[], VERSION_TIMEOUT, &Watch::default()).unwrap();
        if output.status.success() { lines(&output) } else { Err(end_of(&output.stderr)) }
    }

    fn one_way(size: usize, p50: f64, p99: f64, mean: f64) -> Figures {
        Figures { size, p50: Some(p50), p99: Some(p99), mean: Some(mean), ..Figures::default() }
    }

    fn turn_of(script: &str, sample: &str) -> Turn {
        figures(read(script, sample).unwrap(), "")
    }

    #[test]
    fn sockperf_tells_half_of_a_round_trip_and_a_rate() {
        let pings = "\
sockperf: [Total Run] RunTime=1.004 sec; Warm up time=400 msec; SentMessages=7859; ReceivedMessages=7858
sockperf: \x1b[2;35m====> avg-latency=67.655 (std-dev=483.323)\x1b[0m
sockperf: ---> percentile 99.900 = 4030.156
sockperf: ---> percentile 99.000 = 3993.678
sockperf: ---> percentile 50.000 =    7.263
";
        let one_way = one_way(64, 7263.0, 3_993_678.0, 67_655.0);
        assert_eq!(turn_of("sockperf.sh tcp", pings).all, [one_way; 2]);
        let stream = turn_of("sockperf.sh udp", "sockperf: Summary: Message Rate is 83675 [msg/sec]\n").all[0];
        assert_eq!((stream.messages, stream.cpu), (Some(83_675.0), None));
    }

    #[test]
    fn iperf3_tells_bits_a_second_and_cores() {
        let sample = r#"{ "end": { "sum_sent": {
            "bits_per_second": 84993400.6863286
            }, "sum_received": {
            "seconds": 1.003901,
            "bits_per_second": 72740240.32250193
            }, "cpu_utilization_percent": {
            "host_total": 29.156374963335036,
            "host_user": 3.1,
            "remote_total": 48.09648083033677 } } }"#;
        let stream = turn_of("iperf3.sh tcp", sample).all[0];
        assert_eq!((stream.messages.map(f64::round), stream.cpu.map(f64::round)), (Some(142_071.0), Some(5438.0)));
        let stream = turn_of("iperf3.sh tcp", "\"sum_received\": {\n\"bits_per_second\": 512\n}\n").all[0];
        assert_eq!((stream.messages, stream.cpu), (Some(1.0), None), "what is missing is a dash");
    }

    #[test]
    fn ucx_tells_two_percentiles_by_two_measurements() {
        let sample = "\
batch,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
lat-50-8,2000,9.150,45.572,45.572,0.17,0.17,21943,21943
lat-99-8,2000,2052.374,58.805,58.805,0.13,0.13,17005,17005
bw-0-64,20000,10.108,20.854,20.854,2.93,2.93,47953,47953
";
        let turn = turn_of("ucx.sh shm", sample);
        let one_way = one_way(8, 9150.0, 2_052_374.0, 45_572.0);
        assert_eq!((turn.all[0], turn.all[1].messages), (one_way, Some(47_953.0)));
    }

    #[test]
    fn libfabric_tells_the_mean() {
        let sample = "\
bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64      2k      =2k      250k        0.13s      1.94      32.91       0.03
";
        let one_way = Figures { size: 64, mean: Some(32_910.0), ..Figures::default() };
        assert_eq!(turn_of("fi.sh tcp", sample).all, [one_way]);
    }

    #[test]
    fn strange_output_is_an_error() {
        for script in ["sockperf.sh tcp", "iperf3.sh tcp", "ucx.sh tcp", "fi.sh udp"] {
            for sample in [
                "",
                "{}",
                "percentile 50.000 = none\nMessage Rate is many",
                "\"sum_received\": {\n\"bits_per_second\": many\n}",
                "lat-50-8",
                "bw-0-8,1,2,3,4,5,6,7,many",
                "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n",
                "a b c d e f g h",
                "\u{fffd}",
            ] {
                let why = read(script, sample).expect_err(script);
                assert!(why.starts_with("its output cannot be parsed: `"), "{script}: {sample}: {why}");
            }
        }
    }
}
