//! What is refused before MPI sees it. Much of it would end the process otherwise, or change memory that was not
//! exposed.

use malleus::mpi::window::{
    AccumulateOperation, Assertion, FenceAssertion, LockKind, PostAssertion, Window,
};
use malleus::mpi::{Communicator, Error, Result};

use super::epochs::exposed;
use super::{POISON, argument, state};
use crate::cases::expect;
use crate::harness::Outcome;

/// Every operation is refused beyond what a rank exposes, and nothing is written. Displacements far beyond
/// would end the process if MPI saw them.
pub fn bounds(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    // Rank r exposes r + 1 elements; behind them lies memory of the same vector's size.
    let memory = vec![POISON; rank + 1];
    let window = Window::create(communicator, memory, None)?;
    let last = size - 1;
    let end = size as u64;
    let (source, mut copies) = ([1, 2], vec![[-1; 2]; 40]);
    let (one, mut values) = (1, vec![-1; 10]);
    window.lock_all(Assertion::None, |epoch| {
        let mut copies = copies.iter_mut();
        let mut copy = || &mut copies.next().expect("enough")[..];
        let mut values = values.iter_mut();
        let mut value = || values.next().expect("enough");
        let sum = AccumulateOperation::Sum;
        for beyond in [end - 1, end, 100_000_000, u64::MAX - 1, u64::MAX] {
            for result in [
                epoch.put(&source, last, beyond),
                epoch.get(copy(), last, beyond),
                epoch.accumulate(&source, last, beyond, sum),
                epoch.get_accumulate(&source, copy(), last, beyond, sum),
                epoch.rput(&source, last, beyond).map(drop),
                epoch.rget(copy(), last, beyond).map(drop),
                epoch.raccumulate(&source, last, beyond, sum).map(drop),
                epoch
                    .rget_accumulate(&source, copy(), last, beyond, sum)
                    .map(drop),
                epoch.get_now(&mut [0; 2], last, beyond),
            ] {
                argument(&result, "displacement")?;
            }
        }
        for beyond in [end, u64::MAX] {
            for result in [
                epoch.fetch_and_op(&one, value(), last, beyond, sum),
                epoch.compare_and_swap(&one, &one, value(), last, beyond),
                epoch.fetch_and_op_now(1, last, beyond, sum).map(drop),
                epoch.compare_and_swap_now(1, 1, last, beyond).map(drop),
            ] {
                argument(&result, "displacement")?;
            }
        }
        // A range that starts at the end is one of no elements.
        epoch.put(&[], last, end)?;
        argument(&epoch.put(&[], last, end + 1), "displacement")?;
        for nobody in [size, usize::MAX] {
            argument(&epoch.put(&source, nobody, 0), "rank")?;
            argument(&epoch.rget(copy(), nobody, 0).map(drop), "rank")?;
            argument(&epoch.flush(nobody), "rank")?;
            argument(&epoch.flush_local(nobody), "rank")?;
        }
        Ok(())
    })?;
    communicator.barrier()?;
    expect("unchanged", window.into_memory()?, vec![POISON; rank + 1])?;
    if size > 1 {
        // Ranks that don't agree on the element type find out, all of them.
        let error = if rank == 0 {
            Window::create(communicator, vec![0.0_f64], None).map(drop)
        } else {
            Window::create(communicator, vec![0_u8], None).map(drop)
        };
        argument(&error, "memory")?;
    }
    Ok(())
}

