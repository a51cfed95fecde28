//! Point-to-point, requests in a scope and requests that own their buffers, and what happens to them when a
//! program forgets, drops or fails.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use malleus::mpi::collective::BlockLayout;
use malleus::mpi::request::{
    OwnedPieces, TestAny, test_all, test_any, test_some, wait_all, wait_any, wait_some,
};
use malleus::mpi::{
    Communicator, Destination, Environment, Error, ErrorClass, Operation, Source, Tag,
};

use super::collectives::{filled, refused_argument};
use super::expect;
use super::persistent::ends_with;
use crate::harness::{Case, Outcome, Run};

pub fn cases() -> Vec<Case> {
    vec![
        Case::on_each("point_to_point", &[1, 2, 3], point_to_point),
        Case::ranks("point_to_point_errors", &[2], point_to_point_errors),
        Case::bare("a_status_outlives_mpi", &[1], a_status_outlives_mpi),
        Case::ranks("other_elements", &[2], other_elements),
        Case::on_each("requests_in_a_scope", &[1, 2, 3], in_a_scope),
        Case::on_each("request_sets", &[1, 2, 3], sets),
        Case::ranks("request_errors", &[2], request_errors),
        Case::on_each("collectives_in_a_scope", &[1, 2, 3], collectives_in_a_scope),
        Case::on_each("owned_requests", &[1, 2, 3], owned),
        Case::on_each("owned_pieces", &[1, 2, 3], pieces),
        Case::ranks("requests_as_raw", &[2], raw),
        Case::ranks("worker_that_drops_a_request", &[], drops_a_request),
        Case::command("a_request_dropped_ends_the_job", |run| {
            ends_with(
                run,
                "worker_that_drops_a_request",
                "was dropped before its end",
            )
        }),
        Case::ranks("worker_that_forgets_a_request", &[], forgets_a_request),
        Case::command("a_request_forgotten_is_an_error", |run| {
            ends_with(
                run,
                "worker_that_forgets_a_request",
                "the environment is still in use",
            )
        }),
        Case::ranks("worker_that_panics_in_a_scope", &[], panics_in_a_scope),
        Case::command("a_panic_in_a_scope_ends_the_job", |run| {
            ends_with(
                run,
                "worker_that_panics_in_a_scope",
                "a panic inside a scope",
            )
        }),
        Case::ranks("worker_whose_scope_fails", &[], fails_in_a_scope),
        Case::command("a_scope_that_fails_and_cannot_end_ends_the_job", in_time),
    ]
}

fn point_to_point(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut received = [-7_i32; 4];
    let sent = [rank as i32, 5, 6];
    let status =
        communicator.send_receive((&sent, next, 11), (&mut received, Source::Any, Tag::Any))?;
    expect("send_receive", received, [previous as i32, 5, 6, -7])?;
    expect("source", status.source(), Some(previous))?;
    expect("tag", status.tag(), Some(11))?;
    expect("count", status.count::<i32>(), Some(3))?;
    expect("no whole number of f64", status.count::<f64>(), None)?;
    expect("in bytes", status.count::<u8>(), Some(12))?;

    // Nowhere and from nowhere.
    communicator.send(&sent, Destination::Null, 1)?;
    let status = communicator.receive(&mut received, Source::Null, 1)?;
    expect(
        "nothing came",
        (status.source(), status.count::<i32>()),
        (None, Some(0)),
    )?;
    expect(
        "the buffer is as it was",
        received,
        [previous as i32, 5, 6, -7],
    )?;

    expect(
        "nothing to receive",
        communicator.iprobe(Source::Any, Tag::Any)?.is_none(),
        true,
    )?;
    communicator.barrier()?;
    if rank == 0 {
        for destination in 1..size {
            communicator.send(&vec![0.5_f64; destination], destination, 20)?;
            communicator.synchronous_send(&[] as &[u8], destination, 21)?;
        }
    } else {
        let status = communicator.probe(Source::Any, 20)?;
        let count = status.count::<f64>().ok_or("no count")?;
        expect(
            "what the probe tells",
            (status.source(), count),
            (Some(0), rank),
        )?;
        let mut buffer = vec![f64::NAN; count];
        communicator.receive(&mut buffer, 0, status.tag().ok_or("no tag")?)?;
        expect("as many", buffer, vec![0.5; rank])?;
        communicator.receive::<u8>(&mut [], 0, 21)?;
    }
    communicator.barrier()?;
    Ok(())
}

