//! Loans under the model checker; the command is in `loom_pool.rs`.
#![cfg(loom)]

use am_ring::{Layout, LeaseTable, Pool};
use am_wire::Buffer;
use loom::thread;

/// A message that is kept and dropped elsewhere: its credit comes back once,
/// and not before its frame is home, since the credit is that frame.
#[test]
fn what_comes_back_is_home() {
    loom::model(|| {
        let pool = Pool::heap(Layout { frames: 1, stride: 8, headroom: 0 }).unwrap();
        let mut lender = LeaseTable::new(1);
        let (frame, loan) = (pool.copy(b"data").unwrap(), lender.lease().unwrap());
        let far = thread::spawn(move || {
            assert_eq!(frame.bytes(), b"data");
            drop(frame);
            drop(loan);
        });
        let home = |lender: &mut LeaseTable| {
            let is_back = lender.reclaim().is_some();
            if is_back {
                pool.take().expect("the frame is home").space().expect("nobody reads it").fill(0);
            }
            is_back
        };
        let early = home(&mut lender);
        far.join().unwrap();
        assert!(early != home(&mut lender), "once");
        assert!(lender.is_empty());
    });
}

#[test]
fn the_last_of_two_brings_it_back() {
    loom::model(|| {
        let mut lender = LeaseTable::new(1);
        let first = lender.lease().unwrap();
        let second = lender.lease_again(first.place()).unwrap();
        let threads = [first, second].map(|loan| thread::spawn(move || drop(loan)));
        let early = lender.reclaim().is_some();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(early != lender.reclaim().is_some(), "once");
    });
}

/// It is lent again while, or after, its only loan goes.
#[test]
fn what_is_lent_again_is_out() {
    loom::model(|| {
        let mut lender = LeaseTable::new(1);
        let first = lender.lease().unwrap();
        let place = first.place();
        let far = thread::spawn(move || drop(first));
        let again = lender.lease_again(place).unwrap();
        assert_eq!(lender.reclaim(), None);
        far.join().unwrap();
        assert_eq!(lender.reclaim(), None);
        drop(again);
        assert_eq!((lender.reclaim(), lender.reclaim()), (Some(place), None));
    });
}
