//! A field whose type has no bytes.

struct Inner;

#[derive(am_rpc::Wire)]
struct Outer {
    inner: Inner,
}

fn main() {}
