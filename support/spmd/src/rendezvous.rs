//! What a process and its launcher say to each other: messages of a length and [postcard](https://docs.rs/postcard), over an
//! abstract UNIX socket of the launcher's agent.

use std::io::{self, ErrorKind, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The variables that a launcher sets, as `docs/am-run.md` lists them.
pub mod variables {
    /// The process's number, from 0.
    pub const RANK: &str = "AM_RANK";
    /// The number of processes.
    pub const SIZE: &str = "AM_SIZE";
    /// The process's number among those on its host.
    pub const LOCAL_RANK: &str = "AM_LOCAL_RANK";
    /// The number of processes on its host.
    pub const LOCAL_SIZE: &str = "AM_LOCAL_SIZE";
    /// The job's name.
    pub const JOB: &str = "AM_JOB";
    /// Its host, as the user named it.
    pub const HOST: &str = "AM_HOST";
    /// The transport to open, as the user named it.
    pub const TRANSPORT: &str = "AM_TRANSPORT";
    /// The name of the agent's abstract socket.
    pub const RENDEZVOUS: &str = "AM_RENDEZVOUS";
    /// What a process shows there.
    pub const SECRET: &str = "AM_SECRET";

    /// Those by which another launcher names a process. `am-run` passes none of them on.
    pub use am_pmix::VARIABLES as OF_OTHERS;
}

/// The most bytes of one blob.
pub const MAX_BLOB: usize = 1 << 30;

/// The most bytes of a process in one round of an exchange. Longer blobs take several rounds.
pub const MAX_PIECE: usize = 64 * 1024;

/// The longest message of a process.
pub const MAX_CALL: usize = MAX_PIECE + 256;

/// What a process sends.
#[derive(Debug, Serialize, Deserialize)]
pub enum Call {
    /// The first message.
    Hello {
        /// The secret from the environment.
        secret: String,
        /// The process's rank.
        rank: u32,
    },
    /// This process's blob for the next round.
    Exchange(Vec<u8>),
    /// Instead of [`Call::Hello`]: end the job.
    EndJob {
        /// The secret from the environment.
        secret: String,
        /// The rank of the process that asks.
        rank: u32,
        /// The job's exit code.
        code: u8,
    },
}

/// What a process gets.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The answer to [`Call::Hello`].
    Welcome,
    /// The process is refused, and why.
    Refused(String),
    /// The blobs of all ranks.
    Blobs(Vec<Vec<u8>>),
    /// The answer to [`Call::EndJob`].
    Ending,
}

/// Write one message and flush.
///
/// # Errors
/// The stream's; [`ErrorKind::InvalidInput`] if the message is 4 GiB long.
pub fn write(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let body = postcard::to_stdvec(message).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
    let length = u32::try_from(body.len()).map_err(|_| ErrorKind::InvalidInput)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&body)?;
    to.flush()
}

/// Read one message of at most `limit` bytes; `None` at the end of the stream.
///
/// # Errors
/// The stream's; [`ErrorKind::InvalidData`] for a message that is too long or makes no sense.
pub fn read<T: DeserializeOwned>(from: &mut impl Read, limit: usize) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        done => done?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > limit {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("a message of {length} bytes, more than {limit}")));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    postcard::from_bytes(&body).map(Some).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_and_a_long_one_is_refused() {
        let mut bytes = vec![];
        write(&mut bytes, &Call::Exchange(vec![7; 100])).unwrap();
        write(&mut bytes, &Call::Hello { secret: "s".into(), rank: 3 }).unwrap();
        let mut from = &bytes[..];
        assert!(matches!(read(&mut from, MAX_CALL), Ok(Some(Call::Exchange(blob))) if blob == [7; 100]));
        assert!(matches!(read(&mut from, MAX_CALL), Ok(Some(Call::Hello { rank: 3, .. }))));
        assert!(matches!(read::<Call>(&mut from, MAX_CALL), Ok(None)));
        let error = read::<Call>(&mut &bytes[..], 50).unwrap_err();
        assert!(error.to_string().contains("more than 50"), "{error}");
        assert_eq!(read::<Call>(&mut &[1, 0, 0, 0, 99][..], 50).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
