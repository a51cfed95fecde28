//! `malleus bench latency`: what one-sided operations cost.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::figure::{self, Series};
use super::options::{Measure, Output};
use super::samples::{Samples, Summary};
use super::{Failure, Header, Result, check_outputs, is_oversubscribed, write_json};
use crate::cli::record::{Mpich, cores, seconds};
use crate::latency::Recorder;
use crate::mpi::bare::Flavour;
use crate::mpi::window::{
    AccumulateOperation, Assertion, DynamicWindow, FenceAssertion, PostAssertion, Window,
};
use crate::mpi::{Communicator, Element, Environment, Group};

/// How long the exposed rank sleeps outside MPI.
const ASLEEP: Duration = Duration::from_millis(200);

/// Ranks of the two that take part.
const ORIGIN: usize = 0;
const EXPOSED: usize = 1;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    measure: Measure,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Serialize)]
struct Row {
    flavour: &'static str,
    bytes: usize,
    operation: &'static str,
    count: usize,
    /// The very first one, before the warm-up.
    first_s: f64,
    p50_s: f64,
    p90_s: f64,
    p99_s: f64,
    max_s: f64,
    #[serde(skip)]
    summary: Summary,
}

/// A get while the exposed rank sleeps outside MPI.
#[derive(Debug, Serialize)]
struct Asleep {
    flavour: &'static str,
    get_s: f64,
    asleep_s: f64,
    /// Whether the data was there before the exposed rank woke.
    passive: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    header: Header,
    rows: Vec<Row>,
    asleep: Vec<Asleep>,
    /// Flavours that are not there, and why.
    skipped: Vec<(&'static str, String)>,
}

pub(super) fn run(environment: &Environment, arguments: &Arguments) -> Result<()> {
    let world = environment.world();
    let last = world.size() - 1;
    if last == 0 {
        return Err(Failure::Common(
            "bench latency needs two ranks: malleus -n 2 bench latency".to_owned(),
        ));
    }
    check_outputs(&world, &arguments.output)?;
    let oversubscribed = is_oversubscribed(&world)?;
    let takes_part = world.rank() == 0 || world.rank() == last;
    let pair = world.split(takes_part.then_some(0), world.rank())?;
    let mut bench = Bench {
        arguments,
        rows: Vec::new(),
        asleep: Vec::new(),
        skipped: Vec::new(),
    };
    if let Some(pair) = pair {
        bench.on(&pair)?;
        pair.free()?;
    }
    let mut done = world.ibarrier()?;
    while !done.test()? {
        std::thread::sleep(Duration::from_millis(1));
    }
    if world.rank() != 0 {
        return Ok(());
    }
    let report = Report {
        header: Header {
            benchmark: "latency",
            mpich: Mpich::of(environment),
            ranks: world.size(),
            cores: cores(),
            oversubscribed,
            iterations: arguments.measure.iterations,
            warm_up: arguments.measure.warm_up,
        },
        rows: bench.rows,
        asleep: bench.asleep,
        skipped: bench.skipped,
    };
    report.write(arguments)
}

/// A window of any flavour.
enum Exposed<T: Element> {
    Fixed(Window<T>),
    Dynamic(DynamicWindow<T>),
}

impl<T: Element> Exposed<T> {
    fn new(
        communicator: &Communicator,
        flavour: Flavour,
        memory: Vec<T>,
    ) -> crate::mpi::Result<Self> {
        Ok(match flavour {
            Flavour::Create => Self::Fixed(Window::create(communicator, memory, None)?),
            Flavour::Allocate => Self::Fixed(Window::allocate(communicator, memory.len(), None)?),
            Flavour::Shared => {
                Self::Fixed(Window::allocate_shared(communicator, memory.len(), None)?)
            }
            Flavour::Dynamic => {
                let mut window = DynamicWindow::create(communicator, None)?;
                window.attach(memory)?;
                window.publish()?;
                Self::Dynamic(window)
            }
        })
    }

