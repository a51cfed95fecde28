//! The cases, one file per part of the library.

mod alltoallv;
mod alltoallv_costs;
mod alltoallv_in_place;
mod alltoallv_large;
mod alltoallv_random;
mod background;
mod bench;
mod collectives;
mod communication;
mod exchange;
mod experiment;
mod job;
mod latency;
mod persistent;
mod processes;
mod requests;
mod solve;
mod synthetic;
mod threads;
mod topology;
mod tune;
mod window;

pub use crate::harness::cores;
use crate::harness::{Case, Outcome};

pub fn all() -> Vec<Case> {
    [
        crate::coverage::cases(),
        alltoallv::cases(),
        alltoallv_costs::cases(),
        alltoallv_in_place::cases(),
        alltoallv_large::cases(),
        alltoallv_random::cases(),
        background::cases(),
        bench::cases(),
        collectives::cases(),
        communication::cases(),
        exchange::cases(),
        experiment::cases(),
        job::cases(),
        latency::cases(),
        persistent::cases(),
        processes::cases(),
        requests::cases(),
        solve::cases(),
        synthetic::cases(),
        threads::cases(),
        topology::cases(),
        tune::cases(),
        window::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Fails with both values unless they are equal.
pub fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found:?}, expected {expected:?}").into())
}
