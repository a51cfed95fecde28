//! Topologies, and what else makes or describes communicators and groups.

use malleus::mpi::collective::BlockLayout;
use malleus::mpi::topology::{Neighborhood, dimensions_of};
use malleus::mpi::{Communicator, Comparison, Environment, Group, Info, SplitType};

use super::collectives::refused_argument;
use super::expect;
use crate::harness::{Case, Outcome};

pub fn cases() -> Vec<Case> {
    vec![
        Case::ranks("cartesian", &[4, 6], cartesian),
        Case::on_each("cartesian_neighbors", &[1, 2, 3], cartesian_neighbors),
        Case::on_each("distributed_graph", &[1, 2, 3], distributed_graph),
        Case::on_each("communicator_properties", &[1, 2, 3], properties),
        Case::ranks("communicators_as_raw", &[2], raw),
        Case::ranks("groups", &[1, 4], groups),
        Case::ranks("info", &[1], info),
        Case::ranks("intercommunicators", &[2, 3], intercommunicators),
    ]
}

fn cartesian(environment: &Environment) -> Outcome {
    let world = environment.world();
    let (rank, size) = (world.rank(), world.size());
    expect(
        "two equal dimensions",
        dimensions_of(environment, 12, &[0, 0])?,
        vec![4, 3],
    )?;
    expect(
        "one is given",
        dimensions_of(environment, 12, &[0, 2])?,
        vec![6, 2],
    )?;
    for (what, impossible) in [
        (
            "a prime",
            dimensions_of(environment, 2_147_483_647, &[0, 0, 0]),
        ),
        (
            "another",
            dimensions_of(environment, 2_147_483_629, &[0, 0]),
        ),
    ] {
        expect(what, refused_argument(impossible), Some("processes"))?;
    }
    let deep = world.create_cartesian(&[1; 17], &[true; 17], false);
    expect("17 dimensions", refused_argument(deep), Some("dimensions"))?;
    for impossible in [
        dimensions_of(environment, 12, &[5, 0]),
        dimensions_of(environment, 12, &[2, 3]),
    ] {
        expect(
            "they do not divide",
            refused_argument(impossible),
            Some("dimensions"),
        )?;
    }
    // Two columns; the first dimension wraps around, the second does not.
    let rows = size / 2;
    let grid = world.create_cartesian(&[rows, 2], &[true, false], false)?;
    let grid = grid.ok_or("everybody is in it")?;
    expect("dimensions", grid.dimensions(), &[rows, 2][..])?;
    let own = grid.coordinates(grid.rank())?;
    expect("row-major", own.clone(), vec![rank / 2, rank % 2])?;
    for other in 0..size {
        let place: Vec<i32> = grid
            .coordinates(other)?
            .iter()
            .map(|&at| at as i32)
            .collect();
        expect("there and back", grid.rank_at(&place)?, other)?;
    }
    expect("it wraps around", grid.rank_at(&[-1, 1])?, size - 1)?;
    let down = (Some((rank + size - 2) % size), Some((rank + 2) % size));
    expect("along the first", grid.shift(0, 1)?, down)?;
    let right = if rank % 2 == 0 {
        (None, Some(rank + 1))
    } else {
        (Some(rank - 1), None)
    };
    expect("along the second", grid.shift(1, 1)?, right)?;
    // Nothing is received from beyond the edge.
    let (source, destination) = grid.shift(1, 1)?;
    let mut received = [-7_i32];
    grid.send_receive((&[rank as i32], destination, 1), (&mut received, source, 1))?;
    expect("shifted", received, [source.map_or(-7, |rank| rank as i32)])?;
    let row = grid.sub(&[false, true])?;
    expect(
        "a row",
        (row.dimensions(), row.rank()),
        (&[2][..], rank % 2),
    )?;
    let mut sum = [rank as u64];
    row.all_reduce(&mut sum, malleus::mpi::Operation::Sum)?;
    expect("sum of a row", sum, [(4 * (rank / 2) + 1) as u64])?;
    row.into_communicator().free()?;
    for (refused, argument) in [
        (grid.coordinates(size).map(drop), "rank"),
        (grid.rank_at(&[0, 2]).map(drop), "coordinates"),
        (grid.rank_at(&[0]).map(drop), "coordinates"),
        (grid.shift(2, 1).map(drop), "dimension"),
        (grid.sub(&[true]).map(drop), "keep"),
        (
            world
                .create_cartesian(&[size + 1], &[true], false)
                .map(drop),
            "dimensions",
        ),
        (
            world.create_cartesian(&[0], &[true], false).map(drop),
            "dimensions",
        ),
        (
            world.create_cartesian(&[1, 1], &[true], false).map(drop),
            "periods",
        ),
    ] {
        expect("refused", refused_argument(refused), Some(argument))?;
    }
    grid.into_communicator().free()?;
    let smaller = world.create_cartesian(&[size - 1], &[false], false)?;
    expect("the last is left over", smaller.is_none(), rank == size - 1)?;
    smaller.map_or(Ok(()), |grid| grid.into_communicator().free())?;
    Ok(())
}

