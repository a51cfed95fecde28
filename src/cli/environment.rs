//! `malleus env`: what this program was built with, and what it finds.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::record::{Mpich, Target, cores, seconds};
use crate::job::Spawn;
use crate::mpi::window::{Assertion, Window};
use crate::mpi::{Communicator, Environment, Library, library_version_line};

/// How long the exposed rank sleeps outside MPI.
const ASLEEP: Duration = Duration::from_millis(400);

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Write the result as JSON to this file; - for standard output, instead of the text.
    #[arg(long, value_name = "FILE", value_parser = |name: &str| Ok::<_, String>(Target::from(name)))]
    json: Option<Target>,
}

#[derive(Debug, Serialize)]
struct Found {
    mpich: Mpich,
    /// What the library says of itself at run time.
    library: String,
    /// The library that this program was built for, where the one at run time is another.
    built_for: Option<String>,
    /// The libfabric provider that MPICH takes, as it says itself.
    provider_in_use: Option<String>,
    mpicc: &'static str,
    mpiexec: &'static str,
    cores: usize,
    ranks: usize,
    /// Why no process can be started, where that is so.
    cannot_start: Option<String>,
    /// Reads from a rank that sleeps outside MPI.
    reads: Vec<Read>,
}

/// A one-sided read of memory of a rank that sleeps outside MPI.
#[derive(Debug, Serialize)]
struct Read {
    between: &'static str,
    read_s: f64,
    asleep_s: f64,
    /// Whether the data was there before the exposed rank woke.
    passive: bool,
}

pub(super) fn run(environment: &Environment, arguments: &Arguments) -> ExitCode {
    match look(environment) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(found)) => {
            let written = match &arguments.json {
                Some(target) => target.write(&found),
                None => Ok(()),
            };
            if !matches!(arguments.json, Some(Target::StandardOutput)) {
                print(&found);
            }
            match written {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("malleus: error: {error}");
                    ExitCode::FAILURE
                }
            }
        }
        Err(error) => environment.abort(&format!("error: {error}"), 1),
    }
}

/// Where the launcher leaves what [`probe`] found for the ranks.
const PROVIDER_IN_USE: &str = "MALLEUS_PROVIDER_IN_USE";

/// Asks MPICH, in a job of one rank, which libfabric provider it takes: it tells in a summary only. For
/// the process that starts the ranks, which inherit the answer.
pub(super) fn probe() -> Option<(&'static str, String)> {
    let program = std::env::current_exe().ok()?;
    let probed = Command::new(crate::MPIEXEC)
        .args(["-n", "1"])
        .arg(program)
        .arg("probe")
        .env("MPIR_CVAR_DEBUG_SUMMARY", "1")
        .stderr(Stdio::null())
        .output();
    let text = String::from_utf8_lossy(&probed.ok()?.stdout).into_owned();
    let provider = text
        .lines()
        .find_map(|line| line.strip_prefix("libfabric provider: "))?;
    Some((PROVIDER_IN_USE, provider.split(" - ").next()?.to_owned()))
}

/// The findings on rank 0.
fn look(environment: &Environment) -> Result<Option<Found>, Box<dyn std::error::Error>> {
    if let Some(parent) = environment.parent()? {
        let merged = parent.join(false)?;
        read_from_sleeper(&merged, merged.size() - 1)?;
        merged.disconnect()?;
        return Ok(None);
    }
    let world = environment.world();
    let mut reads = Vec::new();
    let mut add = |between, read_s: f64| {
        let asleep_s = ASLEEP.as_secs_f64();
        reads.push(Read {
            between,
            read_s,
            asleep_s,
            passive: read_s < asleep_s / 2.0,
        });
    };
    if world.size() > 1 {
        add(
            "ranks of one start",
            read_from_sleeper(&world, world.size() - 1)?,
        );
    }
    let mut cannot_start = None;
    match Spawn::default().start(&world, 1) {
        Ok(children) => {
            let merged = children.join(true)?;
            environment.set_heavy_yield(merged.size() > cores())?;
            add(
                "parents and spawned children",
                read_from_sleeper(&merged, merged.size() - 1)?,
            );
            merged.disconnect()?;
        }
        // MPICH 4.0 with ucx: an error on every rank.
        Err(error) => cannot_start = Some(error.to_string()),
    }
    if world.rank() != 0 {
        return Ok(None);
    }
    Ok(Some(Found {
        mpich: Mpich::of(environment),
        library: library_version_line()?,
        built_for: Library::at_run_time()?
            .differs_from(&Library::built_for())
            .then(|| Library::built_for().to_string()),
        provider_in_use: std::env::var(PROVIDER_IN_USE).ok(),
        mpicc: crate::MPICC,
        mpiexec: crate::MPIEXEC,
        cores: cores(),
        ranks: world.size(),
        cannot_start,
        reads,
    }))
}

/// The last rank reads from rank 0, which sleeps outside MPI; the time of that read, on every rank.
fn read_from_sleeper(
    communicator: &Communicator,
    reader: usize,
) -> Result<f64, Box<dyn std::error::Error>> {
    let memory = vec![communicator.rank() as u64 + 7; 1024];
    let window = Window::create(communicator, memory, None)?;
    let mut copy = [0_u64];
    let mut time = [0.0];
    communicator.barrier()?;
    if communicator.rank() == 0 {
        std::thread::sleep(ASLEEP);
    } else if communicator.rank() == reader {
        let begun = Instant::now();
        window.lock_all(Assertion::NoCheck, |epoch| epoch.get(&mut copy, 0, 1000))?;
        time[0] = begun.elapsed().as_secs_f64();
        if copy[0] != 7 {
            return Err(format!("a one-sided read returned {} instead of 7", copy[0]).into());
        }
    }
    window.free()?;
    communicator.broadcast(&mut time, reader)?;
    Ok(time[0])
}

fn print(found: &Found) {
    let mpich = &found.mpich;
    println!("malleus       {}", env!("CARGO_PKG_VERSION"));
    println!("MPICH         {} ({})", mpich.version, mpich.device);
    println!("library       {}", found.library);
    if let Some(built_for) = &found.built_for {
        println!("built for     {built_for}: the library at run time is another, which serves it");
    }
    println!("netmod        {}", mpich.netmod);
    match &found.provider_in_use {
        Some(provider) => println!("provider      {provider}"),
        None => println!("provider      {} (asked for)", mpich.provider),
    }
    println!("thread level  {}", mpich.thread_level);
    println!("mpicc         {}", found.mpicc);
    println!("mpiexec       {}", found.mpiexec);
    println!("cores         {}", found.cores);
    if let Some(reason) = &found.cannot_start {
        println!("processes     can't be started: {reason}");
    }
    for read in &found.reads {
        println!(
            "reads         {} between {}: {} while the exposed rank slept {}",
            if read.passive {
                "passive"
            } else {
                "not passive"
            },
            read.between,
            seconds(read.read_s),
            seconds(read.asleep_s)
        );
    }
}
