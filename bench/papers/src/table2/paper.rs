//! The figures of the paper's table 2: Pentiums of 100 and 133 MHz, and Fast Ethernet.

/// A row of the paper: its name, its round trip in microseconds, its bandwidth in MB a second.
pub(super) struct PaperRow {
    pub(super) name: &'static str,
    pub(super) round_trip: f64,
    pub(super) bandwidth: f64,
}

const fn row(name: &'static str, round_trip: f64, bandwidth: f64) -> PaperRow {
    PaperRow { name, round_trip, bandwidth }
}

pub(super) const ROWS: [PaperRow; 6] = [
    row("U-Net/FE", 57.0, 12.0),
    row("PARMA", 74.0, 6.6),
    row("GAMMA, cold cache", 61.4, 9.6),
    row("GAMMA, hot cache", 36.8, 9.8),
    row("Linux TCP", 151.0, 5.3),
    row("DP", 46.6, 12.2),
];

const TCP: &PaperRow = &ROWS[4];

impl PaperRow {
    /// How many times as long TCP's round trip takes.
    pub(super) fn tcp_over_round_trip(&self) -> f64 {
        TCP.round_trip / self.round_trip
    }

    /// How many times TCP's bandwidth it has.
    pub(super) fn bandwidth_over_tcp(&self) -> f64 {
        self.bandwidth / TCP.bandwidth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_papers_tcp() {
        let of = |name| ROWS.iter().find(|row| row.name == name).unwrap();
        assert!((of("DP").tcp_over_round_trip() - 3.240).abs() < 1e-3);
        assert!((of("DP").bandwidth_over_tcp() - 2.302).abs() < 1e-3);
        assert!((of("Linux TCP").tcp_over_round_trip() - 1.0).abs() < 1e-9);
        assert!((of("GAMMA, hot cache").tcp_over_round_trip() - 4.103).abs() < 1e-3);
    }
}
