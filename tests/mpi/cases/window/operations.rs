//! Operations, each one on windows of every flavour in epochs of every kind.

use malleus::mpi::window::{
    AccumulateOperation, Assertion, BitOperation, Epoch, FenceAssertion, LockKind, OperationOn,
    PROC_NULL, PostAssertion, Strided, Window,
};
use malleus::mpi::{Communicator, Result};

use super::{AnyWindow, POISON, argument, state};
use crate::cases::expect;
use crate::harness::Outcome;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Fence,
    Start,
    Lock,
    LockAll,
}

/// A place to try an operation: one window, one kind of epoch.
pub struct Place<'a> {
    communicator: &'a Communicator,
    window: &'a AnyWindow,
    kind: Kind,
}

/// Tries an operation on windows of every flavour in epochs of every kind.
pub fn in_each(communicator: &Communicator, check: fn(&Place<'_>) -> Outcome) -> Outcome {
    AnyWindow::each(communicator, 12, |window, _| {
        for kind in [Kind::Fence, Kind::Start, Kind::Lock, Kind::LockAll] {
            let place = Place {
                communicator,
                window,
                kind,
            };
            check(&place).map_err(|error| -> Box<dyn std::error::Error> {
                format!("{kind:?}: {error}").into()
            })?;
        }
        Ok(())
    })
}

impl Place<'_> {
    fn rank(&self) -> usize {
        self.communicator.rank()
    }

    fn size(&self) -> usize {
        self.communicator.size()
    }

    /// Poisons the exposed memory, or fills it.
    fn fill(&self, value: i32) -> Outcome {
        self.communicator.barrier()?;
        self.window.memory().fill(value);
        self.communicator.barrier()?;
        Ok(())
    }

    /// Runs `body` in an epoch that reaches everybody. When it returns, everybody's operations are complete.
    fn epoch<'buffers, F>(&self, body: F) -> Result<()>
    where
        F: for<'scope> FnOnce(&'scope Epoch<'scope, 'buffers, i32>) -> Result<()>,
    {
        let window = self.window.window();
        match self.kind {
            Kind::Fence => {
                window.fence(FenceAssertion::NONE, FenceAssertion::NO_STORE, |epoch| {
                    body(epoch)
                })?;
            }
            Kind::Start => {
                let all = window.group()?;
                window.post(&all, PostAssertion::NONE, |_| {
                    window.start(&all, Assertion::None, |epoch| body(epoch))
                })?;
            }
            Kind::Lock => window.locks(|epoch| {
                for rank in 0..window.size() {
                    epoch.lock(LockKind::Shared, rank, Assertion::None)?;
                }
                body(epoch)
            })?,
            Kind::LockAll => window.lock_all(Assertion::NoCheck, |epoch| body(epoch))?,
        }
        self.communicator.barrier()
    }
}

/// Each rank writes to the next one, and reads from the one after.
pub fn put_get(place: &Place<'_>) -> Outcome {
    let (rank, size) = (place.rank(), place.size());
    place.fill(POISON)?;
    let next = (rank + 1) % size;
    let previous = (rank + size - 1) % size;
    let source = [0, 1, 2].map(|index| (100 * rank + index) as i32);
    let at = place.window.at(next, 4);
    place.epoch(|epoch| {
        epoch.put(&source, next, at)?;
        epoch.put(&[], next, at)?;
        epoch.get(&mut [], next, at)
    })?;
    let mut expected = vec![POISON; 12];
    for index in 0..3 {
        expected[4 + index] = (100 * previous + index) as i32;
    }
    expect("put", place.window.memory().to_vec(), expected.clone())?;
    let mut copy = [-1; 12];
    let at = place.window.at(next, 0);
    place.epoch(|epoch| epoch.get(&mut copy, next, at))?;
    for index in 0..3 {
        expected[4 + index] = (100 * rank + index) as i32;
    }
    expect("get", copy.to_vec(), expected)
}

