//! What all runs come to: cells, equations (1) and (2), and who won where.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

use super::equations::{self, Equations};
use super::row::{Group, Key, Run};
use super::statistics::{self, CellSummary, FEW, Measure, Spread};
use super::{Error, Result, variant};

/// The contents of `summary.json`. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Where the runs come from: labels and values, in order.
    #[serde(serialize_with = "as_map")]
    pub environment: Vec<(String, String)>,
    /// Bytes of all arrays together.
    pub bytes: u64,
    /// How many arrays these are.
    pub arrays: u64,
    /// Runs, failed ones included. One that was done again counts once, as it went the last time.
    pub runs: usize,
    /// Runs that ended with an error or with wrong data.
    pub failed: usize,
    /// Runs that a later one replaces.
    pub repeated: usize,
    /// Whether figures 5 to 9 show the runs with the progress thread: what most runs that are fine have.
    pub progress_thread_shown: bool,
    /// Per resize, variant, progress thread, and rank group.
    pub cells: Vec<CellSummary>,
    /// Per resize and progress thread.
    pub equations: Vec<Equations>,
    /// Per figure, resize, and progress thread.
    pub winners: Vec<Winner>,
    /// The runs that failed.
    pub failures: Vec<Failure>,
}

/// What can be compared between variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub enum Figure {
    /// Figure 5: T_redis of the blocking variants.
    #[serde(rename = "figure_5")]
    Blocking,
    /// Figure 6: ω of the variants in the background.
    #[serde(rename = "figure_6")]
    Omega,
    /// Figure 7: ω without helper threads.
    #[serde(rename = "figure_7")]
    OmegaWithoutThreads,
    /// Figure 8: iterations during a redistribution in the background.
    #[serde(rename = "figure_8")]
    Iterations,
    /// Figure 9: equation (1) of the blocking variants, equation (2) of the others.
    #[serde(rename = "figure_9")]
    Equations,
    /// The whole resize, of all variants.
    #[serde(rename = "resize")]
    Resize,
}

impl Figure {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Blocking,
        Self::Omega,
        Self::OmegaWithoutThreads,
        Self::Iterations,
        Self::Equations,
        Self::Resize,
    ];

    pub(super) const fn measure(self) -> Measure {
        match self {
            Self::Blocking | Self::Equations => Measure::Redistribute,
            Self::Omega | Self::OmegaWithoutThreads => Measure::Omega,
            Self::Iterations => Measure::Iterations,
            Self::Resize => Measure::Total,
        }
    }

    fn shows(self, cell: &CellSummary) -> bool {
        match self {
            Self::Blocking => !cell.background,
            Self::Omega | Self::Iterations => cell.background,
            Self::OmegaWithoutThreads => cell.background && !variant::is_threading(&cell.variant),
            Self::Equations | Self::Resize => true,
        }
    }
}

/// The variant with the least median.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Winner {
    /// What is compared.
    pub figure: Figure,
    /// NS.
    pub from: usize,
    /// NT.
    pub to: usize,
    /// Whether the progress thread ran.
    pub progress_thread: bool,
    /// The variant.
    pub variant: String,
    /// Its median.
    pub median: f64,
    /// The next median over its own; none without a second variant, or where its own is 0.
    pub ahead: Option<f64>,
    /// The variants whose difference to it lies within the spread: the ranges between the quartiles touch.
    pub within_spread: Vec<String>,
    /// What the difference is worth.
    pub verdict: Verdict,
}

/// What the difference between the best variant and the next is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It exceeds the spread.
    Clear,
    /// It lies within the spread.
    WithinSpread,
    /// One of the two has fewer than three runs, which tell no spread.
    FewRuns,
    /// There is no other variant.
    Alone,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Failure {
    /// NS.
    pub from: usize,
    /// NT.
    pub to: usize,
    /// Method and strategy.
    pub variant: String,
    /// Whether the progress thread ran.
    pub progress_thread: bool,
    /// Which repetition.
    pub rep: usize,
    /// Why.
    pub reason: String,
}

/// A figure's values: per variant and resize. This is what is drawn and tabled.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Grid {
    pub(super) resizes: Vec<Place>,
    pub(super) lines: Vec<Line>,
}

/// A resize, as figures label it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) oversubscribed: bool,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let star = if self.oversubscribed { "*" } else { "" };
        write!(f, "{}→{}{star}", self.from, self.to)
    }
}

/// One variant's values, per resize.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) variant: String,
    pub(super) values: Vec<Option<Spread>>,
}

