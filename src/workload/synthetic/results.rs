//! What an application measured.

use serde::Serialize;

use super::config::Capture;
use crate::mpi::{Communicator, Operation, Result};

/// The median; `None` of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    Some(if sorted.len().is_multiple_of(2) {
        (sorted[sorted.len() / 2 - 1] + upper) / 2.0
    } else {
        upper
    })
}

/// A group's iterations. Times are in seconds, those of the ranks made one as the configuration says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupResult {
    /// The group, counted from 0.
    pub group: usize,
    /// Its processes.
    pub processes: usize,
    /// Its iterations.
    pub iterations: u64,
    /// How many of them it ran while the resize to the next group was under way.
    pub overlapped: u64,
    /// The median time of the others.
    pub iteration_median_s: Option<f64>,
    /// The phases that it ran.
    pub phases: Vec<PhaseResult>,
}

/// A group's iterations of a phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseResult {
    /// The phase, counted from 0.
    pub phase: usize,
    /// How many of the iterations ran while a resize was under way: the last ones.
    pub overlapped: u64,
    /// The times of the iterations.
    pub iterations_s: Vec<f64>,
    /// The stages.
    pub stages: Vec<StageResult>,
}

/// A stage in a group's iterations of a phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageResult {
    /// The stage, counted from 0.
    pub stage: usize,
    /// What it does.
    pub kind: &'static str,
    /// The time that one operation took before the group began, where the stage is given as a time.
    pub operation_s: Option<f64>,
    /// How often the operation runs in an iteration; `None` where it runs until a time has passed.
    pub repetitions: Option<u64>,
    /// How long the stage shall last in this group; where it starts exchanges, together with its wait.
    pub asked_s: Option<f64>,
    /// How long it lasted: the median over the iterations without a resize under way.
    pub median_s: Option<f64>,
    /// That, over what was asked for; `None` where the stage's time ends in another one.
    pub ratio: Option<f64>,
    /// The times.
    pub times_s: Vec<f64>,
}

/// What one rank measures in a group: for each iteration its phase, then its time and those of its stages.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    phases: Vec<usize>,
    times: Vec<f64>,
}

impl Recorder {
    pub(super) fn record(&mut self, phase: usize, iteration_s: f64, stages_s: &[f64]) {
        self.phases.push(phase);
        self.times.push(iteration_s);
        self.times.extend_from_slice(stages_s);
    }

    /// The ranks' times as one, on rank 0. Collective: every rank has recorded the same iterations.
    pub(super) fn captured(
        &self,
        communicator: &Communicator,
        capture: Capture,
    ) -> Result<Option<Vec<f64>>> {
        let is_root = communicator.rank() == 0;
        let size = communicator.size();
        let len = self.times.len();
        let mut received = match (is_root, capture) {
            (false, _) => Vec::new(),
            (true, Capture::Maximum | Capture::Mean) => vec![0.0; len],
            (true, Capture::Median) => vec![0.0; len * size],
        };
        match capture {
            Capture::Maximum => {
                communicator.reduce(&self.times, &mut received, Operation::Maximum, 0)?;
            }
            Capture::Mean => {
                communicator.reduce(&self.times, &mut received, Operation::Sum, 0)?;
                received.iter_mut().for_each(|time| *time /= size as f64);
            }
            Capture::Median => {
                communicator.gather(&self.times, &mut received, 0)?;
                received = medians(&received, len);
            }
        }
        Ok(is_root.then_some(received))
    }

    /// The phases in order, with the indices of their iterations' times: (phase, overlapped, starts).
    pub(super) fn by_phase(
        &self,
        overlapped: u64,
        stages: impl Fn(usize) -> usize,
    ) -> Vec<(usize, u64, Vec<usize>)> {
        let mut found: Vec<(usize, u64, Vec<usize>)> = Vec::new();
        let mut start = 0;
        let alone = (self.phases.len() as u64).saturating_sub(overlapped);
        for (iteration, &phase) in (0_u64..).zip(&self.phases) {
            if found.last().is_none_or(|(last, ..)| *last != phase) {
                found.push((phase, 0, Vec::new()));
            }
            if let Some((_, overlapped, starts)) = found.last_mut() {
                *overlapped += u64::from(iteration >= alone);
                starts.push(start);
            }
            start += 1 + stages(phase);
        }
        found
    }

    pub(super) fn iterations(&self) -> u64 {
        self.phases.len() as u64
    }
}

/// The medians over the ranks, each of which has given so many times.
fn medians(all: &[f64], len: usize) -> Vec<f64> {
    (0..len)
        .map(|index| {
            let ranks: Vec<f64> = all.iter().skip(index).step_by(len).copied().collect();
            median(&ranks).unwrap_or_default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_those_of_columns() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(medians(&[1.0, 9.0, 2.0, 8.0, 5.0, 7.0], 2), [2.0, 8.0]);
        assert_eq!(medians(&[], 0), [0.0; 0]);
    }

    #[test]
    fn iterations_are_told_by_phase() {
        let mut recorder = Recorder::default();
        recorder.record(1, 1.0, &[0.5]);
        recorder.record(1, 1.0, &[0.5]);
        recorder.record(2, 1.0, &[0.2, 0.3]);
        let stages = |phase| phase;
        assert_eq!(
            recorder.by_phase(2, stages),
            [(1, 1, vec![0, 2]), (2, 1, vec![4])]
        );
    }
}
