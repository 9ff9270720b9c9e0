//! An attribute that there is not.

#[derive(am_rpc::Wire)]
struct Greeting {
    #[wire(skip)]
    name: String,
}

fn main() {}