impl Grid {
    /// Whether there is nothing to show.
    pub(super) fn is_empty(&self) -> bool {
        self.spreads().next().is_none()
    }

    pub(super) fn spreads(&self) -> impl Iterator<Item = &Spread> {
        self.lines
            .iter()
            .flat_map(|line| line.values.iter().flatten())
    }
}

impl Summary {
    /// Sums up runs. Of rows with the same [`Key`] and group, the last counts.
    ///
    /// # Errors
    ///
    /// [`Error::Mixed`] if runs differ in bytes or arrays.
    pub fn new(environment: &[(String, String)], runs: &[Run]) -> Result<Self> {
        let bytes = the_same("bytes", runs.iter().map(|run| run.bytes))?;
        let arrays = the_same("arrays", runs.iter().map(|run| run.arrays as u64))?;
        let mut latest: BTreeMap<(Key, Group), &Run> = BTreeMap::new();
        let mut repeated = 0;
        for run in runs {
            let before = latest.insert((run.key(), run.group), run);
            repeated += usize::from(before.is_some() && run.group == Group::All);
        }
        let keys: BTreeSet<&Key> = latest.keys().map(|(key, _)| key).collect();
        let mut failures: BTreeMap<&Key, &Run> = BTreeMap::new();
        for ((key, _), run) in &latest {
            if run.failed() {
                // The row that says most: that of all ranks comes first, but may lack the error.
                let known = failures.entry(key).or_insert(run);
                if known.error.is_empty() {
                    *known = run;
                }
            }
        }
        let rows: Vec<&Run> = latest.values().copied().collect();
        let cells = statistics::cells(&rows, |run| failures.contains_key(&run.key()));
        let good = [false, true].map(|progress_thread| -> usize {
            let those = cells
                .iter()
                .filter(|cell| cell.group == Group::All && cell.progress_thread == progress_thread);
            those.map(|cell| cell.runs - cell.failed).sum()
        });
        let mut summary = Self {
            environment: environment.to_vec(),
            bytes,
            arrays,
            runs: keys.len(),
            failed: failures.len(),
            repeated,
            progress_thread_shown: good[1] > good[0],
            equations: equations::of(&cells, &rows, |run| failures.contains_key(&run.key())),
            failures: failures.values().map(|run| failure(run)).collect(),
            cells,
            winners: Vec::new(),
        };
        for (progress_thread, _) in [false, true].into_iter().zip(good).filter(|&(_, n)| n > 0) {
            for figure in Figure::ALL {
                let winners = summary.winners_of(figure, progress_thread);
                summary.winners.extend(winners);
            }
        }
        Ok(summary)
    }

    /// The cells of all ranks with or without the progress thread.
    pub(super) fn cells_of_all(&self, progress_thread: bool) -> impl Iterator<Item = &CellSummary> {
        self.cells
            .iter()
            .filter(move |cell| cell.group == Group::All && cell.progress_thread == progress_thread)
    }

    /// All resizes that were tried, in order.
    pub(super) fn resizes(&self) -> Vec<Place> {
        let mut resizes: BTreeMap<(usize, usize), bool> = BTreeMap::new();
        for cell in &self.cells {
            *resizes.entry((cell.from, cell.to)).or_default() |= cell.oversubscribed;
        }
        let place = |((from, to), oversubscribed)| Place {
            from,
            to,
            oversubscribed,
        };
        resizes.into_iter().map(place).collect()
    }

    /// All variants that were tried, in the order of figures.
    pub(super) fn variants(&self) -> Vec<&str> {
        let mut variants: Vec<&str> = self
            .cells
            .iter()
            .map(|cell| cell.variant.as_str())
            .collect();
        variants.sort_by_key(|name| (variant::place(name), *name));
        variants.dedup();
        variants
    }

    /// The values that a figure shows.
    pub(super) fn grid(&self, figure: Figure, progress_thread: bool) -> Grid {
        let measure = figure.measure();
        self.grid_of(|place, name| {
            if figure == Figure::Equations {
                return self.total(place, name, progress_thread);
            }
            let mut cells = self.cells_of_all(progress_thread);
            let cell = cells.find(|cell| {
                (cell.from, cell.to) == (place.from, place.to) && cell.variant == name
            })?;
            figure.shows(cell).then(|| cell.get(measure)).flatten()
        })
    }

    fn grid_of(&self, value: impl Fn(Place, &str) -> Option<Spread>) -> Grid {
        let resizes = self.resizes();
        let line = |name: &str| Line {
            variant: name.to_owned(),
            values: resizes.iter().map(|&place| value(place, name)).collect(),
        };
        let mut lines: Vec<Line> = self.variants().into_iter().map(line).collect();
        lines.retain(|line| line.values.iter().any(Option::is_some));
        Grid { resizes, lines }
    }

