//! A process that `am-run` started: its place is in variables, its rendezvous is an abstract UNIX socket.

use std::env::{self, VarError};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use am_api::own::{Own, high};

use crate::errors::{ExchangeError, FindError};
use crate::rendezvous::{self, Answer, Call, variables};

/// The connection with the agent on this host.
#[derive(Debug)]
pub(crate) struct Launcher(Own<UnixStream>);

/// Whether `am-run` started this process.
pub(crate) fn is_launched() -> bool {
    env::var_os(variables::RENDEZVOUS).is_some()
}

/// The value of a variable, if it is set.
pub(crate) fn text(name: &'static str) -> Result<Option<String>, FindError> {
    match env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(FindError::NotUtf8(name)),
    }
}

/// The value of a variable that a launcher sets.
pub(crate) fn variable<T: std::str::FromStr>(name: &'static str) -> Result<T, FindError> {
    let text = text(name)?.ok_or(FindError::Missing(name))?;
    text.parse().map_err(|_| FindError::Senseless { name, text })
}

/// Ask the agent on a new connection, with the secret and this process's rank.
fn ask(what: impl FnOnce(String, u32) -> Call) -> Result<(UnixStream, Answer), FindError> {
    let (name, secret) = (variable::<String>(variables::RENDEZVOUS)?, variable(variables::SECRET)?);
    let call = what(secret, variable(variables::RANK)?);
    let meet = || -> io::Result<(UnixStream, Option<Answer>)> {
        let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(&name)?)?;
        rendezvous::write(&mut stream, &call)?;
        let answer = rendezvous::read(&mut stream, rendezvous::MAX_CALL)?;
        Ok((stream, answer))
    };
    match meet().map_err(FindError::Launcher)? {
        (_, Some(Answer::Refused(why))) => Err(FindError::Refused(why)),
        (stream, Some(answer)) => Ok((stream, answer)),
        (_, None) => Err(FindError::Launcher(io::ErrorKind::UnexpectedEof.into())),
    }
}

/// End the job that `am-run` started.
pub(crate) fn end_job(code: u8) -> Result<(), FindError> {
    ask(|secret, rank| Call::EndJob { secret, rank, code }).map(drop)
}

impl Launcher {
    pub(crate) fn connect() -> Result<Launcher, FindError> {
        match ask(|secret, rank| Call::Hello { secret, rank })? {
            (stream, Answer::Welcome) => Ok(Launcher(high(stream).into())),
            _ => Err(FindError::Launcher(io::ErrorKind::InvalidData.into())),
        }
    }

    pub(crate) fn exchange(&mut self, blob: &[u8]) -> Result<Vec<Vec<u8>>, ExchangeError> {
        let Launcher(stream) = self;
        if stream.is_lost() {
            let closed = io::Error::new(io::ErrorKind::NotConnected, "this program has closed the connection with it");
            return Err(ExchangeError::Launcher(closed));
        }
        let stream = &mut **stream;
        rendezvous::write(stream, &Call::Exchange(blob.to_vec())).map_err(ExchangeError::Launcher)?;
        // As many blobs as there are processes: the agent is trusted with their sum.
        match rendezvous::read(stream, u32::MAX as usize).map_err(ExchangeError::Launcher)? {
            Some(Answer::Blobs(blobs)) => Ok(blobs),
            _ => Err(ExchangeError::JobEnded),
        }
    }
}
