//! What the protocol promises to many clients, in virtual time: the same figures on every machine.

use std::time::Duration;

use super::*;
use am_measure::hosts::{Simulation, WORD_BYTES};
use am_measure::{DriverOptions, FramingArg, Watch};

fn simulated(server: Server, clients: &[usize], size: usize) -> Contention {
    let amount = Amount { rounds: 1, warm_up: Duration::from_millis(10), time: Duration::from_millis(20) };
    let clients = clients.to_vec();
    let order = Order { servers: vec![server], clients, sizes: vec![size], amount };
    let (how, watch) = (DriverOptions { framing: FramingArg::Split, ..DriverOptions::default() }, Watch::default());
    let mut arena = Simulation { how, mtu: 1500, oversubscription: None, watch: &watch };
    let (figures, end) = measure(&order, &mut arena, &Progress::new(1, true));
    end.unwrap();
    figures
}

fn summary(figures: &Contention) -> serde_json::Value {
    figures.report().lines.pop().unwrap()["summary"]["servers"][0].clone()
}

/// The aggregate is at least this part of the peak, each client within 10 % of its share, and a client that floods changes the rate of the
/// others by at most 10 %.
fn assert_fair(figures: &Contention, least: f64) {
    let summary = summary(figures);
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    assert!(number(&summary["over_peak"]) >= least, "{}", figures.report().text);
    assert!(number(&summary["share"][0]) >= 0.9 && number(&summary["share"][1]) <= 1.1, "{}", figures.report().text);
    assert_eq!(figures.floods.len(), Flood::VARIANTS.len());
    for flood in &figures.floods {
        assert!((0.9..1.1).contains(&flood.others) && (0.9..1.1).contains(&flood.worst), "{flood:?}");
    }
}

/// As in the paper's Figure 9, each client adds one gap to the round trip.
#[test]
fn one_endpoint_serves_many_clients_alike() {
    for (size, clients) in [(WORD_BYTES, &[1, 16, 32, 48][..]), (1024, &[1, 16, 32])] {
        let figures = simulated(Server::One, clients, size);
        assert_fair(&figures, 0.95);
        if size == WORD_BYTES {
            let slope = summary(&figures)["slope_over_gap"].as_f64().unwrap();
            assert!((0.9..1.1).contains(&slope), "{}", figures.report().text);
        }
    }
}
/// A turn serves all endpoints of a set. With many of them each visit finds one message, and the visit is paid for.
#[test]
fn many_polled_endpoints_serve_their_clients_alike() {
    for (size, clients, least) in
        [(WORD_BYTES, &[1, 16][..], 0.95), (WORD_BYTES, &[1, 16, 64, 256], 0.8), (1024, &[1, 16], 0.95)]
    {
        assert_fair(&simulated(Server::Polled, clients, size), least);
    }
}

#[test]
fn the_same_run_has_the_same_figures() {
    let [one, other] = [(); 2].map(|()| simulated(Server::Polled, &[1, 3], 100).report().lines);
    assert_eq!(one, other);
    assert!(one.iter().all(|line| line.get("summary").unwrap_or(line)["simulated"] == true), "{one:?}");
}
