//! The groups of options that commands share. A command flattens those that it takes, and may change a default or the
//! possible values of one by `mut_arg`.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use am_wire::control::Name;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::cores::{Cores, CoresArg};
use crate::driver::Driver;
use crate::error::Error;
use crate::out;
use crate::plan::{Amount, DriverOptions, FramingArg, XdpArg};
use crate::report::Report;
use crate::size::Size;

/// A mistake on the command line.
pub fn usage(text: impl Into<String>) -> Error {
    Error::Usage(text.into())
}

/// The default payload of a frame on a cable, and on a simulated network.
pub const DEFAULT_MTU: u32 = 1500;

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the help lists the names alone")]
pub enum Switch {
    On,
    Off,
}

impl Switch {
    /// Whether it is on.
    pub fn is_on(self) -> bool {
        self == Switch::On
    }
}

/// Takes these values only, and the help lists them.
pub fn only<T: ValueEnum + Send + Sync>(values: &'static [T]) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(values.iter().filter_map(T::to_possible_value));
    names.try_map(|name| T::from_str(&name, false))
}

/// The drivers that have more than round trips.
pub const STREAMS: &[Driver] = &[Driver::Am, Driver::Raw, Driver::Udp];

/// The cores of both sides.
#[derive(Clone, Debug, Default, Args)]
pub struct CoresOption {
    /// Cores of the near and the far side, or `none` [default: the last two]
    #[arg(long, value_name = "A,B", value_parser = two_cores, help_heading = "Where")]
    pub cores: Option<CoresArg>,
}

impl CoresOption {
    /// The cores of both sides on this machine.
    pub fn both(&self) -> Result<Cores, Error> {
        Cores::both(self.cores.unwrap_or_default())
    }
}

/// Which drivers are measured.
#[derive(Clone, Debug, Args)]
pub struct DriverOption {
    /// The drivers to measure, in turn [default: all that --hosts or --on offers]
    #[arg(long, value_delimiter = ',', value_name = "DRIVER,...", help_heading = "What")]
    pub driver: Vec<Driver>,
}

/// Which sizes are measured.
#[derive(Clone, Debug, Args)]
pub struct SizeOption {
    /// Payload bytes of a message (64K, 1M), or `full` for as many as one frame holds
    #[arg(long, value_delimiter = ',', value_name = "BYTES,...", help_heading = "What")]
    pub size: Vec<Size>,
}

impl SizeOption {
    /// Each size once.
    pub fn check(&self) -> Result<(), Error> {
        let text = |size: &Size| if let Size::Bytes(bytes) = size { bytes.to_string() } else { "full".to_owned() };
        check_once("--size", &self.size.iter().map(text).collect::<Vec<_>>())
    }
}

/// How the XDP program and the frames of a driver are set up.
#[derive(Clone, Debug, Args)]
pub struct OpenOptions {
    /// Where our messages carry their header [default: bare; with --peer and --serve auto]
    #[arg(long, value_enum, value_name = "FRAMING", help_heading = "What")]
    pub(crate) framing: Option<FramingArg>,
    /// Where the XDP program of am and raw runs, on both sides [default: auto]
    #[arg(long, value_enum, value_name = "WHERE", help_heading = "What")]
    pub xdp: Option<XdpArg>,
}

impl OpenOptions {
    /// How drivers are opened; `framing` is the default.
    pub fn how(&self, framing: FramingArg) -> DriverOptions {
        let (framing, xdp) = (self.framing.unwrap_or(framing), self.xdp.unwrap_or_default());
        DriverOptions { framing, xdp, ..DriverOptions::default() }
    }
}

/// Whether messages share frames.
#[derive(Clone, Debug, Args)]
pub struct CoalesceOption {
    /// Whether several of our messages may share a frame. Off, each message has a frame, as with the other drivers
    #[arg(long, value_enum, default_value = "off", value_name = "ON|OFF", help_heading = "What")]
    pub coalesce: Switch,
}

/// How much is measured.
#[derive(Clone, Debug, Args)]
pub struct AmountOptions {
    /// How many turns.
    #[command(flatten)]
    pub rounds: RoundsOption,
    /// Length of one measurement
    #[arg(long, default_value = "0.25", value_parser = seconds, value_name = "SECONDS", help_heading = "How much")]
    pub time: Duration,
    /// Time before each measurement that is not counted [default: a fifth of --time]
    #[arg(long, value_parser = seconds, value_name = "SECONDS", help_heading = "How much")]
    pub warm_up: Option<Duration>,
}

