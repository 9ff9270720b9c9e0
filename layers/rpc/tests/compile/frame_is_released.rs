//! A frame is not released while a view of it is in use.

use am_rpc::codec::{Plain, from_bytes};

fn main() {
    let frame = vec![1, 0, 0, 0, 7];
    let view: Plain<'_, [u8]> = from_bytes(&frame).unwrap();
    drop(frame);
    println!("{:?}", view);
}