/// A column of a matrix of 3 × 4.
pub fn strided(place: &Place<'_>) -> Outcome {
    let (rank, size) = (place.rank(), place.size());
    place.fill(POISON)?;
    let next = (rank + 1) % size;
    let previous = (rank + size - 1) % size;
    let environment = place.communicator.environment();
    let column = Strided::new(&environment, 1, 4, 3)?;
    expect(
        "what a column takes",
        (column.packed(), column.extent()),
        (3, 9),
    )?;
    let source = [0, 1, 2].map(|row| (10 * rank + row) as i32);
    let at = place.window.at(next, 3);
    place.epoch(|epoch| epoch.put_strided(&source, next, at, &column))?;
    let mut expected = vec![POISON; 12];
    for row in 0..3 {
        expected[4 * row + 3] = (10 * previous + row) as i32;
    }
    expect("put", place.window.memory().to_vec(), expected)?;
    // Pairs: columns 2 and 3.
    let pairs = Strided::new(&environment, 2, 4, 3)?;
    let mut copy = [-1; 6];
    let at = place.window.at(next, 2);
    place.epoch(|epoch| epoch.get_strided(&mut copy, next, at, &pairs))?;
    let at_next = |row: usize| (10 * rank + row) as i32;
    expect(
        "get",
        copy,
        [POISON, at_next(0), POISON, at_next(1), POISON, at_next(2)],
    )?;
    let beyond = place.window.at(next, 4);
    let mut short = [-1; 5];
    let refused = place.epoch(|epoch| {
        let column_beyond = epoch.put_strided(&source, next, beyond, &column);
        let too_short = epoch.get_strided(&mut short, next, at, &pairs);
        argument(&column_beyond, "displacement").and(argument(&too_short, "destination"))
    });
    refused?;
    let empty = Strided::new(&environment, 0, 3, 5)?;
    place.epoch(|epoch| epoch.put_strided(&[], next, at, &empty))?;
    expect(
        "blocks that overlap",
        Strided::<i32>::new(&environment, 3, 2, 2).is_err(),
        true,
    )?;
    expect(
        "blocks that no memory holds",
        Strided::<i32>::new(&environment, 1, 1 << 40, 1 << 40).is_err(),
        true,
    )
}

type Combine = fn(i32, i32) -> i32;

/// Everybody combines the same numbers with rank 0's memory; what comes out does not depend on the order.
pub fn accumulate(place: &Place<'_>) -> Outcome {
    let (rank, size) = (place.rank(), place.size() as i32);
    let own = [rank as i32 + 1, 2];
    let reduce = |operation: fn(i32, i32) -> i32, first: i32| {
        [
            (1..=size).fold(first, operation),
            (0..size).fold(first, |sum, _| operation(sum, 2)),
        ]
    };
    let combined: [(AccumulateOperation, Combine); 4] = [
        (AccumulateOperation::Sum, |a, b| a + b),
        (AccumulateOperation::Product, |a, b| a * b),
        (AccumulateOperation::Minimum, i32::min),
        (AccumulateOperation::Maximum, i32::max),
    ];
    for (operation, function) in combined {
        accumulated(place, own, operation, reduce(function, 5))?;
    }
    let combined: [(BitOperation, Combine); 3] = [
        (BitOperation::And, |a, b| a & b),
        (BitOperation::Or, |a, b| a | b),
        (BitOperation::Xor, |a, b| a ^ b),
    ];
    for (operation, function) in combined {
        accumulated(place, own, operation, reduce(function, 5))?;
    }
    accumulated(place, [9, 8], AccumulateOperation::Replace, [9, 8])?;
    place.epoch(|epoch| {
        let nothing = epoch.accumulate(&own, 0, place.window.at(0, 0), AccumulateOperation::NoOp);
        argument(&nothing, "operation")
    })?;
    Ok(())
}

fn accumulated(
    place: &Place<'_>,
    own: [i32; 2],
    operation: impl OperationOn<i32>,
    expected: [i32; 2],
) -> Outcome {
    place.fill(5)?;
    let at = place.window.at(0, 10);
    place.epoch(|epoch| {
        epoch.accumulate(&own, 0, at, operation)?;
        epoch.accumulate(&[], 0, at, operation)
    })?;
    let mut whole = vec![5; 12];
    if place.rank() == 0 {
        whole[10..].copy_from_slice(&expected);
    }
    expect("accumulated", place.window.memory().to_vec(), whole)
}

