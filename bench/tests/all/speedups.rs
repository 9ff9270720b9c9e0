//! am-bench speedups: programs that share objects find what one thread finds, on simulated hosts and on this machine's cores.

use serde_json::Value;

use crate::common::{plotted, summary};

const SHORT: &[&str] =
    &["--molecules", "16", "--steps", "3", "--equations", "16,32", "--iterations", "20", "--rounds", "1"];

#[test]
fn programs_on_several_hosts_find_what_one_thread_finds() {
    let (lines, svg) = plotted(&[&["speedups", "--json", "--hosts", "1,2,8"], SHORT]);
    let (summary, rows) = (summary(&lines), &lines[..lines.len() - 1]);
    let of = |program: &str, size: u64, mode: &str| -> Vec<u64> {
        let is = |row: &&Value| row["program"] == program && row["size"] == size && row["mode"] == mode;
        rows.iter().filter(is).filter_map(|row| row["hosts"].as_u64()).collect()
    };
    for program in ["water", "equations"] {
        assert_eq!(of(program, 16, "simulated"), [1, 2, 8], "{program}");
        assert!(of(program, 16, "shm, measured").contains(&1), "{program}");
        let row = rows.iter().find(|row| row["program"] == program && row["hosts"] == 8).expect("a row");
        assert_eq!(
            summary[format!("{program}_8")].as_f64(),
            row["speed_up"].as_f64().map(|ratio| (ratio * 1e4).round() / 1e4)
        );
    }
    assert_eq!(of("equations", 32, "simulated"), [8], "further sizes are simulated on the most hosts");
    for row in rows {
        assert_eq!((&row["bench"], &row["is_equal"]), (&"speedups".into(), &true.into()), "{row}");
        assert_eq!(row["simulated"], row["mode"] == "simulated", "{row}");
        assert!(row["speed_up"].as_f64() > Some(0.0) && row["step_ns"].as_f64() > Some(0.0), "{row}");
    }
    assert_eq!((&summary["simulated"], &summary["all_equal"]), (&true.into(), &true.into()));
    assert!(svg.ends_with("</svg>\n") && svg.contains("\nthe paper\n"));
}
