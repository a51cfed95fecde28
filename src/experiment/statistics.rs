//! Medians, quartiles, and the cells that they belong to.

use std::collections::BTreeMap;

use serde::Serialize;

use super::row::{Group, Run};
use super::variant;

/// Runs below this number tell no spread.
pub(super) const FEW: usize = 3;

/// How values are distributed.
///
/// Quantiles interpolate linearly between the two nearest of the n sorted values: the quantile p lies at position
/// p × (n − 1), counted from 0 (type 7 of Hyndman and Fan).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// How many values.
    pub n: usize,
    /// The least.
    pub min: f64,
    /// The first quartile.
    pub q1: f64,
    /// The median.
    pub median: f64,
    /// The third quartile.
    pub q3: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// How values are distributed; none without a finite one, which are all that count.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        Some(Self {
            n: sorted.len(),
            min,
            q1: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            q3: quantile(&sorted, 0.75),
            p95: quantile(&sorted, 0.95),
            max,
        })
    }

    /// The same with something added to each value.
    #[must_use]
    pub fn shifted(self, by: f64) -> Self {
        Self {
            n: self.n,
            min: self.min + by,
            q1: self.q1 + by,
            median: self.median + by,
            q3: self.q3 + by,
            p95: self.p95 + by,
            max: self.max + by,
        }
    }

    /// Whether the ranges between the quartiles touch: then the difference of the medians lies within the spread.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.q1 <= other.q3 && other.q1 <= self.q3
    }
}

/// Of sorted values, at least one.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let position = p * (sorted.len() - 1) as f64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let (low, high) = (sorted[below], sorted[above]);
    low + (high - low) * (position - below as f64)
}

/// What a [`Run`] measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
#[allow(missing_docs)] // each is the field of `Run` that it is named after
pub enum Measure {
    #[serde(rename = "decide_s")]
    Decide,
    #[serde(rename = "spawn_s")]
    Spawn,
    #[serde(rename = "merge_s")]
    Merge,
    #[serde(rename = "expose_s")]
    Expose,
    #[serde(rename = "transfer_s")]
    Transfer,
    #[serde(rename = "release_s")]
    Release,
    #[serde(rename = "resume_s")]
    Resume,
    #[serde(rename = "redistribute_s")]
    Redistribute,
    #[serde(rename = "total_s")]
    Total,
    #[serde(rename = "iteration_before_s")]
    IterationBefore,
    #[serde(rename = "iteration_during_s")]
    IterationDuring,
    #[serde(rename = "iterations_during")]
    Iterations,
    #[serde(rename = "iteration_after_s")]
    IterationAfter,
    #[serde(rename = "omega")]
    Omega,
    #[serde(rename = "omega_total")]
    OmegaTotal,
    #[serde(rename = "copy_share")]
    CopyShare,
    #[serde(rename = "peak_rss_bytes")]
    PeakRss,
    #[serde(rename = "moved_bytes")]
    Moved,
    #[serde(rename = "kept_bytes")]
    Kept,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::Decide,
        Self::Spawn,
        Self::Merge,
        Self::Expose,
        Self::Transfer,
        Self::Release,
        Self::Resume,
        Self::Redistribute,
        Self::Total,
        Self::IterationBefore,
        Self::IterationDuring,
        Self::Iterations,
        Self::IterationAfter,
        Self::Omega,
        Self::OmegaTotal,
        Self::CopyShare,
        Self::PeakRss,
        Self::Moved,
        Self::Kept,
    ];

    /// The stages of a resize, in order.
    pub const STAGES: [Self; 7] = [
        Self::Decide,
        Self::Spawn,
        Self::Merge,
        Self::Expose,
        Self::Transfer,
        Self::Release,
        Self::Resume,
    ];

    /// Its value in a run.
    #[must_use]
    pub fn of(self, run: &Run) -> Option<f64> {
        match self {
            Self::Decide => Some(run.decide_s),
            Self::Spawn => Some(run.spawn_s),
            Self::Merge => Some(run.merge_s),
            Self::Expose => Some(run.expose_s),
            Self::Transfer => Some(run.transfer_s),
            Self::Release => Some(run.release_s),
            Self::Resume => Some(run.resume_s),
            Self::Redistribute => Some(run.redistribute_s),
            Self::Total => Some(run.total_s),
            Self::IterationBefore => Some(run.iteration_before_s),
            Self::IterationDuring => run.iteration_during_s,
            Self::Iterations => run.iterations_during,
            Self::IterationAfter => Some(run.iteration_after_s),
            Self::Omega => run.omega,
            Self::OmegaTotal => run.omega_total,
            Self::CopyShare => run.copy_share,
            Self::PeakRss => Some(run.peak_rss_bytes as f64),
            Self::Moved => Some(run.moved_bytes as f64),
            Self::Kept => Some(run.kept_bytes as f64),
        }
    }
}