impl AmountOptions {
    /// The amount that the options say.
    pub fn amount(&self) -> Amount {
        let warm_up = self.warm_up.unwrap_or(self.time / 5);
        Amount { rounds: self.rounds.rounds, time: self.time, warm_up }
    }
}

/// How many turns.
#[derive(Clone, Debug, Args)]
pub struct RoundsOption {
    /// How many turns each row takes; a ratio is the median over these rounds
    // A session keeps every measurement of every round.
    #[arg(long, default_value = "9", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000), value_name = "N",
          help_heading = "How much")]
    pub rounds: usize,
}

/// What is printed, and saved.
#[derive(Clone, Debug, Default, Args)]
pub struct Print {
    /// Print JSON lines instead of a table
    #[arg(long, help_heading = "How much")]
    pub json: bool,
    /// Also write the JSON lines to this file
    #[arg(long, value_name = "FILE", help_heading = "How much")]
    pub save: Option<PathBuf>,
}

impl Print {
    /// Check before the measurements that their file can be written.
    pub fn check(&self) -> Result<(), Error> {
        check_file("--save", self.save.as_deref())
    }

    /// Print the lines or the text, and write the lines to the file of `--save`.
    pub fn publish(&self, mut report: Report, origin: &Origin) -> Result<(), Error> {
        origin.stamp(&mut report.lines, SystemTime::now());
        let lines: String = report.lines.iter().map(|line| format!("{line}\n")).collect();
        // If one of the two fails, the other must still have the figures.
        let said = out::print(if self.json { &lines } else { &report.text });
        if let Some(file) = &self.save {
            fs::write(file, &lines).map_err(Error::system("writing the file of --save"))?;
        }
        said
    }
}

/// Where a plot is written.
#[derive(Clone, Debug, Default, Args)]
pub struct PlotOption {
    /// Plot the figures, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

impl PlotOption {
    /// The plot has a file of its own. A program takes a file for what its name says, so the name says SVG.
    pub fn check(&self, print: &Print) -> Result<(), Error> {
        print.check()?;
        let Some(plot) = self.plot.as_deref() else { return Ok(()) };
        check_file("--plot", Some(plot))?;
        let (name, is_svg) =
            (plot.display(), plot.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("svg")));
        if !is_svg && (plot.is_file() || !plot.exists()) {
            return Err(usage(format!("--plot {name}: the plot is SVG: give a name that ends with .svg")));
        }
        apart("--save", print.save.as_deref(), "--plot", plot)
    }

    /// Draw the plot, and write it to its file, if one was asked for.
    pub fn write(&self, svg: impl FnOnce() -> Result<String, Error>) -> Result<(), Error> {
        let Some(file) = &self.plot else { return Ok(()) };
        fs::write(file, svg()?).map_err(Error::system("writing the plot"))
    }
}

/// Check that two options name two files.
pub fn apart(option: &str, file: Option<&Path>, other: &str, its: &Path) -> Result<(), Error> {
    match file.filter(|file| is_same(file, its)) {
        Some(file) => Err(usage(format!(
            "{option} {} and {other} {} are one file: name two files",
            file.display(),
            its.display()
        ))),
        None => Ok(()),
    }
}

/// No value may appear twice.
pub fn check_once<T: PartialEq + Display>(option: &str, values: &[T]) -> Result<(), Error> {
    match values.iter().enumerate().find(|(nth, value)| values[..*nth].contains(value)) {
        Some((_, twice)) => Err(usage(format!("{option} names {twice} twice"))),
        None => Ok(()),
    }
}

/// Whether both paths name one file, which need not exist yet.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let place = |file: &Path| {
        let place = || Some(directory(file).canonicalize().ok()?.join(file.file_name()?));
        file.canonicalize().ok().or_else(place).unwrap_or_else(|| file.to_owned())
    };
    place(one) == place(other)
}

/// Check before the measurements that a file can be written after them.
pub fn check_file(option: &str, file: Option<&Path>) -> Result<(), Error> {
    let Some(file) = file else { return Ok(()) };
    let unusable = |what: &str| Err(Error::Usage(format!("{option} {} cannot be written{what}", file.display())));
    if file.is_dir() || !directory(file).is_dir() {
        return unusable(": name a file in a directory that exists");
    }
    match try_to_write(file) {
        Ok(()) => Ok(()),
        Err(why) => unusable(&format!(", {why}: name a file where this user may write")),
    }
}

/// Open the file for writing. An existing file stays as it is, and a new one is removed again.
fn try_to_write(file: &Path) -> io::Result<()> {
    match File::create_new(file) {
        Ok(_) => fs::remove_file(file),
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        // Opening a pipe would wait for its reader.
        Err(_) if file.metadata().is_ok_and(|of| of.is_file()) => File::options().write(true).open(file).map(drop),
        Err(_) => Ok(()),
    }
}

