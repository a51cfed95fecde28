//! Collectives with a root, reductions of parts, forms in place, and what is refused before MPI is called.

use malleus::mpi::collective::{BlockLayout, StridedLayout, Strides};
use malleus::mpi::{Communicator, Error, Operation, Result};

use super::expect;
use super::persistent::transposed;
use crate::harness::{Case, Outcome};

pub fn cases() -> Vec<Case> {
    vec![
        Case::on_each("collectives_rooted", &[1, 2, 3], rooted),
        Case::on_each("collectives_reductions", &[1, 2, 3], reductions),
        Case::on_each("collectives_gathers", &[1, 2, 3], gathers),
        Case::on_each("collectives_empty", &[1, 2, 3], empty),
        Case::on_each("collectives_refused", &[2], refused),
    ]
}

/// Blocks of 1, 2, 3 … elements, the last rank's first, with a gap of one element between them.
pub fn backwards(size: usize) -> (BlockLayout, usize) {
    let mut layout = BlockLayout::empty(size);
    let mut end = 0;
    for rank in (0..size).rev() {
        layout.set(rank, end, rank + 1);
        end += rank + 2;
    }
    (layout, end)
}

/// The buffer of a layout, `-7` wherever there is no block.
pub fn filled(
    layout: &BlockLayout,
    length: usize,
    value: impl Fn(usize, usize) -> i64,
) -> Vec<i64> {
    let mut buffer = vec![-7; length];
    for rank in 0..layout.counts().len() {
        for (index, element) in buffer[layout.block(rank)].iter_mut().enumerate() {
            *element = value(rank, index);
        }
    }
    buffer
}

pub fn value(rank: usize, index: usize) -> i64 {
    (100 * rank + index) as i64
}

fn rooted(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    for root in 0..size {
        let at_root = rank == root;
        let at_root_only = |buffer: Vec<i64>| if at_root { buffer } else { Vec::new() };
        let own: Vec<i64> = (0..2).map(|index| value(rank, index)).collect();
        let all: Vec<i64> = (0..2 * size).map(|i| value(i / 2, i % 2)).collect();

        let mut gathered = at_root_only(vec![-7; 2 * size]);
        communicator.gather(&own, &mut gathered, root)?;
        expect("gather", &gathered, &at_root_only(all.clone()))?;

        let mut buffer = own.clone();
        if at_root {
            buffer = vec![-7; 2 * size];
            buffer[2 * rank..2 * rank + 2].copy_from_slice(&own);
        }
        communicator.gather_in_place(&mut buffer, root)?;
        expect(
            "gather in place",
            &buffer,
            if at_root { &all } else { &own },
        )?;

        let (layout, length) = backwards(size);
        let part: Vec<i64> = (0..=rank).map(|index| value(rank, index)).collect();
        let mut gathered = at_root_only(vec![-7; length]);
        communicator.gather_v(&part, &mut gathered, &layout, root)?;
        let expected = filled(&layout, length, value);
        expect("gather_v", &gathered, &at_root_only(expected.clone()))?;

        let mut received = [-7; 2];
        communicator.scatter(&at_root_only(all.clone()), &mut received, root)?;
        expect("scatter", received.to_vec(), own.clone())?;

        let mut buffer = if at_root { all.clone() } else { vec![-7; 2] };
        communicator.scatter_in_place(&mut buffer, root)?;
        expect(
            "scatter in place",
            &buffer,
            if at_root { &all } else { &own },
        )?;

        let mut received = vec![-7; rank + 1];
        communicator.scatter_v(&at_root_only(expected), &layout, &mut received, root)?;
        expect("scatter_v", received, part)?;

        // 0 + 1 + … + (size - 1), and 100 times that.
        let sum = (size * (size - 1) / 2) as i64;
        let expected = vec![100 * sum, 100 * sum + size as i64];
        let mut reduced = at_root_only(vec![-7; 2]);
        communicator.reduce(&own, &mut reduced, Operation::Sum, root)?;
        expect("reduce", reduced, at_root_only(expected.clone()))?;

        let mut buffer = own.clone();
        communicator.reduce_in_place(&mut buffer, Operation::Sum, root)?;
        expect(
            "reduce in place",
            buffer,
            if at_root { expected } else { own },
        )?;

        let mut buffer = if at_root { [1.5, -2.5] } else { [f64::NAN; 2] };
        communicator.broadcast(&mut buffer, root)?;
        expect("broadcast", buffer, [1.5, -2.5])?;
    }
    Ok(())
}

