//! am-bench wakeup: every way wakes its thread.

use crate::common::{json, run};

#[test]
fn every_way_wakes_its_thread() {
    let lines = json(&run(&[&["wakeup", "--json", "--rounds", "1"]]));
    assert_eq!(lines.len(), 5);
    for line in &lines {
        assert_eq!((&line["bench"], &line["n"]), (&"wakeup".into(), &100.into()), "{line}");
        let [p50, p99] = ["p50", "p99"].map(|name| line["wakeup_ns"][name].as_u64().expect("nanoseconds"));
        assert!(p50 > 0 && p99 >= p50, "{line}");
        assert_eq!(line["to"].is_null(), line["ratio"]["p50"].is_null(), "{line}");
    }
    assert_eq!(lines.iter().filter(|line| line["to"].is_null()).count(), 2);
}
