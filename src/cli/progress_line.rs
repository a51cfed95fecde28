//! The line that tells a person how far a run is.

use std::fmt;
use std::io::Write as _;
use std::time::{Duration, Instant};

use super::launch;

/// How often it is renewed.
const PERIOD: Duration = Duration::from_millis(100);

/// One line on standard error, where a person watches it; silent elsewhere.
#[derive(Debug)]
pub(super) struct ProgressLine {
    is_watched: bool,
    shown: Option<Instant>,
}

impl ProgressLine {
    /// That of the rank which speaks for all.
    pub(super) fn new(is_root: bool) -> Self {
        Self {
            is_watched: is_root && launch::is_watched(),
            shown: None,
        }
    }

    pub(super) fn show(&mut self, what: fmt::Arguments<'_>) {
        if !self.is_watched || self.shown.is_some_and(|shown| shown.elapsed() < PERIOD) {
            return;
        }
        self.shown = Some(Instant::now());
        eprint!("\r{what}\x1b[K");
        // A progress line that can't be shown is no reason to stop.
        let _ = std::io::stderr().flush();
    }

    pub(super) fn clear(&mut self) {
        if self.shown.take().is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
