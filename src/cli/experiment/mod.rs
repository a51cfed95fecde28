//! `malleus experiment`: the papers' evaluations.

mod alltoallv;
mod batch;
mod plan;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};

use self::batch::{Ended, run_batch};
use self::plan::Batch;
use super::bench::options::{at_least_one, one_size};
use super::bench::redistribute::{Management, Progress};
use super::launch;
use super::record::{bytes as human, cores};
use crate::experiment::{self, Group, Key, Measure, Run};
use crate::latency::Recorder;
use crate::redistribute::{Method, Strategy, Variant};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    /// Paper R's: every variant, from NS to NT ranks, blocking and in the background.
    Redistribution(Redistribution),
    /// Paper P's: every variant of a persistent Alltoallv over message sizes, ranks and the halos of matrices, and when
    /// persistence pays.
    Alltoallv(alltoallv::Arguments),
}

#[derive(Debug, clap::Args)]
struct Redistribution {
    /// Numbers of ranks: every pair of different ones is a resize. The paper's are 20,40,80,160.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8", value_parser = at_least_one)]
    grid: Vec<usize>,
    /// Resizes to fewer ranks only, which start no process.
    #[arg(long)]
    shrink_only: bool,
    /// Bytes of all arrays together.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = one_size)]
    bytes: usize,
    /// Arrays, of equal length.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    arrays: usize,
    /// Samples of each variant where the ranks fit the cores.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_least_one)]
    reps: usize,
    /// Samples where they do not.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = at_least_one)]
    reps_oversubscribed: usize,
    /// Samples in the background without a progress thread, where the ranks fit the cores; 0 for none. A collective can take
    /// a minute then.
    #[arg(long, value_name = "N", default_value_t = 1)]
    reps_without_progress: usize,
    /// Which variants, instead of the paper's ten, the two that complete at unlock and the two paced ones.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    variants: Vec<Variant>,
    /// MaM's P2P, P2P-NB and P2P-WT as well.
    #[arg(long)]
    p2p: bool,
    /// Process management Baseline as well, with the blocking variants: all targets are started, all sources leave.
    #[arg(long)]
    baseline: bool,
    /// How long an iteration of the application computes with NS ranks, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    iteration: u64,
    /// After so many seconds without a sample, a run counts as hung, and is ended.
    #[arg(long, value_name = "S", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..))]
    time_out: u64,
    /// The folder of the results: runs.csv, summary.json, report.html, hgrm/.
    #[arg(
        long,
        short,
        value_name = "DIR",
        default_value = "malleus-redistribution"
    )]
    output: PathBuf,
    /// Go on with what the folder holds.
    #[arg(long)]
    resume: bool,
}

/// Runs without MPI: each job of the experiment is a process of its own, so that one that fails is a row.
pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let ended = match &arguments.experiment {
        Experiment::Redistribution(arguments) => arguments.run(),
        Experiment::Alltoallv(arguments) => arguments.run(),
    };
    match ended {
        Ok(code) => code,
        Err(error) => launch::fail(&error, 1),
    }
}

impl Redistribution {
    fn variants(&self) -> Vec<Variant> {
        if !self.variants.is_empty() {
            return self.variants.clone();
        }
        let all = Variant::ALL.into_iter();
        all.filter(|variant| self.p2p || variant.method() != Method::PointToPoint)
            .collect()
    }

