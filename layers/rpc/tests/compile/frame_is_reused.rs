//! A frame is not written again while a view of it is in use.

use am_rpc::codec::{Plain, from_bytes};

fn main() {
    let mut frame = vec![1, 0, 0, 0, 7];
    let view: Plain<'_, [u8]> = from_bytes(&frame).unwrap();
    frame.clear();
    println!("{:?}", view);
}
