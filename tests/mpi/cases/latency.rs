//! Recorded latencies: what the library records of itself, and merging over ranks.

use std::time::Duration;

use malleus::latency::{self, Recorder};
use malleus::mpi::window::{Assertion, Window};
use malleus::mpi::{Communicator, Environment};

use super::{expect, on_each_communicator};
use crate::harness::{Case, Outcome};

pub fn cases() -> Vec<Case> {
    vec![
        Case::ranks("latency_merges_over_ranks", &[1, 2, 4], merge),
        Case::ranks("latency_collects_at_a_root", &[3], collect),
        Case::ranks("latency_of_mpi_calls", &[2], calls),
    ]
}

fn merge(environment: &Environment) -> Outcome {
    on_each_communicator(environment, |communicator| {
        for root in [0, communicator.size() - 1] {
            merge_at(communicator, root)?;
        }
        let size = communicator.size();
        let refused = communicator.merge_latency(&Recorder::new(), size);
        expect("no such root", refused.is_err(), true)
    })
}

/// Rank r records r + 1 latencies of r + 1 µs each, and some that only it has.
fn merge_at(communicator: &Communicator, root: usize) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let mut recorder = Recorder::new();
    for _ in 0..=rank {
        recorder.record("test.merge", Duration::from_micros(rank as u64 + 1));
    }
    recorder.record_sized("test.sizes", 1 << rank, Duration::from_secs(1));
    recorder.record(
        format!("test.only.{rank}").as_str(),
        Duration::from_nanos(1),
    );
    let before = recorder.to_bytes();
    let merged = communicator.merge_latency(&recorder, root)?;
    expect(
        "the own recorder is left alone",
        recorder.to_bytes(),
        before,
    )?;
    let Some(merged) = merged else {
        return expect("nothing elsewhere", rank == root, false);
    };
    expect("only at the root", rank, root)?;
    let histogram = merged.get("test.merge", None).ok_or("nothing merged")?;
    let total = size * (size + 1) / 2;
    expect("latencies", histogram.len(), total as u64)?;
    for other in 0..size as u64 {
        let times = histogram.count_at(1000 * (other + 1));
        expect("latencies of a rank", times, other + 1)?;
        let own = merged.get(format!("test.only.{other}").as_str(), None);
        expect("what one rank has", own.map(|own| own.len()), Some(1))?;
        let sized = merged.get("test.sizes", Some(1 << other));
        expect("a size class", sized.map(|sized| sized.len()), Some(1))?;
    }
    expect("rows", merged.rows().len(), 1 + 2 * size)
}

/// What the threads of all ranks have recorded goes to that of one, and recording goes on.
fn collect(environment: &Environment) -> Outcome {
    let world = environment.world();
    latency::start();
    latency::record("test.collect", Duration::from_nanos(5));
    world.collect_latency(1)?;
    latency::record("test.collect", Duration::from_nanos(7));
    let recorder = latency::stop();
    let found = recorder.get("test.collect", None).map(|found| found.len());
    let expected = if world.rank() == 1 { 4 } else { 1 };
    expect("latencies", found, Some(expected))
}

fn calls(environment: &Environment) -> Outcome {
    let world = environment.world();
    let other = 1 - world.rank();
    world.barrier()?;
    latency::start();
    world.barrier()?;
    world.broadcast(&mut [0_u8; 100], 0)?;
    let memory = vec![1.0; 8];
    let window = Window::create(&world, memory, None)?;
    let mut copy = [0.0; 4];
    window.lock_all(Assertion::NoCheck, |epoch| epoch.get(&mut copy, other, 0))?;
    window.free()?;
    world.duplicate()?.free()?;
    let recorder = latency::stop();
    world.barrier()?;
    let count = |name: &str| recorder.get(name, None).map(|found| found.len());
    for name in [
        "MPI_Barrier",
        "MPI_Bcast",
        "MPI_Win_create",
        "MPI_Win_lock_all",
        "MPI_Get",
        "MPI_Win_unlock_all",
        "MPI_Win_free",
        "MPI_Comm_dup",
        "MPI_Comm_free",
    ] {
        expect(name, count(name), Some(1))?;
    }
    expect("off again", latency::stop().is_empty(), true)
}
