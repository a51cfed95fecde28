//! Persistent operations: each started several times with other values, also in place; the buffers come
//! back.

use malleus::mpi::collective::{BlockLayout, StridedLayout, Strides};
use malleus::mpi::persistent::start_all;
use malleus::mpi::request::Nothing;
use malleus::mpi::topology::Neighborhood;
use malleus::mpi::{Communicator, Environment, Info, Operation};

use super::collectives::{backwards, filled, refused_argument, value};
use super::expect;
use crate::harness::{Case, Outcome, Run};

const ROUNDS: usize = 3;

pub fn cases() -> Vec<Case> {
    vec![
        Case::on_each("persistent_reductions", &[1, 2, 3], reductions),
        Case::on_each("persistent_rooted", &[1, 2, 3], rooted),
        Case::on_each("persistent_gathers", &[1, 2, 3], gathers),
        Case::on_each("persistent_exchanges", &[1, 2, 3], exchanges),
        Case::on_each("persistent_point_to_point", &[1, 2, 3], point_to_point),
        Case::on_each("persistent_empty", &[1, 2, 3], empty),
        Case::ranks("persistent_handles", &[1, 2], handles),
        Case::ranks("worker_that_drops_an_active_operation", &[], drops_active),
        Case::command("an_active_operation_dropped_ends_the_job", |run| {
            ends_with(
                run,
                "worker_that_drops_an_active_operation",
                "was dropped before its end",
            )
        }),
    ]
}

/// That a worker case fails with this message, and in time.
pub fn ends_with(run: &Run, worker: &str, message: &str) -> Outcome {
    let ended = run.worker(worker, 2)?;
    expect("it fails", ended.status.success(), false)?;
    if !ended.stderr.contains(message) {
        return Err(format!("no {message:?} in: {}{}", ended.stdout, ended.stderr).into());
    }
    Ok(())
}

fn reductions(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let ranks = (size * (size - 1) / 2) as i64;
    let (sum, poison) = (Operation::Sum, || vec![-7_i64; 2]);
    let own = |round: usize| [(rank + round) as i64, 1];
    let total = |round: usize| [ranks + (round * size) as i64, size as i64];
    let up_to = |rank: usize, round: usize| {
        [
            (rank * (rank + 1) / 2 + (rank + 1) * round) as i64,
            rank as i64 + 1,
        ]
    };

    let mut barrier = communicator.barrier_init(None)?;
    let mut all = communicator.all_reduce_init(poison(), poison(), sum, None)?;
    let mut all_in_place = communicator.all_reduce_init_in_place(poison(), sum, None)?;
    let mut scan = communicator.scan_init(poison(), poison(), sum, None)?;
    let mut scan_in_place = communicator.scan_init_in_place(poison(), sum, None)?;
    let mut below = communicator.exclusive_scan_init(poison(), poison(), sum, None)?;
    for round in 0..ROUNDS {
        barrier = barrier.start()?.wait()?;
        all.send_mut().copy_from_slice(&own(round));
        all.receive_mut().fill(-7);
        all = all.start()?.wait()?;
        expect("all_reduce", all.receive(), &total(round)[..])?;
        expect("what was sent stays", all.send(), &own(round)[..])?;
        all_in_place.receive_mut().copy_from_slice(&own(round));
        all_in_place = all_in_place.start()?.wait()?;
        expect(
            "all_reduce in place",
            all_in_place.receive(),
            &total(round)[..],
        )?;
        scan.send_mut().copy_from_slice(&own(round));
        scan = scan.start()?.wait()?;
        expect("scan", scan.receive(), &up_to(rank, round)[..])?;
        scan_in_place.receive_mut().copy_from_slice(&own(round));
        scan_in_place = scan_in_place.start()?.wait()?;
        expect(
            "scan in place",
            scan_in_place.receive(),
            &up_to(rank, round)[..],
        )?;
        below.send_mut().copy_from_slice(&own(round));
        below = below.start()?.wait()?;
        if rank > 0 {
            expect(
                "exclusive scan",
                below.receive(),
                &up_to(rank - 1, round)[..],
            )?;
        }
    }
    expect(
        "the buffers come back",
        all.free()?.1,
        total(ROUNDS - 1).to_vec(),
    )?;

    // Everybody has 10 × place + rank + round at each place.
    let input = |places: usize, round: usize| -> Vec<i64> {
        (0..places)
            .map(|place| (10 * place + rank + round) as i64)
            .collect()
    };
    let at = |place: usize, round: usize| ((10 * place + round) * size) as i64 + ranks;
    let counts: Vec<usize> = (0..size).map(|rank| rank % 3).collect();
    let (first, places): (usize, usize) = (counts[..rank].iter().sum(), counts.iter().sum());
    let zeros = |places| vec![0_i64; places];
    let mut block = communicator.reduce_scatter_block_init(zeros(size), zeros(1), sum, None)?;
    let mut block_in_place =
        communicator.reduce_scatter_block_init_in_place(zeros(size), sum, None)?;
    let mut part =
        communicator.reduce_scatter_init(zeros(places), zeros(counts[rank]), &counts, sum, None)?;
    let mut part_in_place =
        communicator.reduce_scatter_init_in_place(zeros(places), &counts, sum, None)?;
    for round in 0..ROUNDS {
        block.send_mut().copy_from_slice(&input(size, round));
        block = block.start()?.wait()?;
        expect(
            "reduce_scatter_block",
            block.receive(),
            &[at(rank, round)][..],
        )?;
        block_in_place
            .receive_mut()
            .copy_from_slice(&input(size, round));
        block_in_place = block_in_place.start()?.wait()?;
        expect(
            "the same in place",
            block_in_place.receive()[0],
            at(rank, round),
        )?;
        let expected: Vec<i64> = (first..first + counts[rank])
            .map(|place| at(place, round))
            .collect();
        part.send_mut().copy_from_slice(&input(places, round));
        part = part.start()?.wait()?;
        expect("reduce_scatter", part.receive(), &expected[..])?;
        part_in_place
            .receive_mut()
            .copy_from_slice(&input(places, round));
        part_in_place = part_in_place.start()?.wait()?;
        expect(
            "the same in place",
            &part_in_place.receive()[..counts[rank]],
            &expected[..],
        )?;
    }
    Ok(())
}

