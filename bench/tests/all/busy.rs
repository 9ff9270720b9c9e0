//! am-bench busy: a program computes, and calls are answered in every way.

use crate::common::{json, run, summary};

#[test]
fn every_way_answers_calls() {
    let lines = json(&run(&[&["busy", "--hosts", "shm", "--json", "--rounds", "1", "--time", "0.05"]]));
    let (summary, rows) = (summary(&lines), &lines[..lines.len() - 1]);
    // The row of real-time priority needs a right.
    assert!([11, 12].contains(&rows.len()), "{}", rows.len());
    for row in rows {
        assert_eq!((&row["bench"], &row["transport"]), (&"busy".into(), &"shm".into()), "{row}");
        let way = row["way"].as_str().expect("a name");
        let (waits, is_bare) = (way.ends_with("waits"), way == "nothing");
        assert_eq!(row["body_ns"].is_null(), waits, "{row}");
        for phase in ["alone", "called"] {
            assert_eq!(row["cost"][phase].is_null(), waits || is_bare, "{row}");
        }
        assert_eq!(row["n"].is_null(), is_bare, "{row}");
        let [p50, p99] = ["p50", "p99"].map(|name| row["call_ns"][name].as_u64());
        assert!(is_bare || (p50 > Some(0) && p99 >= p50), "{row}");
        assert_eq!(row["on"].is_null(), is_bare || way.starts_with("a poll"), "{row}");
    }
    for name in ["polls", "polls_1000", "spin", "spin_shared", "helper", "helper_shared", "flag", "flag_shared"] {
        for place in [summary, &summary["over"]["shm"]] {
            assert!(place[format!("{name}_cost")].is_f64() && place[format!("{name}_p50_us")].is_f64(), "{summary}");
        }
    }
    assert!(summary["waits_p50_us"].is_f64() && summary["waits_cost"].is_null(), "{summary}");
    assert_eq!((&summary["calls_per_s"], &summary["rounds"]), (&500.into(), &1.into()));
}