    fn window(&self) -> &Window<T> {
        match self {
            Self::Fixed(window) => window,
            Self::Dynamic(window) => window,
        }
    }

    /// The displacement of a rank's first element.
    fn start(&self, rank: usize) -> crate::mpi::Result<u64> {
        match self {
            Self::Fixed(_) => Ok(0),
            Self::Dynamic(window) => Ok(window.regions(rank)?[0].displacement::<T>(0)),
        }
    }

    fn free(self) -> crate::mpi::Result<()> {
        match self {
            Self::Fixed(window) => window.free(),
            Self::Dynamic(window) => window.free(),
        }
    }
}

/// What is timed in one epoch, and the epoch itself.
const PASSIVE: [&str; 5] = ["lock_all", "put", "get", "rget", "flush"];

struct Bench<'a> {
    arguments: &'a Arguments,
    rows: Vec<Row>,
    asleep: Vec<Asleep>,
    skipped: Vec<(&'static str, String)>,
}

impl Bench<'_> {
    fn rounds(&self) -> usize {
        self.arguments.measure.warm_up + self.arguments.measure.iterations
    }

    fn on(&mut self, pair: &Communicator) -> Result<()> {
        let flavours = self.possible(pair)?;
        let group = pair.group()?;
        for bytes in self.arguments.measure.sizes.iter() {
            let mut windows = Vec::new();
            for &flavour in &flavours {
                windows.push((flavour, Exposed::new(pair, flavour, vec![1_u8; bytes])?));
            }
            self.passive(pair, &windows, bytes)?;
            self.active(pair, &group, &windows, bytes)?;
            for (_, window) in windows {
                window.free()?;
            }
        }
        self.fetch_and_op(pair, &flavours)?;
        for &flavour in &flavours {
            self.read_from_sleeper(pair, flavour)?;
        }
        Ok(())
    }

    fn possible(&mut self, pair: &Communicator) -> Result<Vec<Flavour>> {
        let node = pair.split_shared()?;
        let apart = node.size() < pair.size();
        node.free()?;
        let mut possible = self.arguments.measure.flavours.clone();
        if apart && possible.contains(&Flavour::Shared) {
            possible.retain(|&flavour| flavour != Flavour::Shared);
            let reason = "the ranks are on several nodes".to_owned();
            self.skipped.push((Flavour::Shared.name(), reason));
        }
        Ok(possible)
    }

    /// Operations of the origin alone, flavours in turns; the exposed rank waits in a barrier.
    fn passive(
        &mut self,
        pair: &Communicator,
        windows: &[(Flavour, Exposed<u8>)],
        bytes: usize,
    ) -> Result<()> {
        let mut times = vec![[(); PASSIVE.len()].map(|()| Samples::default()); windows.len()];
        let (source, mut copy) = (vec![2_u8; bytes], vec![0_u8; bytes]);
        let mut second = vec![0_u8; bytes];
        pair.barrier()?;
        if pair.rank() == ORIGIN {
            for _ in 0..self.rounds() {
                for ((_, exposed), times) in windows.iter().zip(&mut times) {
                    let at = exposed.start(EXPOSED)?;
                    let opening = Instant::now();
                    let (lock, inside, closing) =
                        exposed.window().lock_all(Assertion::NoCheck, |epoch| {
                            let lock = opening.elapsed();
                            let put = timed(|| {
                                epoch.put(&source, EXPOSED, at)?;
                                epoch.flush(EXPOSED)
                            })?;
                            let get = timed(|| epoch.get_now(&mut second, EXPOSED, at))?;
                            let rget = timed(|| epoch.rget(&mut copy, EXPOSED, at)?.wait())?;
                            let flush = timed(|| epoch.flush(EXPOSED))?;
                            Ok((lock, [put, get, rget, flush], Instant::now()))
                        })?;
                    times[0].push(lock + closing.elapsed());
                    for (samples, time) in times[1..].iter_mut().zip(inside) {
                        samples.push(time);
                    }
                }
            }
            if bytes > 0 && (copy[0], second[0]) != (2, 2) {
                return Err(Failure::Fatal(
                    "a get did not return what was put".to_owned(),
                ));
            }
        }
        pair.barrier()?;
        let warm_up = self.arguments.measure.warm_up;
        for ((flavour, _), times) in windows.iter().zip(times) {
            for (operation, samples) in PASSIVE.into_iter().zip(times) {
                // These move nothing: once is enough.
                let moves = !["lock_all", "flush"].contains(&operation);
                if !moves && self.rows.iter().any(|row| row.is(*flavour, operation)) {
                    continue;
                }
                let bytes = if moves { bytes } else { 0 };
                self.add(*flavour, operation, bytes, samples.local(warm_up));
            }
        }
        Ok(())
    }