    fn total(&self, place: Place, name: &str, progress_thread: bool) -> Option<Spread> {
        let here = (place.from, place.to, progress_thread);
        let mut all = self.equations.iter();
        let equations = all.find(|of| (of.from, of.to, of.progress_thread) == here)?;
        let mut totals = equations.blocking.iter().chain(&equations.background);
        totals
            .find(|total| total.variant == name)
            .map(|total| total.total_s)
    }

    /// A measure without and with the progress thread, of the variants and resizes that have both.
    pub(super) fn with_and_without(&self, measure: Measure) -> [Grid; 2] {
        let value = |place: Place, name: &str, progress_thread| {
            let mut cells = self.cells_of_all(progress_thread);
            let here = |cell: &&CellSummary| {
                (cell.from, cell.to) == (place.from, place.to) && cell.variant == name
            };
            cells.find(here)?.get(measure)
        };
        [false, true].map(|shown| {
            self.grid_of(|place, name| {
                value(place, name, !shown)?;
                value(place, name, shown)
            })
        })
    }

    fn winners_of(&self, figure: Figure, progress_thread: bool) -> Vec<Winner> {
        let grid = self.grid(figure, progress_thread);
        let at = |(index, place): (usize, &Place)| {
            let value = |line: &Line| Some((line.variant.clone(), line.values[index]?));
            let mut values: Vec<(String, Spread)> = grid.lines.iter().filter_map(value).collect();
            // Stable: the earlier of two equal variants is the first.
            values.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
            let (best, rest) = values.split_first()?;
            let close = rest.iter().filter(|other| other.1.overlaps(&best.1));
            let within_spread: Vec<String> = close.map(|other| other.0.clone()).collect();
            let verdict = match rest.first() {
                None => Verdict::Alone,
                Some(next) if best.1.n < FEW || next.1.n < FEW => Verdict::FewRuns,
                Some(_) if within_spread.is_empty() => Verdict::Clear,
                Some(_) => Verdict::WithinSpread,
            };
            Some(Winner {
                figure,
                from: place.from,
                to: place.to,
                progress_thread,
                variant: best.0.clone(),
                median: best.1.median,
                ahead: rest
                    .first()
                    .filter(|_| best.1.median > 0.0)
                    .map(|next| next.1.median / best.1.median),
                within_spread,
                verdict,
            })
        };
        grid.resizes.iter().enumerate().filter_map(at).collect()
    }

    /// Who won a figure, per resize.
    pub(super) fn winners_in(&self, figure: Figure, progress_thread: bool) -> Vec<&Winner> {
        let all = self.winners.iter();
        all.filter(|winner| (winner.figure, winner.progress_thread) == (figure, progress_thread))
            .collect()
    }
}

fn failure(run: &Run) -> Failure {
    let reason = match run.error.as_str() {
        "" => "the data did not verify".to_owned(),
        error => error.to_owned(),
    };
    Failure {
        from: run.from,
        to: run.to,
        variant: run.variant.clone(),
        progress_thread: run.progress_thread,
        rep: run.rep,
        reason,
    }
}

/// The value that all have; 0 if there are none.
fn the_same(field: &'static str, values: impl Iterator<Item = u64>) -> Result<u64> {
    let mut values = values;
    let first = values.next().unwrap_or(0);
    match values.find(|&value| value != first) {
        Some(other) => Err(Error::Mixed {
            field,
            first,
            other,
        }),
        None => Ok(first),
    }
}

fn as_map<S: Serializer>(
    environment: &[(String, String)],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(environment.iter().map(|(label, value)| (label, value)))
}

#[cfg(test)]
mod tests {
    use super::super::sample::{example, run, runs};
    use super::*;

    fn summary(runs: &[Run]) -> Summary {
        Summary::new(&[], runs).expect("a summary")
    }

    fn redistribute(variant: &str, values: &[f64]) -> Vec<Run> {
        runs((1, 2), variant, values, |run, value| {
            run.redistribute_s = value
        })
    }

    #[test]
    fn without_a_background_variant_there_is_no_equation_1() {
        let summary = summary(&redistribute("col", &[1.0, 2.0]));
        assert_eq!(summary.equations[0].fewest_iterations, None);
        assert!(summary.equations[0].blocking.is_empty());
        assert!(summary.grid(Figure::Equations, false).is_empty());
        assert!(summary.grid(Figure::Omega, false).is_empty());
        assert!(!summary.grid(Figure::Blocking, false).is_empty());
    }

