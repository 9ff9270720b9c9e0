//! Time and bandwidth by size, on logarithmic axes. Each curve has its name at its end.

use super::report::{CURVES, in_few, rate};
use super::rows::{Comparison, Row, Turn};
use am_measure::Error;
use am_measure::chart::{self, COLOURS, Curve, Horizontal, Label, Names, Panel, Vertical};
use am_measure::report::Cell;

/// All plots: a title, and the peers whose curves share the plot, ours first. They are those between which a reader would
/// choose, on one wire. A peer may be in two plots, as a reference.
const FAMILIES: [(&str, &str); 7] = [
    (
        "On the cable, past the kernel's sockets, and its UDP",
        "am am-bundles am-dpdk-af_packet am-dpdk-af_xdp raw raw-touched udp",
    ),
    ("UDP", "am-udp am-udp-bundles udp udp-sleeping sockperf-udp fi-udp"),
    ("TCP: sockets", "am-tcp am-tcp-bundles tcp tcp-nagle tcp-sleeping tcp-no-offload sockperf-tcp iperf3"),
    ("Sockets by io_uring", "am-udp am-tcp udp tcp uring-udp uring-tcp uring-udp-sleeping uring-tcp-sleeping"),
    ("TCP: message systems, and the bare socket", "am-tcp ucx-tcp fi-tcp openmpi-tcp mpich-tcp pvm pvm-sleeping tcp"),
    ("Shared memory", "am-shm am-shm-bundles ucx-shm fi-shm openmpi-shm mpich-shm"),
    (
        "DPDK between two processes",
        "am-dpdk-memif am-dpdk-memif-bundles raw-dpdk-memif am-dpdk-virtio-user am-dpdk-virtio-user-bundles \
         raw-dpdk-virtio-user",
    ),
];

impl Comparison {
    pub(super) fn svg(&self) -> Result<String, Error> {
        let plots = self.plots();
        let rows: Vec<Vec<Panel<'_>>> = plots.iter().map(|(title, rows)| self.panels(title, rows)).collect();
        chart::svg(&self.cable(), &rows, 780, 420)
    }

    /// The curves of each plot: one plot if there are colours for all rows, else one for each family.
    fn plots(&self) -> Vec<(&'static str, Vec<&Row>)> {
        if self.measured().count() <= COLOURS.len() {
            return vec![("", self.measured().collect())];
        }
        let is_member = |members: &str, row: &Row| members.split(' ').any(|name| name == row.peer.name);
        let members = |members| self.measured().filter(|row| is_member(members, row)).collect();
        let plots = FAMILIES.into_iter().map(|(title, names)| (title, members(names)));
        plots.filter(|(_, rows): &(_, Vec<&Row>)| !rows.is_empty()).collect()
    }

    /// Two panels side by side, in the same colours.
    fn panels(&self, title: &str, rows: &[&Row]) -> Vec<Panel<'_>> {
        let title = |what: &str| if title.is_empty() { what.to_owned() } else { format!("{title}: {what}") };
        let [time_by_size, rate_by_size] = CURVES.map(|figure| self.curves(rows, figure));
        vec![
            self.panel(title("one way, half of a round trip"), time_by_size, &|ns| Cell::Time(ns).print()),
            self.panel(title("bytes a second, one way"), rate_by_size, &|bytes| rate(bytes).print()),
        ]
    }

    /// The curves of the rows that have figures. A row keeps its colour.
    fn curves(&self, rows: &[&Row], figure: fn(&Turn, usize) -> Option<f64>) -> Vec<Curve> {
        let point = |row: &Row, size: usize| Some((size as f64, row.spread(|turn| figure(turn, size))?.median));
        let curves = rows.iter().zip(COLOURS).map(|(row, colour)| {
            Curve::line(row.peer.name, colour, self.settings.sizes.iter().filter_map(|size| point(row, *size)))
        });
        curves.collect()
    }

    fn panel<'a>(&self, title: String, curves: Vec<Curve>, label: Label<'a>) -> Panel<'a> {
        let sizes = self.settings.sizes.iter().map(|size| *size as f64).collect();
        let size = &|size: f64| in_few(size.round() as usize).replace(" KiB", "K").replace(" MiB", "M");
        Panel::new(title, curves, Names::AtEnds, Horizontal("bytes", sizes, size), Vertical::Decades(label))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::peer::PEERS;
    use super::super::rows::tests::{comparison, row};
    use super::*;
    /// Counted in the picture itself.
    #[test]
    fn of_all_peers_a_panel_has_six_to_eight_curves_each_of_its_own_colour() {
        let rows = PEERS.iter().map(|peer| row(peer.name, &[1000.0, 2000.0])).collect();
        let svg = comparison(rows).svg().unwrap();
        let panels: Vec<&str> = svg.split("one way").skip(1).collect();
        assert_eq!(panels.len(), 2 * FAMILIES.len());
        for panel in panels {
            let colours = colours(panel);
            assert!((6..=8).contains(&colours.len()), "{colours:?}");
            let once: BTreeSet<&str> = colours.iter().copied().collect();
            assert_eq!(once.len(), colours.len(), "two curves of one colour: {colours:?}");
            for colour in colours {
                // The labels of the axes are black too.
                let named =
                    panel.lines().any(|line| line.starts_with("<text") && line.contains(&format!("fill=\"{colour}\"")));
                assert!(named, "a curve without a name in its colour: {colour}");
            }
        }
    }

    /// The colours of the curves. Axes and meshes have thinner lines.
    fn colours(svg: &str) -> Vec<&str> {
        let curves = svg.lines().filter(|line| line.starts_with("<polyline") && line.contains("stroke-width=\"2\""));
        curves.filter_map(|line| line.split('"').find(|part| part.starts_with('#'))).collect()
    }
    #[test]
    fn every_peer_is_in_a_plot() {
        let is_drawn = |name| FAMILIES.iter().any(|(_, members)| members.split(' ').any(|other| other == name));
        let left: Vec<&str> = PEERS.iter().map(|peer| peer.name).filter(|name| !is_drawn(*name)).collect();
        assert!(left.is_empty(), "in no plot: {left:?}");
    }
}
