//! What a network that reorders costs, beside one of the same mean delay that does not.
//!
//! ```sh
//! cargo test -p netdev-sim --test reordering -- --nocapture --test-threads 1
//! ```

mod crowd;

use crowd::{Crowd, Figures, Span, crowd};
use netdev_sim::{MS, Nanos, Netem, US};

/// Long enough for many round trips of 2 ms.
const SPAN: Span = Span { from: 200 * MS, until: 600 * MS };

const LOSSY: Span = Span { from: 20 * MS, until: 60 * MS };

/// `netem delay 2ms 1ms reorder 10%`, and the same mean delay without.
const REORDERS: Netem = Netem { delay: 2 * MS, jitter: MS, reorder: 0.1 };
const DELAYS: Netem = Netem { delay: 1800 * US, jitter: 0, reorder: 0.0 };

/// What is sent.
#[derive(Clone, Copy, Debug)]
enum Load {
    Full,
    Shared,
    Answered,
    Bulk,
}

const LOADS: [Load; 4] = [Load::Full, Load::Shared, Load::Answered, Load::Bulk];

fn one(load: Load, netem: [Netem; 2], loss: f64) -> Crowd {
    let mut one = crowd(1, 512 * 1024);
    (one.options.netem, one.options.faults_until, one.options.loss) = (netem.to_vec(), Nanos::MAX, loss);
    match load {
        Load::Full => (),
        Load::Shared => one.body = Some(64),
        Load::Answered => (one.body, one.answers) = (Some(200), true),
        Load::Bulk => one.bulk = true,
    }
    one
}

#[test]
fn probe() {
    for load in LOADS {
        for (name, netem) in [("delay", DELAYS), ("reorders", REORDERS)] {
            for both in [false, true] {
                let ends = [if both { netem } else { Netem::default() }, netem];
                let figures = one(load, ends, 0.0).run(SPAN);
                println!("{load:?} {name} both={both} {figures}");
            }
        }
    }
    for loss in [0.0, 0.01, 0.03, 0.1] {
        for load in LOADS {
            println!("{load:?} loss {loss} {}", one(load, [Netem::default(); 2], loss).run(LOSSY));
        }
    }
}
