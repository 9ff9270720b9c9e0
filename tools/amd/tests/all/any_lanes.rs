//! Random scripts of what a program does to its memory, some of them mostly steps that do something.

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use crate::lanes::World;

#[test]
fn honest_frames_arrive_whatever_a_program_does_to_its_memory() {
    let mut random = SmallRng::seed_from_u64(17);
    let mut world = World::new();
    for _ in 0..500 {
        let mut script = vec![0; random.random_range(0..1024)];
        random.fill_bytes(&mut script);
        world.play(&script);
    }
}
