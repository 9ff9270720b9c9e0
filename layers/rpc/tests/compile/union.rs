//! A union does not say what it holds.

#[derive(am_rpc::Wire)]
union Either {
    number: u32,
    float: f32,
}

fn main() {}
