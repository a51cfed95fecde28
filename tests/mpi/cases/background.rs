//! Redistributions in the background: every variant, while the sources compute and read what moves.

use std::sync::Arc;

use malleus::memory::{Arena, Block};
use malleus::mpi::window::Reading;
use malleus::mpi::{Communicator, elements_of, elements_of_mut};
use malleus::partition::Partition;
use malleus::redistribute::{Background, Error, Move, Role, Strategy, Variant};

use super::collectives::refused_argument;
use super::expect;
use crate::harness::{Case, Outcome};

pub fn cases() -> Vec<Case> {
    vec![
        Case::on_each("background_redistributions", &[1, 2, 3], redistributions).seconds(180),
        Case::on_each("background_without_waiting", &[2], without_waiting),
        Case::on_each("background_refused", &[2], refused),
        Case::on_each("window_reading", &[1, 2, 3], reading),
    ]
}

/// A rank's block of elements of 8 bytes.
fn block(partition: &Partition, rank: usize) -> Result<Block, malleus::memory::Error> {
    let arena = Arena::new("test")?;
    let base = arena.append(8 * partition.len())?;
    let range = partition.range(rank);
    arena.map(base, 8 * range.start..8 * range.end)
}

fn value(array: u64, index: u64) -> u64 {
    (array + 1) << 40 | index.wrapping_mul(0x9e37_79b9) & 0xffff_ffff
}

fn expected(array: u64, partition: &Partition, rank: usize) -> Vec<u64> {
    partition
        .range(rank)
        .map(|index| value(array, index))
        .collect()
}

/// Two arrays, one in blocks and one with cut points, of which a rank has nothing.
fn moves(
    communicator: &Communicator,
    (from, to): (usize, usize),
) -> Result<Vec<Move>, Box<dyn std::error::Error>> {
    let rank = communicator.rank();
    let cuts = |ranks: usize| {
        let mut cuts: Vec<u64> = (0..ranks as u64).map(|rank| rank * rank * 7).collect();
        cuts.push(30_000);
        Partition::cuts(cuts)
    };
    let partitions = [
        (Partition::block(20_011, from), Partition::block(20_011, to)),
        (cuts(from)?, cuts(to)?),
    ];
    let mut moves = Vec::new();
    for (array, (from, to)) in partitions.into_iter().enumerate() {
        let mut source = block(&from, rank)?;
        let values = expected(array as u64, &from, rank);
        elements_of_mut::<u64>(source.as_bytes_mut())
            .ok_or("misaligned")?
            .copy_from_slice(&values);
        let mut target = block(&to, rank)?;
        target.as_bytes_mut().fill(0xee);
        moves.push(Move {
            from,
            to,
            element_size: 8,
            source: Arc::new(source),
            target,
        });
    }
    Ok(moves)
}

fn check(moved: &[Block], targets: &[Partition], rank: usize) -> Outcome {
    for (array, (block, to)) in moved.iter().zip(targets).enumerate() {
        let found = elements_of::<u64>(block.as_bytes()).ok_or("misaligned")?;
        if found != expected(array as u64, to, rank) {
            return Err(format!("array {array} has other values on rank {rank}").into());
        }
    }
    Ok(())
}

fn redistributions(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    for variant in Variant::ALL
        .into_iter()
        .filter(|variant| variant.is_background())
    {
        for (from, to) in [(size, size), (1, size), (size, 1), (size.div_ceil(2), size)] {
            let told = |what: &str| format!("{variant}, {from} to {to}: {what}");
            let moves = moves(communicator, (from, to))?;
            let targets: Vec<_> = moves.iter().map(|moved| moved.to.clone()).collect();
            let sources: Vec<_> = moves
                .iter()
                .map(|moved| Arc::clone(&moved.source))
                .collect();
            let before = moves[0].from.clone();
            let role = Role::of(rank, &before, &targets[0]);
            let mut background = Background::start(communicator, variant, moves)?;
            let mut iterations = 0;
            while !background.test()? {
                // What the application does meanwhile: it reads.
                let found = elements_of::<u64>(sources[0].as_bytes()).ok_or("misaligned")?;
                let ends = [found.first().copied(), found.last().copied()];
                let expected = expected(0, &before, rank);
                let last = expected.last().copied();
                expect(&told("reads"), ends, [expected.first().copied(), last])?;
                iterations += 1;
                std::thread::yield_now();
            }
            // With NB nobody waits.
            if role == Role::TargetOnly && variant.strategy() != Strategy::NonBlocking {
                expect(&told("a target only waits"), iterations, 0)?;
            }
            expect(&told("it stays complete"), background.test()?, true)?;
            let (moved, times) = background.finish()?;
            check(&moved, &targets, rank).map_err(|error| told(&error.to_string()))?;
            expect(&told("time"), times.transfer.is_zero(), false)?;
            // The sources' blocks are theirs alone again.
            for (array, source) in sources.into_iter().enumerate() {
                expect(&told("holders"), Arc::strong_count(&source), 1)?;
                if array == 0 {
                    let found = elements_of::<u64>(source.as_bytes())
                        .ok_or("misaligned")?
                        .to_vec();
                    expect(&told("source"), found == expected(0, &before, rank), true)?;
                }
            }
            communicator.barrier()?;
        }
    }
    Ok(())
}

