//! Molecules of water in a periodic box, as in Splash's Water: each worker has an object with the positions of its molecules.
//!
//! The potential between molecules is Splash's, that of Matsuoka, Clementi and Yoshimine (1976): four places a molecule, 14 distances and 13
//! exponentials a pair. Springs join the atoms of one molecule; Splash's have terms of higher order. Lengths are ångströms, times picoseconds,
//! energies kilocalories a mole, masses those of atoms.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use am_objects::{Builder, Call, CallError, Shared, Space, Wire, object};

use super::{Processor, Program, find_after, here};

type Point = [f64; 3];
/// The oxygen, and two hydrogens.
type Molecule = [Point; 3];

const SEED: u64 = 1997;
const TIME_STEP: f64 = 0.0002;
/// Molecules in a cubic ångström.
const DENSITY: f64 = 0.0334;
const MASSES: [f64; 3] = [15.9994, 1.008, 1.008];
/// The acceleration of a mass of one by a force of one.
const ACCELERATION: f64 = 418.4;
/// The negative charge is on the line from the oxygen to the middle of the hydrogens, at this part of it.
const CHARGE_AT: f64 = 0.456_9;
/// The square of a hydrogen's charge. The negative charge is twice that.
const CHARGE: f64 = 170.938_9;
/// Energies and inverse lengths: between oxygens, between hydrogens, and two between an oxygen and a hydrogen.
const OO: (f64, f64) = (1_088_213.2, 5.152_712);
const HH: (f64, f64) = (666.337_3, 2.760_844);
const OH: [(f64, f64); 2] = [(1_455.427, 2.961_895), (-273.595_4, 2.233_264)];
/// Springs: the atoms, the length at rest, the force by length.
const SPRINGS: [(usize, usize, f64, f64); 3] =
    [(0, 1, 0.957_2, 1_059.0), (0, 2, 0.957_2, 1_059.0), (1, 2, 1.513_9, 110.0)];

/// The positions of one worker's molecules after a step, and after the one before: a worker is at most one step ahead of those that read
/// them.
#[derive(Wire)]
pub(crate) struct Part {
    step: u64,
    positions: Vec<Molecule>,
    before: Vec<Molecule>,
}

#[object]
impl Part {
    /// The last step, which is the number of writes.
    #[read]
    fn step(&self) -> u64 {
        self.step
    }

    /// `None` if the step has not arrived here.
    #[read]
    fn after(&self, step: u64) -> Option<Vec<Molecule>> {
        match self.step.checked_sub(step)? {
            0 => Some(self.positions.clone()),
            1 => Some(self.before.clone()),
            _ => None,
        }
    }

    #[write]
    fn put(&mut self, step: u64, positions: Vec<Molecule>) {
        self.step = step;
        self.before = std::mem::replace(&mut self.positions, positions);
    }
}

/// All molecules at the beginning, and how many steps they move.
#[derive(Debug)]
pub(crate) struct Water {
    positions: Vec<Molecule>,
    velocities: Vec<Molecule>,
    side: f64,
    steps: u64,
}

impl Water {
    pub(crate) fn new(count: usize, steps: u64) -> Water {
        let mut seed = SEED;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        let side = (count as f64 / DENSITY).cbrt();
        let sites = (count as f64).cbrt().ceil() as usize;
        let place = |at: usize| [at % sites, at / sites % sites, at / sites / sites];
        let oxygen = |at: usize| place(at).map(|site| (site as f64 + 0.5) * side / sites as f64);
        // The plane of a molecule is any.
        let mut molecule = |at: usize| {
            let (oxygen, angle) = (oxygen(at), std::f64::consts::TAU * random());
            let hydrogen = |sign: f64| {
                let [x, y, z] = oxygen;
                [x + 0.585_9, y + sign * 0.756_9 * angle.cos(), z + sign * 0.756_9 * angle.sin()]
            };
            [oxygen, hydrogen(1.0), hydrogen(-1.0)]
        };
        let positions: Vec<Molecule> = (0..count).map(&mut molecule).collect();
        let velocities = (0..count).map(|_| [[random(), random(), random()]; 3]).collect();
        Water { positions, velocities, side, steps }
    }

    /// The molecules of a worker.
    pub(crate) fn part(&self, number: usize, workers: usize) -> Range<usize> {
        let count = self.positions.len();
        count * number / workers..count * (number + 1) / workers
    }
}

