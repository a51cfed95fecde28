//! `malleus bench window`: what a window costs.

mod report;

use std::time::{Duration, Instant};

use serde::Serialize;

use super::options::{Measure, Output, at_least_one};
use super::samples::{Samples, Summary};
use super::{Failure, Header, Result, check_outputs, is_oversubscribed};
use crate::cli::record::{Mpich, cores};
use crate::job::Spawn;
use crate::mpi::bare::{BareWindow, Flavour};
use crate::mpi::process::cannot_spawn;
use crate::mpi::reference::Reference;
use crate::mpi::window::Window;
use crate::mpi::{Communicator, Environment};

/// Bytes that every rank tells the others when MPICH creates a window.
const EXCHANGED: usize = 24;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    measure: Measure,
    #[command(flatten)]
    output: Output,
    /// On which communicators: the world, a duplicate of it, or one merged from this start's ranks and one
    /// that they spawn.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_enum,
        default_value = "world,dup,merged"
    )]
    communicators: Vec<Kind>,
    /// On the first so many ranks of the world as well, while the others sleep; separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = at_least_one)]
    ranks: Vec<usize>,
    /// So many windows, created one after the other, against as many attaches to one dynamic window; 1 leaves
    /// it out.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = at_least_one)]
    windows: usize,
}

/// What kind of communicator windows are created on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
enum Kind {
    World,
    Dup,
    Merged,
    /// The first ranks of the world.
    #[value(skip)]
    Part,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::World => "world",
            Self::Dup => "dup",
            Self::Merged => "merged",
            Self::Part => "part",
        }
    }
}

/// Who makes a window: this library's calls of MPI, or C's.
const RUST: usize = 0;
const C: usize = 1;

#[derive(Debug, Serialize)]
struct Row {
    flavour: &'static str,
    bytes: usize,
    ranks: usize,
    communicator: &'static str,
    phase: &'static str,
    /// How many windows, or attaches, this is the time of.
    windows: usize,
    count: usize,
    /// The very first one, before the warm-up.
    first_s: f64,
    p50_s: f64,
    p90_s: f64,
    p99_s: f64,
    max_s: f64,
    /// The median of the same calls from C.
    c_p50_s: Option<f64>,
    oversubscribed: bool,
    #[serde(skip)]
    summary: Summary,
}

/// What is not there.
#[derive(Debug, Serialize)]
struct Skipped {
    flavour: &'static str,
    communicator: &'static str,
    ranks: usize,
    reason: String,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: Header,
    /// Whether the same calls were made from C as well.
    c_reference: bool,
    rows: Vec<Row>,
    skipped: Vec<Skipped>,
}

pub(super) fn run(environment: &Environment, arguments: &Arguments) -> Result<()> {
    let mut bench = Bench {
        arguments,
        rows: Vec::new(),
        skipped: Vec::new(),
        c_reference: true,
    };
    if let Some(parent) = environment.parent()? {
        let merged = parent.join(false)?;
        bench.on(&merged, Kind::Merged)?;
        merged.disconnect()?;
        return Ok(());
    }
    let world = environment.world();
    if let Some(&ranks) = arguments.ranks.iter().find(|&&ranks| ranks > world.size()) {
        return Err(Failure::Common(format!(
            "--ranks {ranks}: there are {} ranks",
            world.size()
        )));
    }
    check_outputs(&world, &arguments.output)?;
    for &ranks in &arguments.ranks {
        bench.on_part(&world, ranks)?;
    }
    for &kind in &arguments.communicators {
        match kind {
            Kind::World | Kind::Part => bench.on(&world, kind)?,
            Kind::Dup => {
                let duplicate = world.duplicate()?;
                bench.on(&duplicate, kind)?;
                duplicate.free()?;
            }
            Kind::Merged => bench.on_merged(environment, &world)?,
        }
    }
    if world.rank() != 0 {
        return Ok(());
    }
    let report = Report {
        header: Header {
            benchmark: "window",
            mpich: Mpich::of(environment),
            ranks: world.size(),
            cores: cores(),
            oversubscribed: bench.rows.iter().any(|row| row.oversubscribed),
            iterations: arguments.measure.iterations,
            warm_up: arguments.measure.warm_up,
        },
        c_reference: bench.c_reference,
        rows: bench.rows,
        skipped: bench.skipped,
    };
    report.write(arguments)
}

