//! A member's side: it reads orders, and writes answers.

use std::io::stdout;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::deploy::{Lines, write_line};
use crate::error::Error;
use crate::watch::Watch;

/// What a member's process writes: an answer, or why it has failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said<A> {
    /// The member has failed.
    Failed(String),
    /// It goes on.
    #[serde(untagged)]
    Answer(A),
}

/// Be a member until there are no more orders: `run` gets the first one.
///
/// # Errors
/// An order cannot be read, or an answer cannot be written.
pub fn serve<O>(watch: &Watch, run: impl FnOnce(O, Lines<O>) -> Result<(), Error>) -> Result<(), Error>
where
    O: DeserializeOwned + Send + 'static,
{
    let orders: Lines<O> = Lines::from_parent(watch);
    let Some(first) = orders.next(Duration::MAX, watch)? else { return Ok(()) };
    match run(first, orders) {
        Ok(()) | Err(Error::PeerGone(_)) => Ok(()),
        Err(why) => write_line(&mut stdout(), &Said::<()>::Failed(why.to_string())),
    }
}

/// Answer this.
///
/// # Errors
/// The bench is gone.
pub fn answer(answer: &impl Serialize) -> Result<(), Error> {
    write_line(&mut stdout(), answer)
}

/// A member that goes on while it waits for orders.
pub trait Led<O: DeserializeOwned + Send + 'static> {
    /// What the bench orders.
    fn orders(&self) -> &Lines<O>;

    /// Go on for a moment.
    ///
    /// # Errors
    /// A reason to stop.
    fn turn(&mut self) -> Result<(), Error>;

    /// The next order, while the member goes on. `None`: there are no more.
    ///
    /// # Errors
    /// A reason to stop.
    fn next(&mut self) -> Result<Option<O>, Error> {
        loop {
            match self.orders().try_next()? {
                Some(order) => return Ok(order),
                None => self.turn()?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Answer {
        Ready,
        Gap { ns: u64 },
    }

    #[test]
    fn an_answer_has_nothing_around_it() {
        let read = |line| serde_json::from_str::<Said<Answer>>(line).unwrap();
        assert!(matches!(read(r#""ready""#), Said::Answer(Answer::Ready)));
        assert!(matches!(read(r#"{"gap":{"ns":7}}"#), Said::Answer(Answer::Gap { ns: 7 })));
        assert!(matches!(read(r#"{"failed":"it is late"}"#), Said::Failed(why) if why == "it is late"));
        assert_eq!(serde_json::to_string(&Said::<()>::Failed("no".into())).unwrap(), r#"{"failed":"no"}"#);
    }
}
