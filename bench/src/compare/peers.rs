//! All the rows that there are, in the order of the table.

use super::fabric::PROVIDERS;
use super::house::HOUSE;
use super::iperf3::Iperf3;
use super::mpi::MPIS;
use super::peer::{Peer, Wire};
use super::pvm::Pvm;
use super::sockperf::Sockperf;
use super::ucx::Ucx;

/// Each of them.
fn all() -> Vec<Box<dyn Peer>> {
    let house = HOUSE.iter().map(|row| Box::new(row) as Box<dyn Peer>);
    let fabric = PROVIDERS.iter().map(|row| Box::new(row) as Box<dyn Peer>);
    let mpis = MPIS.iter().map(|row| Box::new(row) as Box<dyn Peer>);
    let pvms = [false, true].map(|sleeps| Box::new(Pvm { sleeps }) as Box<dyn Peer>);
    let others: [Box<dyn Peer>; 5] = [
        Box::new(Sockperf { tcp: false }),
        Box::new(Sockperf { tcp: true }),
        Box::new(Iperf3),
        Box::new(Ucx { wire: Wire::Veth }),
        Box::new(Ucx { wire: Wire::Memory }),
    ];
    house.chain(others).chain(fabric).chain(mpis).chain(pvms).collect()
}

/// What can be asked for: names, or what several of them begin with.
pub(crate) fn names() -> Vec<&'static str> {
    all().iter().map(|peer| peer.name()).collect()
}

/// Whether `wanted` means the peer of this name: itself, or its family (`tcp` is also `tcp-nagle`).
pub(crate) fn means(wanted: &str, name: &str) -> bool {
    name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Those asked for; all where none was.
pub(super) fn chosen(wanted: &[String]) -> Vec<Box<dyn Peer>> {
    let is_wanted = |name| wanted.is_empty() || wanted.iter().any(|word| means(word, name));
    all().into_iter().filter(|peer| is_wanted(peer.name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_meant_by_its_name() {
        let of = |wanted: &str| chosen(&[wanted.to_owned()]).iter().map(|peer| peer.name()).collect::<Vec<_>>();
        assert_eq!(of("am-udp"), ["am-udp", "am-udp-bundles"]);
        assert_eq!(of("tcp-nagle"), ["tcp-nagle"]);
        assert!(of("tc").is_empty() && chosen(&[]).len() == names().len());
    }

    #[test]
    fn names_are_one_of_a_kind() {
        let mut names = names();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