fn rooted(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    for root in 0..size {
        let at_root = rank == root;
        let length =
            |at_the_root: usize, elsewhere: usize| if at_root { at_the_root } else { elsewhere };
        let poison = |length| vec![-7_i64; length];
        let (layout, spread) = backwards(size);
        let mut broadcast = communicator.broadcast_init(poison(2), root, None)?;
        let mut reduce =
            communicator.reduce_init(poison(2), poison(2), Operation::Sum, root, None)?;
        let mut reduce_in_place =
            communicator.reduce_init_in_place(poison(2), Operation::Sum, root, None)?;
        let mut gather =
            communicator.gather_init(poison(1), poison(length(size, 0)), root, None)?;
        let mut gather_in_place =
            communicator.gather_init_in_place(poison(length(size, 1)), root, None)?;
        let mut gather_v = communicator.gather_v_init(
            poison(rank + 1),
            poison(length(spread, 0)),
            &layout,
            root,
            None,
        )?;
        let mut scatter =
            communicator.scatter_init(poison(length(size, 0)), poison(1), root, None)?;
        let mut scatter_in_place =
            communicator.scatter_init_in_place(poison(length(size, 1)), root, None)?;
        let mut scatter_v = communicator.scatter_v_init(
            poison(length(spread, 0)),
            poison(rank + 1),
            &layout,
            root,
            None,
        )?;
        for round in 0..ROUNDS {
            let at = |rank: usize, index: usize| value(rank, index) + 10_000 * round as i64;
            let part: Vec<i64> = (0..=rank).map(|index| at(rank, index)).collect();
            let all: Vec<i64> = (0..size).map(|rank| at(rank, 0)).collect();
            let total: i64 = all.iter().sum();

            broadcast
                .receive_mut()
                .fill(if at_root { at(root, 5) } else { -7 });
            broadcast = broadcast.start()?.wait()?;
            expect("broadcast", broadcast.receive(), &[at(root, 5); 2][..])?;

            reduce.send_mut().fill(at(rank, 0));
            reduce.receive_mut().fill(-7);
            reduce = reduce.start()?.wait()?;
            let expected = if at_root { total } else { -7 };
            expect("reduce", reduce.receive(), &[expected; 2][..])?;
            reduce_in_place.receive_mut().fill(at(rank, 0));
            reduce_in_place = reduce_in_place.start()?.wait()?;
            let expected = if at_root { total } else { at(rank, 0) };
            expect(
                "reduce in place",
                reduce_in_place.receive(),
                &[expected; 2][..],
            )?;

            gather.send_mut().fill(at(rank, 0));
            gather.receive_mut().fill(-7);
            gather = gather.start()?.wait()?;
            let expected = if at_root { &all[..] } else { &[] };
            expect("gather", gather.receive(), expected)?;
            gather_in_place.receive_mut().fill(-7);
            gather_in_place.receive_mut()[if at_root { rank } else { 0 }] = at(rank, 0);
            gather_in_place = gather_in_place.start()?.wait()?;
            let expected = if at_root { &all[..] } else { &all[rank..=rank] };
            expect("gather in place", gather_in_place.receive(), expected)?;
            gather_v.send_mut().copy_from_slice(&part);
            gather_v = gather_v.start()?.wait()?;
            let spread_out = filled(&layout, spread, at);
            let expected = if at_root { &spread_out[..] } else { &[] };
            expect("gather_v", gather_v.receive(), expected)?;

            if at_root {
                scatter.send_mut().copy_from_slice(&all);
                scatter_in_place.receive_mut().copy_from_slice(&all);
                scatter_v.send_mut().copy_from_slice(&spread_out);
            }
            scatter = scatter.start()?.wait()?;
            expect("scatter", scatter.receive(), &[at(rank, 0)][..])?;
            scatter_in_place = scatter_in_place.start()?.wait()?;
            let own = if at_root { rank } else { 0 };
            expect(
                "scatter in place",
                scatter_in_place.receive()[own],
                at(rank, 0),
            )?;
            scatter_v = scatter_v.start()?.wait()?;
            expect("scatter_v", scatter_v.receive(), &part[..])?;
        }
    }
    Ok(())
}

