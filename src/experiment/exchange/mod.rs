//! What the evaluation of the persistent Alltoallv (paper P) makes of its measurements.
//!
//! [`Timing`]s and [`Total`]s go to `runs.csv` and `totals.csv` as they are measured, and become a [`Summary`]: the
//! break-even model beside what was measured, and whether the paper's claims hold here. [`write()`] makes `summary.json` and
//! one self-contained `report.html` of it. Nothing here calls MPI.

mod claims;
mod report;
mod row;
mod summary;

#[cfg(test)]
mod sample;

use std::path::Path;

use super::{Error, Result};

pub use claims::{Claim, claims};
pub use row::{TimedCell, Timing, Total};
pub use summary::{BreakEven, Summary};

/// Writes `summary.json` and `report.html` into a folder that exists, and returns what they are made of.
///
/// `environment` heads the report, in this order: labels and their values.
///
/// # Errors
///
/// [`Error::File`] if the folder cannot be written, [`Error::Figure`] if a figure cannot be drawn.
pub fn write(
    folder: &Path,
    environment: &[(String, String)],
    rows: Vec<Timing>,
    totals: Vec<Total>,
) -> Result<Summary> {
    let summary = Summary::new(environment, rows, totals);
    let mut json = serde_json::to_string_pretty(&summary)?;
    json.push('\n');
    let page = report::html(&summary)?;
    for (name, text) in [("summary.json", json), ("report.html", page)] {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|source| Error::File { path, source })?;
    }
    Ok(summary)
}
