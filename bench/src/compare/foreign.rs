//! Foreign programs. A script for each (`bench/peers`) runs both sides in a sandbox and prints lines of JSON.
//!
//! ```text
//!   am-bench compare        a sandbox: its own processes, mounts, System V memory, host names; the near side's network
//!  ┌───────────────┐ stdin ┌──────────────────────────────────────────────────────────────┐
//!  │  run(command) ├──────▶│ sandbox.sh: process 1, empty /tmp and /dev/shm               │
//!  │ with a limit  │◀──────┤     └─ PEER.sh ─┬─ client        near side, one core         │
//!  └──────┬────────┘ JSON  │                 └─ far.sh ─▶ server   far side, another      │
//!         │                └──────────────────────────────────────────────────────────────┘
//!         └─ is gone, or has waited long enough: stdin closes, process 1 ends, and the kernel kills all
//!            others; the mounts go with them
//! ```

use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::rows::{Figures, Settings, Turn};
use am_measure::deploy::{Group, Pair};
use am_measure::{Error, Watch};

const SANDBOX: &str = include_str!("../../peers/sandbox.sh");

/// The files in the sandbox.
const FILES: [(&str, &str); 12] = [
    ("far.sh", include_str!("../../peers/far.sh")),
    ("agent.sh", include_str!("../../peers/agent.sh")),
    ("peer.sh", include_str!("../../peers/peer.sh")),
    ("measure.h", include_str!("../../peers/measure.h")),
    ("mpi.c", include_str!("../../peers/mpi.c")),
    ("pvm.c", include_str!("../../peers/pvm.c")),
    ("sockperf.sh", include_str!("../../peers/sockperf.sh")),
    ("iperf3.sh", include_str!("../../peers/iperf3.sh")),
    ("ucx.sh", include_str!("../../peers/ucx.sh")),
    ("fi.sh", include_str!("../../peers/fi.sh")),
    ("mpi.sh", include_str!("../../peers/mpi.sh")),
    ("pvm.sh", include_str!("../../peers/pvm.sh")),
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
fn command(job: &str, far: &str) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts", "sh", "-c", SANDBOX, "sandbox"])
        .args([job, far])
        .args(FILES.iter().flat_map(|(name, text)| [name, text]))
        .env("AM_BENCH_CORES", "none,none");
    command
}

/// The lines of JSON. Launchers print other lines in between.
fn lines(output: &Output) -> Result<Vec<Line>, String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| line.starts_with('{')).map(serde_json::from_str);
    let lines: Vec<Line> = lines.collect::<Result<_, _>>().unwrap_or_default();
    let are_numbers = |line: &Line| match line {
        Line::Version { .. } => true,
        Line::Figures(Figures { p50, p99, mean, messages, cpu, .. }) => {
            [p50, p99, mean, messages, cpu].into_iter().flatten().all(|figure| *figure >= 0.0)
        }
    };
    match !lines.is_empty() && lines.iter().all(are_numbers) {
        true => Ok(lines),
        false => Err(format!("its output cannot be parsed: `{}`", end_of(&output.stdout))),
    }
}

/// The version of the program that a script of this peer drives.
pub(super) fn version(name: &str, script: &str, watch: &Watch) -> Result<String, String> {
    // All words but the last name the program.
    let program = script.rsplit_once(' ').map_or(script, |(program, _)| program);
    let output = run(&mut command(&format!("{program} version"), ""), &[], VERSION_TIMEOUT, watch);
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
    let mut command = command(script, &far.path());
    let core = |core: Option<usize>| core.map_or("none".to_owned(), |core| core.to_string());
    let sizes: Vec<String> = settings.sizes.iter().map(usize::to_string).collect();
    command
        .env("AM_BENCH_CORES", format!("{},{}", core(settings.cores.near), core(settings.cores.far)))
        .env("TIME", settings.amount.time.as_nanos().to_string())
        .env("WARM_UP", settings.amount.warm_up.as_nanos().to_string())
        .env("SIZES", sizes.join(" "));
    let output = near.enter(|| run(&mut command, &[], settings.limit, watch))??;
    if !output.status.success() {
        let status = output.status;
        return Err(Error::Facility(format!(
            "{name} ({status}): {}",
            end_of(&[output.stdout, output.stderr].concat())
        )));
    }
    Ok(figures(lines(&output).map_err(Error::Facility)?, mode))
}

fn figures(lines: Vec<Line>, mode: &str) -> Turn {
    let figures = |line| if let Line::Figures(figures) = line { Some(figures) } else { None };
    Turn { mode: mode.to_owned(), all: lines.into_iter().filter_map(figures).collect() }
}

/// The limit of a program's output.
const MAX_OUTPUT: usize = 1 << 20;
/// The limit of the characters of output in an error.
const MAX_ERROR_CHARS: usize = 300;
/// How often the caller is asked whether to go on.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Run a program until it ends, with this input. Its standard input is a pipe that closes when this process ends. After
/// an error, the program and its process group have ended too.
pub(super) fn run(command: &mut Command, input: &[u8], limit: Duration, watch: &Watch) -> Result<Output, Error> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut group = Group::start(command, "starting a program")?;
    if let Some(stdin) = &mut group.0.stdin {
        // A program that does not read it says why.
        let _ = stdin.write_all(input);
    }
    let mut readers = [read(group.0.stdout.take()), read(group.0.stderr.take())];
    let (mut texts, mut status, begin) = ([Vec::new(), Vec::new()], None, Instant::now());
    while status.is_none() || readers.iter().any(Option::is_some) {
        watch.check()?;
        if begin.elapsed() > limit {
            return Err(Error::Facility(format!("it did not end within {} s", limit.as_secs_f64())));
        }
        for (reader, text) in readers.iter_mut().zip(&mut texts) {
            let Some(ended) = reader.take_if(|reader| reader.is_finished()) else { continue };
            *text = ended.join().unwrap_or_default();
            if text.len() > MAX_OUTPUT {
                let mebibytes = MAX_OUTPUT >> 20;
                return Err(Error::Facility(format!("it was killed because it printed more than {mebibytes} MiB")));
            }
        }
        status = group.0.try_wait().map_err(Error::system("starting a program"))?;
        sleep(CHECK_INTERVAL);
    }
    let [stdout, stderr] = texts;
    Ok(Output { status: status.unwrap_or_default(), stdout, stderr })
}

/// Read an output on its own thread, because a program blocks on a full pipe.
fn read(output: Option<impl Read + Send + 'static>) -> Option<JoinHandle<Vec<u8>>> {
    let output = output?;
    Some(thread::spawn(move || {
        let mut text = Vec::new();
        // Bytes read before an error count.
        let _ = output.take(MAX_OUTPUT as u64 + 1).read_to_end(&mut text);
        text
    }))
}

/// The end of an output, on one line. A program that fails prints its reason last.
fn end_of(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let said: String = said.chars().filter(|c| !c.is_control() || *c == '\n').collect();
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text: Vec<char> = lines.join("; ").chars().collect();
    let end: String = text[text.len().saturating_sub(MAX_ERROR_CHARS)..].iter().collect();
    if end.is_empty() { "it printed nothing".to_owned() } else { end }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The compiler's wrapper and the launcher are in another package than the header.
    #[test]
    fn a_compiler_without_the_header_is_not_installed() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        FILES.iter().for_each(|(name, text)| fs::write(directory.path().join(name), text).unwrap());
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
        FILES.iter().for_each(|(name, text)| fs::write(directory.path().join(name), text).unwrap());
        let peer = FILES.iter().find(|(name, _)| *name == "peer.sh").unwrap().1;
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
