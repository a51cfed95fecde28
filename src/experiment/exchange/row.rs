//! What `bench alltoallv` measures: a row for each variant of an exchange, and one for each total.

use serde::{Deserialize, Serialize};

use super::super::csv_file::Line;

/// One variant of one exchange. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// As on the command line.
    pub variant: String,
    /// The variant at work, where that is another one.
    pub chosen: String,
    /// Who sends how much: `uniform`, `random:0.3`, `hotspot`, `matrix:FILE`.
    pub pattern: String,
    /// Whose buffers: `own` or `caller`.
    pub buffers: String,
    /// Bytes to each peer; of a matrix the mean of those pairs that have some.
    pub bytes_per_peer: usize,
    /// Ranks.
    pub ranks: usize,
    /// Nodes that they are on.
    pub nodes: usize,
    /// Exchanges that were measured.
    pub iterations: usize,
    /// Of the longest time of any rank, exchange by exchange: the median.
    pub median_s: f64,
    /// The same: the first quartile.
    pub q1_s: f64,
    /// The same: the third quartile.
    pub q3_s: f64,
    /// The same: the shortest.
    pub min_s: f64,
    /// The same: what 99 of 100 do not exceed.
    pub p99_s: f64,
    /// Of the mean time of each rank: the mean over ranks, as OSU's benchmarks tell it.
    pub mean_s: f64,
    /// The same: the least.
    pub rank_min_s: f64,
    /// The same: the greatest.
    pub rank_max_s: f64,
    /// Setting it up, the longest of any rank: the median where totals were measured, else a single time.
    pub init_s: f64,
    /// How often it is as fast as `MPI_Alltoallv` in the same run, at the median.
    pub speed_up: Option<f64>,
    /// After so many exchanges it has made up for its setup, against `MPI_Alltoallv`; nothing where it never does.
    pub break_even_iterations: Option<f64>,
    /// Whether all data was right.
    pub validated: bool,
    /// Whether a node has more ranks than cores.
    pub oversubscribed: bool,
    /// Why there are no times; empty for a run that went well.
    pub error: String,
}

/// The time of so many exchanges, setup included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// As on the command line.
    pub variant: String,
    /// Who sends how much.
    pub pattern: String,
    /// Whose buffers.
    pub buffers: String,
    /// Bytes to each peer.
    pub bytes_per_peer: usize,
    /// Ranks.
    pub ranks: usize,
    /// Exchanges.
    pub exchanges: usize,
    /// Setup and exchanges, the longest of any rank, the median.
    pub total_s: f64,
    /// How often that was measured.
    pub samples: usize,
}

/// What tells the exchanges of a run apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimedCell {
    /// Ranks.
    pub ranks: usize,
    /// Whose buffers.
    pub buffers: String,
    /// Who sends how much.
    pub pattern: String,
    /// Bytes to each peer, as they were asked for; 0 where the pattern says it.
    pub bytes: usize,
}

impl Timing {
    /// Whether it has no times that count.
    #[must_use]
    pub fn failed(&self) -> bool {
        !self.validated || !self.error.is_empty()
    }

    /// Where it was measured.
    #[must_use]
    pub fn cell(&self) -> TimedCell {
        cell(
            self.ranks,
            &self.buffers,
            &self.pattern,
            self.bytes_per_peer,
        )
    }

    /// The row of a cell that gave no times.
    #[must_use]
    pub fn crashed(cell: &TimedCell, oversubscribed: bool, error: &str) -> Self {
        Self {
            variant: "all".to_owned(),
            pattern: cell.pattern.clone(),
            buffers: cell.buffers.clone(),
            bytes_per_peer: cell.bytes,
            ranks: cell.ranks,
            oversubscribed,
            error: if error.is_empty() {
                "no reason given".to_owned()
            } else {
                error.to_owned()
            },
            ..Self::empty()
        }
    }
}

impl Total {
    /// Where it was measured.
    #[must_use]
    pub fn cell(&self) -> TimedCell {
        cell(
            self.ranks,
            &self.buffers,
            &self.pattern,
            self.bytes_per_peer,
        )
    }
}

fn cell(ranks: usize, buffers: &str, pattern: &str, bytes: usize) -> TimedCell {
    TimedCell {
        ranks,
        buffers: buffers.to_owned(),
        pattern: pattern.to_owned(),
        bytes: if pattern.starts_with("matrix:") {
            0
        } else {
            bytes
        },
    }
}

impl Line for Timing {
    fn empty() -> Self {
        Self {
            variant: String::new(),
            chosen: String::new(),
            pattern: String::new(),
            buffers: String::new(),
            bytes_per_peer: 0,
            ranks: 0,
            nodes: 0,
            iterations: 0,
            median_s: 0.0,
            q1_s: 0.0,
            q3_s: 0.0,
            min_s: 0.0,
            p99_s: 0.0,
            mean_s: 0.0,
            rank_min_s: 0.0,
            rank_max_s: 0.0,
            init_s: 0.0,
            speed_up: None,
            break_even_iterations: None,
            validated: false,
            oversubscribed: false,
            error: String::new(),
        }
    }

    fn texts(&mut self) -> Vec<&mut String> {
        vec![&mut self.pattern, &mut self.error]
    }
}

impl Line for Total {
    fn empty() -> Self {
        Self {
            variant: String::new(),
            pattern: String::new(),
            buffers: String::new(),
            bytes_per_peer: 0,
            ranks: 0,
            exchanges: 0,
            total_s: 0.0,
            samples: 0,
        }
    }

    fn texts(&mut self) -> Vec<&mut String> {
        vec![&mut self.pattern]
    }
}