/// The molecules of one worker.
pub(crate) struct Molecules<'a> {
    all: Vec<Molecule>,
    own: Range<usize>,
    velocities: Vec<Molecule>,
    forces: Vec<Molecule>,
    start: &'a Water,
}

impl<'a> Molecules<'a> {
    pub(crate) fn new(start: &'a Water, own: Range<usize>) -> Molecules<'a> {
        let (all, velocities) = (start.positions.clone(), start.velocities[own.clone()].to_vec());
        let mut molecules = Molecules { all, own, velocities, forces: vec![], start };
        molecules.forces = molecules.own.clone().map(|at| molecules.force(at)).collect();
        molecules
    }

    /// The force on each atom of a molecule: of all others, in the order of their numbers, and of its springs.
    fn force(&self, at: usize) -> Molecule {
        let (mut force, own) = ([[0.0; 3]; 4], places(&self.all[at]));
        let (side, limit) = (self.start.side, self.start.side / 2.0);
        for other in (0..self.all.len()).filter(|other| *other != at) {
            let mut other = places(&self.all[other]);
            // The nearest image of the other oxygen.
            let shift = [0, 1, 2].map(|axis| {
                let apart = own[0][axis] - other[0][axis];
                if apart > limit {
                    side
                } else if apart < -limit {
                    -side
                } else {
                    0.0
                }
            });
            other.iter_mut().for_each(|place| (0..3).for_each(|axis| place[axis] += shift[axis]));
            if square(apart(own[0], other[0])) < limit * limit {
                repel(&own, &other, &mut force);
            }
        }
        // The negative charge is carried by the atoms.
        let charge = force[3];
        let mut force = [0, 1, 2].map(|atom| {
            let share = if atom == 0 { 1.0 - CHARGE_AT } else { CHARGE_AT / 2.0 };
            [0, 1, 2].map(|axis| force[atom][axis] + share * charge[axis])
        });
        for (one, two, rest, stiffness) in SPRINGS {
            let apart = apart(own[one], own[two]);
            let length = square(apart).sqrt();
            let strength = -stiffness * (length - rest) / length;
            for axis in 0..3 {
                force[one][axis] += strength * apart[axis];
                force[two][axis] -= strength * apart[axis];
            }
        }
        force
    }

    /// The new positions of this worker's molecules. A molecule that has left the box is in it again as a whole.
    pub(crate) fn moved(&self) -> Vec<Molecule> {
        let moved = |(at, molecule): (usize, &Molecule)| {
            let mut moved: Molecule = [0, 1, 2].map(|atom| {
                let (velocity, force) = (self.velocities[at][atom], self.forces[at][atom]);
                let half = TIME_STEP / 2.0 * ACCELERATION / MASSES[atom];
                [0, 1, 2].map(|axis| molecule[atom][axis] + TIME_STEP * (velocity[axis] + half * force[axis]))
            });
            let shift = moved[0].map(|place| self.start.side * (place / self.start.side).floor());
            moved.iter_mut().for_each(|atom| (0..3).for_each(|axis| atom[axis] -= shift[axis]));
            moved
        };
        self.all[self.own.clone()].iter().enumerate().map(moved).collect()
    }

    /// All have moved.
    pub(crate) fn accelerate(&mut self, all: Vec<Molecule>) {
        self.all = all;
        let forces: Vec<Molecule> = self.own.clone().map(|at| self.force(at)).collect();
        for (at, velocity) in self.velocities.iter_mut().enumerate() {
            for (atom, mass) in MASSES.into_iter().enumerate() {
                let (old, new, half) = (self.forces[at][atom], forces[at][atom], TIME_STEP / 2.0 * ACCELERATION);
                (0..3).for_each(|axis| velocity[atom][axis] += half / mass * (old[axis] + new[axis]));
            }
        }
        self.forces = forces;
    }
}

/// The oxygen, the hydrogens, and the negative charge.
fn places(molecule: &Molecule) -> [Point; 4] {
    let [oxygen, one, two] = *molecule;
    let charge = [0, 1, 2].map(|axis| oxygen[axis] + CHARGE_AT * ((one[axis] + two[axis]) / 2.0 - oxygen[axis]));
    [oxygen, one, two, charge]
}

/// The forces of another molecule on the places of one.
fn repel(own: &[Point; 4], other: &[Point; 4], force: &mut [Point; 4]) {
    let charges = |product: f64, length: f64| product * CHARGE / (length * length);
    let exponential = |(energy, inverse): (f64, f64), length: f64| energy * inverse * (-inverse * length).exp();
    for one in 0..4 {
        for (two, place) in other.iter().enumerate() {
            // Between an oxygen and a negative charge there is nothing.
            if one + two == 3 && one % 3 == 0 {
                continue;
            }
            let apart = apart(own[one], *place);
            let length = square(apart).sqrt();
            let strength = match (one, two) {
                (0, 0) => exponential(OO, length),
                (3, 3) => charges(4.0, length),
                (3, _) | (_, 3) => charges(-2.0, length),
                (0, _) | (_, 0) => exponential(OH[0], length) + exponential(OH[1], length),
                _ => charges(1.0, length) + exponential(HH, length),
            };
            (0..3).for_each(|axis| force[one][axis] += strength / length * apart[axis]);
        }
    }
}

fn apart(one: Point, two: Point) -> Point {
    [0, 1, 2].map(|axis| one[axis] - two[axis])
}

fn square(apart: Point) -> f64 {
    apart.iter().map(|x| x * x).sum()
}

impl Program for Water {
    type Objects = Vec<Shared<Part>>;
    type Solution = Vec<Molecule>;