fn gathers(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let poison = |length| vec![-7_i64; length];
    let (layout, spread) = backwards(size);
    let info = Info::new(&communicator.environment())?;
    let mut all = communicator.all_gather_init(poison(2), poison(2 * size), Some(&info))?;
    let mut all_in_place = communicator.all_gather_init_in_place(poison(2 * size), None)?;
    let mut all_v =
        communicator.all_gather_v_init(poison(rank + 1), poison(spread), &layout, None)?;
    let mut all_v_in_place =
        communicator.all_gather_v_init_in_place(poison(spread), &layout, None)?;
    for round in 0..ROUNDS {
        let at = |rank: usize, index: usize| value(rank, index) + 10_000 * round as i64;
        let own = [at(rank, 0), at(rank, 1)];
        let expected: Vec<i64> = (0..2 * size).map(|i| at(i / 2, i % 2)).collect();
        all.send_mut().copy_from_slice(&own);
        all.receive_mut().fill(-7);
        all = all.start()?.wait()?;
        expect("all_gather", all.receive(), &expected[..])?;
        all_in_place.receive_mut().fill(-7);
        all_in_place.receive_mut()[2 * rank..2 * rank + 2].copy_from_slice(&own);
        all_in_place = all_in_place.start()?.wait()?;
        expect("all_gather in place", all_in_place.receive(), &expected[..])?;

        let part: Vec<i64> = (0..=rank).map(|index| at(rank, index)).collect();
        let expected = filled(&layout, spread, at);
        all_v.send_mut().copy_from_slice(&part);
        all_v.receive_mut().fill(-7);
        all_v = all_v.start()?.wait()?;
        expect("all_gather_v", all_v.receive(), &expected[..])?;
        all_v_in_place.receive_mut().fill(-7);
        all_v_in_place.receive_mut()[layout.block(rank)].copy_from_slice(&part);
        all_v_in_place = all_v_in_place.start()?.wait()?;
        expect(
            "all_gather_v in place",
            all_v_in_place.receive(),
            &expected[..],
        )?;
    }
    Ok(())
}

/// Of a buffer of two rows of 2 × `size`: two columns for each rank; and two columns after the other.
pub fn transposed(size: usize) -> (StridedLayout, StridedLayout) {
    let columns = (0..size).map(|rank| Strides {
        displacement: 2 * rank,
        block: 2,
        stride: 2 * size,
        count: 2,
    });
    let rows = (0..size).map(|rank| Strides {
        displacement: 4 * rank,
        block: 4,
        stride: 0,
        count: 1,
    });
    (
        StridedLayout::new(columns.collect()),
        StridedLayout::new(rows.collect()),
    )
}