fn cartesian_neighbors(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let line = communicator.create_cartesian(&[size], &[false], false)?;
    let line = line.ok_or("everybody is in it")?;
    expect("degrees", line.degrees(), (2, 2))?;
    let below = rank.checked_sub(1).map_or(-7, |below| below as i32);
    let above = if rank + 1 < size { rank as i32 + 1 } else { -7 };
    let mut received = [-7_i32; 2];
    line.neighbor_all_gather(&[rank as i32], &mut received)?;
    expect("from both sides", received, [below, above])?;
    // One element down, two up.
    let mut received = [-7_i32; 3];
    line.neighbor_all_to_all_v(
        &[10 * rank as i32, 10 * rank as i32 + 1, 10 * rank as i32 + 2],
        &BlockLayout::packed(vec![1, 2]),
        &mut received,
        &BlockLayout::packed(vec![2, 1]),
    )?;
    let from_below = if rank > 0 {
        [10 * below + 1, 10 * below + 2]
    } else {
        [-7; 2]
    };
    let from_above = if rank + 1 < size { 10 * above } else { -7 };
    expect(
        "blocks",
        received,
        [from_below[0], from_below[1], from_above],
    )?;
    let refused = line.neighbor_all_gather(&[1_i32], &mut [0; 3]);
    expect(
        "three for two neighbours",
        refused_argument(refused),
        Some("buffer"),
    )?;
    line.into_communicator().free()?;
    Ok(())
}

/// Everybody sends to all lower ranks and to itself, and so receives from all higher ones and itself.
fn distributed_graph(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let sources: Vec<usize> = (rank..size).collect();
    let destinations: Vec<usize> = (0..=rank).collect();
    let graph = communicator.create_distributed_graph(&sources, &destinations, None, false)?;
    expect("sources", graph.sources(), &sources[..])?;
    expect("destinations", graph.destinations(), &destinations[..])?;
    let mut gathered = vec![-7_i32; size - rank];
    graph.neighbor_all_gather(&[rank as i32], &mut gathered)?;
    expect("gathered", gathered, (rank as i32..size as i32).collect())?;
    // `from - to` elements, so that each sends nothing to itself.
    let sends = BlockLayout::packed(destinations.iter().map(|to| rank - to).collect());
    let receives = BlockLayout::packed(sources.iter().map(|from| from - rank).collect());
    let mut received = vec![-7_i32; receives.total()];
    let sent = vec![rank as i32; sends.total()];
    graph.neighbor_all_to_all_v(&sent, &sends, &mut received, &receives)?;
    let expected = sources
        .iter()
        .flat_map(|&from| vec![from as i32; from - rank])
        .collect();
    expect("blocks", received, expected)?;
    let one = BlockLayout::empty(size + 1);
    let refused = graph.neighbor_all_to_all_v(&sent, &one, &mut [], &receives);
    expect(
        "a block too many",
        refused_argument(refused),
        Some("send layout"),
    )?;
    graph.into_communicator().free()?;
    let beyond = communicator.create_distributed_graph(&[size], &[], None, false);
    expect(
        "a neighbour beyond",
        refused_argument(beyond),
        Some("sources"),
    )?;
    let alone = communicator.create_distributed_graph(&[], &[], None, false)?;
    alone.neighbor_all_gather(&[1_u8], &mut [])?;
    alone.into_communicator().free()?;
    Ok(())
}

