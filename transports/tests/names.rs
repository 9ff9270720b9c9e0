//! Names that make no sense, and what is said to them.

#[test]
fn a_plus_joins_two_names() {
    for text in ["+", "shm:lab+", "+shm:lab", "shm:lab++udp:127.0.0.1:0"] {
        let error = transports::open(text).err().unwrap_or_else(|| panic!("{text} was opened")).to_string();
        assert!(error.contains("on both sides of it"), "{text}: {error}");
    }
    let none = transports::open("").err().expect("no name").to_string();
    assert!(none.contains("as in `xdp:eth1`") && !none.contains("loopback"), "{none}");
}