    #[test]
    fn the_spread_decides_who_won() {
        let of = |a: &[f64], b: &[f64]| {
            let mut all = redistribute("col", a);
            all.extend(redistribute("rma1", b));
            let summary = summary(&all);
            summary.winners_in(Figure::Blocking, false)[0].clone()
        };
        let clear = of(&[2.0, 2.1, 2.2], &[1.0, 1.05, 1.1]);
        assert_eq!(
            (clear.variant.as_str(), clear.verdict),
            ("rma1", Verdict::Clear)
        );
        assert_eq!(clear.ahead, Some(2.0));
        let close = of(&[1.0, 2.0, 3.0], &[1.0, 1.9, 3.0]);
        assert_eq!(
            (close.variant.as_str(), close.verdict),
            ("rma1", Verdict::WithinSpread)
        );
        assert_eq!(close.within_spread, ["col"]);
        assert_eq!(of(&[1.0], &[2.0]).verdict, Verdict::FewRuns);
        assert_eq!(of(&[1.0, 1.0, 1.0], &[]).verdict, Verdict::Alone);
        assert_eq!(of(&[0.0; 3], &[1.0; 3]).ahead, None);
    }

    #[test]
    fn figures_show_their_variants() {
        let names = ["col", "col-nb", "rma1-t", "rma2-wt", "own", "own-t"];
        let summary = summary(&names.map(|name| run(1, 2, name, 0)));
        let shown = |figure| -> Vec<String> {
            let lines = summary.grid(figure, false).lines;
            lines.into_iter().map(|line| line.variant).collect()
        };
        assert_eq!(shown(Figure::Blocking), ["col", "own"]);
        assert_eq!(
            shown(Figure::Omega),
            ["col-nb", "rma1-t", "rma2-wt", "own-t"]
        );
        assert_eq!(shown(Figure::OmegaWithoutThreads), ["col-nb", "rma2-wt"]);
        assert_eq!(shown(Figure::Resize).len(), 6);
        assert!(summary.grid(Figure::Blocking, true).is_empty());
    }

    #[test]
    fn a_run_fails_as_a_whole_and_counts_once() {
        let mut part = run(1, 2, "col", 0);
        part.group = Group::TargetOnly;
        part.verified = false;
        let mut again = run(1, 2, "rma1", 0);
        again.error = "crashed".to_owned();
        let all = [
            part,
            run(1, 2, "col", 0),
            again,
            run(1, 2, "rma1", 0),
            run(1, 2, "col", 1),
        ];
        let summary = summary(&all);
        assert_eq!((summary.runs, summary.failed, summary.repeated), (3, 1, 1));
        assert_eq!(summary.failures[0].reason, "the data did not verify");
        let col = summary.cells_of_all(false).next().expect("a cell");
        assert_eq!((col.runs, col.failed), (2, 1));
    }

    #[test]
    fn sizes_do_not_mix() {
        let mut other = run(1, 2, "col", 0);
        other.bytes = 5;
        let error = Summary::new(&[], &[run(1, 2, "col", 0), other]).expect_err("mixed");
        assert!(
            error
                .to_string()
                .contains("bytes 67108864 and with bytes 5"),
            "{error}"
        );
    }

    #[test]
    fn the_json_has_flat_measures_and_the_environment_in_order() {
        let environment = [("MPICH", "4.2.3"), ("cores", "2"), ("date", "today")]
            .map(|(label, value)| (label.to_owned(), value.to_owned()));
        let summary = Summary::new(&environment, &example()).expect("a summary");
        let text = serde_json::to_string(&summary).expect("JSON");
        assert!(text.starts_with(r#"{"environment":{"MPICH":"4.2.3","cores":"2","date":"today"}"#));
        let value = serde_json::to_value(&summary).expect("JSON");
        let cell = &value["cells"][0];
        assert_eq!(cell["variant"], "col");
        assert_eq!(cell["group"], "all");
        assert_eq!(cell["redistribute_s"]["median"], 2.0);
        assert_eq!(cell["redistribute_s"]["q3"], 5.5);
        assert!(cell.get("omega").is_none());
        assert_eq!(value["winners"][0]["figure"], "figure_5");
        assert_eq!(
            value["equations"][0]["blocking"][0]["total_s"]["median"],
            4.5
        );
    }

    #[test]
    fn no_runs_make_an_empty_summary() {
        let summary = summary(&[]);
        assert_eq!((summary.runs, summary.bytes), (0, 0));
        assert!(summary.winners.is_empty() && summary.equations.is_empty());
    }
}
