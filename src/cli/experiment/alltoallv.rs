//! `malleus experiment alltoallv`: paper P's evaluation.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::batch::{Ended, watch};
use super::{bar, facts, prior};
use crate::alltoallv::Variant;
use crate::cli::bench::options::{PeerSizes, at_least_one};
use crate::cli::record::{bytes as human, cores};
use crate::experiment::exchange::{self, TimedCell, Timing, Total};
use crate::experiment::{self, append};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    each: PeerSizes,
    /// Numbers of ranks.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2,4,8", value_parser = at_least_one)]
    ranks: Vec<usize>,
    /// The halos of every matrix of this folder as well: its .mtx and .mtx.gz files.
    #[arg(long, value_name = "DIR")]
    matrices: Option<PathBuf>,
    /// Which variants, instead of all; standard is always among them.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    variants: Vec<Variant>,
    /// Whose buffers: own (the plan's), caller (as in the paper), or both.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "own,caller", value_parser = ["own", "caller"])]
    buffers: Vec<String>,
    /// Measured exchanges of each variant where the ranks fit the cores.
    #[arg(short, long, value_name = "N", default_value_t = 200, value_parser = at_least_one)]
    iterations: usize,
    /// Measured exchanges where they do not.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = at_least_one)]
    iterations_oversubscribed: usize,
    /// Numbers of exchanges that are measured with their setup, with equal messages, where the ranks fit the cores.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,5,10,100,1000", value_parser = at_least_one)]
    break_even: Vec<usize>,
    /// After so many seconds a job counts as hung, and is ended.
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    time_out: u64,
    /// The folder of the results: runs.csv, totals.csv, summary.json, report.html, hgrm/.
    #[arg(long, short, value_name = "DIR", default_value = "malleus-alltoallv")]
    output: PathBuf,
    /// Go on with what the folder holds.
    #[arg(long)]
    resume: bool,
}

/// What a job writes.
#[derive(Debug, Deserialize)]
struct Measured {
    rows: Vec<Timing>,
    #[serde(default)]
    totals: Vec<Total>,
}

