//! What is read from a frame does not live for ever.

#[derive(am_rpc::Wire)]
struct Greeting {
    name: &'static str,
}

fn main() {}
