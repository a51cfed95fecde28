//! Persistent exchanges in one buffer: every variant against `MPI_Alltoallv` with `MPI_IN_PLACE`.

use malleus::alltoallv::{Error, Plan, Variant};
use malleus::mpi::Communicator;
use malleus::mpi::collective::BlockLayout;

use super::alltoallv::{POISON, fill, layout};
use super::alltoallv_random::Random;
use super::expect;
use crate::harness::{Case, Outcome};
use crate::heap::allocations_of;

pub fn cases() -> Vec<Case> {
    vec![
        Case::on_each("alltoallv_in_place", &[1, 2, 3, 4], variants).seconds(120),
        Case::on_each("alltoallv_in_place_refused", &[2, 3], refused),
    ]
}

fn variants(communicator: &Communicator) -> Outcome {
    for seed in 0..5 {
        one(communicator, seed).map_err(|error| format!("seed {seed}: {error}"))?;
    }
    Ok(())
}

/// As many elements from each rank to another as the other way, most of them none.
fn symmetric(random: &mut Random, rank: usize, size: usize) -> Vec<usize> {
    let mut counts = vec![0; size];
    for one in 0..size {
        for other in one..size {
            let count = [0, 0, 1, random.below(3000)][random.below(4)];
            if one == rank {
                counts[other] = count;
            } else if other == rank {
                counts[one] = count;
            }
        }
    }
    counts
}

fn one(communicator: &Communicator, seed: u64) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let mut random = Random(seed);
    let counts = symmetric(&mut random, rank, size);
    let (layout, length) = layout(&counts, random.below(size));
    let mut expected = Vec::new();
    for start in 0..3 {
        let mut buffer = vec![POISON; length];
        fill(&mut buffer, &layout, rank, start);
        communicator.all_to_all_v_in_place(&mut buffer, &layout)?;
        expected.push(buffer);
    }
    for variant in Variant::ALL {
        let buffer = vec![POISON; length];
        let mut plan = Plan::in_place(communicator, variant, (buffer, &layout))?;
        for (start, expected) in expected.iter().enumerate() {
            fill(plan.receive_mut(), &layout, rank, start);
            let (ended, allocations) = allocations_of(|| plan.start()?.wait());
            plan = ended?;
            let told = format!("rank {rank}, {variant}, start {start}");
            expect(&told, plan.receive() == expected, true)?;
            let is_once = matches!(variant, Variant::FenceOnce | Variant::LockOnce);
            expect(&told, start == 0 || is_once || allocations == 0, true)?;
        }
        // What has come goes back.
        let buffer = plan.start()?.wait()?.free()?;
        let mut sent = vec![POISON; length];
        fill(&mut sent, &layout, rank, 2);
        expect(variant.name(), buffer == sent, true)?;
    }
    Ok(())
}

/// The same error on every rank, and the communicator can be used again.
fn refused(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    if size == 1 {
        // One rank agrees with itself.
        return Ok(());
    }
    let mut layout = BlockLayout::packed(vec![4; size]);
    if rank == 0 {
        layout.set(size - 1, 4 * size, 9);
    }
    for variant in Variant::ALL {
        let buffer = vec![0_u32; 4 * size + 9];
        match Plan::in_place(communicator, variant, (buffer, &layout)) {
            Err(Error::Counts {
                from,
                to,
                sent,
                expected,
            }) => expect("counts", (from, to, sent, expected), (0, size - 1, 9, 4))?,
            other => return Err(format!("{variant}: {other:?}").into()),
        }
        let short = vec![0_u32; 4 * size - usize::from(rank == 1)];
        let good = BlockLayout::packed(vec![4; size]);
        match Plan::in_place(communicator, variant, (short, &good)) {
            Err(Error::Layout { rank: 1, problem }) => {
                let told = problem.contains("a receive buffer of");
                expect(&problem, told, true)?;
            }
            other => return Err(format!("{variant}: {other:?}").into()),
        }
    }
    Ok(())
}
