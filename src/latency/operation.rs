//! Names of what is recorded.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// An operation whose latency is recorded: a name, as a number that is the same in the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation(u32);

#[derive(Debug, Default)]
struct Names {
    numbers: HashMap<&'static str, u32>,
    names: Vec<&'static str>,
}

fn names() -> &'static Mutex<Names> {
    static NAMES: OnceLock<Mutex<Names>> = OnceLock::new();
    NAMES.get_or_init(Mutex::default)
}

impl Operation {
    /// The operation of that name. A name stays in memory until the process ends.
    ///
    /// # Panics
    ///
    /// After 2³² names.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let mut names = names().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = names.numbers.get(name) {
            return Self(number);
        }
        let number = u32::try_from(names.names.len())
            .ok()
            .filter(|&number| number != UNKNOWN)
            .expect("fewer than 2³² names");
        let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
        names.names.push(name);
        names.numbers.insert(name, number);
        Self(number)
    }

    /// Its name.
    ///
    /// # Panics
    ///
    /// Never: operations come from names.
    #[must_use]
    pub fn name(self) -> &'static str {
        let names = names().lock().unwrap_or_else(PoisonError::into_inner);
        names.names[self.index()]
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("an index of a name"))
    }
}

impl From<&str> for Operation {
    fn from(name: &str) -> Self {
        Self::named(name)
    }
}

/// A number that no operation has.
const UNKNOWN: u32 = u32::MAX;

/// A place in the code that records an operation on threads that record ([`super::start`]): a static, which
/// looks its name up once.
#[derive(Debug)]
pub struct Probe {
    name: &'static str,
    number: AtomicU32,
}

impl Probe {
    /// A probe for the operation of that name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            number: AtomicU32::new(UNKNOWN),
        }
    }

    /// The beginning of an operation; `None` where this thread does not record.
    #[inline(always)]
    #[must_use]
    pub fn begin(&self) -> Option<Instant> {
        super::is_recording().then(Instant::now)
    }

    /// The end of an operation.
    #[inline(always)]
    pub fn end(&self, begun: Option<Instant>) {
        if let Some(begun) = begun {
            self.record(begun, None);
        }
    }

    /// The end of an operation on a message of so many bytes.
    #[inline(always)]
    pub fn end_sized(&self, begun: Option<Instant>, bytes: usize) {
        if let Some(begun) = begun {
            self.record(begun, Some(bytes));
        }
    }

    #[inline(never)]
    fn record(&self, begun: Instant, bytes: Option<usize>) {
        let latency = begun.elapsed();
        let operation = self.operation();
        super::with_recorder(|recorder| match bytes {
            None => recorder.record(operation, latency),
            Some(bytes) => recorder.record_sized(operation, bytes, latency),
        });
    }

    fn operation(&self) -> Operation {
        let number = self.number.load(Ordering::Relaxed);
        if number != UNKNOWN {
            return Operation(number);
        }
        let operation = Operation::named(self.name);
        self.number.store(operation.0, Ordering::Relaxed);
        operation
    }
}

/// Message sizes that share a histogram: those up to a power of two and above the one before; nothing is a
/// class of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(u8);

impl SizeClass {
    /// The class of a message of so many bytes. From 2⁶³ bytes on there is one class.
    #[must_use]
    pub fn of(bytes: usize) -> Self {
        if bytes == 0 {
            return Self(0);
        }
        let power = usize::BITS - (bytes - 1).leading_zeros();
        Self(u8::try_from(power.min(63)).expect("at most 63") + 1)
    }

    /// The largest size of the class, in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self.0 {
            0 => 0,
            class => 1 << (class - 1),
        }
    }

    pub(super) fn index(self) -> usize {
        self.0.into()
    }

    pub(super) fn from_index(index: usize) -> Option<Self> {
        u8::try_from(index)
            .ok()
            .filter(|&class| class <= 64)
            .map(Self)
    }
}

impl fmt::Display for SizeClass {
    /// Such as `64KiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let bytes = self.bytes();
        let unit = if bytes == 0 { 0 } else { bytes.ilog2() / 10 };
        write!(f, "{}{}", bytes >> (10 * unit), UNITS[unit as usize])
    }
}