/// Everybody adds one to rank 0's counter: each value is fetched once.
pub fn get_accumulate(place: &Place<'_>) -> Outcome {
    let (rank, size) = (place.rank(), place.size());
    place.fill(0)?;
    let (one, ten, mut fetched, mut none) = ([1], [10, 10], [-1], []);
    let mut pair = [-1, -1];
    let (counter, mine) = (place.window.at(0, 11), place.window.at(0, 2));
    place.epoch(|epoch| {
        epoch.get_accumulate(&one, &mut fetched, 0, counter, AccumulateOperation::Sum)?;
        epoch.get_accumulate(&[], &mut none, 0, counter, AccumulateOperation::Sum)?;
        if rank == size - 1 {
            epoch.get_accumulate(&ten, &mut pair, 0, mine, AccumulateOperation::Replace)?;
        }
        Ok(())
    })?;
    each_once(place.communicator, fetched[0])?;
    if rank == size - 1 {
        expect("what was replaced", pair, [0, 0])?;
    }
    if rank == 0 {
        let memory = place.window.memory().to_vec();
        let expected = [0, 0, 10, 10, 0, 0, 0, 0, 0, 0, 0, size as i32];
        expect("rank 0's memory", memory, expected.to_vec())?;
    }
    let (mut atomic, ignored) = ([-1, -1], [99, 99]);
    place.epoch(|epoch| {
        epoch.get_accumulate(&ignored, &mut atomic, 0, mine, AccumulateOperation::NoOp)
    })?;
    expect("an atomic get", atomic, [10, 10])?;
    let mut short = [-1];
    place.epoch(|epoch| {
        let refused = epoch.get_accumulate(&ten, &mut short, 0, mine, AccumulateOperation::Sum);
        argument(&refused, "result")
    })?;
    Ok(())
}

/// Fails unless the ranks have 0, 1, 2, … in some order.
pub fn each_once(communicator: &Communicator, value: i32) -> Outcome {
    let mut all = vec![-1; communicator.size()];
    communicator.all_gather(&[value], &mut all)?;
    all.sort_unstable();
    expect(
        "each value once",
        all,
        (0..communicator.size() as i32).collect(),
    )
}

pub fn fetch_and_op(place: &Place<'_>) -> Outcome {
    let (rank, size) = (place.rank(), place.size());
    place.fill(0)?;
    let (one, bit, mut fetched, mut bits) = (1, 1 << rank, -1, -1);
    let last = size - 1;
    let (counter, mask) = (place.window.at(last, 0), place.window.at(last, 11));
    place.epoch(|epoch| {
        epoch.fetch_and_op(&one, &mut fetched, last, counter, AccumulateOperation::Sum)?;
        epoch.fetch_and_op(&bit, &mut bits, last, mask, BitOperation::Or)
    })?;
    each_once(place.communicator, fetched)?;
    expect("the own bit was not set", bits & bit, 0)?;
    let (mut count, mut set) = (-1, -1);
    place.epoch(|epoch| {
        epoch.fetch_and_op(&one, &mut count, last, counter, AccumulateOperation::NoOp)?;
        epoch.fetch_and_op(&one, &mut set, last, mask, AccumulateOperation::NoOp)
    })?;
    expect("at the end", (count, set), (size as i32, (1 << size) - 1))
}

/// Everybody wants the element; one gets it.
pub fn compare_and_swap(place: &Place<'_>) -> Outcome {
    place.fill(0)?;
    let (own, free, mut fetched) = (place.rank() as i32 + 1, 0, -1);
    let at = place.window.at(0, 7);
    place.epoch(|epoch| epoch.compare_and_swap(&own, &free, &mut fetched, 0, at))?;
    let mut all = vec![-1; place.size()];
    place.communicator.all_gather(&[fetched], &mut all)?;
    let winners: Vec<usize> = (0..place.size()).filter(|&rank| all[rank] == 0).collect();
    expect("how many got it", winners.len(), 1)?;
    let winner = winners[0] as i32 + 1;
    if own != winner {
        expect("who has it", fetched, winner)?;
    }
    let mut now = [-1];
    place.epoch(|epoch| epoch.get(&mut now, 0, at))?;
    expect("who has it at the end", now, [winner])
}

/// The seven forms on nobody move nothing; so does a fence with none at all.
pub fn proc_null(place: &Place<'_>) -> Outcome {
    place.fill(POISON)?;
    let (source, one, compare) = ([1, 2], 1, POISON);
    let (mut get, mut accumulated, mut fetched, mut swapped) = ([-1; 2], [-1; 2], -1, -1);
    place.epoch(|_| Ok(()))?;
    place.epoch(|epoch| {
        let sum = AccumulateOperation::Sum;
        epoch.put(&source, PROC_NULL, 0)?;
        epoch.get(&mut get, PROC_NULL, 99)?;
        epoch.accumulate(&source, PROC_NULL, u64::MAX, sum)?;
        epoch.accumulate(&source, PROC_NULL, 0, AccumulateOperation::Replace)?;
        epoch.get_accumulate(&source, &mut accumulated, PROC_NULL, 0, sum)?;
        epoch.fetch_and_op(&one, &mut fetched, PROC_NULL, 0, sum)?;
        epoch.compare_and_swap(&one, &compare, &mut swapped, PROC_NULL, 0)
    })?;
    expect("what was read", (get, accumulated), ([-1; 2], [-1; 2]))?;
    expect("what was fetched", (fetched, swapped), (-1, -1))?;
    expect(
        "the exposed memory",
        place.window.memory().to_vec(),
        vec![POISON; 12],
    )
}