/// MPI's own functions would end the process.
fn a_status_outlives_mpi() -> Outcome {
    let environment = Environment::init()?;
    let alone = environment.self_communicator();
    let mut received = [0_u16; 8];
    let status = alone.send_receive((&[1_u16, 2, 3], 0, 5), (&mut received, 0, 5))?;
    drop(alone);
    environment.finalize()?;
    let counts = (
        status.count::<u16>(),
        status.count::<u8>(),
        status.count::<u32>(),
    );
    expect("counts", counts, (Some(3), Some(6), None))?;
    expect("cancelled", status.is_cancelled(), false)
}

fn point_to_point_errors(environment: &Environment) -> Outcome {
    let world = environment.world();
    let other = 1 - world.rank();
    let class = |result: Result<(), Error>| result.err().and_then(|error| error.class());
    expect(
        "a rank beyond",
        class(world.send(&[1], 2, 0)),
        Some(ErrorClass::RANK),
    )?;
    expect(
        "a negative tag",
        class(world.send(&[1], other, -5)),
        Some(ErrorClass::TAG),
    )?;
    let beyond = world.send(&[1], usize::MAX, 0);
    expect(
        "a rank beyond int",
        refused_argument(beyond),
        Some("destination"),
    )?;
    let probed = world.iprobe(7, 0).map(drop);
    expect("a source beyond", class(probed), Some(ErrorClass::RANK))?;
    world.barrier()?;
    // A message longer than the buffer does not reach beyond it.
    let mut memory = [-7_i64; 8];
    for length in [4, 200_000] {
        let sent = vec![9_i64; length];
        if world.rank() == 0 {
            world.send(&sent, 1, 2)?;
        } else {
            let received = world.receive(&mut memory[2..5], 0, 2).map(drop);
            expect("truncated", class(received), Some(ErrorClass::TRUNCATE))?;
            expect("before", memory[..2].to_vec(), vec![-7; 2])?;
            expect("behind", memory[5..].to_vec(), vec![-7; 3])?;
        }
        world.barrier()?;
    }
    Ok(())
}

/// A message that is no whole number of the receiver's elements.
fn other_elements(environment: &Environment) -> Outcome {
    let world = environment.world();
    let other = 1 - world.rank();
    for length in [5, 100_001] {
        let sent = vec![0x11_u8; length];
        let mut bytes = vec![-1_i32; length];
        world.exchange(|exchange| {
            exchange.send(&sent, other, 3)?;
            let status = exchange.ireceive(&mut bytes, other, 3)?.wait_status()?;
            assert_eq!(
                (status.count::<i32>(), status.count::<u8>()),
                (None, Some(length))
            );
            Ok(())
        })?;
        let whole = length / 4;
        expect(
            "whole ones",
            bytes[..whole].iter().all(|&word| word == 0x1111_1111),
            true,
        )?;
        expect("a part of one", bytes[whole], -1 << 8 | 0x11)?;
        expect(
            "not beyond",
            bytes[whole + 1..].iter().all(|&word| word == -1),
            true,
        )?;
    }
    Ok(())
}

fn in_a_scope(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let send = vec![rank as f32; 50_000];
    let (mut waited, mut tested, mut left, mut forgotten) = (
        vec![-1.0_f32; 50_000],
        vec![-1.0_f32; 50_000],
        vec![-1.0_f32; 50_000],
        vec![-1.0_f32; 50_000],
    );
    let found = communicator.exchange(|exchange| {
        let receives = [
            exchange.ireceive(&mut waited, previous, 0)?,
            exchange.ireceive(&mut tested, previous, 1)?,
            exchange.ireceive(&mut left, Source::Any, 2)?,
            exchange.ireceive(&mut forgotten, previous, Tag::Any)?,
        ];
        let sends = (0..4)
            .map(|tag| exchange.isend(&send, next, tag))
            .collect::<Result<Vec<_>, _>>()?;
        let [first, mut second, third, fourth] = receives;
        let status = first.wait_status()?;
        while !second.test()? {}
        expect_again(second.test()?)?;
        drop(third);
        std::mem::forget(fourth);
        std::mem::forget(sends);
        Ok((status.source(), status.tag(), status.count::<f32>()))
    })?;
    expect("status", found, (Some(previous), Some(0), Some(50_000)))?;
    for buffer in [waited, tested, left, forgotten] {
        let is_there = buffer.iter().all(|&value| value == previous as f32);
        expect("received at the end of the scope", is_there, true)?;
    }
    Ok(())
}

