//! The break-even model, and what was measured of it.

use serde::Serialize;

use super::claims::{Claim, claims};
use super::row::{Timing, Total};

/// What is persistent, and the form of it that sets everything up each time.
pub(super) const ONCE: [(&str, &str); 2] = [("fence", "fence-once"), ("lock", "lock-once")];

/// A number of ranks, and whose buffers.
pub(super) type Setting<'a> = (usize, &'a str);

/// When a variant has made up for its setup.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BreakEven {
    /// The variant.
    pub variant: String,
    /// What it is compared with.
    pub against: String,
    /// Ranks.
    pub ranks: usize,
    /// Whose buffers.
    pub buffers: String,
    /// Bytes to each peer.
    pub bytes_per_peer: usize,
    /// N* = T_init / (T_base − T_iteration); nothing where the variant is no faster.
    pub predicted: Option<f64>,
    /// The fewest of the measured numbers of exchanges from which on its total is no longer than the other's; nothing where
    /// it is longer at the largest.
    pub measured: Option<usize>,
    /// The largest number of exchanges that was measured.
    pub largest: usize,
}

/// Everything that the report is made of.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Labels and values that head the report.
    pub environment: Vec<(String, String)>,
    /// The rows that count.
    pub rows: Vec<Timing>,
    /// Those that do not.
    pub failures: Vec<Timing>,
    /// Times of several exchanges with their setup.
    pub totals: Vec<Total>,
    /// When persistence pays.
    pub break_even: Vec<BreakEven>,
    /// The paper's claims, and what is found of them here.
    pub claims: Vec<Claim>,
}

impl Summary {
    /// Of measured rows: where a variant was measured twice in a cell, the last time counts.
    #[must_use]
    pub fn new(environment: &[(String, String)], rows: Vec<Timing>, totals: Vec<Total>) -> Self {
        let mut last: Vec<Timing> = Vec::new();
        for row in rows {
            let same = |one: &Timing| one.cell() == row.cell() && one.variant == row.variant;
            last.retain(|one| !same(one));
            last.push(row);
        }
        // What failed as a whole and was then measured is no failure any more.
        let measured: Vec<_> = last
            .iter()
            .filter(|row| !row.failed())
            .map(Timing::cell)
            .collect();
        last.retain(|row| row.variant != "all" || !measured.contains(&row.cell()));
        let (failures, mut rows): (Vec<_>, Vec<_>) = last.into_iter().partition(Timing::failed);
        rows.sort_by_key(Timing::cell);
        let mut latest: Vec<Total> = Vec::new();
        for total in totals {
            let same = |one: &Total| {
                one.cell() == total.cell()
                    && (&one.variant, one.exchanges) == (&total.variant, total.exchanges)
            };
            latest.retain(|one| !same(one));
            latest.push(total);
        }
        latest.sort_by_key(|total| (total.cell(), total.exchanges));
        let mut summary = Self {
            environment: environment.to_vec(),
            rows,
            failures,
            totals: latest,
            break_even: Vec::new(),
            claims: Vec::new(),
        };
        summary.break_even = summary.find_break_even();
        summary.claims = claims(&summary);
        summary
    }

    /// A row of the uniform pattern.
    pub(super) fn uniform(
        &self,
        (ranks, buffers): Setting<'_>,
        bytes: usize,
        variant: &str,
    ) -> Option<&Timing> {
        self.rows.iter().find(|row| {
            row.pattern == "uniform"
                && (row.ranks, row.bytes_per_peer) == (ranks, bytes)
                && row.buffers == buffers
                && row.variant == variant
        })
    }

    /// The numbers of ranks, ascending.
    pub(super) fn ranks(&self) -> Vec<usize> {
        distinct(self.rows.iter().map(|row| row.ranks))
    }

