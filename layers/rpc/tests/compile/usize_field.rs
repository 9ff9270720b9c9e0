//! Machines disagree about `usize`.

#[derive(am_rpc::Wire)]
struct Page {
    number: Vec<usize>,
}

fn main() {}
