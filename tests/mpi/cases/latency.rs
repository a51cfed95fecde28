//! Recorded latencies: what the library records of itself, and merging over ranks.

use std::process::Command;
use std::time::Duration;

use malleus::latency::{self, Recorder};
use malleus::mpi::window::{Assertion, Window};
use malleus::mpi::{Communicator, Environment};

use super::expect;
use crate::harness::{Case, Outcome, Run};

pub fn cases() -> Vec<Case> {
    vec![
        Case::on_each("latency_merges_over_ranks", &[1, 2, 4], merge),
        Case::ranks("latency_collects_at_a_root", &[3], collect),
        Case::ranks("latency_of_mpi_calls", &[2], calls),
        Case::command("latency_of_a_solve_with_resizes", solve)
            .needs_spawn()
            .seconds(120),
    ]
}

fn merge(communicator: &Communicator) -> Outcome {
    for root in [0, communicator.size() - 1] {
        merge_at(communicator, root)?;
    }
    let size = communicator.size();
    let refused = communicator.merge_latency(&Recorder::new(), size);
    expect("no such root", refused.is_err(), true)
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
    let count = |name: &str, bytes| recorder.get(name, bytes).map(|found| found.len());
    for (name, bytes) in [
        ("MPI_Barrier", None),
        ("MPI_Bcast", Some(100)),
        ("MPI_Win_create", None),
        ("MPI_Win_lock_all", None),
        ("MPI_Get", Some(32)),
        ("MPI_Win_unlock_all", None),
        ("MPI_Win_free", None),
        ("MPI_Comm_dup", None),
        ("MPI_Comm_free", None),
    ] {
        expect(name, count(name, bytes), Some(1))?;
    }
    expect("by size only", count("MPI_Get", None), None)?;
    expect("off again", latency::stop().is_empty(), true)
}

/// One rank, three, then two: everybody's latencies are there, those of the rank that left, too.
fn solve(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_malleus"));
    command
        .args(["-n", "1", "solve", "poisson2d:30x30"])
        .args(["--resize", "9:3", "--resize", "20:2", "--hgrm"])
        .arg(folder.path().join("new"));
    let ended = run.finish(command)?;
    let told = format!("{}\n{}{}", ended.status, ended.stdout, ended.stderr);
    expect(&told, ended.status.success(), true)?;
    let count = |name: &str| -> Result<u64, Box<dyn std::error::Error>> {
        let file = folder.path().join("new").join(format!("{name}.hgrm"));
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{name}: {error}"))?;
        let (_, count) = text.split_once("Total count    =").ok_or("no count")?;
        let (count, _) = count.split_once(']').ok_or("no count")?;
        Ok(count.trim().parse()?)
    };
    // The first resize has one member of the job before it, the second two that stay.
    for stage in ["decide", "processes", "redistribute", "resume", "total"] {
        expect(stage, count(&format!("resize.{stage}"))?, 3)?;
    }
    expect("processes that started", count("MPI_Comm_get_parent")?, 3)?;
    expect("spawns", count("MPI_Comm_spawn")?, 1)?;
    let log = std::fs::read_to_string(folder.path().join("new/latency.hlog"))?;
    expect("the log has them", log.contains("Tag=resize.total,"), true)
}
