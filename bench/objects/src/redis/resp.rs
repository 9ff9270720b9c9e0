//! Redis' protocol, RESP: commands are arrays of strings.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use am_measure::members::LIMIT;

/// A server's answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Simple(String),
    Integer(i64),
    /// `None`: there is no such key.
    Bulk(Option<Vec<u8>>),
}

/// A connection with a server.
pub(super) struct Connection<S = TcpStream>(BufReader<S>);

impl Connection {
    pub(super) fn open(address: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(Connection(BufReader::new(stream)))
    }

    /// Send these bytes, of one command or of several.
    pub(super) fn send(&mut self, commands: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(commands)
    }

    pub(super) fn call(&mut self, words: &[&str]) -> io::Result<Reply> {
        let mut bytes = vec![];
        command(&mut bytes, words);
        self.send(&bytes)?;
        self.reply()
    }
}

/// Append a command.
pub(super) fn command(to: &mut Vec<u8>, words: &[&str]) {
    to.extend(format!("*{}\r\n", words.len()).bytes());
    for word in words {
        to.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
    }
}

impl<S: Read> Connection<S> {
    pub(super) fn reply(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let malformed = || io::Error::other(format!("Redis answers {line:?}"));
        let words = line.strip_suffix("\r\n").ok_or_else(malformed)?;
        let (kind, rest) = words.split_at_checked(1).ok_or_else(malformed)?;
        match kind {
            "+" => Ok(Reply::Simple(rest.to_owned())),
            ":" => rest.parse().map(Reply::Integer).map_err(|_| malformed()),
            "$" if rest == "-1" => Ok(Reply::Bulk(None)),
            "$" => {
                let length: usize = rest.parse().map_err(|_| malformed())?;
                let mut bytes = vec![0; length + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Ok(Reply::Bulk(Some(bytes)))
            }
            _ => Err(malformed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_strings() {
        let mut bytes = vec![];
        command(&mut bytes, &["SET", "subject", "7"]);
        assert_eq!(bytes, b"*3\r\n$3\r\nSET\r\n$7\r\nsubject\r\n$1\r\n7\r\n");
    }

    #[test]
    fn replies_are_read_one_after_the_other_and_errors_have_their_text() {
        let said: &[u8] = b"+OK\r\n:2\r\n$5\r\na\r\nbc\r\n$-1\r\n-ERR no\r\n";
        let mut connection = Connection(BufReader::new(said));
        let expected =
            [Reply::Simple("OK".into()), Reply::Integer(2), Reply::Bulk(Some(b"a\r\nbc".into())), Reply::Bulk(None)];
        for reply in expected {
            assert_eq!(connection.reply().unwrap(), reply);
        }
        assert!(connection.reply().unwrap_err().to_string().contains("ERR no"));
        assert!(connection.reply().is_err(), "it has ended");
    }
}