fn reductions(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let ranks = (size * (size - 1) / 2) as u64;
    let mut into = [u64::MAX; 2];
    communicator.all_reduce_into(&[rank as u64, 3], &mut into, Operation::Sum)?;
    expect("all_reduce into", into, [ranks, 3 * size as u64])?;
    let mut product = [2_u32];
    communicator.all_reduce(&mut product, Operation::Product)?;
    expect("product", product, [1 << size])?;

    // Everybody has `element` at each place, and rank to tell them apart.
    let send: Vec<u64> = (0..2 * size)
        .map(|place| (10 * place + rank) as u64)
        .collect();
    let sum_at = |place: usize| (10 * place * size) as u64 + ranks;
    let mut block = [u64::MAX; 2];
    communicator.reduce_scatter_block(&send, &mut block, Operation::Sum)?;
    expect(
        "reduce_scatter_block",
        block,
        [sum_at(2 * rank), sum_at(2 * rank + 1)],
    )?;
    let mut buffer = send.clone();
    communicator.reduce_scatter_block_in_place(&mut buffer, Operation::Sum)?;
    expect("the same in place", [buffer[0], buffer[1]], block)?;

    let counts: Vec<usize> = (0..size).map(|rank| rank % 3).collect();
    let first: usize = counts[..rank].iter().sum();
    let send: Vec<u64> = (0..counts.iter().sum())
        .map(|place| (10 * place + rank) as u64)
        .collect();
    let expected: Vec<u64> = (first..first + counts[rank]).map(sum_at).collect();
    let mut part = vec![u64::MAX; counts[rank]];
    communicator.reduce_scatter(&send, &mut part, &counts, Operation::Sum)?;
    expect("reduce_scatter", &part, &expected)?;
    let mut buffer = send.clone();
    communicator.reduce_scatter_in_place(&mut buffer, &counts, Operation::Sum)?;
    expect(
        "the same in place",
        buffer[..counts[rank]].to_vec(),
        expected,
    )?;

    let up_to = |rank: usize| (rank * (rank + 1) / 2) as i32;
    let own = [rank as i32, 1];
    let mut scanned = [-7; 2];
    communicator.scan(&own, &mut scanned, Operation::Sum)?;
    expect("scan", scanned, [up_to(rank), rank as i32 + 1])?;
    let mut buffer = own;
    communicator.scan_in_place(&mut buffer, Operation::Sum)?;
    expect("scan in place", buffer, scanned)?;
    let mut scanned = [-7; 2];
    communicator.exclusive_scan(&own, &mut scanned, Operation::Sum)?;
    let mut buffer = own;
    communicator.exclusive_scan_in_place(&mut buffer, Operation::Sum)?;
    if rank > 0 {
        expect("exclusive scan", scanned, [up_to(rank - 1), rank as i32])?;
        expect("exclusive scan in place", buffer, scanned)?;
    } else {
        expect("rank 0 has nothing below it", scanned, [-7; 2])?;
    }
    Ok(())
}

