//! What a plan costs, over the number of sources at a fixed overlap: `cargo bench --bench plan`.
//!
//! One measurement makes the plans of many random targets, pieces included, and divides. Configurations take turns, so
//! that a disturbance of the machine hits all of them; the table gives the median over the rounds and the middle half.
//! `scan` is paper R's Algorithm 1 as it stands, which looks at every source.

use std::hint::black_box;
use std::time::Instant;

use malleus::partition::Partition;
use malleus::redistribute::plan::Plan;

const LEN_PER_SOURCE: u64 = 1000;
const BATCH: usize = 512;

struct Case {
    shape: &'static str,
    from: Partition,
    to: Partition,
    pieces: f64,
    plans: usize,
    samples: Vec<f64>,
}

fn main() {
    // Without `--bench` this is a test run: one quick round to see that it works.
    let rounds = if std::env::args().any(|argument| argument == "--bench") {
        101
    } else {
        1
    };
    let mut cases = Vec::new();
    for shape in ["block", "cuts", "skewed", "random", "scan"] {
        for sources in [10, 100, 1_000, 10_000, 100_000, 1_000_000] {
            cases.push(Case::new(shape, sources));
        }
    }
    let mut random = Random(1);
    for _ in 0..rounds {
        for case in &mut cases {
            case.measure(&mut random);
        }
    }
    println!("one plan with all its pieces, {rounds} rounds, random targets");
    println!("| partition |      NS |      NT | pieces |   median ns | middle half ns          |");
    println!("|-----------|--------:|--------:|-------:|------------:|------------------------:|");
    for case in &mut cases {
        case.samples.sort_by(f64::total_cmp);
        let at = |quarter: usize| case.samples[(case.samples.len() - 1) * quarter / 4];
        println!(
            "| {:9} | {:7} | {:7} | {:6.2} | {:11.1} | {:>10.1} … {:>10.1} |",
            case.shape,
            case.from.ranks(),
            case.to.ranks(),
            case.pieces,
            at(2),
            at(1),
            at(3)
        );
    }
}

impl Case {
    /// As many targets as sources less a tenth: two or three pieces a plan, whatever the size.
    fn new(shape: &'static str, sources: usize) -> Self {
        let targets = sources - sources / 10;
        let len = LEN_PER_SOURCE * sources as u64;
        let (from, to) = match shape {
            "cuts" => (uneven(len, sources, 1), uneven(len, targets, 2)),
            "random" => (random(len, sources, 1), random(len, targets, 2)),
            "skewed" => (skewed(len, sources), skewed(len, targets)),
            _ => (
                Partition::block(len, sources),
                Partition::block(len, targets),
            ),
        };
        let pieces: usize = (0..targets)
            .map(|target| {
                Plan::for_target(&from, &to, target)
                    .unwrap()
                    .pieces()
                    .count()
            })
            .sum();
        Self {
            shape,
            pieces: pieces as f64 / targets as f64,
            from,
            to,
            plans: if shape == "scan" {
                (20_000 / sources).clamp(1, BATCH)
            } else {
                BATCH
            },
            samples: Vec::new(),
        }
    }

    fn measure(&mut self, random: &mut Random) {
        let targets: Vec<usize> = (0..self.plans)
            .map(|_| random.below(self.to.ranks()))
            .collect();
        let start = Instant::now();
        let mut sum = 0;
        for &target in &targets {
            let (from, to) = (black_box(&self.from), black_box(&self.to));
            sum += if self.shape == "scan" {
                scan(from, to, target)
            } else {
                let plan = Plan::for_target(from, to, target).unwrap();
                plan.pieces()
                    .map(|piece| piece.len + piece.source_offset)
                    .sum()
            };
        }
        let elapsed = start.elapsed();
        black_box(sum);
        self.samples
            .push(elapsed.as_secs_f64() * 1e9 / self.plans as f64);
    }
}

/// Paper R's loop over all sources, with its overlap test the right way round.
fn scan(from: &Partition, to: &Partition, target: usize) -> u64 {
    let own = to.range(target);
    let mut sum = 0;
    for source in 0..from.ranks() {
        let theirs = from.range(source);
        let (start, end) = (own.start.max(theirs.start), own.end.min(theirs.end));
        if start < end {
            sum += end - start + (start - theirs.start);
        } else if theirs.start >= own.end {
            break;
        }
    }
    sum
}

/// Cut points that lie up to a quarter of a block beside the even ones.
fn uneven(len: u64, ranks: usize, seed: u64) -> Partition {
    let mut random = Random(seed);
    let block = len / ranks as u64;
    let inner = (1..ranks as u64).map(|cut| cut * block + random.next() % (block / 4));
    Partition::cuts([0].into_iter().chain(inner).chain([len]).collect()).unwrap()
}

/// Blocks that grow with the rank, from almost nothing to twice the average: cut points on a parabola, far from even ones.
fn skewed(len: u64, ranks: usize) -> Partition {
    let cut = |cut: usize| {
        let (cut, ranks) = (cut as u128, ranks as u128);
        u64::try_from(u128::from(len) * cut * cut / (ranks * ranks)).unwrap()
    };
    Partition::cuts((0..=ranks).map(cut).collect()).unwrap()
}

/// Cut points anywhere.
fn random(len: u64, ranks: usize, seed: u64) -> Partition {
    let mut random = Random(seed);
    let mut cuts: Vec<u64> = (1..ranks).map(|_| random.next() % len).collect();
    cuts.extend([0, len]);
    cuts.sort_unstable();
    Partition::cuts(cuts).unwrap()
}

/// A small generator, so that every run plans for the same ranks (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }
}
