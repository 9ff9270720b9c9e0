//! A turn in its own process. DPDK needs it: a process starts DPDK once, and cannot end it.
//!
//! ```text
//!   am-bench compare           am-bench turn: the near side              am-bench far
//!     │ which row, on which      │ a session as any other                   │
//!     │ two hosts ──────────────▶│ ────────────── frames ──────────────────▶│
//!     │◀─────────── what it took │
//!     └─ is gone: so are they
//! ```

use std::io::stdout;
use std::time::Duration;

use am_netns::Host;
use serde::{Deserialize, Serialize};

use super::peer::{Settings, Turn};
use crate::deploy::child::Child;
use crate::deploy::pipe::{Lines, write_line};
use crate::deploy::veth::Pair;
use crate::error::Error;
use crate::watch::Watch;

/// How this program's own errors begin.
const ERROR_PREFIX: &str = "am-bench: ";

/// What the process has to know.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    /// The row.
    name: String,
    settings: Settings,
    /// The paths of the network namespaces, near and far.
    networks: [String; 2],
}

/// Run this row's turn in its own process.
///
/// # Errors
/// The turn failed, or did not end within the limit, or a signal arrived.
pub(super) fn turn(name: &str, pair: &Pair, settings: &Settings, watch: &Watch) -> Result<Turn, Error> {
    let [near, far] = &pair.hosts;
    let order = Order { name: name.to_owned(), settings: settings.clone(), networks: [near.path(), far.path()] };
    // DPDK's libraries write messages that no user needs.
    let (child, errors) = Child::start_aside(&["turn"])?;
    let turn = order_turn(child, &order, watch);
    turn.map_err(|why| match why {
        Error::Facility(why) => Error::Facility(with_reasons(why, &errors.join().unwrap_or_default())),
        other => other,
    })
}

/// The reason, with what both sides' processes wrote that is ours.
fn with_reasons(why: String, said: &str) -> String {
    let ours = said.lines().filter_map(|line| line.strip_prefix(ERROR_PREFIX)).filter(|line| *line != why);
    [why.as_str()].into_iter().chain(ours).collect::<Vec<_>>().join("; ")
}

fn order_turn(mut child: Child, order: &Order, watch: &Watch) -> Result<Turn, Error> {
    let settings = &order.settings;
    let (mut to, from) = child.pipes()?;
    write_line(&mut to, order)?;
    let answers: Lines<Result<Turn, String>> = Lines::read(from, || {});
    match answers.next(settings.limit, watch) {
        Ok(Some(turn)) => turn.map_err(Error::Facility),
        Ok(None) => Err(Error::Facility("its process was ended before it was done".to_owned())),
        Err(Error::Refused(_)) => {
            Err(Error::Facility(format!("it did not end within {} s", settings.limit.as_secs_f64())))
        }
        Err(other) => Err(other),
    }
}

/// Be that process. `turn` runs the row of this name.
///
/// # Errors
/// The pipe failed. A turn that failed is an answer, not an error.
pub(super) fn serve(
    turn: impl FnOnce(&str, &Pair, &Settings) -> Result<Turn, Error>,
    watch: &Watch,
) -> Result<(), Error> {
    let orders: Lines<Order> = Lines::from_parent(watch);
    let Some(Order { name, settings, networks }) = orders.next(Duration::MAX, watch)? else { return Ok(()) };
    let [near, far] = &networks;
    let pair = Pair { hosts: [Host::at("alpha", near)?, Host::at("beta", far)?] };
    write_line(&mut stdout(), &turn(&name, &pair, &settings).map_err(|why| why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::peer::{OneWay, Stream};
    use super::super::rows::tests::comparison;
    use super::*;

    #[test]
    fn what_the_far_side_said_is_a_reason() {
        let said = "libxdp: no\nam-bench: `dpdk:x`: too long\n";
        assert_eq!(with_reasons("it failed".to_owned(), said), "it failed; `dpdk:x`: too long");
    }

    #[test]
    fn an_order_and_a_turn_come_through() {
        let settings = comparison(vec![]).settings;
        let order = Order { name: "am".to_owned(), settings, networks: ["a".to_owned(), "b".to_owned()] };
        let back: Order = serde_json::from_str(&serde_json::to_string(&order).unwrap()).unwrap();
        assert_eq!(
            (back.name, back.settings.sizes, back.settings.cores),
            (order.name, order.settings.sizes, order.settings.cores)
        );
        let turn = Turn {
            mode: "memif".to_owned(),
            one_way: vec![OneWay { size: 8, p50: Some(0.1), p99: None, mean: Some(2.5) }],
            stream: vec![Stream { size: 8, messages: 1e7, cpu: None, lost: 3, batching: None }],
        };
        let said: Result<Turn, String> = Ok(turn);
        assert_eq!(serde_json::from_str::<Result<Turn, String>>(&serde_json::to_string(&said).unwrap()).unwrap(), said);
    }
}
