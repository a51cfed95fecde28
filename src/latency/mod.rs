//! How long operations take: histograms of latencies, with little cost where they are recorded.
//!
//! A [`Recorder`] holds one [HdrHistogram](http://hdrhistogram.org) per operation and, where it matters, per
//! message size class: nanoseconds with three significant digits, from 1 ns to 1 h, with counts that grow
//! on demand. Recorders merge, travel as bytes, and are written as a percentile table, as `.hgrm` texts and
//! as an interval log, which the standard tools read.
//!
//! ```
//! use malleus::latency::Recorder;
//! use std::time::Duration;
//!
//! let mut recorder = Recorder::new();
//! let sum: u64 = recorder.time("sum", || (0..1000).sum());
//! recorder.record_corrected("tick", Duration::from_millis(30), Duration::from_millis(10));
//! assert_eq!(recorder.get("sum", None).map(|histogram| histogram.len()), Some(1));
//! assert_eq!(recorder.get("tick", None).map(|histogram| histogram.len()), Some(3));
//! # assert_eq!(sum, 499_500);
//! ```
//!
//! # What the library itself records
//!
//! Between [`start`] and [`stop`], the calling thread records every MPI function that the library calls, under
//! its name, by message size class where the call has a buffer, and every stage of a resize
//! (`resize.decide`, `resize.processes`, …). It is off at first, and then it costs the check of one
//! thread-local flag a call. Another thread has a recorder of its own: it starts and stops by itself, and
//! [`absorb`] takes over what it has recorded. `Communicator::merge_latency` merges over ranks.

mod bytes;
mod operation;
mod output;
mod recorder;

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::time::{Duration, Instant};

pub use bytes::Malformed;
pub use hdrhistogram::Histogram;
pub use operation::{Operation, Probe, SizeClass};
pub use recorder::{Recorder, Row, Scope};

thread_local! {
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    static RECORDER: RefCell<Recorder> = const { RefCell::new(Recorder::unborn()) };
}

/// Starts recording on this thread, with an empty recorder.
pub fn start() {
    RECORDER.replace(Recorder::new());
    RECORDING.set(true);
}

/// Ends recording on this thread, and gives what was recorded since [`start`].
#[must_use]
pub fn stop() -> Recorder {
    RECORDING.set(false);
    let mut recorder = RECORDER.take();
    recorder.end();
    recorder
}

/// What was recorded on this thread until now; recording goes on with an empty recorder. Nothing where it does
/// not record.
#[must_use]
pub fn take() -> Recorder {
    let mut recorder = if is_recording() {
        RECORDER.replace(Recorder::new())
    } else {
        Recorder::new()
    };
    recorder.end();
    recorder
}

/// Whether this thread records.
#[inline]
#[must_use]
pub fn is_recording() -> bool {
    RECORDING.get()
}

/// Records a latency on this thread, if it records.
#[inline]
pub fn record(operation: impl Into<Operation>, latency: Duration) {
    if is_recording() {
        with_recorder(|recorder| recorder.record(operation, latency));
    }
}

/// Records the time of `body` on this thread, if it records.
#[inline]
pub fn time<R>(operation: impl Into<Operation>, body: impl FnOnce() -> R) -> R {
    if !is_recording() {
        return body();
    }
    let begun = Instant::now();
    let result = body();
    record(operation, begun.elapsed());
    result
}

/// Records the time until the guard is dropped, on whatever path, if this thread records.
#[inline]
#[must_use = "the time ends where the guard is dropped"]
pub fn scope(operation: impl Into<Operation>) -> ThreadScope {
    ThreadScope {
        begun: is_recording().then(|| (operation.into(), Instant::now())),
        on_its_thread: PhantomData,
    }
}

/// Records the time until it is dropped: [`scope`].
#[derive(Debug)]
pub struct ThreadScope {
    begun: Option<(Operation, Instant)>,
    on_its_thread: PhantomData<*const ()>,
}

impl Drop for ThreadScope {
    fn drop(&mut self) {
        if let Some((operation, begun)) = self.begun {
            record(operation, begun.elapsed());
        }
    }
}

/// Adds what another thread has recorded to this thread's recorder, if it records.
pub fn absorb(other: &Recorder) {
    if is_recording() {
        with_recorder(|recorder| recorder.merge(other));
    }
}

#[inline]
fn with_recorder(record: impl FnOnce(&mut Recorder)) {
    // At the end of a thread there may be no recorder any more, and nobody who could read it.
    let _ = RECORDER.try_with(|recorder| {
        // It is in use only if recording itself were to record.
        if let Ok(mut recorder) = recorder.try_borrow_mut() {
            record(&mut recorder);
        }
    });
}

#[cfg(test)]
mod tests;