fn directory(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where and when a report was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The transport of our messages and bare frames.
    transport: String,
    mtu: Option<u32>,
}

impl Origin {
    /// Over this transport, with this payload of a frame.
    pub fn new(transport: &str, mtu: Option<u32>) -> Origin {
        Origin { transport: transport.to_owned(), mtu }
    }

    /// Add these fields to every line. A line's own fields stay.
    pub(crate) fn stamp(&self, lines: &mut [Value], now: SystemTime) {
        let date = humantime::format_rfc3339_seconds(now).to_string();
        for line in lines {
            let inner = if line.get("summary").is_some() { &mut line["summary"] } else { line };
            let Value::Object(fields) = inner else { continue };
            let transport = match fields.get("via").or_else(|| fields.get("row")).and_then(Value::as_str) {
                // A row that uses a kernel socket.
                Some(kernel @ ("udp" | "tcp")) => kernel.to_owned(),
                _ => self.transport.clone(),
            };
            let said = [
                ("transport", json!(transport)),
                ("mtu", json!(self.mtu)),
                ("version", json!(env!("CARGO_PKG_VERSION"))),
                ("kernel", json!(kernel())),
                ("date", json!(date)),
            ];
            for (name, value) in said {
                fields.entry(name).or_insert(value);
            }
        }
    }
}

/// The kernel's version, without the suffix of its builder.
pub fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().split('-').next().unwrap_or_default().to_owned()
}

/// A time in seconds: `0.5`.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds, as in 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| (Duration::from_millis(1)..=Duration::from_secs(3600)).contains(time))
        .ok_or_else(|| "from 0.001 to 3600 seconds".to_owned())
}

/// A path that lives as long as the process.
pub fn path(text: &str) -> Result<&'static Path, String> {
    Ok(Path::new(String::leak(text.to_owned())))
}

/// One core, two, or `none`.
pub fn cores(text: &str) -> Result<CoresArg, String> {
    let wrong = || "two cores as in 2,3, one core, or `none`".to_owned();
    if text == "none" {
        return Ok(CoresArg::None);
    }
    let cores: Vec<usize> = text.split(',').map(|core| core.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
    match cores[..] {
        [one] => Ok(CoresArg::One(one)),
        [a, b] if a != b => Ok(CoresArg::Two(a, b)),
        [_, _] => Err("two different cores: both sides spin".to_owned()),
        _ => Err(wrong()),
    }
}

/// Bytes of a message: `16`, `64K`.
pub fn message(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(Size::Bytes(bytes)) => Ok(bytes),
        _ => Err("not a size in bytes, as in 16, 64K or 1M".to_owned()),
    }
}

/// For both sides on this machine.
pub(crate) fn two_cores(text: &str) -> Result<CoresArg, String> {
    match cores(text)? {
        CoresArg::One(core) => {
            Err(format!("both sides run on this machine: two cores, as in {core},{}, or `none`", core + 1))
        }
        cores => Ok(cores),
    }
}

pub(crate) fn node_name(name: &str) -> Result<String, String> {
    let bad = || format!("no name for a node: 1 to {} bytes, no control characters", Name::MAX_BYTES);
    Name::new(name).map(|_| name.to_owned()).ok_or_else(bad)
}

/// The host's name, cut to the length of a node's.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().filter(char::is_ascii).take(Name::MAX_BYTES).collect();
    if name.is_empty() { "am-bench".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_file_can_be_written_or_is_refused_and_nothing_changes() {
        let place = tempfile::tempdir().unwrap();
        let check = |file: PathBuf| check_file("--save", Some(&file)).map_err(|error| error.to_string());
        let (new, old, link) = (place.path().join("new"), place.path().join("old"), place.path().join("link"));
        fs::write(&old, "what was measured before").unwrap();
        std::os::unix::fs::symlink(&new, &link).unwrap();
        assert_eq!([check(new.clone()), check(old.clone()), check(link)], [Ok(()), Ok(()), Ok(())]);
        assert!(!new.exists() && fs::read(&old).unwrap() == b"what was measured before");
        assert_eq!(check("/dev/null".into()), Ok(()));
        // Not even root may.
        let refused = check("/proc/measured.jsonl".into()).unwrap_err();
        assert!(refused.contains("--save /proc/measured.jsonl cannot be written, "), "{refused}");
        assert!(refused.ends_with(": name a file where this user may write"), "{refused}");
        assert!(check(place.path().join("none/new")).unwrap_err().contains("a directory that exists"));
    }
}