/// The runs of one variant on one resize, and how their measures are distributed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellSummary {
    /// NS.
    pub from: usize,
    /// NT.
    pub to: usize,
    /// Method and strategy.
    pub variant: String,
    /// Whether the progress thread ran.
    pub progress_thread: bool,
    /// The ranks that these measures are about.
    pub group: Group,
    /// Whether the variant moves data in the background.
    pub background: bool,
    /// Whether there were more ranks than cores.
    pub oversubscribed: bool,
    /// Runs, failed ones included.
    pub runs: usize,
    /// Failed runs: they count in no measure.
    pub failed: usize,
    /// The time of the same method's blocking redistribution over T_it(NS), rounded up: what a redistribution in the
    /// background needs in iterations if it neither slows nor is slowed.
    pub ideal_iterations: Option<f64>,
    /// How each measure is distributed; those that no run has are missing.
    #[serde(flatten)]
    pub measures: BTreeMap<Measure, Spread>,
}

impl CellSummary {
    /// How a measure is distributed.
    #[must_use]
    pub fn get(&self, measure: Measure) -> Option<Spread> {
        self.measures.get(&measure).copied()
    }

    pub(super) fn median(&self, measure: Measure) -> Option<f64> {
        self.get(measure).map(|spread| spread.median)
    }
}

/// One cell per resize, variant, progress thread, and group; in this order, variants as figures show them.
pub(super) fn cells(runs: &[&Run], failed: impl Fn(&Run) -> bool) -> Vec<CellSummary> {
    let mut groups: BTreeMap<_, Vec<&Run>> = BTreeMap::new();
    for &run in runs {
        let place = variant::place(&run.variant);
        let key = (
            run.from,
            run.to,
            place,
            &run.variant,
            run.progress_thread,
            run.group,
        );
        groups.entry(key).or_default().push(run);
    }
    let cell = |runs: Vec<&Run>| {
        let first = runs[0];
        let good: Vec<&Run> = runs.iter().copied().filter(|run| !failed(run)).collect();
        let spread = |measure: Measure| {
            let values = good.iter().filter_map(|run| measure.of(run));
            Spread::of(values).map(|spread| (measure, spread))
        };
        CellSummary {
            from: first.from,
            to: first.to,
            variant: first.variant.clone(),
            progress_thread: first.progress_thread,
            group: first.group,
            background: variant::is_background(&first.variant)
                || good.iter().any(|run| run.iterations_during.is_some()),
            oversubscribed: runs.iter().any(|run| run.oversubscribed),
            runs: runs.len(),
            failed: runs.len() - good.len(),
            ideal_iterations: None,
            measures: Measure::ALL.into_iter().filter_map(spread).collect(),
        }
    };
    let mut cells: Vec<CellSummary> = groups.into_values().map(cell).collect();
    for index in 0..cells.len() {
        cells[index].ideal_iterations = ideal_iterations(&cells, &cells[index]);
    }
    cells
}

