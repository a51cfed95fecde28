//! Times of one operation over the iterations, and what is told of them.

use std::time::Duration;

use crate::latency::Recorder;
use crate::mpi::{Communicator, Operation, Result};

/// Times in ns on this rank; the warm-up is among them at first.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples(Vec<u64>);

impl Samples {
    pub(super) fn push(&mut self, time: Duration) {
        self.0
            .push(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The longest time of any rank for each iteration, without the warm-up. Collective.
    pub(super) fn reduce(mut self, communicator: &Communicator, warm_up: usize) -> Result<Summary> {
        communicator.all_reduce(&mut self.0, Operation::Maximum)?;
        Ok(Summary::new(&self.0, warm_up))
    }

    /// The mean time of this rank, without the warm-up.
    pub(super) fn mean_s(&self, warm_up: usize) -> f64 {
        let times = self.0.get(warm_up..).unwrap_or_default();
        times.iter().map(|&time| seconds(time)).sum::<f64>() / times.len() as f64
    }

    /// The times of this rank, without the warm-up.
    pub(super) fn local(&self, warm_up: usize) -> Summary {
        Summary::new(&self.0, warm_up)
    }
}

/// What is told of measured times.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    /// The very first time, before the warm-up.
    pub(super) first_s: f64,
    sorted_ns: Vec<u64>,
}

impl Summary {
    fn new(times: &[u64], warm_up: usize) -> Self {
        let mut sorted_ns = times.get(warm_up..).unwrap_or_default().to_vec();
        sorted_ns.sort_unstable();
        Self {
            first_s: times.first().map_or(f64::NAN, |&time| seconds(time)),
            sorted_ns,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.sorted_ns.len()
    }

    /// The time that so many percent do not exceed.
    pub(super) fn percentile_s(&self, percent: f64) -> f64 {
        nearest_rank(&self.sorted_ns, percent).map_or(f64::NAN, |&time| seconds(time))
    }

    pub(super) fn max_s(&self) -> f64 {
        self.percentile_s(100.0)
    }

    /// Adds the measured times to a recorder.
    pub(super) fn record(&self, recorder: &mut Recorder, name: &str, bytes: usize) {
        for &time in &self.sorted_ns {
            recorder.record_sized(name, bytes, Duration::from_nanos(time));
        }
    }
}

/// The value that so many percent of the sorted ones do not exceed: one of them, by nearest rank; `None` where there
/// is none.
pub(super) fn nearest_rank<T>(sorted: &[T], percent: f64) -> Option<&T> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    let place = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).or(sorted.last())
}

#[allow(clippy::cast_precision_loss)]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_times() {
        let mut samples = Samples::default();
        for time in [900, 40, 10, 30, 20] {
            samples.push(Duration::from_nanos(time));
        }
        let summary = samples.local(1);
        assert_eq!(summary.count(), 4);
        let ns = |seconds: f64| (seconds * 1e9).round();
        assert_eq!(ns(summary.first_s), 900.0);
        let found = [0.0, 25.0, 50.0, 51.0, 99.0, 100.0].map(|p| ns(summary.percentile_s(p)));
        assert_eq!(found, [10.0, 10.0, 20.0, 30.0, 40.0, 40.0]);
        assert_eq!(ns(summary.max_s()), 40.0);
        assert_eq!(ns(samples.mean_s(1)), 25.0);
        assert_eq!(nearest_rank(&[] as &[u8], 50.0), None);
        let mut recorder = Recorder::new();
        summary.record(&mut recorder, "test.samples", 64);
        assert_eq!(
            recorder.get("test.samples", Some(64)).map(|h| h.len()),
            Some(4)
        );
    }
}