pub fn requests(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let next = (rank + 1) % size;
    let previous = (rank + size - 1) % size;
    AnyWindow::each(communicator, 12, |window, _| {
        window.memory().fill(POISON);
        communicator.barrier()?;
        let own = [rank as i32, 7];
        let at = |index| window.at(next, index);
        let (mut old, mut read) = ([-2; 2], [-1; 12]);
        window.window().lock_all(Assertion::None, |epoch| {
            epoch.rput(&own, next, at(0))?.wait()?;
            epoch.rput(&own, next, at(2))?.wait()?;
            epoch.flush(next)?;
            epoch
                .raccumulate(&own, next, at(2), AccumulateOperation::Sum)?
                .wait()?;
            epoch.flush(next)?;
            let mut request =
                epoch.rget_accumulate(&own, &mut old, next, at(2), AccumulateOperation::Product)?;
            while !request.test()? {}
            epoch.flush(next)?;
            let mut request = epoch.rget(&mut read, next, at(0))?;
            while !request.test()? {}
            for request in [
                epoch.rput(&[], next, at(0))?,
                epoch.rget(&mut [], next, at(0))?,
                epoch.raccumulate(&[], next, at(0), AccumulateOperation::Sum)?,
                epoch.rget_accumulate(&[], &mut [], next, at(0), AccumulateOperation::Sum)?,
            ] {
                request.wait()?;
            }
            Ok(())
        })?;
        communicator.barrier()?;
        expect("what was there", old, [2 * rank as i32, 14])?;
        let twelve = |rank: usize| {
            let mut memory = vec![POISON; 12];
            let rank = rank as i32;
            memory[..4].copy_from_slice(&[rank, 7, 2 * rank * rank, 98]);
            memory
        };
        expect("read from the next", read.to_vec(), twelve(rank))?;
        expect("exposed memory", window.memory().to_vec(), twelve(previous))
    })
}

pub fn requests_proc_null(communicator: &Communicator) -> Outcome {
    AnyWindow::each(communicator, 4, |window, _| {
        window.memory().fill(POISON);
        communicator.barrier()?;
        let (source, mut read, mut old) = ([1, 2], [-1; 2], [-1; 2]);
        window.window().lock_all(Assertion::None, |epoch| {
            let sum = AccumulateOperation::Sum;
            epoch.rput(&source, PROC_NULL, 0)?.wait()?;
            epoch.rget(&mut read, PROC_NULL, 0)?.wait()?;
            epoch.raccumulate(&source, PROC_NULL, 0, sum)?.wait()?;
            epoch
                .rget_accumulate(&source, &mut old, PROC_NULL, 0, sum)?
                .wait()
        })?;
        communicator.barrier()?;
        expect("what was read", (read, old), ([-1; 2], [-1; 2]))?;
        expect("exposed memory", window.memory().to_vec(), vec![POISON; 4])
    })
}

/// A lock and a counter made of operations that wait.
pub fn at_once(communicator: &Communicator) -> Outcome {
    let size = communicator.size();
    let window = Window::create(communicator, vec![0_u64; 3], None)?;
    let mut turn = 0;
    window.lock_all(Assertion::None, |epoch| {
        while epoch.compare_and_swap_now(1, 0, 0, 2)? != 0 {}
        // Under the lock nobody else changes the element: no atomicity is needed.
        let mut count = [0];
        epoch.get_now(&mut count, 0, 1)?;
        let count = count[0] + 1;
        let before = epoch.fetch_and_op_now(count, 0, 1, AccumulateOperation::Replace)?;
        epoch.flush(0)?;
        turn = before;
        let held = epoch.fetch_and_op_now(0, 0, 2, AccumulateOperation::Replace)?;
        epoch.flush(0)?;
        expect("the lock is held", held, 1).map_err(|_| state("the lock was lost"))?;
        let nobody = epoch.fetch_and_op_now(5, PROC_NULL, 0, AccumulateOperation::Sum)?;
        expect("nobody", nobody, 5).map_err(|_| state("nobody answered"))
    })?;
    each_once(communicator, turn as i32)?;
    let mut count = [0];
    window.lock(LockKind::Exclusive, 0, Assertion::None, |epoch| {
        epoch.get(&mut count, 0, 1)
    })?;
    expect("turns", count, [size as u64])?;
    communicator.barrier()?;
    window.free()?;
    Ok(())
}
