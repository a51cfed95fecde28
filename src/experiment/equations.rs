//! Paper R's equations (1) and (2): blocking and background redistribution, compared where the application has done the
//! same iterations.

use std::collections::BTreeSet;

use serde::Serialize;

use super::row::{Group, Run};
use super::statistics::{CellSummary, Measure, Spread};

/// Paper R's equations (1) and (2) for one resize.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Equations {
    /// NS.
    pub from: usize,
    /// NT.
    pub to: usize,
    /// Whether the progress thread ran.
    pub progress_thread: bool,
    /// T_it(NT), of the runs of every variant.
    pub iteration_after_s: Option<Spread>,
    /// The least of the variants' median iterations during a redistribution in the background.
    pub fewest_iterations: Option<Fewest>,
    /// T_bl_total of equation (1), per blocking variant: its T_redis plus T_it(NT) × the fewest iterations. The
    /// spread is that of T_redis. Empty when there is no variant in the background to compare with.
    pub blocking: Vec<Total>,
    /// T_sp_total of equation (2), per variant in the background: its T_redis.
    pub background: Vec<Total>,
}

/// The variant with the fewest iterations during its redistribution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fewest {
    /// The variant.
    pub variant: String,
    /// Its median number of iterations.
    pub median: f64,
}

/// What an equation gives for a variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Total {
    /// The variant.
    pub variant: String,
    /// The total time.
    pub total_s: Spread,
}

/// The equations of each resize, with and without the progress thread.
pub(super) fn of(
    cells: &[CellSummary],
    rows: &[&Run],
    failed: impl Fn(&Run) -> bool,
) -> Vec<Equations> {
    let all: Vec<&CellSummary> = cells
        .iter()
        .filter(|cell| cell.group == Group::All)
        .collect();
    let keys: BTreeSet<(usize, usize, bool)> = all
        .iter()
        .map(|cell| (cell.from, cell.to, cell.progress_thread))
        .collect();
    let here = |(from, to, progress_thread): (usize, usize, bool)| {
        let these: Vec<&CellSummary> = all
            .iter()
            .copied()
            .filter(|cell| {
                (cell.from, cell.to, cell.progress_thread) == (from, to, progress_thread)
            })
            .collect();
        let after = rows.iter().filter(|run| {
            (run.from, run.to, run.progress_thread, run.group)
                == (from, to, progress_thread, Group::All)
                && !failed(run)
        });
        let iteration_after_s = Spread::of(after.map(|run| run.iteration_after_s));
        let iterations = these
            .iter()
            .filter(|cell| cell.background)
            .filter_map(|cell| {
                Some(Fewest {
                    variant: cell.variant.clone(),
                    median: cell.median(Measure::Iterations)?,
                })
            });
        let fewest_iterations = iterations.min_by(|a, b| a.median.total_cmp(&b.median));
        let catching_up = iteration_after_s
            .zip(fewest_iterations.as_ref())
            .map(|(iteration, fewest)| iteration.median * fewest.median);
        let totals = |background: bool, extra: Option<f64>| -> Vec<Total> {
            let those = these.iter().filter(|cell| cell.background == background);
            those
                .filter_map(|cell| {
                    Some(Total {
                        variant: cell.variant.clone(),
                        total_s: cell.get(Measure::Redistribute)?.shifted(extra?),
                    })
                })
                .collect()
        };
        Equations {
            from,
            to,
            progress_thread,
            iteration_after_s,
            blocking: totals(false, catching_up),
            background: totals(true, Some(0.0)),
            fewest_iterations,
        }
    };
    keys.into_iter().map(here).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::{example, run};
    use super::super::summary::Summary;
    use super::*;

    fn summary(runs: &[Run]) -> Summary {
        Summary::new(&[], runs).expect("a summary")
    }

    #[test]
    fn equations_are_those_computed_by_hand() {
        let summary = summary(&example());
        let [equations] = &summary.equations[..] else {
            panic!("one resize")
        };
        assert_eq!(equations.iteration_after_s.map(|s| s.median), Some(0.5));
        // The medians are 8 and 5; the least single value, 1, does not count.
        let fewest = equations.fewest_iterations.as_ref().expect("a minimum");
        assert_eq!((fewest.variant.as_str(), fewest.median), ("rma1-wt", 5.0));
        let total = |totals: &[Total]| -> Vec<(String, f64)> {
            let of = |total: &Total| (total.variant.clone(), total.total_s.median);
            totals.iter().map(of).collect()
        };
        // (1): 2.0 + 0.5 × 5, and 3.0 + 0.5 × 5; (2): T_redis.
        let named = |pairs: [(&str, f64); 2]| pairs.map(|(name, s)| (name.to_owned(), s));
        assert_eq!(
            total(&equations.blocking),
            named([("col", 4.5), ("rma1", 5.5)])
        );
        assert_eq!(
            total(&equations.background),
            named([("col-nb", 5.0), ("rma1-wt", 2.5)])
        );
        let col = equations.blocking[0].total_s;
        assert_eq!((col.q1, col.q3), (4.0, 8.0)); // 1.5 + 2.5, 5.5 + 2.5
    }

    #[test]
    fn failed_runs_do_not_enter_the_equations() {
        let mut all = example();
        let fine = summary(&all).equations;
        for (value, variant) in [(0.0, "rma1-wt"), (1000.0, "col")] {
            let mut bad = run(1, 2, variant, 9);
            bad.redistribute_s = value;
            bad.iterations_during = Some(value);
            bad.iteration_after_s = value;
            bad.error = "crashed".to_owned();
            all.push(bad);
        }
        assert_eq!(summary(&all).equations, fine);
    }

    #[test]
    fn equations_keep_the_progress_thread_apart() {
        let mut all = example();
        let with: Vec<Run> = example()
            .into_iter()
            .map(|mut run| {
                run.progress_thread = true;
                run.iterations_during = run.iterations_during.map(|n| n / 5.0);
                run
            })
            .collect();
        all.extend(with);
        let summary = summary(&all);
        let least = |index: usize| {
            let fewest = summary.equations[index].fewest_iterations.as_ref();
            fewest.map(|fewest| fewest.median)
        };
        assert_eq!((least(0), least(1)), (Some(5.0), Some(1.0)));
        assert!(!summary.progress_thread_shown, "on a tie, the paper's");
        let [without, with] = summary.with_and_without(Measure::Iterations);
        assert_eq!(without.lines.len(), 2);
        assert_eq!(without.lines[1].values[0].map(|s| s.median), Some(5.0));
        assert_eq!(with.lines[1].values[0].map(|s| s.median), Some(1.0));
    }
}
