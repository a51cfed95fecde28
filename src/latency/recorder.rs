//! Histograms by operation and size class.

use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::Histogram;

use super::operation::{Operation, SizeClass};

/// The longest latency that is told from longer ones, in ns: an hour.
pub(super) const LONGEST_NS: u64 = 3_600_000_000_000;
/// Significant digits.
const DIGITS: u8 = 3;

/// Latencies of one thread, or of several after [`Recorder::merge`], by operation and size class.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// By operation; then without a size, and by size class.
    histograms: Vec<Vec<Option<Box<Histogram<u64>>>>>,
    pub(super) begun: Option<SystemTime>,
    pub(super) ended: Option<SystemTime>,
}

/// One histogram of a [`Recorder`].
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Name of the operation.
    pub name: &'static str,
    /// The size class of its messages, where that was recorded.
    pub size: Option<SizeClass>,
    /// Its latencies in ns.
    pub histogram: &'a Histogram<u64>,
}

impl Recorder {
    /// An empty recorder, whose time begins now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            histograms: Vec::new(),
            begun: Some(SystemTime::now()),
            ended: None,
        }
    }

    /// An empty recorder whose time has not begun.
    pub(super) const fn unborn() -> Self {
        Self {
            histograms: Vec::new(),
            begun: None,
            ended: None,
        }
    }

    /// Ends the recorder's time, which an interval log tells.
    pub fn end(&mut self) {
        self.ended = Some(SystemTime::now());
    }

    /// Records a latency. Those above an hour count as an hour.
    pub fn record(&mut self, operation: impl Into<Operation>, latency: Duration) {
        add(self.histogram(operation.into(), None), latency);
    }

    /// Records the latency of an operation on a message of so many bytes.
    pub fn record_sized(
        &mut self,
        operation: impl Into<Operation>,
        bytes: usize,
        latency: Duration,
    ) {
        let class = SizeClass::of(bytes);
        add(self.histogram(operation.into(), Some(class)), latency);
    }

    /// Records the latency of an operation that a loop starts once every `period`. While one takes longer,
    /// those that should have started meanwhile don't, and would be missing: they are recorded as well,
    /// with the latencies that they would have had (latency − period, latency − 2 periods, …, down to the
    /// period), so that percentiles tell what a loop that keeps its period sees. No period, no correction.
    pub fn record_corrected(
        &mut self,
        operation: impl Into<Operation>,
        latency: Duration,
        period: Duration,
    ) {
        let histogram = self.histogram(operation.into(), None);
        histogram
            .record_correct(nanoseconds(latency), whole_nanoseconds(period))
            .expect("a histogram grows on demand");
    }

    /// Records the time of `body`, and gives its result.
    pub fn time<R>(&mut self, operation: impl Into<Operation>, body: impl FnOnce() -> R) -> R {
        let operation = operation.into();
        let begun = Instant::now();
        let result = body();
        self.record(operation, begun.elapsed());
        result
    }

    /// Records the time until the guard is dropped, on whatever path.
    pub fn scope(&mut self, operation: impl Into<Operation>) -> Scope<'_> {
        Scope {
            operation: operation.into(),
            recorder: self,
            begun: Instant::now(),
        }
    }

    /// Adds everything that another recorder holds.
    pub fn merge(&mut self, other: &Self) {
        for (operation, class, histogram) in other.all() {
            self.add(operation, class, histogram);
        }
        self.begun = self.begun.into_iter().chain(other.begun).min();
        self.ended = self.ended.max(other.ended);
    }

    /// Adds a histogram of latencies in ns.
    pub(super) fn add(
        &mut self,
        operation: Operation,
        class: Option<SizeClass>,
        histogram: &Histogram<u64>,
    ) {
        self.histogram(operation, class)
            .add(histogram)
            .expect("a histogram grows on demand");
    }

    /// The latencies of an operation in ns, if any were recorded; by the class of a size in bytes where
    /// the operation was recorded with one.
    #[must_use]
    pub fn get(
        &self,
        operation: impl Into<Operation>,
        bytes: Option<usize>,
    ) -> Option<&Histogram<u64>> {
        let class = bytes.map(SizeClass::of);
        self.histograms
            .get(operation.into().index())?
            .get(slot(class))?
            .as_deref()
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// All histograms, by name and size.
    #[must_use]
    pub fn rows(&self) -> Vec<Row<'_>> {
        let mut rows: Vec<_> = self
            .all()
            .map(|(operation, size, histogram)| Row {
                name: operation.name(),
                size,
                histogram,
            })
            .collect();
        rows.sort_by_key(|row| (row.name, row.size));
        rows
    }

    fn all(&self) -> impl Iterator<Item = (Operation, Option<SizeClass>, &Histogram<u64>)> {
        self.histograms.iter().enumerate().flat_map(|(index, by)| {
            by.iter().enumerate().filter_map(move |(slot, histogram)| {
                let class = slot.checked_sub(1).and_then(SizeClass::from_index);
                Some((Operation::from_index(index), class, histogram.as_deref()?))
            })
        })
    }

    fn histogram(&mut self, operation: Operation, class: Option<SizeClass>) -> &mut Histogram<u64> {
        let (index, slot) = (operation.index(), slot(class));
        if self.histograms.len() <= index {
            self.histograms.resize_with(index + 1, Vec::new);
        }
        let by_class = &mut self.histograms[index];
        if by_class.len() <= slot {
            by_class.resize_with(slot + 1, || None);
        }
        by_class[slot].get_or_insert_with(empty)
    }
}

/// Where the histogram of a class lies among those of its operation.
fn slot(class: Option<SizeClass>) -> usize {
    class.map_or(0, |class| class.index() + 1)
}

#[cold]
fn empty() -> Box<Histogram<u64>> {
    Box::new(Histogram::new(DIGITS).expect("three digits are allowed"))
}

fn add(histogram: &mut Histogram<u64>, latency: Duration) {
    histogram
        .record(nanoseconds(latency))
        .expect("a histogram grows on demand");
}

/// A latency that can be recorded.
fn nanoseconds(latency: Duration) -> u64 {
    whole_nanoseconds(latency).clamp(1, LONGEST_NS)
}

fn whole_nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Records the time until it is dropped: [`Recorder::scope`].
#[derive(Debug)]
pub struct Scope<'a> {
    recorder: &'a mut Recorder,
    operation: Operation,
    begun: Instant,
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        self.recorder.record(self.operation, self.begun.elapsed());
    }
}