    /// The numbers of ranks with each kind of buffers.
    pub(super) fn settings(&self) -> Vec<Setting<'_>> {
        distinct(
            self.rows
                .iter()
                .map(|row| (row.ranks, row.buffers.as_str())),
        )
    }

    /// Each kind of buffers.
    pub(super) fn buffers(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| row.buffers.as_str()))
    }

    /// The paper's windows expose the application's buffers.
    pub(super) fn papers_buffers(&self) -> &str {
        let callers = self
            .buffers()
            .into_iter()
            .find(|buffers| *buffers == "caller");
        callers.unwrap_or("own")
    }

    /// The sizes of the uniform pattern, ascending.
    pub(super) fn sizes(&self) -> Vec<usize> {
        let uniform = self.rows.iter().filter(|row| row.pattern == "uniform");
        distinct(uniform.map(|row| row.bytes_per_peer))
    }

    /// The variants, in the order in which they were measured.
    pub(super) fn variants(&self) -> Vec<&str> {
        let mut variants: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !variants.contains(&row.variant.as_str()) {
                variants.push(&row.variant);
            }
        }
        variants
    }

    /// The matrices, by name.
    pub(super) fn matrices(&self) -> Vec<&str> {
        let matrices = self
            .rows
            .iter()
            .filter(|row| row.pattern.starts_with("matrix:"));
        distinct(matrices.map(|row| row.pattern.as_str()))
    }

    /// The totals of a variant with the uniform pattern, ascending in exchanges.
    pub(super) fn totals_of(
        &self,
        (ranks, buffers): Setting<'_>,
        bytes: usize,
        variant: &str,
    ) -> Vec<&Total> {
        let totals = self.totals.iter().filter(|total| {
            total.pattern == "uniform"
                && (total.ranks, total.bytes_per_peer) == (ranks, bytes)
                && total.buffers == buffers
                && total.variant == variant
        });
        totals.collect()
    }

    /// What the model says of a total.
    pub(super) fn predicted(row: &Timing, exchanges: usize) -> f64 {
        row.init_s + exchanges as f64 * row.median_s
    }

    fn find_break_even(&self) -> Vec<BreakEven> {
        let mut found = Vec::new();
        for row in self.rows.iter().filter(|row| row.pattern == "uniform") {
            let once = ONCE
                .iter()
                .find(|(persistent, _)| *persistent == row.variant);
            let is_once = ONCE.iter().any(|(_, once)| *once == row.variant);
            if is_once || row.variant == "standard" {
                continue;
            }
            for against in ["standard"].into_iter().chain(once.map(|(_, once)| *once)) {
                let (setting, bytes) = ((row.ranks, row.buffers.as_str()), row.bytes_per_peer);
                let Some(base) = self.uniform(setting, bytes, against) else {
                    continue;
                };
                let gain = base.median_s - row.median_s;
                let mine = self.totals_of(setting, bytes, &row.variant);
                let theirs = self.totals_of(setting, bytes, against);
                let pairs: Vec<(usize, bool)> = mine
                    .iter()
                    .filter_map(|total| {
                        let same = |one: &&&Total| one.exchanges == total.exchanges;
                        let other = theirs.iter().find(same)?;
                        Some((total.exchanges, total.total_s <= other.total_s))
                    })
                    .collect();
                let pays = pairs.iter().rev().take_while(|(_, pays)| *pays).last();
                found.push(BreakEven {
                    variant: row.variant.clone(),
                    against: against.to_owned(),
                    ranks: row.ranks,
                    buffers: row.buffers.clone(),
                    bytes_per_peer: bytes,
                    predicted: (gain > 0.0).then(|| row.init_s / gain),
                    measured: pays.map(|(exchanges, _)| *exchanges),
                    largest: pairs.last().map_or(0, |(exchanges, _)| *exchanges),
                });
            }
        }
        found
    }
}

/// Each value once, ascending.
fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use super::super::sample::{exchange, total};
    use super::*;

    #[test]
    fn the_model_and_what_was_measured() {
        let mut fence = exchange("fence", 2, 1024, 3e-6);
        fence.init_s = 50e-6;
        let rows = vec![
            exchange("standard", 2, 1024, 5e-6),
            fence,
            exchange("fence-once", 2, 1024, 53e-6),
            exchange("lock", 2, 1024, 6e-6),
        ];
        let mut totals = Vec::new();
        for (exchanges, standard, fence, once) in [
            (1, 5.0, 53.0, 53.0),
            (10, 50.0, 80.0, 530.0),
            (100, 500.0, 350.0, 5300.0),
        ] {
            for (variant, total_us) in [
                ("standard", standard),
                ("fence", fence),
                ("fence-once", once),
            ] {
                totals.push(total(variant, 2, 1024, exchanges, total_us * 1e-6));
            }
        }
        let summary = Summary::new(&[], rows, totals);
        let told: Vec<_> = summary
            .break_even
            .iter()
            .map(|one| {
                let predicted = one.predicted.map(|n| n.round());
                (
                    one.variant.as_str(),
                    one.against.as_str(),
                    predicted,
                    one.measured,
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("fence", "standard", Some(25.0), Some(100)),
                ("fence", "fence-once", Some(1.0), Some(1)),
                ("lock", "standard", None, None),
            ]
        );
        assert_eq!(summary.break_even[0].largest, 100);
    }

    #[test]
    fn the_last_time_counts() {
        let mut failed = exchange("lock", 2, 64, 1e-6);
        failed.validated = false;
        let cell = failed.cell();
        let rows = vec![
            Timing::crashed(&cell, false, "hung"),
            exchange("fence", 2, 64, 2e-6),
            failed,
            exchange("fence", 2, 64, 1e-6),
        ];
        let totals = vec![total("fence", 2, 64, 1, 2.0), total("fence", 2, 64, 1, 1.0)];
        let summary = Summary::new(&[], rows, totals);
        let times: Vec<f64> = summary.rows.iter().map(|row| row.median_s).collect();
        assert_eq!(times, [1e-6]);
        assert_eq!(
            summary.failures.len(),
            1,
            "what hung was measured afterwards"
        );
        assert_eq!(summary.totals.len(), 1);
        assert_eq!(summary.totals[0].total_s, 1.0);
    }
}
