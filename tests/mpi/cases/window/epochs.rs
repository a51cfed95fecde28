//! What is particular to each kind of epoch.

use malleus::mpi::Communicator;
use malleus::mpi::window::{Assertion, FenceAssertion, LockKind, PROC_NULL, PostAssertion, Window};

use super::{AnyWindow, POISON, argument};
use crate::cases::expect;
use crate::harness::Outcome;

/// Several fences in one scope: what one step wrote, the next one reads.
pub fn fences(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let next = (rank + 1) % size;
    let window = Window::create(communicator, vec![POISON; 2], None)?;
    let values = [rank as i32, 50 + rank as i32];
    let (mut first, mut second) = ([-1; 2], [-1; 2]);
    let asserted = FenceAssertion::NO_STORE | FenceAssertion::NO_PUT;
    window.fence(FenceAssertion::NONE, asserted, |epoch| {
        epoch.put(&values, next, 0)?;
        epoch.fence(FenceAssertion::NO_STORE)?;
        epoch.get(&mut first, next, 0)?;
        epoch.fence(FenceAssertion::NO_STORE)?;
        epoch.put(&values[..1], next, 1)?;
        epoch.fence(FenceAssertion::NO_STORE)?;
        epoch.get(&mut second, next, 0)
    })?;
    expect("after one step", first, values)?;
    expect("after two", second, [values[0]; 2])?;
    // After the last fence, other kinds of epochs are possible.
    let mut third = [-1; 2];
    window.lock_all(Assertion::None, |epoch| epoch.get(&mut third, next, 0))?;
    expect("in a lock", third, [values[0]; 2])?;
    window.free()?;
    Ok(())
}

/// A ring: each rank is exposed to the previous one, and accesses the next. Then the same by polling, with
/// asserts, and without origins.
pub fn start_post(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let next = (rank + 1) % size;
    let previous = (rank + size - 1) % size;
    let window = Window::create(communicator, vec![POISON; 3], None)?;
    let all = window.group()?;
    let (to_next, from_previous) = (all.include(&[next])?, all.include(&[previous])?);
    let own = [rank as i32];
    window.post(&from_previous, PostAssertion::NO_STORE, |_| {
        window.start(&to_next, Assertion::None, |epoch| epoch.put(&own, next, 1))
    })?;
    expect(
        "written by the previous",
        window.memory().to_vec(),
        vec![POISON, previous as i32, POISON],
    )?;
    let mut read = [-1; 3];
    let polled = window.post(&from_previous, PostAssertion::NO_PUT, |exposure| {
        window.start(&to_next, Assertion::None, |epoch| {
            epoch.get(&mut read, next, 0)
        })?;
        while !exposure.test()? {}
        exposure.test()
    })?;
    expect("the exposure is over", polled, true)?;
    expect("read from the next", read, [POISON, rank as i32, POISON])?;

    // The exposed ranks only wait; the promise that they have posted is kept by a barrier.
    if rank == 0 {
        let others: Vec<usize> = (1..size).collect();
        let others = all.include(&others)?;
        communicator.barrier()?;
        let own = [1000];
        window.start(&others, Assertion::NoCheck, |epoch| {
            (1..size).try_for_each(|rank| epoch.put(&own, rank, 2))
        })?;
    } else {
        let origin = all.include(&[0])?;
        window.post(&origin, PostAssertion::NO_CHECK, |_| communicator.barrier())?;
        expect("written by rank 0", window.memory().to_vec()[2], 1000)?;
    }
    let none = all.include(&[])?;
    window.post(&none, PostAssertion::NONE, |_| {
        window.start(&none, Assertion::None, |epoch| {
            epoch.put(&own, PROC_NULL, 0)
        })
    })?;
    if size > 1 {
        // An epoch reaches the ranks of its group only.
        let error = window.post(&from_previous, PostAssertion::NONE, |_| {
            let mut copy = [-1];
            window.start(&to_next, Assertion::None, |epoch| {
                let error = epoch.get(&mut copy, rank, 0);
                argument(&error, "rank")
            })
        });
        error?;
        let alone = communicator.environment().self_communicator();
        let window = Window::create(&alone, vec![0_u8], None)?;
        let refused = window.start(&all, Assertion::None, |_| Ok(()));
        argument(&refused, "group")?;
        let refused = window.post(&all, PostAssertion::NONE, |_| Ok(()));
        argument(&refused, "group")?;
        window.free()?;
    }
    communicator.barrier()?;
    window.free()?;
    Ok(())
}