    /// Everything that is to be measured.
    fn batches(&self) -> Vec<Batch> {
        let variants = self.variants();
        let (blocking, background): (Vec<_>, Vec<_>) = variants
            .iter()
            .partition(|variant| variant.strategy() == Strategy::Blocking);
        let mut batches = Vec::new();
        for cell in plan::cells(&self.grid, self.shrink_only) {
            let fits = cell.from.max(cell.to) <= cores();
            let reps = if fits {
                self.reps
            } else {
                self.reps_oversubscribed
            };
            batches.push(Batch {
                cell,
                variants: variants.clone(),
                progress: Progress::Thread,
                management: Management::Merge,
                reps,
            });
            if fits && self.reps_without_progress > 0 && !background.is_empty() {
                batches.push(Batch {
                    cell,
                    variants: background.clone(),
                    progress: Progress::None,
                    management: Management::Merge,
                    reps: self.reps_without_progress,
                });
            }
            if self.baseline && !blocking.is_empty() {
                batches.push(Batch {
                    cell,
                    variants: blocking.clone(),
                    progress: Progress::Thread,
                    management: Management::Baseline,
                    reps: if cell.from + cell.to <= cores() {
                        self.reps
                    } else {
                        self.reps_oversubscribed
                    },
                });
            }
        }
        batches
    }

    fn run(&self) -> Result<ExitCode, String> {
        let told = |error: experiment::Error| error.to_string();
        let csv = self.output.join("runs.csv");
        let folder = &self.output;
        let done: Vec<Run> = prior(folder, "runs.csv", self.resume)?;
        let batches = self.batches();
        if batches.is_empty() {
            return Err("--grid: no two different numbers".to_owned());
        }
        let environment = self.environment()?;
        // Runs of another size would be found too late otherwise.
        experiment::Summary::new(&environment, &done).map_err(told)?;
        let total: usize = batches.iter().map(Batch::samples).sum();
        let bar = bar(total);
        for batch in &batches {
            self.batch(batch, &csv, &done, &bar)?;
        }
        bar.finish_and_clear();
        let rows: experiment::Rows = experiment::read(&csv).map_err(told)?;
        let summary = experiment::write(folder, &environment, &rows.runs).map_err(told)?;
        write_histograms(&folder.join("hgrm"), &rows.runs)?;
        let failed = summary.failures.len();
        println!(
            "{} runs, {failed} failed; {}",
            experiment::finished(&rows.runs).len(),
            folder.join("report.html").display()
        );
        Ok(if failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// Measures what a batch lacks, in as few jobs as it takes.
    fn batch(
        &self,
        batch: &Batch,
        csv: &Path,
        done: &[Run],
        bar: &ProgressBar,
    ) -> Result<(), String> {
        let mut finished = experiment::finished(done);
        let key = |name: &str, rep| self.key(batch, name, rep);
        let before = batch
            .keys()
            .filter(|(name, rep)| finished.contains(&key(name, *rep)));
        bar.inc(before.count() as u64);
        let mut crashes: BTreeMap<String, usize> = BTreeMap::new();
        while let Some(job) = batch.next_job(|name, rep| finished.contains(&key(name, rep))) {
            bar.set_message(format!(
                "{}→{} {}",
                batch.cell.from,
                batch.cell.to,
                human(self.bytes as u64)
            ));
            let ended = run_batch(self, batch, &job, |runs| {
                experiment::append(csv, &runs).map_err(|error| error.to_string())?;
                if let Some(run) = runs.iter().find(|run| run.group == Group::All) {
                    finished.insert(run.key());
                    bar.inc(1);
                }
                Ok(())
            })?;
            let Ended::Failed { error } = ended else {
                continue;
            };
            // The sample that came next is the one that failed.
            let Some((variant, failed)) = job
                .samples()
                .find(|(variant, rep)| !finished.contains(&key(&batch.name(*variant), *rep)))
            else {
                continue;
            };
            let name = batch.name(variant);
            let count = crashes.entry(name.clone()).or_default();
            *count += 1;
            let given_up = *count >= plan::CRASHES;
            let last = if given_up { batch.reps } else { failed + 1 };
            for rep in failed..last {
                let key = key(&name, rep);
                if !finished.insert(key.clone()) {
                    continue;
                }
                let fits = batch.cell.from.max(batch.cell.to) <= cores();
                let why = if rep == failed {
                    error.clone()
                } else {
                    format!("not run after {} failures: {error}", plan::CRASHES)
                };
                let run = Run::crashed(key, !fits, why);
                experiment::append(csv, &[run]).map_err(|error| error.to_string())?;
                bar.inc(1);
            }
        }
        Ok(())
    }

    fn key(&self, batch: &Batch, name: &str, rep: usize) -> Key {
        // Whole elements of each array.
        let each = self.bytes / 8 / self.arrays * 8;
        Key {
            from: batch.cell.from,
            to: batch.cell.to,
            bytes: (each * self.arrays) as u64,
            arrays: self.arrays,
            variant: name.to_owned(),
            progress_thread: batch.progress != Progress::None,
            rep,
        }
    }

    /// What heads the report.
    fn environment(&self) -> Result<Vec<(String, String)>, String> {
        facts([
            (
                "data",
                format!("{} in {} array(s)", human(self.bytes as u64), self.arrays),
            ),
            (
                "repetitions",
                format!(
                    "{}, {} where ranks exceed cores",
                    self.reps, self.reps_oversubscribed
                ),
            ),
            ("iteration", format!("{} ms with NS ranks", self.iteration)),
        ])
    }

    fn time_out(&self) -> Duration {
        Duration::from_secs(self.time_out)
    }
}

/// The MPICH and the machine, then what else heads a report, then the command.
fn facts<const N: usize>(more: [(&str, String); N]) -> Result<Vec<(String, String)>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args(["env", "--json", "-"])
        .output()
        .map_err(|error| error.to_string())?;
    let found: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| String::from_utf8_lossy(&output.stderr).trim().to_owned())?;
    let mpich = &found["mpich"];
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let cpu = cpu.map_or("unknown", |name| name.trim_start_matches([':', ' ', '\t']));
    let command: Vec<_> = std::env::args().collect();
    let machine = [
        ("MPICH", text(&mpich["version"])),
        ("device", text(&mpich["device"])),
        ("netmod", text(&mpich["netmod"])),
        ("provider", text(&mpich["provider"])),
        ("thread level", text(&mpich["thread_level"])),
        ("cores", cores().to_string()),
        ("processor", cpu.to_owned()),
    ];
    let all = machine.into_iter().chain(more);
    let all = all.chain([("command", command.join(" "))]);
    Ok(all
        .map(|(label, value)| (label.to_owned(), value))
        .collect())
}

