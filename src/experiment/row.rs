//! One run, and the file of all runs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::csv_file::Line;

/// The ranks of a run that a row is about: times are the longest of any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Every source and target; figures show this.
    All,
    /// Sources that are no targets.
    SourceOnly,
    /// Targets that are no sources.
    TargetOnly,
    /// Ranks that are both.
    Both,
}

impl Group {
    /// As in `runs.csv`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::SourceOnly => "source_only",
            Self::TargetOnly => "target_only",
            Self::Both => "both",
        }
    }
}

/// A row of `runs.csv`: one resize as one group of its ranks saw it. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// NS, the number of sources.
    pub from: usize,
    /// NT, the number of targets.
    pub to: usize,
    /// Bytes of all arrays together.
    pub bytes: u64,
    /// How many arrays these are.
    pub arrays: usize,
    /// Method and strategy, such as `rma1-wt`.
    pub variant: String,
    /// Which repetition, from 0.
    pub rep: usize,
    /// The ranks that this row is about.
    pub group: Group,
    /// Stage 1: deciding.
    pub decide_s: f64,
    /// Stage 2: starting processes, or recalling them.
    pub spawn_s: f64,
    /// Stage 2: making one communicator of sources and targets.
    pub merge_s: f64,
    /// Stage 3: creating windows.
    pub expose_s: f64,
    /// Stage 3: moving data.
    pub transfer_s: f64,
    /// Stage 3: freeing windows.
    pub release_s: f64,
    /// Stage 4: going on.
    pub resume_s: f64,
    /// T_redis: from the start of the redistribution to its end.
    pub redistribute_s: f64,
    /// The whole resize.
    pub total_s: f64,
    /// T_it with NS ranks, when nothing moves.
    pub iteration_before_s: f64,
    /// Mean time of an iteration during a redistribution in the background; none when it blocks.
    pub iteration_during_s: Option<f64>,
    /// Iterations during a redistribution in the background; none when it blocks.
    pub iterations_during: Option<f64>,
    /// T_it with NT ranks.
    pub iteration_after_s: f64,
    /// ω: `iteration_during_s` over `iteration_before_s`.
    pub omega: Option<f64>,
    /// ω of the whole resize: the time from request to switch, over iterations in it × `iteration_before_s`.
    pub omega_total: Option<f64>,
    /// The part of ω − 1 that is the processor time of copying.
    pub copy_share: Option<f64>,
    /// The most memory that a rank had.
    pub peak_rss_bytes: u64,
    /// Bytes that went from rank to rank.
    pub moved_bytes: u64,
    /// Bytes that stayed where they were.
    pub kept_bytes: u64,
    /// Whether every target found the data that it should have.
    pub verified: bool,
    /// Whether there were more ranks than cores.
    pub oversubscribed: bool,
    /// Whether a thread called MPI while the sources computed ([`crate::mpi::ProgressThread`]).
    pub progress_thread: bool,
    /// Why it failed; empty when it did not.
    pub error: String,
}

/// Which run a row belongs to, whatever its group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// NS.
    pub from: usize,
    /// NT.
    pub to: usize,
    /// Bytes of all arrays together.
    pub bytes: u64,
    /// How many arrays these are.
    pub arrays: usize,
    /// Method and strategy.
    pub variant: String,
    /// Whether the progress thread ran.
    pub progress_thread: bool,
    /// Which repetition.
    pub rep: usize,
}

impl Run {
    /// Which run this row belongs to.
    #[must_use]
    pub fn key(&self) -> Key {
        Key {
            from: self.from,
            to: self.to,
            bytes: self.bytes,
            arrays: self.arrays,
            variant: self.variant.clone(),
            progress_thread: self.progress_thread,
            rep: self.rep,
        }
    }

    /// Whether it ended with an error, or with wrong data.
    #[must_use]
    pub fn failed(&self) -> bool {
        !self.verified || !self.error.is_empty()
    }

    /// The row of a run that gave no numbers, such as one that crashed: every measure is 0 or missing.
    #[must_use]
    pub fn crashed(key: Key, oversubscribed: bool, error: impl Into<String>) -> Self {
        let mut error = error.into();
        if error.is_empty() {
            error.push_str("no reason given");
        }
        Self {
            from: key.from,
            to: key.to,
            bytes: key.bytes,
            arrays: key.arrays,
            variant: key.variant,
            rep: key.rep,
            progress_thread: key.progress_thread,
            oversubscribed,
            error,
            ..Self::empty()
        }
    }
}

impl Line for Run {
    fn empty() -> Self {
        Self {
            from: 0,
            to: 0,
            bytes: 0,
            arrays: 0,
            variant: String::new(),
            rep: 0,
            group: Group::All,
            decide_s: 0.0,
            spawn_s: 0.0,
            merge_s: 0.0,
            expose_s: 0.0,
            transfer_s: 0.0,
            release_s: 0.0,
            resume_s: 0.0,
            redistribute_s: 0.0,
            total_s: 0.0,
            iteration_before_s: 0.0,
            iteration_during_s: None,
            iterations_during: None,
            iteration_after_s: 0.0,
            omega: None,
            omega_total: None,
            copy_share: None,
            peak_rss_bytes: 0,
            moved_bytes: 0,
            kept_bytes: 0,
            verified: false,
            oversubscribed: false,
            progress_thread: false,
            error: String::new(),
        }
    }

    fn texts(&mut self) -> Vec<&mut String> {
        vec![&mut self.error, &mut self.variant]
    }
}