struct Bench<'a> {
    arguments: &'a Arguments,
    rows: Vec<Row>,
    skipped: Vec<Skipped>,
    c_reference: bool,
}

/// Where windows are created.
#[derive(Clone, Copy)]
struct Place<'a> {
    communicator: &'a Communicator,
    kind: Kind,
    reference: Option<&'a Reference>,
    oversubscribed: bool,
}

impl Place<'_> {
    /// Rust and C in turns, so that neither is always second.
    fn order(&self, round: usize) -> impl Iterator<Item = Option<&Reference>> {
        let pair = if round.is_multiple_of(2) {
            [None, self.reference]
        } else {
            [self.reference, None]
        };
        let only_rust = self.reference.is_none();
        pair.into_iter().skip(usize::from(only_rust))
    }
}

/// The times of one thing, from Rust and from C.
type Both = [Samples; 2];

impl Bench<'_> {
    fn rounds(&self) -> usize {
        self.arguments.measure.warm_up + self.arguments.measure.iterations
    }

    /// The first ranks of the world; the others sleep.
    fn on_part(&mut self, world: &Communicator, ranks: usize) -> Result<()> {
        let part = world.split((world.rank() < ranks).then_some(0), world.rank())?;
        if let Some(part) = part {
            self.on(&part, Kind::Part)?;
            part.free()?;
        }
        let mut done = world.ibarrier()?;
        while !done.test()? {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn on_merged(&mut self, environment: &Environment, world: &Communicator) -> Result<()> {
        if let Some(reason) = cannot_spawn() {
            self.skipped.push(Skipped {
                flavour: "every flavour",
                communicator: Kind::Merged.name(),
                ranks: world.size() + 1,
                reason: reason.to_owned(),
            });
            return Ok(());
        }
        let merged = Spawn::default().start(world, 1)?.join(true)?;
        self.on(&merged, Kind::Merged)?;
        merged.disconnect()?;
        environment.set_heavy_yield(is_oversubscribed(world)?)?;
        Ok(())
    }

    fn on(&mut self, communicator: &Communicator, kind: Kind) -> Result<()> {
        let oversubscribed = is_oversubscribed(communicator)?;
        communicator.environment().set_heavy_yield(oversubscribed)?;
        let reference = Reference::load(communicator)?;
        self.c_reference &= reference.is_some();
        let place = Place {
            communicator,
            kind,
            reference: reference.as_ref(),
            oversubscribed,
        };
        self.parts(place)?;
        let flavours = self.possible(place)?;
        for bytes in self.arguments.measure.sizes.iter() {
            self.creation(place, &flavours, bytes)?;
        }
        if self.arguments.windows > 1 {
            for bytes in self.arguments.measure.sizes.iter() {
                self.several(place, &flavours, bytes)?;
            }
        }
        Ok(())
    }

    /// The flavours that can be created here.
    fn possible(&mut self, place: Place<'_>) -> Result<Vec<Flavour>> {
        let mut possible = self.arguments.measure.flavours.clone();
        if !possible.contains(&Flavour::Shared) {
            return Ok(possible);
        }
        let communicator = place.communicator;
        let node = communicator.split_shared()?;
        // MPICH takes spawned processes for those of another node, and may share memory with them all the
        // same.
        let apart = place.kind != Kind::Merged && node.size() < communicator.size();
        node.free()?;
        let mut problem = apart.then(|| "the ranks are on several nodes".to_owned());
        if place.kind == Kind::Merged {
            match BareWindow::create(communicator, Flavour::Shared, vec![0; EXCHANGED]) {
                Ok(window) => {
                    if let Some((rank, reason)) = communicator.agree(None)? {
                        // This rank has a window that another one has not.
                        return Err(Failure::Fatal(format!("rank {rank}: {reason}")));
                    }
                    window.free()?;
                }
                Err(error) => {
                    problem = communicator.agree(Some(error.to_string()))?.map(|(_, e)| e);
                }
            }
        } else {
            problem = communicator.agree(problem)?.map(|(_, reason)| reason);
        }
        if let Some(reason) = problem {
            possible.retain(|&flavour| flavour != Flavour::Shared);
            self.skipped.push(Skipped {
                flavour: Flavour::Shared.name(),
                communicator: place.kind.name(),
                ranks: communicator.size(),
                reason,
            });
        }
        Ok(possible)
    }

    /// What a creation is made of, as far as it can be timed apart.
    fn parts(&mut self, place: Place<'_>) -> Result<()> {
        let communicator = place.communicator;
        let (mut barrier, mut dup, mut gather) =
            (Both::default(), Both::default(), Both::default());
        let send = [0_u8; EXCHANGED];
        let mut receive = vec![0_u8; EXCHANGED * communicator.size()];
        for round in 0..self.rounds() {
            for c in place.order(round) {
                let who = if c.is_some() { C } else { RUST };
                communicator.barrier()?;
                barrier[who].push(match c {
                    Some(c) => c.barrier(communicator)?,
                    None => timed(|| communicator.barrier())?.1,
                });
                communicator.barrier()?;
                dup[who].push(match c {
                    Some(c) => c.duplicate(communicator)?,
                    None => {
                        let (duplicate, time) = timed(|| communicator.duplicate())?;
                        duplicate.free()?;
                        time
                    }
                });
                communicator.barrier()?;
                gather[who].push(match c {
                    Some(c) => c.all_gather(communicator, &send, &mut receive)?,
                    None => timed(|| communicator.all_gather(&send, &mut receive))?.1,
                });
            }
        }
        self.add(place, ("none", "barrier"), 0, 1, barrier)?;
        self.add(place, ("none", "dup"), 0, 1, dup)?;
        self.add(place, ("none", "allgather"), EXCHANGED, 1, gather)
    }

    /// One window of each flavour in turns.
    fn creation(&mut self, place: Place<'_>, flavours: &[Flavour], bytes: usize) -> Result<()> {
        let communicator = place.communicator;
        let mut times = vec![[Both::default(), Both::default(), Both::default()]; flavours.len()];
        let [mut checked, mut checked_free] = [Both::default(), Both::default()];
        let mut memory = vec![1_u8; bytes];
        for round in 0..self.rounds() {
            for (&flavour, [create, attach, free]) in flavours.iter().zip(&mut times) {
                for c in place.order(round) {
                    let who = if c.is_some() { C } else { RUST };
                    communicator.barrier()?;
                    let own = std::mem::take(&mut memory);
                    let (mut window, time) = match c {
                        Some(c) => c.create(communicator, flavour, own)?,
                        None => timed(|| BareWindow::create(communicator, flavour, own))?,
                    };
                    create[who].push(time);
                    if flavour == Flavour::Dynamic {
                        attach[who].push(match c {
                            Some(c) => c.attach(&mut window)?,
                            None => timed(|| window.attach(0, 1))?.1,
                        });
                    }
                    communicator.barrier()?;
                    let (own, time) = match c {
                        Some(c) => c.free(window)?,
                        None => timed(|| window.free())?,
                    };
                    free[who].push(time);
                    memory = own;
                }
            }
            // The safe layer's, whose ranks also tell each other how much they expose.
            if flavours.contains(&Flavour::Create) {
                communicator.barrier()?;
                let own = std::mem::take(&mut memory);
                let (window, time) = timed(|| Window::create(communicator, own, None))?;
                checked[RUST].push(time);
                communicator.barrier()?;
                let (own, time) = timed(|| window.into_memory())?;
                checked_free[RUST].push(time);
                memory = own;
            }
        }
        for (&flavour, [create, attach, free]) in flavours.iter().zip(times) {
            self.add(place, (flavour.name(), "create"), bytes, 1, create)?;
            if flavour == Flavour::Dynamic {
                self.add(place, (flavour.name(), "attach"), bytes, 1, attach)?;
            }
            self.add(place, (flavour.name(), "free"), bytes, 1, free)?;
        }
        if flavours.contains(&Flavour::Create) {
            self.add(place, ("checked", "create"), bytes, 1, checked)?;
            self.add(place, ("checked", "free"), bytes, 1, checked_free)?;
        }
        Ok(())
    }

    /// Windows one after the other, against one dynamic window with as many attaches, whose addresses the
    /// others have to learn.
    fn several(&mut self, place: Place<'_>, flavours: &[Flavour], bytes: usize) -> Result<()> {
        let communicator = place.communicator;
        let count = self.arguments.windows;
        let mut times = vec![[Both::default(), Both::default()]; 2];
        let mut memories = vec![vec![1_u8; bytes]; count];
        let mut together = vec![1_u8; bytes * count];
        let addresses = vec![0_u64; count];
        let mut everybody = vec![0_u64; count * communicator.size()];
        for _ in 0..self.rounds() {
            if flavours.contains(&Flavour::Create) {
                communicator.barrier()?;
                let (windows, time) = timed(|| {
                    let windows = memories
                        .drain(..)
                        .map(|own| BareWindow::create(communicator, Flavour::Create, own));
                    windows.collect::<crate::mpi::Result<Vec<_>>>()
                })?;
                times[0][0][RUST].push(time);
                communicator.barrier()?;
                let (freed, time) = timed(|| {
                    let freed = windows.into_iter().map(BareWindow::free);
                    freed.collect::<crate::mpi::Result<Vec<_>>>()
                })?;
                times[0][1][RUST].push(time);
                memories = freed;
            }
            if flavours.contains(&Flavour::Dynamic) {
                communicator.barrier()?;
                let own = std::mem::take(&mut together);
                let (window, time) = timed(|| {
                    let mut window = BareWindow::create(communicator, Flavour::Dynamic, own)?;
                    for index in 0..count {
                        window.attach(index, count)?;
                    }
                    communicator.all_gather(&addresses, &mut everybody)?;
                    Ok(window)
                })?;
                times[1][0][RUST].push(time);
                communicator.barrier()?;
                let (own, time) = timed(|| window.free())?;
                times[1][1][RUST].push(time);
                together = own;
            }
        }
        for (flavour, [create, free]) in [Flavour::Create, Flavour::Dynamic].into_iter().zip(times)
        {
            if flavours.contains(&flavour) {
                self.add(place, (flavour.name(), "create"), bytes, count, create)?;
                self.add(place, (flavour.name(), "free"), bytes, count, free)?;
            }
        }
        Ok(())
    }

    /// Adds a row. Collective.
    fn add(
        &mut self,
        place: Place<'_>,
        (flavour, phase): (&'static str, &'static str),
        bytes: usize,
        windows: usize,
        times: Both,
    ) -> Result<()> {
        let warm_up = self.arguments.measure.warm_up;
        let [rust, c] = times;
        let has_c = !c.is_empty();
        let summary = rust.reduce(place.communicator, warm_up)?;
        let c = c.reduce(place.communicator, warm_up)?;
        self.rows.push(Row {
            flavour,
            bytes,
            ranks: place.communicator.size(),
            communicator: place.kind.name(),
            phase,
            windows,
            count: summary.count(),
            first_s: summary.first_s,
            p50_s: summary.percentile_s(50.0),
            p90_s: summary.percentile_s(90.0),
            p99_s: summary.percentile_s(99.0),
            max_s: summary.max_s(),
            c_p50_s: has_c.then(|| c.percentile_s(50.0)),
            oversubscribed: place.oversubscribed,
            summary,
        });
        Ok(())
    }
}

fn timed<R>(call: impl FnOnce() -> crate::mpi::Result<R>) -> Result<(R, Duration)> {
    let begun = Instant::now();
    let result = call();
    let time = begun.elapsed();
    Ok((result?, time))
}