/// Makes the folder of the results; what its file holds already, where it is to be gone on with.
fn prior<T: experiment::Line>(folder: &Path, file: &str, resume: bool) -> Result<Vec<T>, String> {
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("--output {}: {error}", folder.display()))?;
    let csv = folder.join(file);
    if !csv.exists() {
        return Ok(Vec::new());
    }
    if !resume {
        return Err(format!(
            "{} holds results already: --resume goes on with them",
            folder.display()
        ));
    }
    let rows = experiment::read(&csv).map_err(|error| error.to_string())?;
    if let Some(torn) = rows.torn {
        eprintln!(
            "line {} of {} is torn; its run is done again",
            torn.line,
            csv.display()
        );
    }
    Ok(rows.runs)
}

fn bar(total: usize) -> ProgressBar {
    let bar = ProgressBar::new(total as u64);
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}, {elapsed} gone, {eta} to go");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

/// A histogram for each stage, resize and variant.
fn write_histograms(folder: &Path, runs: &[Run]) -> Result<(), String> {
    let mut recorder = Recorder::new();
    let good = runs
        .iter()
        .filter(|run| run.group == Group::All && !run.failed());
    for run in good {
        for stage in Measure::STAGES {
            if let Some(time) = stage.of(run) {
                let stage = serde_json::to_value(stage).map_err(|error| error.to_string())?;
                let stage = stage.as_str().unwrap_or_default();
                let stage = stage.trim_end_matches("_s");
                let name = format!("{}-{}.{}.{stage}", run.from, run.to, run.variant);
                recorder.record(name.as_str(), Duration::from_secs_f64(time));
            }
        }
    }
    recorder.end();
    recorder
        .write_files(folder)
        .map_err(|error| format!("{}: {error}", folder.display()))
}
