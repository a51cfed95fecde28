//! What the evaluation of redistribution (paper R, section IV) makes of its measurements.
//!
//! [`Run`]s go to `runs.csv` as they are measured ([`append`]), come back from it ([`read`]), and become a [`Summary`]:
//! medians and quartiles, equations (1) and (2), and who won where. [`write()`] makes `summary.json` and one
//! self-contained `report.html` of it. Nothing here calls MPI.
//!
//! ```text
//! for each run that `finished` does not have:
//!     append(folder/runs.csv, its rows, group "all" last)
//! write(folder, environment, read(folder/runs.csv).runs)
//! ```

mod csv_file;
mod equations;
pub mod exchange;
mod figure;
mod number;
mod report;
mod row;
mod sentence;
mod statistics;
mod summary;
mod variant;

#[cfg(test)]
mod sample;

use std::path::{Path, PathBuf};

pub use csv_file::{Line, Rows, Torn, append, read};
pub use equations::{Equations, Fewest, Total};
pub use report::html;
pub use row::{Group, Key, Run, finished};
pub use statistics::{CellSummary, Measure, Spread};
pub use summary::{Failure, Figure, Summary, Verdict, Winner};

/// Why rows could not be read or written, or why they make no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file has other columns than [`Run`].
    #[error("{path}: column {column} is {found}, expected {expected}")]
    Header {
        /// The file.
        path: PathBuf,
        /// The first column that differs, from 1.
        column: usize,
        /// Its name in the file, or "missing".
        found: String,
        /// Its name in a [`Run`], or "no more".
        expected: String,
    },
    /// A row that is complete does not hold a [`Run`].
    #[error("{path}: line {line}: {reason}")]
    Row {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        /// What is wrong with it, with the column's name where one is to blame.
        reason: String,
    },
    /// Runs of different sizes cannot share a statistic.
    #[error(
        "runs with {field} {first} and with {field} {other} are mixed: each needs its own folder"
    )]
    Mixed {
        /// The field of [`Run`] that differs.
        field: &'static str,
        /// Its first value.
        first: u64,
        /// Another value.
        other: u64,
    },
    /// A figure could not be drawn.
    #[error("a figure could not be drawn: {0}")]
    Figure(String),
    /// The summary could not be written as JSON.
    #[error("summary.json: {0}")]
    Json(#[from] serde_json::Error),
}

/// A result of this module.
pub type Result<T> = std::result::Result<T, Error>;

/// Writes `summary.json` and `report.html` into a folder that exists, and returns what they are made of.
///
/// `environment` heads the report, in this order: labels ("MPICH", "netmod", "cores") and their values.
///
/// # Errors
///
/// [`Error::Mixed`] if the runs do not belong together, [`Error::File`] if the folder cannot be written.
pub fn write(folder: &Path, environment: &[(String, String)], runs: &[Run]) -> Result<Summary> {
    let summary = Summary::new(environment, runs)?;
    let mut json = serde_json::to_string_pretty(&summary)?;
    json.push('\n');
    let page = html(&summary)?;
    for (name, text) in [("summary.json", json), ("report.html", page)] {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|source| Error::File { path, source })?;
    }
    Ok(summary)
}
