//! Hundreds of nodes join one that is under load, are introduced in every way,
//! talk, and leave: some politely, some as the killed do, without a word. The
//! load's every message is handled once all the while, and nothing stays of who left:
//! no frame, no descriptor, no memory. In real time; one test at a time, as they look at what the process has.

use am_testing::cut;

mod hub;
mod process;
mod steady;
mod visitor;

use std::sync::Mutex;

use hub::Hub;
use process::Held;
use steady::Steady;
use visitor::Visitor;

const VISITORS: usize = 280;
/// Of them at a time.
const AT_ONCE: usize = 8;
/// They use each other's names again, as who is restarted does.
const NAMES: usize = 120;
/// Visitors after which the process has its size. The allocator gives memory back now and then, so what counts
/// is the most that was held until then.
const WARM: usize = 120;

static ALONE: Mutex<()> = Mutex::new(());

fn run(link: &str, visitors: usize) {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = Held::now();
    let mut hub = Hub::open(link);
    let steady = Steady::start(link, &hub.place());
    let mut warm = Held::now();
    hub.until("the load comes", |hub| hub.load() > 1000);
    for first in (0..visitors).step_by(AT_ONCE) {
        let load = hub.load();
        let mut visitors: Vec<Visitor> = (first..first + AT_ONCE).map(|n| Visitor::join(n, link, &mut hub)).collect();
        hub.until_with("all have been answered", &mut visitors, |visitors| visitors.iter().all(Visitor::is_content));
        visitors.into_iter().for_each(|visitor| visitor.leave(&mut hub));
        hub.until("the load goes on", |hub| hub.load() > load);
        if first <= WARM {
            warm = warm.larger(Held::now());
        }
    }
    steady.stop(&mut hub);
    hub.assert_nothing_stays();
    Held::now().assert_no_more_memory_than(&warm);
    drop(hub);
    Held::now().assert_no_more_files_than(&before);
}

#[test]
fn hundreds_come_and_go_by_udp() {
    run("udp:127.0.0.1:0,frame=1514,frames=1024", VISITORS);
}

#[test]
fn hundreds_come_and_go_by_shared_memory() {
    run(&format!("shm:am-churn-{},frame=1514,frames=1024", std::process::id()), VISITORS);
}

/// Each is met on both ways. (What leaks by one of them is seen above, with more.)
#[test]
fn some_come_and_go_by_both() {
    let link = format!(
        "udp:127.0.0.1:0,frame=1514,frames=1024+shm:am-churn-both-{},frame=1514,frames=1024",
        std::process::id()
    );
    run(&link, VISITORS / 2);
}