fn exchanges(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let poison = |length| vec![-7_i64; length];
    let count = |from: usize, to: usize| (from + to) % 3;
    let sends = BlockLayout::packed((0..size).map(|to| count(rank, to)).collect());
    let receives = BlockLayout::packed((0..size).map(|from| count(from, rank)).collect());
    let mut all = communicator.all_to_all_init(poison(size), poison(size), None)?;
    let mut all_in_place = communicator.all_to_all_init_in_place(poison(size), None)?;
    let mut all_v = communicator.all_to_all_v_init(
        poison(sends.total()),
        &sends,
        poison(receives.total()),
        &receives,
        None,
    )?;
    let mut all_v_in_place =
        communicator.all_to_all_v_init_in_place(poison(sends.total()), &sends, None)?;
    let (columns, rows) = transposed(size);
    let mut all_w = communicator.all_to_all_w_init(
        poison(4 * size),
        &columns,
        poison(4 * size),
        &rows,
        None,
    )?;
    let mut all_w_in_place =
        communicator.all_to_all_w_init_in_place(poison(4 * size), &columns, None)?;
    // A ring: from the previous, to the next.
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let ring = communicator.create_distributed_graph(&[previous], &[next], None, false)?;
    let two = BlockLayout::packed(vec![2]);
    let mut neighbors = ring.neighbor_all_to_all_v_init(poison(2), &two, poison(2), &two, None)?;
    for round in 0..ROUNDS {
        let at = |from: usize, to: usize, index: usize| {
            (10_000 * round + 1000 * from + 10 * to + index) as i64
        };
        let sent: Vec<i64> = (0..size).map(|to| at(rank, to, 0)).collect();
        let expected: Vec<i64> = (0..size).map(|from| at(from, rank, 0)).collect();
        all.send_mut().copy_from_slice(&sent);
        all = all.start()?.wait()?;
        expect("all_to_all", all.receive(), &expected[..])?;
        all_in_place.receive_mut().copy_from_slice(&sent);
        all_in_place = all_in_place.start()?.wait()?;
        expect("all_to_all in place", all_in_place.receive(), &expected[..])?;

        let sent = filled(&sends, sends.total(), |to, index| at(rank, to, index));
        let expected = filled(&receives, receives.total(), |from, index| {
            at(from, rank, index)
        });
        all_v.send_mut().copy_from_slice(&sent);
        all_v.receive_mut().fill(-7);
        all_v = all_v.start()?.wait()?;
        expect("all_to_all_v", all_v.receive(), &expected[..])?;
        all_v_in_place.receive_mut().copy_from_slice(&sent);
        all_v_in_place = all_v_in_place.start()?.wait()?;
        expect(
            "all_to_all_v in place",
            all_v_in_place.receive(),
            &expected[..],
        )?;

        // Two rows of 2 × size: two columns go to each rank, where they become two rows of the same two.
        let sent: Vec<i64> = (0..4 * size)
            .map(|index| {
                at(
                    rank,
                    index % (2 * size) / 2,
                    index / (2 * size) * 2 + index % 2,
                )
            })
            .collect();
        let expected: Vec<i64> = (0..4 * size)
            .map(|index| at(index / 4, rank, index % 4))
            .collect();
        all_w.send_mut().copy_from_slice(&sent);
        all_w.receive_mut().fill(-7);
        all_w = all_w.start()?.wait()?;
        expect("all_to_all_w", all_w.receive(), &expected[..])?;
        all_w_in_place.receive_mut().copy_from_slice(&sent);
        all_w_in_place = all_w_in_place.start()?.wait()?;
        let expected: Vec<i64> = (0..4 * size)
            .map(|index| {
                at(
                    index % (2 * size) / 2,
                    rank,
                    index / (2 * size) * 2 + index % 2,
                )
            })
            .collect();
        expect(
            "all_to_all_w in place",
            all_w_in_place.receive(),
            &expected[..],
        )?;

        neighbors
            .send_mut()
            .copy_from_slice(&[at(rank, next, 0), at(rank, next, 1)]);
        neighbors = neighbors.start()?.wait()?;
        let expected = [at(previous, rank, 0), at(previous, rank, 1)];
        expect("among neighbours", neighbors.receive(), &expected[..])?;
    }
    neighbors.free()?;
    ring.into_communicator().free()?;
    Ok(())
}