fn properties(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let mut hints = Info::new(&communicator.environment())?;
    hints.set("malleus_test", "a value")?;
    let duplicate = communicator.duplicate_with_info(&hints)?;
    duplicate.set_name("a name")?;
    expect("name", duplicate.name()?, "a name".to_owned())?;
    duplicate.set_info(&hints)?;
    drop(duplicate.info()?.keys()?);
    expect(
        "congruent",
        communicator.compare(&duplicate)?,
        Comparison::Congruent,
    )?;
    expect(
        "identical",
        duplicate.compare(&duplicate.clone())?,
        Comparison::Identical,
    )?;
    let reversed = duplicate
        .split(Some(0), size - rank)?
        .ok_or("everybody is in it")?;
    let turned = if size > 1 {
        Comparison::Similar
    } else {
        Comparison::Congruent
    };
    expect("turned around", duplicate.compare(&reversed)?, turned)?;
    let only: Vec<usize> = (0..size.min(2)).collect();
    let pair = duplicate.create(&duplicate.group()?.include(&only)?)?;
    expect("only two have it", pair.is_some(), rank < 2)?;
    if let Some(pair) = pair {
        let differ = if size > 2 {
            Comparison::Unequal
        } else {
            Comparison::Congruent
        };
        expect("a part", duplicate.compare(&pair)?, differ)?;
        pair.free()?;
    }
    let node = duplicate.split_type(&SplitType::Shared, size - rank, None)?;
    let node = node.ok_or("a node has this process")?;
    expect(
        "the key turns the order",
        node.rank() <= size - 1 - rank,
        true,
    )?;
    node.free()?;
    if let Some(part) = duplicate.split_type(&SplitType::HardwareUnguided, rank, None)? {
        part.free()?;
    }
    let nothing = duplicate.split_type(&SplitType::HardwareGuided("no such hardware"), 0, None)?;
    expect("no such hardware", nothing.is_none(), true)?;
    let named = duplicate.set_name("a\0b");
    expect("a zero byte", refused_argument(named), Some("name"))?;
    duplicate.set_name(&"long ".repeat(100))?;
    expect("it was cut", duplicate.name()?.len() < 130, true)?;
    reversed.free()?;
    duplicate.free()?;
    Ok(())
}

#[allow(unsafe_code)]
fn raw(environment: &Environment) -> Outcome {
    let world = environment.world();
    let clone = world.duplicate()?;
    let raw = clone.into_raw()?;
    // SAFETY: the communicator was just given away.
    let back = unsafe { Communicator::from_raw(raw, environment) }?;
    back.barrier()?;
    let other = back.clone();
    expect("one that is in use stays", back.into_raw().is_err(), true)?;
    other.free()?;
    expect("so does the world", world.clone().into_raw().is_err(), true)?;
    let raw = world.group()?.into_raw();
    // SAFETY: the group was just given away.
    let group = unsafe { Group::from_raw(raw, environment) };
    expect("group", group.size()?, world.size())?;
    let mut hints = Info::new(environment)?;
    hints.set("key", "value")?;
    // SAFETY: the info object is just given away.
    let hints = unsafe { Info::from_raw(hints.into_raw(), environment) };
    expect("info", hints.get("key")?, Some("value".to_owned()))
}

