//! How much to read between two iterations of an application, so that its iterations get only so much longer.
//!
//! With providers that copy through the exposed rank's processor, reads take their time from the application: from both
//! sides' iterations where no rank is only a target. The whole of it is the same however it is spread; a pace spreads
//! it over as many iterations as it takes (decision record 18).

use std::time::{Duration, Instant};

/// How much longer an iteration may get, at the mean.
const SHARE: f64 = 0.3;
/// Bytes that are read first, to see what they cost.
const FIRST: usize = 1 << 20;
/// Fewer at a time are not worth a look at the clock.
const LEAST: usize = 64 << 10;

/// Finds the number of bytes that makes an iteration longer by [`SHARE`]: it measures one iteration without reads, and then
/// what reads have cost.
#[derive(Debug)]
pub(super) struct Pace {
    looked: Option<Instant>,
    /// The shortest iteration.
    alone: Option<Duration>,
    /// What iterations took beyond `alone` since reads were started.
    cost: Duration,
    /// How many these were.
    iterations: u32,
    bytes: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            looked: None,
            alone: None,
            cost: Duration::ZERO,
            iterations: 0,
            bytes: FIRST,
        }
    }
}

impl Pace {
    /// At the end of an iteration: how many bytes to read next; none while the last ones are not `complete`.
    pub(super) fn next(&mut self, now: Instant, complete: bool) -> usize {
        let Some(looked) = self.looked.replace(now) else {
            return 0;
        };
        let iteration = now.duration_since(looked);
        let Some(alone) = self.alone else {
            self.alone = Some(iteration);
            return self.bytes;
        };
        self.cost += iteration.saturating_sub(alone);
        self.iterations += 1;
        self.alone = Some(alone.min(iteration));
        if !complete {
            return 0;
        }
        let may_cost = SHARE * alone.as_secs_f64() * f64::from(self.iterations);
        let factor = may_cost / self.cost.as_secs_f64();
        (self.cost, self.iterations) = (Duration::ZERO, 0);
        // No cost at all gives infinity: twice as much then.
        self.bytes = scaled(self.bytes, factor.clamp(0.25, 2.0)).max(LEAST);
        self.bytes
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]
fn scaled(bytes: usize, factor: f64) -> usize {
    (bytes as f64 * factor) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Iterations of 20 ms, in which each MiB takes so many microseconds more, and of which reads go on over some.
    fn mean_increase(micros_per_mib: u32, over: u32) -> f64 {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        assert_eq!(pace.next(now, true), 0, "it has seen no iteration yet");
        now += 20 * MS;
        let mut bytes = pace.next(now, true);
        assert_eq!(bytes, FIRST);
        let (mut total, mut iterations) = (Duration::ZERO, 0);
        for _ in 0..100 {
            let mib = bytes as f64 / f64::from(1 << 20);
            let cost = Duration::from_micros(u64::from(micros_per_mib)).mul_f64(mib);
            for part in 1..=over {
                now += 20 * MS + cost / over;
                let next = pace.next(now, part == over);
                assert_eq!(next == 0, part < over);
                bytes = next;
            }
            total += cost;
            iterations += over;
        }
        total.as_secs_f64() / (f64::from(iterations) * 0.02)
    }

    #[test]
    fn iterations_get_longer_by_the_share() {
        for micros_per_mib in [100, 1400, 10_000] {
            for over in [1, 3] {
                let increase = mean_increase(micros_per_mib, over);
                let told = format!("{micros_per_mib}, {over}: {increase}");
                assert!((0.2..0.35).contains(&increase), "{told}");
            }
        }
    }

    #[test]
    fn a_pace_never_stands_still() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        pace.next(now, true);
        now += MS;
        pace.next(now, true);
        for _ in 0..50 {
            now += 1000 * MS;
            assert!(pace.next(now, true) >= LEAST);
        }
        for _ in 0..50 {
            // Nothing costs anything.
            now += MS;
            assert!(pace.next(now, true) >= LEAST);
        }
        assert!(pace.bytes > 1 << 40);
    }
}
