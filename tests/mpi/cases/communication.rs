//! Collectives, point-to-point, processes.

use malleus::mpi::collective::BlockLayout;
use malleus::mpi::{Communicator, Environment, Error, ErrorClass, Operation};

use super::expect;
use crate::harness::{Case, Outcome};

pub fn cases() -> Vec<Case> {
    vec![
        Case::on_each("collectives", &[1, 2, 3], collectives),
        Case::on_each("all_to_all_v", &[1, 2, 3], all_to_all_v),
        Case::on_each("exchange", &[1, 2, 3], exchange),
        Case::ranks("exchange_after_a_failure", &[2], exchange_after_a_failure),
        Case::ranks("subsets", &[1, 2, 4], subsets),
        Case::ranks("errors", &[2], errors),
    ]
}

fn collectives(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank() as u64, communicator.size() as u64);
    let mut sum = [rank, 1];
    communicator.all_reduce(&mut sum, Operation::Sum)?;
    expect("sum", sum, [size * (size - 1) / 2, size])?;
    let mut maximum = [rank as f64];
    communicator.all_reduce(&mut maximum, Operation::Maximum)?;
    expect("maximum", maximum, [(size - 1) as f64])?;
    let mut minimum = [7 - rank as i32];
    communicator.all_reduce(&mut minimum, Operation::Minimum)?;
    expect("minimum", minimum, [8 - size as i32])?;

    let mut text = if rank == size - 1 {
        b"from the last".to_vec()
    } else {
        vec![0xEE; 3]
    };
    communicator.broadcast_bytes(&mut text, communicator.size() - 1)?;
    expect("broadcast", text, b"from the last".to_vec())?;

    let mut gathered = vec![u64::MAX; communicator.size()];
    communicator.all_gather(&[rank * rank], &mut gathered)?;
    expect(
        "all_gather",
        gathered,
        (0..size).map(|rank| rank * rank).collect(),
    )?;
    let gathered = communicator.all_gather_bytes(&vec![rank as u8; rank as usize])?;
    expect(
        "all_gather_bytes",
        gathered,
        (0..size)
            .map(|rank| vec![rank as u8; rank as usize])
            .collect(),
    )?;

    let send: Vec<u64> = (0..size).map(|to| 100 * rank + to).collect();
    let mut receive = vec![u64::MAX; communicator.size()];
    communicator.all_to_all(&send, &mut receive)?;
    expect(
        "all_to_all",
        receive,
        (0..size).map(|from| 100 * from + rank).collect(),
    )?;

    communicator.all_reduce::<f64>(&mut [], Operation::Sum)?;
    communicator.broadcast::<u8>(&mut [], 0)?;
    communicator.barrier()?;
    communicator.ibarrier()?.wait()?;
    Ok(())
}

/// Rank `from` sends `(from + to) % 3` elements to rank `to`; blocks lie in reverse order at the sender.
fn all_to_all_v(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let count = |from: usize, to: usize| (from + to) % 3;
    let value = |from: usize, to: usize, index: usize| (1000 * from + 10 * to + index) as i64;
    let mut send = Vec::new();
    let mut sends = BlockLayout::empty(size);
    for to in (0..size).rev() {
        sends.set(to, send.len(), count(rank, to));
        send.extend((0..count(rank, to)).map(|index| value(rank, to, index)));
    }
    let receives = BlockLayout::packed((0..size).map(|from| count(from, rank)).collect());
    let mut receive = vec![-1; receives.total()];
    communicator.all_to_all_v(&send, &sends, &mut receive, &receives)?;
    for from in 0..size {
        let expected: Vec<i64> = (0..count(from, rank))
            .map(|index| value(from, rank, index))
            .collect();
        expect("block", receive[receives.block(from)].to_vec(), expected)?;
    }
    let beyond = BlockLayout::packed(vec![9; size]);
    let error = communicator
        .all_to_all_v(&send, &beyond, &mut receive, &receives)
        .unwrap_err();
    expect(
        "a layout beyond its buffer is refused",
        matches!(
            error,
            Error::Argument {
                argument: "send layout",
                ..
            }
        ),
        true,
    )
}

