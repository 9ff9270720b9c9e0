//! Process 1 of a room: makes it a place of its own, and runs what it is told to.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, stdin, stdout};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::unistd::{getpid, sethostname};

use super::super::heard::{Unheard, complaint, hear};
use super::listening::Listening;
use super::places::{HOSTS, OURSELVES, PLACE, at, command, network};
use super::{Exchange, Network, Order, Said, end_with_parent, failed};
use crate::cores::processor_time;
use crate::deploy::pipe::write_line;
use crate::deploy::veth::ADDRESSES;
use crate::error::Error;

/// Be process 1: one order comes on standard input, an answer for each exchange goes out.
///
/// # Errors
/// What the system refuses; what a program does wrong is an answer.
pub(crate) fn serve() -> Result<(), Error> {
    end_with_parent()?;
    let mut line = String::new();
    stdin().lock().read_line(&mut line).map_err(Error::system("reading what to do"))?;
    let order: Order = serde_json::from_str(&line).map_err(|e| Error::Facility(e.to_string()))?;
    let tell = |answer: Result<Said, String>| write_line(&mut stdout(), &answer);
    if let Err(why) = furnish(&order).and_then(|()| build(&order)) {
        return tell(Err(why.to_string()));
    }
    order.job.exchanges.iter().try_for_each(|one| tell(exchange(one, &order).map_err(|why| why.to_string())))
}

/// Nothing that is made in here is seen outside, and goes when the room does.
fn furnish(order: &Order) -> Result<(), Error> {
    let none: Option<&str> = None;
    let mounted = |result: nix::Result<()>| result.map_err(failed("mounting"));
    mounted(mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none))?;
    // Who writes without end fills his room, not the machine.
    for place in [PLACE, "/dev/shm"] {
        mounted(mount(Some("tmpfs"), place, Some("tmpfs"), MsFlags::empty(), Some("mode=1777,size=1g")))?;
    }
    let [near, far] = &order.networks;
    // While /proc still shows the processes outside.
    for (from, to) in
        [(near.as_str(), network(Network::Near)), (far, network(Network::Far)), ("/proc/self/exe", at(OURSELVES))]
    {
        File::create(&to).map_err(Error::system("making a file"))?;
        mounted(mount(Some(from), to.as_str(), none, MsFlags::MS_BIND, none))?;
    }
    mounted(mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none))?;
    let address = |with_prefix: &str| with_prefix.split('/').next().unwrap_or_default().to_owned();
    let [alpha, beta] = HOSTS;
    let hosts = format!("127.0.0.1 localhost\n{} {alpha}\n{} {beta}\n", address(ADDRESSES.0), address(ADDRESSES.1));
    fs::write(at("hosts"), hosts).map_err(Error::system("writing a file"))?;
    mounted(mount(Some(at("hosts").as_str()), "/etc/hosts", none, MsFlags::MS_BIND, none))?;
    sethostname(alpha).map_err(failed("naming a host"))?;
    order.job.files.iter().try_for_each(|(name, text)| write(&at(name), text)).map_err(Error::system("writing a file"))
}

/// A script can be started.
fn write(file: &str, text: &str) -> io::Result<()> {
    fs::write(file, text)?;
    fs::set_permissions(file, Permissions::from_mode(0o755))
}

fn build(order: &Order) -> Result<(), Error> {
    order.job.build.iter().try_for_each(|run| {
        let name = run.words.join(" ");
        let heard = hear(&mut command(run, order), Duration::MAX, || Ok(())).map_err(unheard(&name))?;
        if heard.status.success() { Ok(()) } else { Err(Error::Facility(complaint(&name, &heard.all()))) }
    })
}

/// Why there is nothing of this program.
fn unheard(name: &str) -> impl FnOnce(Unheard) -> Error {
    move |why| match why {
        Unheard::Stopped(why) => why,
        why => Error::Facility(format!("{name}: {why}")),
    }
}

fn exchange(exchange: &Exchange, order: &Order) -> Result<Said, Error> {
    let server = exchange.server.as_ref().map(|server| Listening::start(server, order)).transpose()?;
    let (begin, before) = (Instant::now(), worked());
    let name = exchange.client.words.first().map_or("", String::as_str);
    let server_is_quiet = || server.as_ref().map_or(Ok(()), Listening::is_quiet);
    // However long: who wants the room has a limit for all of it.
    let heard = hear(&mut command(&exchange.client, order), Duration::MAX, server_is_quiet).map_err(unheard(name))?;
    let busy = worked().saturating_sub(before).as_secs_f64() / begin.elapsed().as_secs_f64().max(1e-9);
    server_is_quiet()?;
    drop(server);
    let text = String::from_utf8_lossy(&heard.out).into_owned();
    let status = heard.status;
    let trouble = (!status.success()).then(|| complaint(&format!("{name} ({status})"), &heard.all()));
    Ok(Said { text, trouble, busy })
}

/// Processor time of all others in the room so far: of those that run, and of those that have ended.
fn worked() -> Duration {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let own = getpid().as_raw() as u32;
    let running: Duration = numbers.filter(|pid| *pid != own).filter_map(processor_time).sum();
    running + ended()
}

/// Processor time of those that have ended.
fn ended() -> Duration {
    let time = |time: TimeVal| Duration::from_micros((time.tv_sec() * 1_000_000 + time.tv_usec()) as u64);
    let ended = getrusage(UsageWho::RUSAGE_CHILDREN);
    ended.map_or(Duration::ZERO, |ended| time(ended.user_time()) + time(ended.system_time()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::{Job, Run};
    use super::*;
    use crate::side::Side;

    #[test]
    fn a_process_that_works_is_seen() {
        let before = ended();
        let status = Command::new("sh").args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]).status();
        assert!(status.unwrap().success() && ended() > before && worked() > Duration::ZERO);
    }

    #[test]
    fn an_order_comes_through() {
        let job = Job { build: vec![Run::on(Side::Far, &["cc"])], ..Job::default() };
        let order = Order { job, networks: ["a".to_owned(), "b".to_owned()], cores: [Some(2), None] };
        let back: Order = serde_json::from_str(&serde_json::to_string(&order).unwrap()).unwrap();
        assert_eq!((back.job.build[0].network, back.job.build[0].core), (Network::Far, Some(Side::Far)));
        assert_eq!(back.cores, [Some(2), None]);
    }
}
