//! The cases, one file per part of the library.

mod bench;
mod collectives;
mod communication;
mod job;
mod latency;
mod persistent;
mod processes;
mod requests;
mod solve;
mod threads;
mod topology;
mod window;

use std::error::Error;

use malleus::mpi::{Communicator, Environment, SpawnCommand};

use crate::harness::{Case, Mpich, Outcome};

pub fn all() -> Vec<Case> {
    [
        bench::cases(),
        collectives::cases(),
        communication::cases(),
        job::cases(),
        latency::cases(),
        persistent::cases(),
        processes::cases(),
        requests::cases(),
        solve::cases(),
        threads::cases(),
        topology::cases(),
        window::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Runs a check on the kinds of communicators there are: self, the world, a duplicate, and one that is
/// merged from this start's processes and one more that they spawn.
pub fn on_each_communicator(
    environment: &Environment,
    check: fn(&Communicator) -> Outcome,
) -> Outcome {
    let named = |kind: &str, communicator: &Communicator| {
        check(communicator)
            .map_err(|error| -> Box<dyn Error> { format!("on {kind}: {error}").into() })
    };
    let merged = if let Some(parent) = environment.parent()? {
        parent.meet(false)?;
        let merged = parent.merge(true)?;
        parent.disconnect()?;
        merged
    } else {
        let world = environment.world();
        named("self", &environment.self_communicator())?;
        named("the world", &world)?;
        let duplicate = world.duplicate()?;
        named("a duplicate", &duplicate)?;
        duplicate.free()?;
        if Mpich::of_this_run().cannot_spawn().is_some() {
            // There is no merged communicator to be had.
            return Ok(());
        }
        let program = std::env::current_exe()?;
        let program = program.to_str().ok_or("a path that is not text")?;
        let command = SpawnCommand {
            program,
            arguments: &[],
            processes: 1,
            info: None,
        };
        let children = world.spawn(&command, 0)?;
        children.meet(true)?;
        let merged = children.merge(false)?;
        children.disconnect()?;
        environment.set_heavy_yield(merged.size() > cores())?;
        merged
    };
    named("a merged communicator", &merged)?;
    merged.disconnect()?;
    Ok(())
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Fails with both values unless they are equal.
pub fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found:?}, expected {expected:?}").into())
}
