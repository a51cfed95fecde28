//! Rows for tests.

use super::super::csv_file::Line as _;
use super::row::{Timing, Total};

pub(super) fn exchange(variant: &str, ranks: usize, bytes: usize, median_s: f64) -> Timing {
    Timing {
        variant: variant.to_owned(),
        pattern: "uniform".to_owned(),
        buffers: "own".to_owned(),
        bytes_per_peer: bytes,
        ranks,
        nodes: 1,
        iterations: 10,
        median_s,
        q1_s: median_s * 0.9,
        q3_s: median_s * 1.1,
        min_s: median_s * 0.8,
        p99_s: median_s * 2.0,
        validated: true,
        oversubscribed: ranks > 2,
        ..Timing::empty()
    }
}

pub(super) fn total(
    variant: &str,
    ranks: usize,
    bytes: usize,
    exchanges: usize,
    total_s: f64,
) -> Total {
    Total {
        variant: variant.to_owned(),
        pattern: "uniform".to_owned(),
        buffers: "own".to_owned(),
        bytes_per_peer: bytes,
        ranks,
        exchanges,
        total_s,
        samples: 3,
    }
}