/// The runs that need not be done again: those with a row for [`Group::All`], failed ones included. Write that row
/// last, so that a run that was interrupted between its rows is not among them.
#[must_use]
pub fn finished(runs: &[Run]) -> BTreeSet<Key> {
    let whole = runs.iter().filter(|run| run.group == Group::All);
    whole.map(Run::key).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Result;
    use super::super::csv_file::{self, Rows, append};
    use super::super::sample::run;
    use super::*;

    fn read(path: &Path) -> Result<Rows> {
        csv_file::read(path)
    }

    fn columns() -> Vec<String> {
        csv_file::columns::<Run>()
    }

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("runs.csv");
        if !text.is_empty() {
            std::fs::write(&path, text).expect("written");
        }
        (folder, path)
    }

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).expect("a file")
    }

    #[test]
    fn what_is_appended_is_read() {
        let (_folder, path) = file("");
        let mut first = run(1, 2, "col", 0);
        first.total_s = 0.1 + 0.2;
        let mut second = run(2, 1, "rma1-wt", 3);
        second.omega = Some(1.25);
        second.group = Group::SourceOnly;
        second.error = "a, \"b\"\r\nc".to_owned();
        append(&path, std::slice::from_ref(&first)).expect("appended");
        append(&path, std::slice::from_ref(&second)).expect("appended");
        second.error = "a, \"b\"  c".to_owned();
        let rows = read(&path).expect("read");
        assert_eq!(rows.runs, [first, second]);
        assert_eq!(rows.torn, None);
        assert_eq!(text(&path).lines().count(), 3);
        assert!(text(&path).starts_with("from,to,bytes,arrays,variant,rep,group,decide_s,"));
    }

    #[test]
    fn every_torn_tail_is_left_out_and_cut_off() {
        let (_folder, path) = file("");
        append(&path, &[run(1, 2, "col", 0), run(1, 2, "col", 1)]).expect("appended");
        let whole = text(&path);
        let lines: Vec<usize> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
        for cut in 1..whole.len() {
            std::fs::write(&path, &whole[..cut]).expect("written");
            let rows = read(&path).expect("read");
            let complete = lines.iter().filter(|&&end| end <= cut).count();
            assert_eq!(rows.runs.len(), complete.saturating_sub(1), "cut at {cut}");
            assert_eq!(rows.torn.is_some(), !lines.contains(&cut), "cut at {cut}");
            if let Some(torn) = rows.torn {
                assert_eq!(torn.line, complete + 1);
                assert_eq!(
                    torn.to_string(),
                    format!("line {} is incomplete and left out", torn.line)
                );
                assert!(whole[..cut].ends_with(&torn.text));
            }
            append(&path, &[run(2, 1, "rma2", 0)]).expect("appended");
            let rows = read(&path).expect("read");
            assert_eq!(rows.torn, None);
            assert_eq!(
                rows.runs.len(),
                complete.saturating_sub(1) + 1,
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_wrong_head_names_its_column() {
        let (_folder, path) = file("from,until,bytes\n1,2,3\n");
        for error in [
            read(&path).map(drop).expect_err("a wrong head"),
            append(&path, &[run(1, 2, "col", 0)]).expect_err("a wrong head"),
        ] {
            let message = error.to_string();
            assert!(
                message.ends_with("column 2 is `until`, expected `to`"),
                "{message}"
            );
        }
        assert_eq!(
            text(&path),
            "from,until,bytes\n1,2,3\n",
            "the file is left alone"
        );
        std::fs::write(&path, format!("{},more\n", columns().join(","))).expect("written");
        let message = read(&path).map(drop).expect_err("a wrong head").to_string();
        assert!(
            message.ends_with("is `more`, expected no more"),
            "{message}"
        );
        std::fs::write(&path, "from,to\n").expect("written");
        let message = read(&path).map(drop).expect_err("a wrong head").to_string();
        assert!(
            message.ends_with("column 3 is missing, expected `bytes`"),
            "{message}"
        );
    }

    #[test]
    fn a_wrong_row_names_its_line_and_column() {
        let (_folder, path) = file("");
        append(&path, &[run(1, 2, "col", 0), run(1, 2, "col", 1)]).expect("appended");
        let good = text(&path);
        std::fs::write(&path, good.replace(",col,1,all,", ",col,one,all,")).expect("written");
        let message = read(&path).map(drop).expect_err("a wrong row").to_string();
        assert!(
            message.contains(": line 3: rep: invalid digit"),
            "{message}"
        );
        std::fs::write(&path, good.clone() + "1,2\n").expect("written");
        let message = read(&path).map(drop).expect_err("a wrong row").to_string();
        assert!(
            message.contains(": line 4: 2 columns, expected 30"),
            "{message}"
        );
        std::fs::write(&path, good.replace(",col,1,all,", ",col,1,some,")).expect("written");
        let message = read(&path).map(drop).expect_err("a wrong row").to_string();
        assert!(
            message.contains(": line 3: unknown variant `some`"),
            "{message}"
        );
    }

    #[test]
    fn only_runs_with_all_of_their_rows_are_finished() {
        let mut part = run(1, 2, "col", 0);
        part.group = Group::SourceOnly;
        let whole = run(1, 2, "col", 1);
        let crashed = Run::crashed(run(1, 2, "col", 2).key(), true, "");
        assert!(crashed.failed() && !crashed.error.is_empty() && crashed.oversubscribed);
        let done = finished(&[part.clone(), whole.clone(), crashed.clone()]);
        assert_eq!(done, BTreeSet::from([whole.key(), crashed.key()]));
        assert!(!done.contains(&part.key()));
    }

    #[test]
    fn a_missing_file_is_named() {
        let (_folder, path) = file("");
        let message = read(&path).map(drop).expect_err("no file").to_string();
        assert!(message.contains("runs.csv: "), "{message}");
    }
}