/// What was flushed is there while the epoch is still open.
pub fn sync_flush(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let next = (rank + 1) % size;
    let previous = (rank + size - 1) % size;
    AnyWindow::each(communicator, 4, |window, _| {
        let memory = window.memory();
        memory.fill(POISON);
        communicator.barrier()?;
        let values = [1, 2, 3, 4].map(|step| 10 * rank as i32 + step);
        let mut seen = [0; 4];
        window.window().lock_all(Assertion::None, |epoch| {
            for (step, value) in values.iter().enumerate() {
                epoch.put(
                    std::slice::from_ref(value),
                    next,
                    window.at(next, step as u64),
                )?;
                match step {
                    0 => epoch.flush(next)?,
                    1 => epoch.flush_all()?,
                    2 => {
                        epoch.flush_local(next)?;
                        epoch.flush(next)?;
                    }
                    _ => {
                        epoch.flush_local_all()?;
                        epoch.flush_all()?;
                    }
                }
                communicator.barrier()?;
                epoch.sync()?;
                memory.read(step, &mut seen[step..=step])?;
            }
            Ok(())
        })?;
        expect(
            "seen in the epoch",
            seen,
            [1, 2, 3, 4].map(|step| 10 * previous as i32 + step),
        )
    })
}

/// Everybody exposes `10 × rank + index`; the last rank exposes nothing.
pub fn exposed(communicator: &Communicator) -> Vec<i32> {
    let rank = communicator.rank();
    if communicator.size() > 1 && rank == communicator.size() - 1 {
        return Vec::new();
    }
    (0..5).map(|index| (10 * rank + index) as i32).collect()
}

fn exposing(communicator: &Communicator) -> std::ops::Range<usize> {
    0..(communicator.size() - 1).max(1)
}

pub fn window_get(communicator: &Communicator) -> Outcome {
    let window = Window::create(communicator, exposed(communicator), None)?;
    for assertion in [Assertion::NoCheck, Assertion::None] {
        for rank in exposing(communicator) {
            let mut copy = [-1; 3];
            window.lock(LockKind::Shared, rank, assertion, |epoch| {
                epoch.get(&mut copy, rank, 2)
            })?;
            expect(
                "lock",
                copy,
                [2, 3, 4].map(|index| 10 * rank as i32 + index),
            )?;
        }
        let ranks = exposing(communicator);
        let mut copies = vec![-1; 2 * ranks.len()];
        window.lock_all(assertion, |epoch| {
            copies
                .chunks_mut(2)
                .zip(ranks.clone())
                .try_for_each(|(copy, rank)| epoch.get(copy, rank, 0))
        })?;
        let expected: Vec<i32> = ranks
            .clone()
            .flat_map(|rank| [10 * rank as i32, 10 * rank as i32 + 1])
            .collect();
        expect("lock_all", &copies, &expected)?;
        copies.fill(-1);
        window.locks(|epoch| {
            copies
                .chunks_mut(2)
                .zip(ranks)
                .try_for_each(|(copy, rank)| {
                    epoch.lock(LockKind::Shared, rank, assertion)?;
                    epoch.get(copy, rank, 0)
                })
        })?;
        expect("locks", copies, expected)?;
        // A rank that waits in a barrier makes progress for those that still read.
        communicator.barrier()?;
    }
    window.free()?;
    Ok(())
}

pub fn window_rget(communicator: &Communicator) -> Outcome {
    let window = Window::create(communicator, exposed(communicator), None)?;
    for rank in exposing(communicator) {
        let (mut waited, mut tested, mut forgotten) = ([-1], [-1], [-1]);
        window.lock_all(Assertion::NoCheck, |epoch| {
            epoch.rget(&mut waited, rank, 4)?.wait()?;
            let mut request = epoch.rget(&mut tested, rank, 3)?;
            while !request.test()? {}
            std::mem::forget(epoch.rget(&mut forgotten, rank, 2)?);
            drop(epoch.rget(&mut [], rank, 0)?);
            Ok(())
        })?;
        let base = 10 * rank as i32;
        expect(
            "waited, tested, forgotten",
            [waited[0], tested[0], forgotten[0]],
            [base + 4, base + 3, base + 2],
        )?;
    }
    communicator.barrier()?;
    window.free()?;
    Ok(())
}
