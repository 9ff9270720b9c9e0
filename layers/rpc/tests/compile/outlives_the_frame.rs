//! What is borrowed from a frame does not outlive it.

use am_rpc::codec::{Wire, from_bytes};

#[derive(Wire)]
struct Greeting<'a> {
    name: &'a str,
}

fn main() {
    let name = {
        let frame = vec![1, 0, 0, 0, b'a'];
        let greeting: Greeting<'_> = from_bytes(&frame).unwrap();
        greeting.name
    };
    println!("{name}");
}