/// A second epoch is refused before MPI sees it, and the first one works on.
pub fn one_epoch(communicator: &Communicator) -> Outcome {
    let rank = communicator.rank();
    let window = Window::create(communicator, vec![rank as i64; 2], None)?;
    let other = Window::create(communicator, vec![-5_i64; 1], None)?;
    let all = window.group()?;
    let none = FenceAssertion::NONE;
    let refused = |inside_post: bool| -> Result<()> {
        let fence = window.fence(none, none, |_| Ok(()));
        let lock_all = window.lock_all(Assertion::None, |_| Ok(()));
        let lock = window.lock(LockKind::Shared, 0, Assertion::None, |_| Ok(()));
        let post = window.post(&all, PostAssertion::NONE, |_| Ok(()));
        let mut results = vec![fence, lock_all, lock, post];
        if !inside_post {
            results.push(window.start(&all, Assertion::None, |_| Ok(())));
        }
        for result in results {
            if !matches!(result, Err(Error::State { .. })) {
                return Err(state(&format!("a second epoch: {result:?}")));
            }
        }
        Ok(())
    };
    let mut copies = [-1; 4];
    let [first, second, third, fourth] = copies.each_mut().map(std::slice::from_mut);
    window.fence(none, none, |epoch| {
        refused(false)?;
        epoch.get(first, rank, 0)
    })?;
    window.lock_all(Assertion::None, |epoch| {
        refused(false)?;
        epoch.get(second, rank, 0)
    })?;
    window.lock(LockKind::Shared, rank, Assertion::None, |epoch| {
        refused(false)?;
        epoch.get(third, rank, 0)
    })?;
    window.post(&all, PostAssertion::NONE, |_| {
        refused(true)?;
        window.start(&all, Assertion::None, |epoch| {
            refused(false)?;
            // Another window has epochs of its own.
            let mut copy = [0];
            other.lock_all(Assertion::None, |epoch| epoch.get_now(&mut copy, 0, 0))?;
            expect("on the other window", copy, [-5]).map_err(|_| state("wrong value"))?;
            epoch.get(fourth, rank, 0)
        })
    })?;
    expect("the epochs worked on", copies, [rank as i64; 4])?;
    // An error inside closes the epoch, too.
    let error = window.lock_all(Assertion::None, |_| Err::<(), _>(state("inside")));
    expect("the body's error", error, Err(state("inside")))?;
    window.lock_all(Assertion::None, |_| Ok(()))?;
    communicator.barrier()?;
    other.free()?;
    window.free()?;
    Ok(())
}

/// Each rank asks for memory of another type: every rank is told, and MPI is not asked for what can't be had.
pub fn odd_allocations(communicator: &Communicator) -> Outcome {
    let size = communicator.size();
    if size > 1 && super::can_share(communicator) {
        let result = if communicator.rank() == 0 {
            Window::<u8>::allocate_shared(communicator, 3, None).map(drop)
        } else {
            Window::<f64>::allocate_shared(communicator, 2, None).map(drop)
        };
        argument(&result, "memory")?;
    }
    let huge = Window::<u64>::allocate(communicator, 1 << 50, None);
    argument(&huge, "length")?;
    let huge = Window::<u64>::allocate_shared(communicator, 1 << 50, None);
    argument(&huge, "length")?;
    communicator.barrier()?;
    Ok(())
}

pub fn errors(communicator: &Communicator) -> Outcome {
    let size = communicator.size();
    let window = Window::create(communicator, exposed(communicator), None)?;
    let (mut first, mut second) = ([0; 2], [0; 2]);
    let refused = window.locks(|epoch| {
        epoch.lock(LockKind::Shared, 0, Assertion::None)?;
        let again = epoch.lock(LockKind::Shared, 0, Assertion::None);
        argument(&again, "rank")?;
        argument(&epoch.lock(LockKind::Shared, size, Assertion::None), "rank")?;
        epoch.get(&mut first, 0, 0)?;
        if size > 1 {
            argument(&epoch.get(&mut second, 1, 0), "rank")?;
            argument(&epoch.flush(1), "rank")?;
        }
        Ok(())
    });
    refused?;
    expect("the lock worked on", first, [0, 1])?;
    let error = window.lock_all(Assertion::NoCheck, |epoch| {
        epoch.lock(LockKind::Shared, 0, Assertion::None)
    });
    argument(&error, "rank")?;
    let error = window.lock(LockKind::Shared, size, Assertion::None, |_| Ok(()));
    argument(&error, "rank")?;
    communicator.barrier()?;
    window.free()?;
    Ok(())
}