/// `finish` at once does the whole work.
fn without_waiting(communicator: &Communicator) -> Outcome {
    for variant in Variant::ALL
        .into_iter()
        .filter(|variant| variant.is_background())
    {
        let moves = moves(communicator, (1, communicator.size()))?;
        let targets: Vec<_> = moves.iter().map(|moved| moved.to.clone()).collect();
        let (moved, _) = Background::start(communicator, variant, moves)?.finish()?;
        check(&moved, &targets, communicator.rank())?;
        let (nothing, _) = Background::start(communicator, variant, Vec::new())?.finish()?;
        expect("no array", nothing.len(), 0)?;
    }
    Ok(())
}

fn refused(communicator: &Communicator) -> Outcome {
    let size = communicator.size();
    let blocking = "rma2".parse()?;
    let refused = Background::start(communicator, blocking, moves(communicator, (1, size))?);
    let Err(Error::NotInBackground { variant }) = refused else {
        return Err(format!("{refused:?}").into());
    };
    expect("variant", variant, blocking)?;
    let mut wrong = moves(communicator, (1, size))?;
    wrong[1].element_size = 4;
    let refused = Background::start(communicator, "rma2-wt".parse()?, wrong);
    expect("length", matches!(refused, Err(Error::Length { .. })), true)
}

/// A ring: each rank reads from the next one, in an epoch that stays open over other calls.
fn reading(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let next = (rank + 1) % size;
    let exposed: Arc<[i64]> = (0..10).map(|index| 100 * rank as i64 + index).collect();
    for locks_all in [true, false] {
        let mut reading =
            Reading::create(communicator, Arc::clone(&exposed), vec![-1_i64; 8], None)?;
        let argument = |result| refused_argument(result);
        expect(
            "no lock",
            argument(reading.read(next, 0, 0..2)),
            Some("rank"),
        )?;
        if locks_all {
            reading.lock_all()?;
        } else {
            reading.lock(next)?;
        }
        let again = [reading.lock_all(), reading.lock(next)];
        expect("twice", again.map(|result| result.is_err()), [true; 2])?;
        expect("no rank", argument(reading.lock(size)), Some("rank"))?;
        reading.read(next, 2, 0..2)?;
        for (what, result, name) in [
            (
                "a range that is read into",
                reading.read(next, 0, 1..3),
                "destination",
            ),
            (
                "beyond the buffer",
                reading.read(next, 0, 7..9),
                "destination",
            ),
            (
                "beyond what is exposed",
                reading.read(next, 9, 4..6),
                "displacement",
            ),
            ("no such rank", reading.read(size, 0, 4..6), "rank"),
        ] {
            expect(what, argument(result), Some(name))?;
        }
        while !reading.test()? {}
        // The epoch is open while others are told, and what is exposed is still readable here.
        communicator.barrier()?;
        expect("own", exposed[1], 100 * rank as i64 + 1)?;
        reading.get(next, 9, 5..6)?;
        reading.read(next, 0, 6..6)?;
        let (own, read) = reading.free()?;
        expect("what was exposed", &own, &exposed)?;
        let base = 100 * next as i64;
        let expected = vec![base + 2, base + 3, -1, -1, -1, base + 9, -1, -1];
        expect("what was read", read, expected)?;
    }
    expect("the only holder", Arc::strong_count(&exposed), 1)
}