    /// Rounds in which both take part, each with one put: the longer time of both.
    fn active(
        &mut self,
        pair: &Communicator,
        group: &Group,
        windows: &[(Flavour, Exposed<u8>)],
        bytes: usize,
    ) -> Result<()> {
        let source = vec![3_u8; bytes];
        let other = group.include(&[1 - pair.rank()])?;
        let mut times = vec![[Samples::default(), Samples::default()]; windows.len()];
        for _ in 0..self.rounds() {
            for ((_, exposed), [fence, pscw]) in windows.iter().zip(&mut times) {
                let (window, at) = (exposed.window(), exposed.start(EXPOSED)?);
                let origin = pair.rank() == ORIGIN;
                pair.barrier()?;
                fence.push(timed(|| {
                    window.fence(FenceAssertion::NONE, FenceAssertion::NONE, |epoch| {
                        if origin {
                            epoch.put(&source, EXPOSED, at)?;
                        }
                        Ok(())
                    })
                })?);
                pair.barrier()?;
                pscw.push(timed(|| {
                    if origin {
                        window.start(&other, Assertion::None, |epoch| {
                            epoch.put(&source, EXPOSED, at)
                        })
                    } else {
                        window.post(&other, PostAssertion::NONE, |_| Ok(()))
                    }
                })?);
            }
        }
        let warm_up = self.arguments.measure.warm_up;
        for ((flavour, _), [fence, pscw]) in windows.iter().zip(times) {
            let (fence, pscw) = (fence.reduce(pair, warm_up)?, pscw.reduce(pair, warm_up)?);
            self.add(*flavour, "fence", bytes, fence);
            self.add(*flavour, "pscw", bytes, pscw);
        }
        Ok(())
    }

    fn fetch_and_op(&mut self, pair: &Communicator, flavours: &[Flavour]) -> Result<()> {
        for &flavour in flavours {
            let exposed = Exposed::new(pair, flavour, vec![0_u64; 1])?;
            let mut samples = Samples::default();
            pair.barrier()?;
            if pair.rank() == ORIGIN {
                let at = exposed.start(EXPOSED)?;
                exposed.window().lock_all(Assertion::NoCheck, |epoch| {
                    for _ in 0..self.rounds() {
                        let begun = Instant::now();
                        epoch.fetch_and_op_now(1, EXPOSED, at, AccumulateOperation::Sum)?;
                        samples.push(begun.elapsed());
                    }
                    Ok(())
                })?;
            }
            pair.barrier()?;
            exposed.free()?;
            let summary = samples.local(self.arguments.measure.warm_up);
            self.add(flavour, "fetch_and_op", size_of::<u64>(), summary);
        }
        Ok(())
    }

    fn read_from_sleeper(&mut self, pair: &Communicator, flavour: Flavour) -> Result<()> {
        let exposed = Exposed::new(pair, flavour, vec![7_u64; 1024])?;
        let at = exposed.start(EXPOSED)?;
        let mut copy = [0_u64; 8];
        pair.barrier()?;
        if pair.rank() == EXPOSED {
            std::thread::sleep(ASLEEP);
        } else {
            let begun = Instant::now();
            exposed.window().lock_all(Assertion::NoCheck, |epoch| {
                epoch.get_now(&mut copy, EXPOSED, at)
            })?;
            let (get_s, asleep_s) = (begun.elapsed().as_secs_f64(), ASLEEP.as_secs_f64());
            self.asleep.push(Asleep {
                flavour: flavour.name(),
                get_s,
                asleep_s,
                passive: get_s < asleep_s / 2.0,
            });
        }
        exposed.free()?;
        Ok(())
    }

