//! Exchanges of blobs of any length; and a process that ends the job on purpose.
//!
//! ```text
//! am-run -n 3 meet blobs       each process gives all others blobs, up to 1 MiB
//! am-run -n 3 meet end 7       rank 1 ends the job with this exit code; the others would wait for it forever
//! am-run -n 3 meet leave       rank 1 ends with 0, and the others go on
//! am-run -n 3 meet apart       rank 1 waits at a barrier, and the others exchange
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use am_spmd::Place;
use am_spmd::rendezvous::MAX_PIECE;

fn main() -> ExitCode {
    let ended = run();
    ended.map_or_else(
        |error| {
            eprintln!("{error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

/// What this rank gives in a round. Some give less than others.
fn blob(rank: usize, length: usize) -> Vec<u8> {
    (0..length / (1 + rank % 3)).map(|at| (at + at / 251 + rank) as u8).collect()
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut place = Place::find()?;
    let (rank, size) = (place.rank(), place.size());
    match *arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["blobs"] => {
            for length in [0, 1, MAX_PIECE - 9, MAX_PIECE - 8, MAX_PIECE - 7, MAX_PIECE, MAX_PIECE + 1, 1 << 20, 5] {
                let all = place.exchange(&blob(rank, length))?;
                if all.len() != size || (0..size).any(|of| all[of] != blob(of, length)) {
                    return Err(format!("other blobs of {length} bytes").into());
                }
                place.barrier()?;
            }
            println!("rank {rank}: all blobs of {size}");
        }
        ["end", code] => {
            place.barrier()?;
            match rank {
                1 => Place::end_job(code.parse()?)?,
                2 => thread::sleep(Duration::from_secs(1000)),
                _ => place.barrier()?,
            }
        }
        ["leave"] => {
            place.barrier()?;
            if rank != 1 {
                thread::sleep(Duration::from_millis(300));
                println!("rank {rank} goes on");
            }
        }
        ["apart"] if rank == 1 => place.barrier()?,
        ["apart"] => drop(place.exchange(b"blob")?),
        _ => return Err("usage: meet blobs, meet end CODE, meet leave, meet apart".into()),
    }
    Ok(())
}