fn expect_again(done: bool) -> malleus::mpi::Result<()> {
    assert!(done, "complete once, complete for ever");
    Ok(())
}

fn sets(communicator: &Communicator) -> Outcome {
    const MANY: usize = 5;
    let (rank, size) = (communicator.rank(), communicator.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    for way in 0..6 {
        let mut received = vec![-1_i32; MANY];
        let sent: Vec<i32> = (0..MANY).map(|index| (10 * rank + index) as i32).collect();
        let order = communicator.exchange(|exchange| {
            let mut requests = received
                .chunks_mut(1)
                .zip(0..)
                .map(|(element, tag)| exchange.ireceive(element, previous, tag))
                .collect::<Result<Vec<_>, _>>()?;
            for (element, tag) in sent.chunks(1).zip(0..) {
                exchange.send(element, next, tag)?;
            }
            let mut order = Vec::new();
            match way {
                0 => order = (0..wait_all(&mut requests)?.len()).collect(),
                1 => loop {
                    if let Some(statuses) = test_all(&mut requests)? {
                        order = (0..statuses.len()).collect();
                        break;
                    }
                },
                2 => {
                    while let Some((index, status)) = wait_any(&mut requests)? {
                        assert_eq!(status.tag(), i32::try_from(index).ok());
                        order.push(index);
                    }
                }
                3 => loop {
                    match test_any(&mut requests)? {
                        TestAny::Complete(index, _) => order.push(index),
                        TestAny::Pending => {}
                        TestAny::Finished => break,
                    }
                },
                4 => {
                    while let Some(some) = wait_some(&mut requests)? {
                        order.extend(some.into_iter().map(|(index, _)| index));
                    }
                }
                _ => {
                    while let Some(some) = test_some(&mut requests)? {
                        order.extend(some.into_iter().map(|(index, _)| index));
                    }
                }
            }
            assert!(
                wait_all(&mut requests)?
                    .iter()
                    .all(|status| status.source().is_none())
            );
            Ok(order)
        })?;
        let mut sorted = order.clone();
        sorted.sort_unstable();
        expect("each index once", sorted, (0..MANY).collect())?;
        let expected = (0..MANY)
            .map(|index| (10 * previous + index) as i32)
            .collect();
        expect("received", received, expected)?;
        communicator.barrier()?;
    }
    expect("no requests at all", wait_all(&mut [])?.len(), 0)?;
    expect("none of none", wait_any(&mut [])?.is_none(), true)
}

fn request_errors(environment: &Environment) -> Outcome {
    let world = environment.world();
    let other = 1 - world.rank();
    // The first error of several operations is the one that is reported, and all are complete.
    let (mut short, mut long) = ([-7_i32; 2], [-7_i32; 4]);
    let sent = [1, 2, 3, 4];
    let error = world
        .exchange(|exchange| {
            exchange.receive(&mut short, other, 1)?;
            exchange.receive(&mut long, other, 2)?;
            exchange.send(&sent, other, 1)?;
            exchange.send(&sent, other, 2)
        })
        .unwrap_err();
    expect("truncated", error.class(), Some(ErrorClass::TRUNCATE))?;
    expect("the other one is there", long, sent)?;
    world.barrier()?;
    // A body that fails takes its receives back.
    let mut never = [249_u8; 3];
    let started = Instant::now();
    let error = world
        .exchange(|exchange| {
            exchange.receive(&mut never, Source::Any, Tag::Any)?;
            exchange.send(&[1_u8], 9, 1)
        })
        .unwrap_err();
    expect("the body's error", error.class(), Some(ErrorClass::RANK))?;
    expect("at once", started.elapsed() < Duration::from_secs(5), true)?;
    world.barrier()?;
    world.send(&[5_u8], other, 1)?;
    let mut byte = [0_u8];
    world.receive(&mut byte, other, 1)?;
    expect(
        "the message went to the second receive",
        (byte, never),
        ([5], [249; 3]),
    )?;
    // What can be cancelled, and what can't.
    let mut buffer = [-7_i32; 1];
    world.exchange(|exchange| {
        let mut receive = exchange.ireceive(&mut buffer, other, 99)?;
        receive.cancel()?;
        assert!(receive.wait_status()?.is_cancelled());
        let mut send = exchange.isend(&[1_i32], world.rank(), 98)?;
        assert_eq!(refused_argument(send.cancel()), Some("request"));
        exchange
            .ireceive(Box::leak(Box::new([0_i32])), world.rank(), 98)?
            .wait()?;
        send.wait()
    })?;
    expect("nothing came", buffer, [-7])?;
    let mut barrier = world.ibarrier()?;
    expect(
        "a barrier",
        refused_argument(barrier.cancel()),
        Some("request"),
    )?;
    barrier.wait()?;
    Ok(())
}

fn collectives_in_a_scope(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let count = |from: usize, to: usize| (from + 2 * to) % 3;
    let value = |from: usize, to: usize, index: usize| (1000 * from + 10 * to + index) as i64;
    let sends = BlockLayout::packed((0..size).map(|to| count(rank, to)).collect());
    let receives = BlockLayout::packed((0..size).map(|from| count(from, rank)).collect());
    let sent = filled(&sends, sends.total(), |to, index| value(rank, to, index));
    let mut exchanged = vec![-7; receives.total()];
    let mut text = if rank == size - 1 {
        [1.25; 3]
    } else {
        [-7.0; 3]
    };
    let mut sum = [rank as u32, 1];
    let own = [rank as u16];
    let mut gathered = vec![u16::MAX; size];
    communicator.exchange(|exchange| {
        let first = exchange.ibroadcast(&mut text, size - 1)?;
        let mut second = exchange.iall_reduce(&mut sum, Operation::Sum)?;
        drop(exchange.iall_gather(&own, &mut gathered)?);
        std::mem::forget(exchange.iall_to_all_v(&sent, &sends, &mut exchanged, &receives)?);
        first.wait()?;
        while !second.test()? {}
        Ok(())
    })?;
    expect("ibroadcast", text, [1.25; 3])?;
    expect(
        "iall_reduce",
        sum,
        [(size * (size - 1) / 2) as u32, size as u32],
    )?;
    expect("iall_gather", gathered, (0..size as u16).collect())?;
    let expected = filled(&receives, receives.total(), |from, index| {
        value(from, rank, index)
    });
    expect("iall_to_all_v", exchanged, expected)
}

fn owned(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let receive = communicator.ireceive(vec![-1_i64; 70_000], previous, 4)?;
    let send = communicator.isend(vec![rank as i64; 60_000].into_boxed_slice(), next, 4)?;
    let (received, status) = receive.wait_status()?;
    expect(
        "status",
        (status.source(), status.count::<i64>()),
        (Some(previous), Some(60_000)),
    )?;
    let is_there = received[..60_000]
        .iter()
        .all(|&value| value == previous as i64);
    expect("received", is_there, true)?;
    expect(
        "not beyond",
        received[60_000..].iter().all(|&value| value == -1),
        true,
    )?;
    expect("the sent buffer comes back", send.wait()?[0], rank as i64)?;

    let count = |from: usize, to: usize| 1000 * ((from + 2 * to) % 3);
    let value =
        |from: usize, to: usize, index: usize| (100_000 * from + 10_000 * to + index) as i64;
    let sends = BlockLayout::packed((0..size).map(|to| count(rank, to)).collect());
    let receives = BlockLayout::packed((0..size).map(|from| count(from, rank)).collect());
    let sent = filled(&sends, sends.total(), |to, index| value(rank, to, index));
    let shared = std::sync::Arc::new(sent);
    let mut request = communicator.iall_to_all_v(
        std::sync::Arc::clone(&shared),
        &sends,
        vec![-7; receives.total()],
        &receives,
    )?;
    // The operation keeps its own counts and displacements.
    drop((sends, receives.clone()));
    while !request.test()? {}
    let (back, exchanged) = request.wait()?;
    expect(
        "the same buffer",
        std::sync::Arc::ptr_eq(&back, &shared),
        true,
    )?;
    let expected = filled(&receives, receives.total(), |from, index| {
        value(from, rank, index)
    });
    expect("iall_to_all_v", exchanged, expected)?;

    let sum = communicator
        .iall_reduce(vec![1_u8], Operation::Sum)?
        .wait()?;
    expect("iall_reduce", sum, vec![size as u8])?;
    let text = communicator.ibroadcast(vec![if rank == 0 { 3.5_f64 } else { 0.0 }], 0)?;
    expect("ibroadcast", text.wait()?, vec![3.5])?;
    let gather = communicator.iall_gather(vec![rank as u32], vec![u32::MAX; size])?;
    expect("iall_gather", gather.wait()?.1, (0..size as u32).collect())?;
    // One that is complete may be dropped.
    let mut request = communicator.iall_reduce(vec![1_u8], Operation::Sum)?;
    while !request.test()? {}
    drop(request);
    let refused = communicator.iall_gather(vec![1_u8], vec![0_u8; size + 1]);
    expect(
        "the wrong length",
        refused_argument(refused),
        Some("buffer"),
    )
}

/// A ring in two parts, while this rank goes on reading what it sends.
fn pieces(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let sent: Arc<[i32]> = (0..10).map(|index| 100 * rank as i32 + index).collect();
    let mut pieces = OwnedPieces::new(communicator, Arc::clone(&sent), vec![-1; 9]);
    pieces.copy(7..9, 0)?;
    pieces.ireceive(2..5, previous, 0)?;
    let misuse = [
        ("received into already", pieces.ireceive(4..6, previous, 0)),
        ("beyond the buffer", pieces.ireceive(8..10, previous, 0)),
        (
            "backwards",
            pieces.isend(Range { start: 3, end: 2 }, next, 0),
        ),
        ("beyond what is sent", pieces.isend(8..11, next, 0)),
        ("a copy of what is not there", pieces.copy(9..11, 5)),
        ("a copy beyond the buffer", pieces.copy(0..3, 7)),
        ("a copy to the end of memory", pieces.copy(0..3, usize::MAX)),
    ];
    for (what, result) in misuse {
        expect(what, refused_argument(result), Some("range"))?;
    }
    pieces.ireceive(6..8, previous, 0)?;
    pieces.isend(0..3, next, 0)?;
    pieces.isend(4..6, next, 0)?;
    while !pieces.test()? {
        expect("own", sent[9], 100 * rank as i32 + 9)?;
    }
    let (own, received) = pieces.finish()?;
    expect("what was sent", &own, &sent)?;
    let (mine, base) = (100 * rank as i32, 100 * previous as i32);
    let expected = vec![
        mine + 7,
        mine + 8,
        base,
        base + 1,
        base + 2,
        -1,
        base + 4,
        base + 5,
        -1,
    ];
    expect("what was received", received, expected)?;
    drop(own);
    expect("the only holder", Arc::strong_count(&sent), 1)
}

#[allow(unsafe_code)]
fn raw(environment: &Environment) -> Outcome {
    use malleus::mpi::request::Request;
    let world = environment.world();
    let raw = world.ibarrier()?.into_raw();
    // SAFETY: the request is a barrier's, which has no buffers, and it was given away.
    let request = unsafe { Request::from_raw(raw, environment) };
    request.wait()?;
    Ok(())
}

fn drops_a_request(environment: &Environment) -> Outcome {
    let world = environment.world();
    // Nobody sends it.
    drop(world.ireceive(vec![0_u8; 8], (world.rank() + 1) % 2, 1)?);
    Ok(())
}

fn forgets_a_request(environment: &Environment) -> Outcome {
    let world = environment.world();
    std::mem::forget(world.ireceive(vec![0_u8; 8], (world.rank() + 1) % 2, 1)?);
    // The other rank does not end before this one has said what is wrong.
    world.barrier()?;
    Ok(())
}

fn panics_in_a_scope(environment: &Environment) -> Outcome {
    let world = environment.world();
    let mut buffer = [0_u8; 8];
    world.exchange(|exchange| {
        exchange.receive(&mut buffer, (world.rank() + 1) % 2, 1)?;
        assert!(world.rank() > 5, "on purpose");
        Ok(())
    })?;
    Ok(())
}

/// Both ranks start a send beyond the eager limit, fail, and take their receives back.
fn fails_in_a_scope(environment: &Environment) -> Outcome {
    let world = environment.world();
    let other = (world.rank() + 1) % 2;
    let (send, mut receive) = (vec![1.0; 1_000_000], vec![0.0; 10]);
    world.exchange(|exchange| {
        exchange.send(&send, other, 1)?;
        exchange.receive(&mut receive, 17, 1)
    })?;
    Ok(())
}

fn in_time(run: &Run) -> Outcome {
    let started = Instant::now();
    ends_with(run, "worker_whose_scope_fails", "can't be given back")?;
    expect("in time", started.elapsed() < Duration::from_secs(30), true)
}