    const NAME: &'static str = "water";

    fn types(builder: Builder<'_>) -> Builder<'_> {
        builder.object::<Part>()
    }

    fn create(&self, space: &mut Space, workers: usize) -> Result<Vec<Shared<Part>>, CallError> {
        let mut create = |number| {
            let positions = self.positions[self.part(number, workers)].to_vec();
            space.create(&format!("part {number}"), &Part { step: 0, positions, before: vec![] })
        };
        (0..workers).map(&mut create).collect()
    }

    fn open(&self, space: &Space, workers: usize) -> Result<Option<Vec<Shared<Part>>>, CallError> {
        (0..workers).map(|number| space.open(&format!("part {number}"))).map(Option::transpose).collect()
    }

    async fn work(
        &self,
        parts: &Vec<Shared<Part>>,
        number: usize,
        workers: usize,
        processor: &impl Processor,
    ) -> Result<Vec<Molecule>, CallError> {
        let mut molecules = Molecules::new(self, self.part(number, workers));
        for step in 1..=self.steps {
            // One write for each step, with all molecules of the worker.
            let put = parts[number].write().put(step, molecules.moved());
            let all = find_after(put, || gather(parts, step)).await?;
            processor.compute(|| molecules.accelerate(all)).await;
        }
        Ok(molecules.all)
    }

    fn alone(&self) -> Vec<Molecule> {
        let mut alone = Molecules::new(self, 0..self.positions.len());
        (0..self.steps).for_each(|_| alone.accelerate(alone.moved()));
        alone.all
    }

    fn step_times(&self, number: usize, workers: usize, steps: usize) -> Vec<Duration> {
        let mut alone = Molecules::new(self, 0..self.positions.len());
        let mut all = vec![];
        for _ in 0..steps {
            alone.accelerate(alone.moved());
            all.push(alone.all.clone());
        }
        let mut molecules = Molecules::new(self, self.part(number, workers));
        let time = |all: &Vec<Molecule>| {
            let began = Instant::now();
            black_box(molecules.moved());
            molecules.accelerate(all.clone());
            began.elapsed()
        };
        all.iter().map(time).collect()
    }

    fn write(&self, parts: &Vec<Shared<Part>>, workers: usize, step: u64) -> Call<()> {
        parts[0].write().put(step, self.positions[self.part(0, workers)].to_vec())
    }

    fn written(parts: &Vec<Shared<Part>>) -> Result<u64, CallError> {
        parts.iter().map(|part| here(part.read().step())).sum()
    }
}

/// The positions of all molecules after a step, once they are here.
fn gather(parts: &[Shared<Part>], step: u64) -> Result<Option<Vec<Molecule>>, CallError> {
    for part in parts {
        if here(part.read().step())? < step {
            return Ok(None);
        }
    }
    let all = parts.iter().map(|part| here(part.read().after(step))).collect::<Result<Option<Vec<_>>, _>>()?;
    Ok(all.map(|all| all.concat()))
}