    fn add(&mut self, flavour: Flavour, operation: &'static str, bytes: usize, summary: Summary) {
        self.rows.push(Row {
            flavour: flavour.name(),
            bytes,
            operation,
            count: summary.count(),
            first_s: summary.first_s,
            p50_s: summary.percentile_s(50.0),
            p90_s: summary.percentile_s(90.0),
            p99_s: summary.percentile_s(99.0),
            max_s: summary.max_s(),
            summary,
        });
    }
}

impl Row {
    fn is(&self, flavour: Flavour, operation: &str) -> bool {
        (self.flavour, self.operation) == (flavour.name(), operation)
    }
}

fn timed(call: impl FnOnce() -> crate::mpi::Result<()>) -> crate::mpi::Result<Duration> {
    let begun = Instant::now();
    let result = call();
    let time = begun.elapsed();
    result.map(|()| time)
}

impl Report {
    fn write(&self, arguments: &Arguments) -> Result<()> {
        let output = &arguments.output;
        if let Some(folder) = &output.hgrm {
            let mut recorder = Recorder::new();
            for row in &self.rows {
                let name = format!("{}.{}", row.operation, row.flavour);
                row.summary.record(&mut recorder, &name, row.bytes);
            }
            recorder
                .write_files(folder)
                .map_err(|error| Failure::Fatal(format!("--hgrm {}: {error}", folder.display())))?;
        }
        if let Some(file) = &output.figure {
            let title = format!("get and flush, MPICH {}", self.header.mpich.version);
            figure::draw(file, &title, &self.series("get")).map_err(Failure::Fatal)?;
        }
        if write_json(output.json.as_ref(), self)? {
            self.print(&arguments.measure.percentiles);
        }
        Ok(())
    }

    fn series(&self, operation: &str) -> Vec<Series> {
        let mut series: Vec<Series> = Vec::new();
        for row in self.rows.iter().filter(|row| row.operation == operation) {
            #[allow(clippy::cast_precision_loss)]
            let point = (row.bytes as f64, row.p50_s);
            match series.iter_mut().find(|line| line.name == row.flavour) {
                Some(line) => line.points.push(point),
                None => series.push(Series {
                    name: row.flavour.to_owned(),
                    points: vec![point],
                }),
            }
        }
        series
    }

    fn print(&self, percentiles: &[f64]) {
        self.header.print(("µs", "iterations"));
        println!(
            "# put, get, rget: until complete, in an open epoch; fence, pscw: a round with one put"
        );
        print!("{:<10} {:<9} {:<13}", "# Size", "flavour", "operation");
        for percentile in percentiles {
            print!(" {:>11}", format!("p{percentile}"));
        }
        println!(" {:>11} {:>11}", "max", "first");
        for row in &self.rows {
            print!("{:<10} {:<9} {:<13}", row.bytes, row.flavour, row.operation);
            for &percentile in percentiles {
                print!(" {:>11.3}", row.summary.percentile_s(percentile) * 1e6);
            }
            println!(" {:>11.3} {:>11.3}", row.max_s * 1e6, row.first_s * 1e6);
        }
        for asleep in &self.asleep {
            println!(
                "# {}: {}: a get took {} while the exposed rank slept {}",
                asleep.flavour,
                if asleep.passive {
                    "passive"
                } else {
                    "not passive"
                },
                seconds(asleep.get_s),
                seconds(asleep.asleep_s)
            );
        }
        for (flavour, reason) in &self.skipped {
            println!("# not done: {flavour}: {reason}");
        }
    }
}