fn gathers(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let mut buffer = vec![-7; 2 * size];
    buffer[2 * rank] = value(rank, 0);
    buffer[2 * rank + 1] = value(rank, 1);
    communicator.all_gather_in_place(&mut buffer)?;
    let all: Vec<i64> = (0..2 * size).map(|i| value(i / 2, i % 2)).collect();
    expect("all_gather in place", buffer, all)?;

    let (layout, length) = backwards(size);
    let expected = filled(&layout, length, value);
    let part: Vec<i64> = (0..=rank).map(|index| value(rank, index)).collect();
    let mut gathered = vec![-7; length];
    communicator.all_gather_v(&part, &mut gathered, &layout)?;
    expect("all_gather_v", &gathered, &expected)?;
    let mut buffer = vec![-7; length];
    buffer[layout.block(rank)].copy_from_slice(&part);
    communicator.all_gather_v_in_place(&mut buffer, &layout)?;
    expect("all_gather_v in place", buffer, expected)?;

    let mut buffer: Vec<i64> = (0..size).map(|to| value(rank, to)).collect();
    communicator.all_to_all_in_place(&mut buffer)?;
    let expected = (0..size).map(|from| value(from, rank)).collect();
    expect("all_to_all in place", buffer, expected)?;

    let (columns, rows) = transposed(size);
    let sent: Vec<i64> = (0..4 * size)
        .map(|index| {
            let to = index % (2 * size) / 2;
            value(rank, 4 * to + index / (2 * size) * 2 + index % 2)
        })
        .collect();
    let mut received = vec![-7; 4 * size];
    communicator.all_to_all_w(&sent, &columns, &mut received, &rows)?;
    let expected: Vec<i64> = (0..4 * size)
        .map(|index| value(index / 4, 4 * rank + index % 4))
        .collect();
    expect("all_to_all_w", &received, &expected)?;
    received.fill(-7);
    communicator.exchange(|exchange| {
        exchange
            .iall_to_all_w(&sent, &columns, &mut received, &rows)?
            .wait()
    })?;
    expect("iall_to_all_w", &received, &expected)?;
    let mut buffer = sent;
    communicator.all_to_all_w_in_place(&mut buffer, &columns)?;
    let expected: Vec<i64> = (0..4 * size)
        .map(|index| {
            let from = index % (2 * size) / 2;
            value(from, 4 * rank + index / (2 * size) * 2 + index % 2)
        })
        .collect();
    expect("all_to_all_w in place", buffer, expected)?;

    // Two ranks exchange as many elements as the higher of them says.
    let mut layout = BlockLayout::empty(size);
    let mut end = 1;
    for other in 0..size {
        layout.set(other, end, rank.max(other) % 3);
        end += rank.max(other) % 3;
    }
    let mut buffer = filled(&layout, end, |to, index| value(rank, 10 * to + index));
    communicator.all_to_all_v_in_place(&mut buffer, &layout)?;
    let expected = filled(&layout, end, |from, index| value(from, 10 * rank + index));
    expect("all_to_all_v in place", buffer, expected)
}

fn empty(communicator: &Communicator) -> Outcome {
    let size = communicator.size();
    let nothing = BlockLayout::empty(size);
    let (send, mut receive): ([f64; 0], [f64; 0]) = ([], []);
    communicator.gather(&send, &mut receive, 0)?;
    communicator.gather_in_place(&mut receive, 0)?;
    communicator.gather_v(&send, &mut receive, &nothing, size - 1)?;
    communicator.scatter(&send, &mut receive, 0)?;
    communicator.scatter_in_place(&mut receive, 0)?;
    communicator.scatter_v(&send, &nothing, &mut receive, size - 1)?;
    communicator.reduce(&send, &mut receive, Operation::Maximum, 0)?;
    communicator.reduce_in_place(&mut receive, Operation::Maximum, 0)?;
    communicator.all_reduce_into(&send, &mut receive, Operation::Maximum)?;
    communicator.reduce_scatter_block(&send, &mut receive, Operation::Maximum)?;
    communicator.reduce_scatter(&send, &mut receive, &vec![0; size], Operation::Maximum)?;
    communicator.scan(&send, &mut receive, Operation::Maximum)?;
    communicator.exclusive_scan(&send, &mut receive, Operation::Maximum)?;
    communicator.all_gather(&send, &mut receive)?;
    communicator.all_gather_in_place(&mut receive)?;
    communicator.all_gather_v(&send, &mut receive, &nothing)?;
    communicator.all_to_all(&send, &mut receive)?;
    communicator.all_to_all_in_place(&mut receive)?;
    communicator.all_to_all_v(&send, &nothing, &mut receive, &nothing)?;
    communicator.all_to_all_v_in_place(&mut receive, &nothing)?;
    // Where some have nothing, the others still get all.
    let counts: Vec<usize> = (0..size).map(|rank| rank % 2).collect();
    let layout = BlockLayout::packed(counts);
    let mut gathered = vec![-7; layout.total()];
    let own = [communicator.rank() as i64];
    let own = &own[..communicator.rank() % 2];
    communicator.all_gather_v(own, &mut gathered, &layout)?;
    let odd = (0..size as i64).filter(|rank| rank % 2 == 1).collect();
    expect("only odd ranks have something", gathered, odd)
}