fn ideal_iterations(cells: &[CellSummary], cell: &CellSummary) -> Option<f64> {
    if !cell.background {
        return None;
    }
    let blocking = cells.iter().find(|other| {
        !other.background
            && (other.from, other.to) == (cell.from, cell.to)
            && other.progress_thread == cell.progress_thread
            && other.group == cell.group
            && variant::method(&other.variant) == variant::method(&cell.variant)
    })?;
    let iteration = cell.median(Measure::IterationBefore).filter(|&s| s > 0.0)?;
    Some((blocking.median(Measure::Redistribute)? / iteration).ceil())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::{run, runs};
    use super::*;

    #[test]
    fn quantiles_are_those_computed_by_hand() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN, f64::INFINITY]), None);
        let one = Spread::of([2.5]).expect("a value");
        assert_eq!(
            (one.n, one.min, one.q1, one.median, one.q3, one.p95, one.max),
            (1, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5)
        );
        // Positions 0.75, 1.5, 2.25 and 2.85 of 10, 20, 30, 50.
        let four = Spread::of([50.0, 10.0, f64::NAN, 30.0, 20.0]).expect("values");
        assert_eq!((four.n, four.min, four.max), (4, 10.0, 50.0));
        assert_eq!((four.q1, four.median, four.q3), (17.5, 25.0, 35.0));
        assert!((four.p95 - 47.0).abs() < 1e-9);
        let five = Spread::of([1.0, 2.0, 3.0, 4.0, 100.0]).expect("values");
        assert_eq!((five.q1, five.median, five.q3), (2.0, 3.0, 4.0));
    }

    proptest! {
        #[test]
        fn quantiles_are_ordered(values in prop::collection::vec(-1e9_f64..1e9, 1..40)) {
            let s = Spread::of(values).expect("values");
            let ordered = [s.min, s.q1, s.median, s.q3, s.p95, s.max];
            prop_assert!(ordered.is_sorted(), "{ordered:?}");
        }
    }

    #[test]
    fn ranges_between_quartiles_touch_or_do_not() {
        let of = |values: [f64; 3]| Spread::of(values).expect("values");
        let (low, high) = (of([1.0, 2.0, 3.0]), of([3.0, 4.0, 5.0]));
        assert!(!low.overlaps(&high) && !high.overlaps(&low)); // 1.5–2.5 and 3.5–4.5
        assert!(low.overlaps(&low.shifted(1.0)) && low.shifted(1.0).overlaps(&low));
        assert_eq!(low.shifted(2.0), high);
    }

    #[test]
    fn failed_runs_count_but_do_not_weigh() {
        let mut all = runs((1, 2), "col", &[1.0, 2.0, 3.0, 1000.0], |run, value| {
            run.redistribute_s = value;
        });
        all[3].verified = false;
        let cells = cells(&all.iter().collect::<Vec<_>>(), Run::failed);
        assert_eq!(cells.len(), 1);
        assert_eq!((cells[0].runs, cells[0].failed), (4, 1));
        assert_eq!(cells[0].median(Measure::Redistribute), Some(2.0));
        assert_eq!(cells[0].get(Measure::Omega), None);
    }

    #[test]
    fn cells_are_told_apart_and_in_order() {
        let mut with = run(1, 2, "col-wt", 0);
        with.progress_thread = true;
        let mut part = run(1, 2, "rma1", 0);
        part.group = Group::Both;
        let all = [
            run(2, 1, "col", 0),
            with,
            part,
            run(1, 2, "own", 0),
            run(1, 2, "rma1", 0),
            run(1, 2, "col-wt", 0),
        ];
        let cells = cells(&all.iter().collect::<Vec<_>>(), Run::failed);
        let found: Vec<_> = cells
            .iter()
            .map(|cell| {
                (
                    cell.from,
                    cell.variant.as_str(),
                    cell.progress_thread,
                    cell.group,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                (1, "col-wt", false, Group::All),
                (1, "col-wt", true, Group::All),
                (1, "rma1", false, Group::All),
                (1, "rma1", false, Group::Both),
                (1, "own", false, Group::All),
                (2, "col", false, Group::All),
            ]
        );
    }

    #[test]
    fn the_ideal_is_the_blocking_time_in_iterations() {
        let mut all = runs((1, 2), "rma1", &[0.05, 0.07, 0.09], |run, value| {
            run.redistribute_s = value;
        });
        all.push(run(1, 2, "rma1-wt", 0)); // T_it(NS) is 0.02 s: 3.5 iterations
        all.push(run(1, 2, "col-wt", 0));
        let cells = cells(&all.iter().collect::<Vec<_>>(), Run::failed);
        let ideal = |name: &str| {
            let cell = cells.iter().find(|cell| cell.variant == name);
            cell.expect("a cell").ideal_iterations
        };
        assert_eq!(ideal("rma1-wt"), Some(4.0));
        assert_eq!(ideal("col-wt"), None);
        assert_eq!(ideal("rma1"), None);
    }

    #[test]
    fn measures_are_named_after_fields() {
        let row = serde_json::to_value(run(1, 2, "col", 0)).expect("a row");
        for measure in Measure::ALL {
            let name = serde_json::to_value(measure).expect("a name");
            assert!(row.get(name.as_str().expect("text")).is_some(), "{name}");
        }
    }
}
