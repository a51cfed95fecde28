//! What is measured, and in which order; no processes here.

use std::ops::Range;

use super::super::bench::redistribute::{Management, Progress};
use crate::redistribute::Variant;

/// After so many failures in a batch, a variant is given up there.
pub(super) const CRASHES: usize = 3;

/// From so many ranks to so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Every pair of different numbers, or those from the larger one to the smaller.
pub(super) fn cells(grid: &[usize], shrink_only: bool) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for &from in grid {
        for &to in grid {
            let cell = Cell { from, to };
            if from != to && (from > to || !shrink_only) && !cells.contains(&cell) {
                cells.push(cell);
            }
        }
    }
    cells
}

/// The samples of a cell that differ in variant and repetition only.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) cell: Cell,
    pub(super) variants: Vec<Variant>,
    pub(super) progress: Progress,
    pub(super) management: Management,
    pub(super) reps: usize,
}

/// Samples that one job makes: all variants in each repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) variants: Vec<Variant>,
    pub(super) reps: Range<usize>,
}

impl Batch {
    pub(super) fn samples(&self) -> usize {
        self.variants.len() * self.reps
    }

    /// What rows call a variant.
    pub(super) fn name(&self, variant: Variant) -> String {
        self.management.name_of(variant)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = (String, usize)> {
        let reps = 0..self.reps;
        reps.flat_map(move |rep| self.variants.iter().map(move |&of| (self.name(of), rep)))
    }

    /// The first repetition that lacks variants, and those after it that lack the same ones.
    pub(super) fn next_job(&self, is_done: impl Fn(&str, usize) -> bool) -> Option<Job> {
        let missing = |rep: usize| -> Vec<Variant> {
            let variants = self.variants.iter().copied();
            variants
                .filter(|&of| !is_done(&self.name(of), rep))
                .collect()
        };
        let first = (0..self.reps).find(|&rep| !missing(rep).is_empty())?;
        let variants = missing(first);
        let last = (first..self.reps).find(|&rep| missing(rep) != variants);
        Some(Job {
            reps: first..last.unwrap_or(self.reps),
            variants,
        })
    }
}

impl Job {
    /// In the order in which the job makes them, which begins with another variant each time.
    pub(super) fn samples(&self) -> impl Iterator<Item = (Variant, usize)> {
        let count = self.variants.len();
        self.reps.clone().flat_map(move |rep| {
            let round = rep - self.reps.start;
            (0..count).map(move |place| (self.variants[(place + round) % count], rep))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(reps: usize) -> Batch {
        Batch {
            cell: Cell { from: 1, to: 2 },
            variants: ["col", "rma2-wt"]
                .map(|name| name.parse().unwrap())
                .to_vec(),
            progress: Progress::Thread,
            management: Management::Merge,
            reps,
        }
    }

    #[test]
    fn every_pair_of_different_numbers_is_a_cell() {
        assert_eq!(cells(&[1, 2, 4, 8], false).len(), 12);
        assert_eq!(
            cells(&[2, 2, 1], false),
            [Cell { from: 2, to: 1 }, Cell { from: 1, to: 2 }]
        );
        assert_eq!(cells(&[3], false), []);
        assert_eq!(cells(&[1, 2], true), [Cell { from: 2, to: 1 }]);
    }

    #[test]
    fn a_job_makes_what_is_missing() {
        let batch = batch(4);
        let all = batch.next_job(|_, _| false).unwrap();
        assert_eq!((all.variants.len(), all.reps.clone()), (2, 0..4));
        let order: Vec<_> = all
            .samples()
            .map(|(of, rep)| (of.to_string(), rep))
            .collect();
        let expected = [("col", 0), ("rma2-wt", 0), ("rma2-wt", 1), ("col", 1)];
        for ((name, rep), (expected, of)) in order.iter().zip(expected) {
            assert_eq!((name.as_str(), *rep), (expected, of));
        }
        // One variant of repetition 1 was done before the interruption.
        let done = |name: &str, rep: usize| rep == 0 || rep == 1 && name == "col";
        let rest = batch.next_job(done).unwrap();
        assert_eq!(
            (rest.variants[0].to_string().as_str(), rest.reps),
            ("rma2-wt", 1..2)
        );
        let done = |_: &str, rep: usize| rep < 2;
        assert_eq!(batch.next_job(done).unwrap().reps, 2..4);
        assert_eq!(batch.next_job(|_, _| true), None);
        assert_eq!(batch.keys().count(), batch.samples());
    }
}