fn point_to_point(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    // Beyond the eager limit, so that the sends depend on the receives.
    let mut send = communicator.send_init(vec![0_u32; 50_000], next, 3)?;
    let mut receive = communicator.receive_init(vec![u32::MAX; 60_000], previous, 3)?;
    expect("it was never started", receive.status().is_none(), true)?;
    for round in 0..ROUNDS as u32 {
        send.send_mut().fill(rank as u32 + 100 * round);
        receive.receive_mut().fill(u32::MAX);
        let receiving = receive.start()?;
        let mut sending = send.start()?;
        receive = receiving.wait()?;
        while !sending.test()? {}
        send = sending.wait()?;
        let status = receive.status().ok_or("no status")?;
        expect(
            "source, tag",
            (status.source(), status.tag()),
            (Some(previous), Some(3)),
        )?;
        expect("count", status.count::<u32>(), Some(50_000))?;
        let (there, beyond) = receive.receive().split_at(50_000);
        let expected = previous as u32 + 100 * round;
        expect(
            "received",
            there.iter().all(|&value| value == expected),
            true,
        )?;
        expect(
            "the rest is as it was",
            beyond.iter().all(|&value| value == u32::MAX),
            true,
        )?;
    }
    let several = (0..3)
        .map(|tag| communicator.receive_init(vec![-1_i16], previous, tag))
        .collect::<malleus::mpi::Result<Vec<_>>>()?;
    let started = start_all(several)?;
    for tag in (0..3).rev() {
        communicator.send(&[10 * tag as i16 + rank as i16], next, tag)?;
    }
    for (tag, active) in started.into_iter().enumerate() {
        let expected = [10 * tag as i16 + previous as i16];
        expect("several", active.wait()?.receive(), &expected[..])?;
    }
    Ok(())
}

fn empty(communicator: &Communicator) -> Outcome {
    let size = communicator.size();
    let nothing = || Vec::<f64>::new();
    let layout = BlockLayout::empty(size);
    for _ in 0..2 {
        let gather = communicator.all_gather_init(nothing(), nothing(), None)?;
        gather.start()?.wait()?.free()?;
        let exchange =
            communicator.all_to_all_v_init(nothing(), &layout, nothing(), &layout, None)?;
        exchange.start()?.wait()?.free()?;
        let reduce = communicator.all_reduce_init_in_place(nothing(), Operation::Sum, None)?;
        reduce.start()?.wait()?.free()?;
        let broadcast = communicator.broadcast_init(nothing(), size - 1, None)?;
        broadcast.start()?.wait()?.free()?;
    }
    let unequal = communicator.all_reduce_init(nothing(), vec![1.0], Operation::Sum, None);
    expect(
        "unequal buffers",
        refused_argument(unequal),
        Some("receive"),
    )
}

fn handles(environment: &Environment) -> Outcome {
    let communicator = environment.world().duplicate()?;
    let never_started = communicator.barrier_init(None)?;
    let started = communicator.barrier_init(None)?.start()?.wait()?;
    expect("each counts as a handle", communicator.handles(), 3)?;
    let error = communicator.clone().free().unwrap_err();
    expect("in use", error.to_string().contains("in use"), true)?;
    let (Nothing, Nothing) = never_started.free()?;
    drop(started);
    // A shared buffer that is only sent.
    let shared: std::sync::Arc<[i32]> = vec![environment.world().rank() as i32].into();
    let gathered = vec![-1; communicator.size()];
    let gather = communicator.all_gather_init(shared.clone(), gathered, None)?;
    let gather = gather.start()?.wait()?;
    let expected: Vec<i32> = (0..communicator.size() as i32).collect();
    expect("gathered", gather.receive(), &expected[..])?;
    let (sent, gathered) = gather.free()?;
    expect(
        "the same buffer",
        std::sync::Arc::ptr_eq(&sent, &shared),
        true,
    )?;
    expect("moved out", gathered, expected)?;
    communicator.free()?;
    Ok(())
}

fn drops_active(environment: &Environment) -> Outcome {
    let world = environment.world();
    // Nobody sends it.
    let receive = world.receive_init(vec![0_u8; 8], (world.rank() + 1) % 2, 1)?;
    drop(receive.start()?);
    Ok(())
}