fn groups(environment: &Environment) -> Outcome {
    let world = environment.world();
    let (rank, size) = (world.rank(), world.size());
    let all = world.group()?;
    expect("rank", all.rank()?, Some(rank))?;
    let even: Vec<usize> = (0..size).step_by(2).collect();
    let even = all.include(&even)?;
    let odd = all.difference(&even)?;
    expect(
        "sizes",
        (even.size()?, odd.size()?),
        (size.div_ceil(2), size / 2),
    )?;
    expect(
        "rank among the odd",
        odd.rank()?,
        (rank % 2 == 1).then_some(rank / 2),
    )?;
    expect("nothing in common", even.intersection(&odd)?.size()?, 0)?;
    let both = odd.union(&even)?;
    let order = if size > 1 {
        Comparison::Similar
    } else {
        Comparison::Identical
    };
    expect("all again, in another order", both.compare(&all)?, order)?;
    let ranks: Vec<usize> = (0..size).collect();
    let expected: Vec<Option<usize>> = ranks
        .iter()
        .map(|rank| (rank % 2 == 0).then_some(rank / 2))
        .collect();
    expect("translated", all.translate(&ranks, &even)?, expected)?;
    expect(
        "without the last",
        all.exclude(&[size - 1])?.size()?,
        size - 1,
    )?;
    expect("an empty group", all.include(&[])?.size()?, 0)?;
    for refused in [
        all.include(&[size]),
        all.include(&[0, 0]),
        all.exclude(&[usize::MAX]),
    ] {
        expect("refused", refused_argument(refused), Some("ranks"))?;
    }
    let translated = all.translate(&[size], &even);
    expect("a rank beyond", refused_argument(translated), Some("ranks"))?;
    if rank == size - 1 {
        // Collective over the group alone.
        let alone = world.create_group(&all.include(&[rank])?, 3)?;
        expect("alone", alone.size(), 1)?;
        alone.free()?;
    }
    Ok(())
}

fn info(environment: &Environment) -> Outcome {
    let mut info = Info::new(environment)?;
    info.set("first", "1")?;
    info.set("second", "zwei ✓")?;
    let copy = info.duplicate()?;
    expect("it was there", info.remove("first")?, true)?;
    expect("it is no more", info.remove("first")?, false)?;
    expect("keys", info.keys()?, vec!["second".to_owned()])?;
    expect("the copy has it", copy.get("first")?, Some("1".to_owned()))?;
    expect("value", info.get("second")?, Some("zwei ✓".to_owned()))?;
    for (key, value, argument) in [
        ("", "value", "key"),
        ("a\0b", "value", "key"),
        (&*"k".repeat(1000), "value", "key"),
        ("key", "a\0b", "value"),
        ("key", &*"v".repeat(100_000), "value"),
    ] {
        expect(
            "refused",
            refused_argument(info.set(key, value)),
            Some(argument),
        )?;
    }
    expect("refused", refused_argument(info.get("")), Some("key"))?;
    info.set(&"k".repeat(254), &"v".repeat(1023))?;
    expect(
        "the longest",
        info.get(&"k".repeat(254))?.map(|value| value.len()),
        Some(1023),
    )
}

fn intercommunicators(environment: &Environment) -> Outcome {
    let world = environment.world();
    let (rank, size) = (world.rank(), world.size());
    // The first is one group, the rest the other.
    let is_first = rank == 0;
    let half = world
        .split(Some(usize::from(!is_first)), rank)?
        .ok_or("everybody is in one")?;
    let remote_leader = usize::from(is_first);
    let between = half.create_intercommunicator(0, &world, remote_leader, 9)?;
    let sizes = if is_first {
        (1, size - 1)
    } else {
        (size - 1, 1)
    };
    expect("sizes", (between.size(), between.remote_size()), sizes)?;
    expect("rank", between.rank(), half.rank())?;
    let remote = between.remote_group()?.intersection(&between.group()?)?;
    expect("nobody is on both sides", remote.size()?, 0)?;
    between.barrier()?;
    let merged = between.merge(is_first)?;
    expect(
        "the first is the last",
        merged.rank(),
        (rank + size - 1) % size,
    )?;
    merged.free()?;
    let refused = half.create_intercommunicator(size, &world, 0, 9);
    expect("a leader beyond", refused_argument(refused), Some("leader"))?;
    between.free()?;
    half.free()?;
    Ok(())
}
