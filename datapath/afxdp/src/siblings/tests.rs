use super::*;

fn interface(address: [u8; 6]) -> Interface {
    Interface { address: Address(address), ..crate::tests::interface("veth", 1500) }
}

#[test]
fn each_node_has_an_address_of_its_own() {
    for first in [[0x52, 0x54, 0, 1, 2, 3], [0x82, 9, 0, 1, 2, 3], [0x86, 9, 0, 1, 2, 3]] {
        let interface = interface(first);
        let mut taken: Vec<Address> = Vec::new();
        for queue in 0..200 {
            let own = choose_address(&interface, queue, |own| !taken.contains(&own));
            assert!(!own.is_group() && (own.0[0] >> 6 == 2 || own == interface.address), "{own}");
            assert_eq!(own == interface.address, queue == 0, "{own}");
            taken.push(own);
        }
    }
}

#[test]
fn the_interfaces_own_address_is_taken_again_when_it_is_free() {
    let interface = interface([0x52, 0, 0, 0, 0, 1]);
    let second = choose_address(&interface, 1, |own| own != interface.address);
    assert_eq!(second, Address([0x86, 0, 0, 0, 0, 1]));
    assert_eq!(choose_address(&interface, 0, |own| own != second), interface.address);
}

#[test]
fn a_program_that_is_attached_is_seldom_attached_again() {
    let (mut last, start) = (None, Instant::now());
    let mut after = |seconds, is_attached| next_repair(&mut last, is_attached, start + Duration::from_secs(seconds));
    assert_eq!(after(0, true), Some(BypassCause::NotRun), "at once");
    assert_eq!((after(1, true), after(9, true)), (None, None));
    assert_eq!(after(9, false), Some(BypassCause::Detached), "there is nothing to lose");
    assert_eq!(after(18, true), None);
    assert_eq!(after(19, true), Some(BypassCause::NotRun));
}
