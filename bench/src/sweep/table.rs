//! The curves side by side, and their figures below.

use std::fmt::Write;

use crate::batching::Batching;
use crate::report::table::{Column, align, bytes, metric, nanoseconds};
use crate::report::words::{SIMULATED, rounds, xdp};

use super::{Curve, R_INF, Sweep, T0};

const FIGURES: &[Column] = &[
    ("driver", false),
    ("mode", false),
    ("framing", false),
    ("t0", true),
    ("r_inf", true),
    ("n1/2", true),
    ("t0 * r_inf", true),
    ("lost", true),
];

impl Sweep {
    pub(crate) fn table(&self) -> String {
        let shared =
            if self.curves.iter().any(|curve| curve.batching == Batching::Shared) { ", am coalesced" } else { "" };
        let mut text = format!("bandwidth: user bytes a second by size, one way{shared}, counted by the receiver\n\n");
        self.curves_side_by_side(&mut text);
        text.push('\n');
        let figures: Vec<Vec<String>> = self.curves.iter().map(figures).collect();
        align(FIGURES, &figures, &mut text);
        text.push('\n');
        self.how(&mut text);
        text
    }

    fn curves_side_by_side(&self, text: &mut String) {
        let mut columns = vec![("size", true)];
        columns.extend(self.curves.iter().map(|curve| (curve.driver.name(), true)));
        let mut sizes: Vec<usize> =
            self.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.size)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let row = |size: usize| {
            let mut row = vec![bytes(size)];
            row.extend(self.curves.iter().map(|curve| cell(curve, size)));
            row
        };
        align(&columns, &sizes.into_iter().map(row).collect::<Vec<_>>(), text);
    }

    /// Writing to a string cannot fail.
    fn how(&self, text: &mut String) {
        for curve in &self.curves {
            let within: Vec<usize> = curve.sizes(&T0).collect();
            if let (Some(least), Some(most)) = (within.first(), within.last()) {
                let full: Vec<String> = curve.sizes(&R_INF).map(|size| size.to_string()).collect();
                let driver = curve.driver;
                let _ = writeln!(
                    text,
                    "  {driver}: t0 from the sizes in one frame, {least} to {most} B; r_inf from full frames, {} B",
                    full.join(", ")
                );
            }
        }
        let rounds = rounds(self.rounds);
        let _ = writeln!(text, "\n{rounds}, drivers taken in turn; {}", self.cores.words());
        if let Some(at) = self.curves.iter().find_map(|curve| curve.xdp) {
            let _ = writeln!(text, "{}", xdp(at));
        }
        if self.is_simulated() {
            let _ = writeln!(text, "{SIMULATED}");
        }
    }
}

fn cell(curve: &Curve, size: usize) -> String {
    let point = curve.points.iter().find(|point| point.size == size);
    point.map_or(String::new(), |point| format!("{}B/s", metric(point.rate())))
}

fn figures(curve: &Curve) -> Vec<String> {
    let mut cells = vec![curve.driver.to_string(), curve.mode.clone(), curve.framing.to_owned()];
    let lost: u64 = curve.points.iter().map(|point| point.lost).sum();
    match curve.model {
        Some(model) => {
            cells.push(nanoseconds(model.t0.max(0.0).round() as u64));
            cells.push(format!("{}B/s", metric(model.r_inf)));
            cells.push(model.n_half.map_or("none".to_owned(), |size| bytes(size.round() as usize)));
            cells.push(bytes(model.product().max(0.0).round() as usize));
        }
        None => cells.extend(["?"; 4].map(str::to_owned)),
    }
    cells.push(lost.to_string());
    cells
}
