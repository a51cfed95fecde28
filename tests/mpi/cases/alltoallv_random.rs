//! Random counts, most of them zero: every variant gives what `MPI_Alltoallv` gives.

use malleus::alltoallv::{Plan, Variant};
use malleus::mpi::Communicator;

use super::alltoallv::{POISON, fill, layout};
use crate::harness::{Case, Outcome};

pub fn cases() -> Vec<Case> {
    vec![
        Case::on_each("alltoallv_random_counts", &[1, 2, 3, 4], |communicator| {
            patterns(communicator, 30)
        })
        .seconds(240),
        Case::ranks("alltoallv_random_counts_eight_ranks", &[8], |environment| {
            patterns(&environment.world(), 6)
        })
        .seconds(240),
    ]
}

/// Numbers that depend on a seed only (Vigna's splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) as usize % limit
    }
}

fn patterns(communicator: &Communicator, seeds: u64) -> Outcome {
    for seed in 0..seeds {
        pattern(communicator, seed).map_err(|error| format!("seed {seed}: {error}"))?;
    }
    Ok(())
}

fn pattern(communicator: &Communicator, seed: u64) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let mut random = Random(seed);
    let zeros = random.below(10);
    let mut counts = vec![vec![0; size]; size];
    for count in counts.iter_mut().flatten() {
        if random.below(10) >= zeros {
            *count = random.below(2000);
        }
    }
    let received = counts.iter().map(|counts| counts[rank]).collect::<Vec<_>>();
    let (send, send_length) = layout(&counts[rank], random.below(size));
    let (receive, receive_length) = layout(&received, random.below(size));
    let (mut data, mut expected) = (vec![0; send_length], vec![POISON; receive_length]);
    fill(&mut data, &send, rank, 0);
    communicator.all_to_all_v(&data, &send, &mut expected, &receive)?;
    for variant in Variant::ALL {
        // A plan's own buffer ends with its last block.
        let compare = |buffers: &str, received: &[u32]| {
            let (same, rest) = expected.split_at(received.len());
            if received == same && rest.iter().all(|&value| value == POISON) {
                return Ok(());
            }
            Err(format!("rank {rank}, {variant}, {buffers} buffers"))
        };
        let mut plan = Plan::<u32, _>::allocate(communicator, variant, &send, &receive)?;
        let own = plan.send_mut();
        own.copy_from_slice(&data[..own.len()]);
        for _ in 0..2 {
            plan.receive_mut().fill(POISON);
            plan = plan.start()?.wait()?;
            compare("its own", plan.receive())?;
        }
        plan.free()?;
        let plan = Plan::over(
            communicator,
            variant,
            (data.clone(), &send),
            (vec![POISON; receive_length], &receive),
        )?;
        let (_, received) = plan.start()?.wait()?.start()?.wait()?.free()?;
        compare("the caller's", &received)?;
    }
    Ok(())
}