/// The argument that a call refused.
pub fn refused_argument<T>(result: Result<T>) -> Option<&'static str> {
    match result {
        Err(Error::Argument { argument, .. }) => Some(argument),
        _ => None,
    }
}

fn refused(communicator: &Communicator) -> Outcome {
    let size = communicator.size();
    let refused = |what: &str, result: Result<()>, argument| {
        expect(what, refused_argument(result), Some(argument))
    };
    let (send, mut receive) = ([0_i32; 4], [0_i32; 3]);
    let root = communicator.rank();
    refused(
        "gather",
        communicator.gather(&send, &mut receive, root),
        "buffer",
    )?;
    refused(
        "scatter",
        communicator.scatter(&send, &mut [0; 5], root),
        "buffer",
    )?;
    let sum = Operation::Sum;
    refused(
        "reduce",
        communicator.reduce(&send, &mut receive, sum, root),
        "receive",
    )?;
    refused(
        "all_reduce",
        communicator.all_reduce_into(&send, &mut receive, sum),
        "receive",
    )?;
    refused(
        "scan",
        communicator.scan(&send, &mut receive, sum),
        "receive",
    )?;
    let counts = vec![2; size];
    let scattered = communicator.reduce_scatter(&send[..1], &mut receive, &counts, sum);
    refused("reduce_scatter of too little", scattered, "counts")?;
    let scattered = communicator.reduce_scatter(&[0; 20], &mut [], &counts, sum);
    refused("reduce_scatter into too little", scattered, "receive")?;
    let wrong = communicator.reduce_scatter(&send, &mut receive, &[1], sum);
    let part = |displacement, block, stride, count| {
        let strides = Strides {
            displacement,
            block,
            stride,
            count,
        };
        StridedLayout::new(vec![strides; size])
    };
    let mut of_four = [0; 4];
    for (what, layout) in [
        ("a part beyond the end", part(1, 1, 3, 2)),
        ("blocks that overlap", part(0, 2, 1, 2)),
        ("a stride beyond usize", part(0, 1, usize::MAX, 3)),
        ("a part beyond usize", part(usize::MAX, 1, 1, 1)),
        ("no part", StridedLayout::default()),
    ] {
        let exchanged = communicator.all_to_all_w(&send, &layout, &mut of_four, &layout);
        refused(what, exchanged, "send layout")?;
        let nothing = part(usize::MAX, 0, 0, 5);
        let exchanged = communicator.all_to_all_w(&send, &nothing, &mut of_four, &layout);
        refused(what, exchanged, "receive layout")?;
    }
    if size > 1 {
        refused("a count for one rank only", wrong, "counts")?;
        let mut twice = BlockLayout::empty(size);
        twice.set(0, 0, 2);
        twice.set(size - 1, 1, 2);
        let two = [0; 2];
        let gathered = communicator.all_gather_v(&two, &mut receive, &twice);
        refused("blocks that overlap", gathered, "layout")?;
    }
    let mut beyond = BlockLayout::empty(size);
    beyond.set(0, usize::MAX, 2);
    let sent = communicator.all_to_all_v(&send, &beyond, &mut receive, &BlockLayout::empty(size));
    refused("a displacement that overflows", sent, "send layout")?;
    let huge = BlockLayout::packed(vec![usize::MAX; size.max(2)]);
    let sent = communicator.all_to_all_v(&send, &huge, &mut receive, &BlockLayout::empty(size));
    refused("counts that overflow", sent, "send layout")?;
    expect(
        "a root beyond the communicator",
        communicator.gather(&send, &mut receive, size + 5).is_err(),
        true,
    )
}