impl Arguments {
    pub(super) fn run(&self) -> Result<ExitCode, String> {
        let told = |error: experiment::Error| error.to_string();
        let folder = &self.output;
        let done: Vec<Timing> = prior(folder, "runs.csv", self.resume)?;
        prior::<Total>(folder, "totals.csv", self.resume)?;
        let cells = self.cells()?;
        let environment = facts([
            ("buffers", self.buffers.join(", ")),
            (
                "exchanges",
                format!(
                    "{}, {} where ranks exceed cores",
                    self.iterations, self.iterations_oversubscribed
                ),
            ),
        ])?;
        let bar = bar(cells.len());
        let (runs, totals) = (folder.join("runs.csv"), folder.join("totals.csv"));
        let hgrm = folder.join("hgrm");
        for cell in &cells {
            if !self.is_finished(cell, &done) {
                let what = match cell.bytes {
                    0 => cell.pattern.clone(),
                    bytes => human(bytes as u64),
                };
                bar.set_message(format!(
                    "{} ranks, {} buffers, {what}",
                    cell.ranks, cell.buffers
                ));
                match self.measure(cell, &hgrm)? {
                    // What says that a cell is done comes last.
                    Ok(measured) => {
                        append(&totals, &measured.totals).map_err(told)?;
                        append(&runs, &measured.rows).map_err(told)?;
                    }
                    Err(error) => {
                        let crowded = cell.ranks > cores();
                        append(&runs, &[Timing::crashed(cell, crowded, &error)]).map_err(told)?;
                    }
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let rows = experiment::read(&runs).map_err(told)?.runs;
        let several = if totals.exists() {
            experiment::read(&totals).map_err(told)?.runs
        } else {
            Vec::new()
        };
        let summary = exchange::write(folder, &environment, rows, several).map_err(told)?;
        for claim in &summary.claims {
            let holds = match claim.holds {
                Some(true) => "holds",
                Some(false) => "does not hold",
                None => "?",
            };
            println!("{}\n  {holds}: {}", claim.claim, claim.finding);
        }
        let failed = summary.failures.len();
        println!(
            "{} exchanges, {failed} failed; {}",
            summary.rows.len(),
            folder.join("report.html").display()
        );
        Ok(if failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// Whether there is a row for each variant, or one for a job that failed.
    fn is_finished(&self, cell: &TimedCell, done: &[Timing]) -> bool {
        let rows: Vec<&str> = done
            .iter()
            .filter(|row| row.cell() == *cell)
            .map(|row| row.variant.as_str())
            .collect();
        let variants = self.variants();
        rows.contains(&"all") || variants.iter().all(|one| rows.contains(&one.name()))
    }

    fn cells(&self) -> Result<Vec<TimedCell>, String> {
        let mut patterns: Vec<(String, usize)> = self
            .each
            .sizes
            .iter()
            .map(|size| ("uniform".to_owned(), size))
            .collect();
        if let Some(folder) = &self.matrices {
            let names = matrices(folder)?;
            patterns.extend(names.into_iter().map(|name| (format!("matrix:{name}"), 0)));
        }
        let mut cells = Vec::new();
        for &ranks in &self.ranks {
            for buffers in &self.buffers {
                cells.extend(patterns.iter().map(|(pattern, bytes)| TimedCell {
                    ranks,
                    buffers: buffers.clone(),
                    pattern: pattern.clone(),
                    bytes: *bytes,
                }));
            }
        }
        Ok(cells)
    }

    fn variants(&self) -> Vec<Variant> {
        let mut variants = if self.variants.is_empty() {
            Variant::ALL.to_vec()
        } else {
            self.variants.clone()
        };
        if !variants.contains(&Variant::Standard) {
            variants.insert(0, Variant::Standard);
        }
        variants
    }

    /// One job; why it gave nothing, where that is so.
    fn measure(&self, cell: &TimedCell, hgrm: &Path) -> Result<Result<Measured, String>, String> {
        let told = |error: std::io::Error| error.to_string();
        let [json, said] = [".measured", ".said"].map(|name| self.output.join(name));
        let fits = cell.ranks <= cores();
        let iterations = if fits {
            self.iterations
        } else {
            self.iterations_oversubscribed
        };
        let variants = self.variants();
        let variants: Vec<&str> = variants.into_iter().map(Variant::name).collect();
        let mut command = Command::new(std::env::current_exe().map_err(told)?);
        command
            .args(["-n", &cell.ranks.to_string(), "bench", "alltoallv"])
            .args(["--pattern", &cell.pattern, "--buffers", &cell.buffers])
            .args(["--variants", &variants.join(",")])
            .args(["-i", &iterations.to_string()])
            .args(["-x", &(iterations / 10).to_string()])
            .arg("--json")
            .arg(&json);
        if cell.bytes > 0 {
            command.args(["-m", &format!("{0}:{0}", cell.bytes)]);
            if fits {
                let numbers: Vec<String> = self.break_even.iter().map(usize::to_string).collect();
                command.args(["--break-even", &numbers.join(",")]);
            }
        }
        let child = command
            .arg("--hgrm")
            .arg(hgrm.join(name(cell)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&said).map_err(told)?)
            .spawn()
            .map_err(told)?;
        let ended = watch(child, &said, Duration::from_secs(self.time_out), || {
            Ok(false)
        })?;
        let text = std::fs::read(&json);
        for file in [&json, &said] {
            // One that was never made is no concern.
            let _ = std::fs::remove_file(file);
        }
        // A variant that delivers wrong data fails the job, but its rows say which one.
        let measured = text
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        Ok(match (measured, ended) {
            (Some(measured), _) => Ok(measured),
            (None, Ended::Failed { error }) => Err(error),
            (None, Ended::Well) => Err("it wrote no result".to_owned()),
        })
    }
}

/// A cell as the name of a folder.
fn name(cell: &TimedCell) -> String {
    let what = match cell.bytes {
        0 => cell
            .pattern
            .rsplit(['/', ':'])
            .next()
            .unwrap_or_default()
            .to_owned(),
        bytes => bytes.to_string(),
    };
    format!("{}-{}-{what}", cell.ranks, cell.buffers)
}

/// The matrices of a folder, in the order of their names.
fn matrices(folder: &Path) -> Result<Vec<String>, String> {
    let told = |error: std::io::Error| format!("--matrices {}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        let Some(name) = path.to_str() else {
            return Err(format!("--matrices: {} is not in UTF-8", path.display()));
        };
        if path.is_file() && (name.ends_with(".mtx") || name.ends_with(".mtx.gz")) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    if names.is_empty() {
        return Err(format!(
            "--matrices {}: no .mtx or .mtx.gz file",
            folder.display()
        ));
    }
    Ok(names)
}
