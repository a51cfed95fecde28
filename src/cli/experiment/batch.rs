//! One job of an experiment: a process of its own, which tells each sample when it is done.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Redistribution;
use super::plan::{Batch, Job};
use crate::cli::bench::redistribute::Progress;
use crate::experiment::{Group, Run};

/// How often it looks for new samples.
const LOOK: Duration = Duration::from_millis(50);
/// How long mpiexec may take to end its ranks.
const GRACE: Duration = Duration::from_secs(5);
/// How much of what a job says becomes part of a row.
const WORDS: usize = 400;

/// How a job ended.
#[derive(Debug)]
pub(super) enum Ended {
    Well,
    Failed { error: String },
}

/// Files of a job that are removed with it.
struct Files {
    samples: PathBuf,
    said: PathBuf,
}

impl Drop for Files {
    fn drop(&mut self) {
        for file in [&self.samples, &self.said] {
            // One that was never made is no concern.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Runs a job, and hands over the rows of each sample as it comes.
pub(super) fn run_batch(
    of: &Redistribution,
    batch: &Batch,
    job: &Job,
    mut sample: impl FnMut(Vec<Run>) -> Result<(), String>,
) -> Result<Ended, String> {
    let told = |error: std::io::Error| error.to_string();
    let files = Files {
        samples: of.output.join(".samples"),
        said: of.output.join(".said"),
    };
    let samples = File::create(&files.samples).map_err(told)?;
    drop(samples);
    let said = File::create(&files.said).map_err(told)?;
    let child = Command::new(std::env::current_exe().map_err(told)?)
        .args(["-n", &batch.cell.from.to_string(), "bench", "redistribute"])
        .args(["--from", &batch.cell.from.to_string()])
        .args(["--to", &batch.cell.to.to_string()])
        .args(["--bytes", &of.bytes.to_string()])
        .args(["--arrays", &of.arrays.to_string()])
        .args([
            "--variants",
            &job.variants
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(","),
        ])
        .args(["--reps", &job.reps.len().to_string()])
        .args(["--first", &job.reps.start.to_string()])
        .args(["--iteration", &of.iteration.to_string()])
        .args([
            "--warm-up",
            if batch.progress == Progress::None {
                "0"
            } else {
                "1"
            },
        ])
        .args(["--progress", batch.progress.name()])
        .args(["--management", batch.management.name()])
        .arg("--samples")
        .arg(&files.samples)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said)
        .spawn()
        .map_err(told)?;
    let mut read = Lines::open(&files.samples)?;
    watch(child, &files.said, of.time_out(), || {
        let samples = read.samples()?;
        let some = !samples.is_empty();
        samples.into_iter().try_for_each(&mut sample)?;
        Ok(some)
    })
}

/// Waits for a job to end, and ends it where nothing has come for so long. `progress` says whether something has.
pub(super) fn watch(
    mut child: Child,
    said: &Path,
    time_out: Duration,
    mut progress: impl FnMut() -> Result<bool, String>,
) -> Result<Ended, String> {
    let told = |error: std::io::Error| error.to_string();
    let mut last = Instant::now();
    let status = loop {
        let ended = child.try_wait().map_err(told)?;
        if progress()? {
            last = Instant::now();
        }
        if let Some(status) = ended {
            break status;
        }
        if last.elapsed() > time_out {
            end(&mut child).map_err(told)?;
            let error = format!("no sample for {} s{}", time_out.as_secs(), last_words(said));
            return Ok(Ended::Failed { error });
        }
        std::thread::sleep(LOOK);
    };
    if status.success() {
        return Ok(Ended::Well);
    }
    Ok(Ended::Failed {
        error: format!("{status}{}", last_words(said)),
    })
}

/// Ends mpiexec, which ends its ranks.
#[allow(unsafe_code)]
fn end(child: &mut Child) -> std::io::Result<()> {
    let asked = Instant::now();
    if let Ok(process) = libc::pid_t::try_from(child.id()) {
        // SAFETY: the process is a child that was not waited for, so that the number is still its own.
        unsafe { libc::kill(process, libc::SIGTERM) };
    }
    while asked.elapsed() < GRACE {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    child.kill()?;
    child.wait().map(drop)
}

fn last_words(file: &Path) -> String {
    let said = std::fs::read(file).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let words: Vec<&str> = said.split_whitespace().collect();
    let words = words.join(" ");
    let start = words.len().saturating_sub(WORDS);
    let start = (start..words.len()).find(|&at| words.is_char_boundary(at));
    match start {
        Some(start) => format!(": {}", &words[start..]),
        None => String::new(),
    }
}

/// Whole lines of a file that grows.
struct Lines {
    file: BufReader<File>,
    begun: String,
    rows: Vec<Run>,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, String> {
        let mut file = File::open(path).map_err(|error| error.to_string())?;
        file.seek(SeekFrom::Start(0))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            file: BufReader::new(file),
            begun: String::new(),
            rows: Vec::new(),
        })
    }

    /// The rows of each sample that is there as a whole: that of all ranks is its last.
    fn samples(&mut self) -> Result<Vec<Vec<Run>>, String> {
        let mut samples = Vec::new();
        loop {
            let read = self.file.by_ref().read_line(&mut self.begun);
            if read.map_err(|error| error.to_string())? == 0 || !self.begun.ends_with('\n') {
                return Ok(samples);
            }
            let run: Run = serde_json::from_str(&self.begun).map_err(|error| error.to_string())?;
            self.begun.clear();
            let is_last = run.group == Group::All;
            self.rows.push(run);
            if is_last {
                samples.push(std::mem::take(&mut self.rows));
            }
        }
    }
}
