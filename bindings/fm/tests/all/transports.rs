//! The example as two processes, over each transport that needs no rights.

use crate::LIBRARY;

/// Node 0's transport, node 1's, and the longest message there.
fn over([near, far]: [&str; 2], most: usize) {
    let ping = LIBRARY.build("examples/ping.c");
    let serves = ping.start("", &["1", far]);
    let said = ping.start("", &["0", near]).end();
    let wanted = format!("1000 round trips of four words, {} of 1 to {most} bytes, 0 bytes wrong", most.min(2048) + 1);
    assert!(said.contains(&wanted), "{near}: {said}");
    serves.end();
}

/// Names and ports that another run of these tests at the same time has not.
fn own(host: u8) -> String {
    let [low, high] = (std::process::id() as u16).to_be_bytes();
    format!("127.{high}.{low}.{host}:7000")
}

#[test]
fn shared_memory() {
    let on = format!("shm:fm-{},frame=8206", std::process::id());
    over([&on, &on], 8192);
}

#[test]
fn udp() {
    let (one, two) = (own(1), own(2));
    over([&format!("udp:{one},peer={two},frame=9014"), &format!("udp:{two},peer={one},frame=9014")], 8992);
}

#[test]
fn a_forked_child_leaves_its_parents_connections_alone() {
    let program = LIBRARY.build("tests/fork.c");
    let (one, two) = (own(7), own(8));
    let udp = [format!("udp:{one},peer={two}"), format!("udp:{two},peer={one}")];
    let shm = [(); 2].map(|()| format!("shm:fm-{}-fork", std::process::id()));
    for [near, far] in [shm, udp] {
        let far = program.start("", &["1", &far]);
        assert!(program.start("", &["0", &near]).end().contains("200 rounds"));
        far.end();
    }
}

/// Messages longer than any datagram.
#[test]
fn tcp() {
    let (one, two) = (own(3), own(4));
    over([&format!("tcp:{one},peer={two},frame=300014"), &format!("tcp:{two},peer={one},frame=300014")], 299_992);
}

#[test]
fn several_at_once() {
    let (one, two, lab) = (own(5), own(6), format!("shm:fm-{}-too,frame=9014", std::process::id()));
    let [near, far] =
        [(&one, &two), (&two, &one)].map(|(own, other)| format!("{lab}+udp:{own},peer={other},frame=9014"));
    over([&near, &far], 8988);
}