fn exchange(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    // Beyond the eager limit, so that the sends depend on the receives.
    let send = vec![rank as f64; 100_000];
    let mut receive = vec![-1.0; 100_000];
    communicator.exchange(|exchange| {
        exchange.send(&send, next, 7)?;
        exchange.receive(&mut receive, previous, 7)
    })?;
    expect(
        "received",
        receive.iter().all(|&value| value == previous as f64),
        true,
    )?;
    let error = communicator
        .exchange(|exchange| exchange.send(&send, size + 3, 7))
        .unwrap_err();
    expect(
        "class of a send to nobody",
        error.class(),
        Some(ErrorClass::RANK),
    )
}

/// The first receive fails at once, the second is complete all the same when the scope has ended.
fn exchange_after_a_failure(environment: &Environment) -> Outcome {
    let world = environment.world();
    let (mut short, mut late) = ([0_u8; 4], vec![0_u8; 1 << 20]);
    if world.rank() == 0 {
        let result = world.exchange(|exchange| {
            exchange.receive(&mut short, 1, 1)?;
            exchange.receive(&mut late, 1, 2)
        });
        let class = result.unwrap_err().class();
        expect("class", class, Some(ErrorClass::TRUNCATE))?;
        expect("the other one", late.iter().all(|&byte| byte == 9), true)?;
    } else {
        let long = [1_u8; 100];
        world.exchange(|exchange| exchange.send(&long, 0, 1))?;
        std::thread::sleep(std::time::Duration::from_millis(200));
        late.fill(9);
        world.exchange(|exchange| exchange.send(&late, 0, 2))?;
    }
    world.barrier()?;
    Ok(())
}

fn subsets(environment: &Environment) -> Outcome {
    let world = environment.world();
    let (rank, size) = (world.rank(), world.size());
    let half = world
        .split(Some(rank % 2), size - rank)?
        .ok_or("no communicator")?;
    expect(
        "size of a half",
        half.size(),
        size.div_ceil(2) - if rank % 2 == 1 { size % 2 } else { 0 },
    )?;
    expect(
        "a key reverses the order",
        half.rank(),
        half.size() - 1 - rank / 2,
    )?;
    half.free()?;
    let only_first = world.split((rank == 0).then_some(0), 0)?;
    expect("only rank 0 has one", only_first.is_some(), rank == 0)?;
    only_first.map_or(Ok(()), Communicator::free)?;
    let node = world.split_shared()?;
    expect("everybody is on this node", node.size(), size)?;
    node.free()?;
    let ranks: Vec<usize> = (0..size).rev().step_by(2).collect();
    if ranks.contains(&rank) {
        let group = world.group()?.include(&ranks)?;
        let part = world.create_group(&group, 5)?;
        expect(
            "size of the part",
            (part.size(), group.size()?),
            (ranks.len(), ranks.len()),
        )?;
        expect("order of the group", ranks[part.rank()], rank)?;
        part.free()?;
    }
    Ok(())
}

fn errors(environment: &Environment) -> Outcome {
    let world = environment.world();
    let error = world.broadcast(&mut [0_u8], 99).unwrap_err();
    let Error::Call {
        operation,
        class,
        text,
        ..
    } = &error
    else {
        return Err(format!("{error:?}").into());
    };
    expect(
        "operation and class",
        (*operation, *class),
        ("MPI_Bcast", ErrorClass::ROOT),
    )?;
    expect("MPI's text is kept", text.contains("root"), true)?;
    let clone = world.duplicate()?;
    let other = clone.clone();
    let error = clone.free().unwrap_err();
    expect(
        "a handle in use",
        matches!(error, Error::InUse { users: 1, .. }),
        true,
    )?;
    other.free()?;
    expect("the world can't be freed", world.free().is_err(), true)?;
    let error = Environment::attach().unwrap_err();
    expect(
        "attaching to its own MPI",
        matches!(error, Error::State { .. }),
        true,
    )?;
    let known = malleus::mpi::tool::has_variable;
    expect(
        "no such variable",
        known("MPIR_CVAR_NO_SUCH_VARIABLE")?,
        false,
    )?;
    expect(
        "a variable of every MPICH",
        known("MPIR_CVAR_BCAST_SHORT_MSG_SIZE")?,
        true,
    )?;
    let error = world_tool_error().unwrap_err();
    expect(
        "an unknown variable",
        matches!(error, Error::State { .. }),
        true,
    )
}

#[allow(unsafe_code)]
fn world_tool_error() -> malleus::mpi::Result<()> {
    // SAFETY: there is no such variable to be written.
    unsafe { malleus::mpi::tool::write_integer_variable("MPIR_CVAR_NO_SUCH_VARIABLE", 1) }
}
