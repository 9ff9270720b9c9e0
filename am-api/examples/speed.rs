#[path = "../tests/common/mod.rs"]
mod common;
use am_api::*;
use common::*;
use std::time::Instant;
fn main() {
    const N: u64 = 5_000_000;
    let size: usize = std::env::args().nth(1).map_or(16, |s| s.parse().unwrap());
    let payload = vec![7u8; size];
    for framing in Framing::ALL {
        let (mut alpha, mut beta) = nodes::<u64, u64>(plain("alpha").framing(framing), plain("beta").framing(framing));
        beta.endpoint.on_request(Handler(0), |n, _, _| *n += 1);
        beta.endpoint.on_request(Handler(1), |_, r, t| t.reply(Handler(0), &[], r.payload()).unwrap());
        alpha.endpoint.on_reply(Handler(0), |n, _| *n += 1);
        let to = connect(&mut alpha, &mut beta);
        let t = Instant::now();
        let mut sent = 0;
        while beta.state < N {
            for _ in 0..64 {
                if sent < N && alpha.endpoint.request(to, Handler(0), &[], &payload).is_ok() {
                    sent += 1;
                } else {
                    break;
                }
            }
            alpha.poll();
            beta.poll();
        }
        let one_way = t.elapsed().as_nanos() as f64 / N as f64;
        let t = Instant::now();
        let mut sent = 0;
        while alpha.state < N {
            for _ in 0..64 {
                if sent < N && alpha.endpoint.request(to, Handler(1), &[], &payload).is_ok() {
                    sent += 1;
                } else {
                    break;
                }
            }
            alpha.poll();
            beta.poll();
        }
        let rtt = t.elapsed().as_nanos() as f64 / N as f64;
        alpha.state = 0;
        let t = Instant::now();
        while alpha.state < N / 10 {
            let want = alpha.state + 1;
            alpha.endpoint.request(to, Handler(1), &[], &payload).unwrap();
            while alpha.state < want {
                alpha.poll();
                beta.poll();
            }
        }
        let pp = t.elapsed().as_nanos() as f64 / (N / 10) as f64;
        println!(
            "{framing}: one way stream {one_way:.1} ns (both sides), request+reply stream {rtt:.1} ns, ping-pong {pp:.1} ns"
        );
        println!("{}", alpha.node.counters());
    }
}
