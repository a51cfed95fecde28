//! Runs for tests.

use super::row::{Group, Run};

/// A run that is fine; one in the background if its variant says so.
pub(super) fn run(from: usize, to: usize, variant: &str, rep: usize) -> Run {
    let background = variant.contains('-');
    Run {
        from,
        to,
        bytes: 1 << 26,
        arrays: 1,
        variant: variant.to_owned(),
        rep,
        group: Group::All,
        decide_s: 0.001,
        spawn_s: 0.2,
        merge_s: 0.01,
        expose_s: if variant.starts_with("rma") {
            0.02
        } else {
            0.0
        },
        transfer_s: 0.05,
        release_s: 0.002,
        resume_s: 0.001,
        redistribute_s: 0.06,
        total_s: 0.3,
        iteration_before_s: 0.02,
        iteration_during_s: background.then_some(0.03),
        iterations_during: background.then_some(3.0),
        iteration_after_s: 0.01,
        omega: background.then_some(1.5),
        omega_total: background.then_some(1.4),
        copy_share: None,
        peak_rss_bytes: 1 << 28,
        moved_bytes: 1 << 25,
        kept_bytes: 1 << 25,
        verified: true,
        oversubscribed: from.max(to) > 2,
        progress_thread: false,
        error: String::new(),
    }
}

/// Repetitions whose measure takes these values.
pub(super) fn runs(
    (from, to): (usize, usize),
    variant: &str,
    values: &[f64],
    set: impl Fn(&mut Run, f64),
) -> Vec<Run> {
    let one = |(rep, &value): (usize, &f64)| {
        let mut run = run(from, to, variant, rep);
        set(&mut run, value);
        run
    };
    values.iter().enumerate().map(one).collect()
}

/// The runs of figure 9's example: T_it(NT) is 0.5 s at the median of all runs.
pub(super) fn example() -> Vec<Run> {
    let mut all = Vec::new();
    for (variant, times, iterations) in [
        ("col", [1.0, 2.0, 9.0], None),
        ("rma1", [3.0, 3.0, 3.0], None),
        ("col-nb", [4.0, 5.0, 6.0], Some([7.0, 8.0, 30.0])),
        ("rma1-wt", [2.0, 2.5, 3.0], Some([1.0, 5.0, 6.0])),
    ] {
        for rep in 0..3 {
            let mut run = run(1, 2, variant, rep);
            run.redistribute_s = times[rep];
            run.iterations_during = iterations.map(|iterations| iterations[rep]);
            run.iteration_after_s = [0.1, 0.5, 0.9][rep];
            all.push(run);
        }
    }
    all
}
