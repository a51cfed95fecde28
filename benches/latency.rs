//! What recording latencies costs: a probe around nothing, while its thread records and while it does not, and
//! a recorder that is used directly. The limit is 25 ns a record beyond the two reads of the clock.
//!
//! `cargo bench --bench latency`

use std::hint::black_box;
use std::time::{Duration, Instant};

use malleus::latency::{self, Probe, Recorder};

/// Calls per sample, and samples per variant.
const CALLS: u32 = 20_000;
const SAMPLES: usize = 60;
/// Nanoseconds.
const LIMIT: f64 = 25.0;

static PROBE: Probe = Probe::new("bench.probe");
static SIZED: Probe = Probe::new("bench.sized");

/// A name, whether the thread records meanwhile, and one sample.
type Variant = (&'static str, bool, Box<dyn FnMut() -> f64>);

/// What is measured: a call that does next to nothing.
#[inline(never)]
fn work(x: u64) -> u64 {
    black_box(x).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Time per call in ns.
fn sample(mut call: impl FnMut(u64)) -> f64 {
    let begun = Instant::now();
    for x in 0..u64::from(CALLS) {
        call(x);
    }
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

fn probed(x: u64) {
    let begun = PROBE.begin();
    black_box(work(x));
    PROBE.end(begun);
}

fn probed_by_size(x: u64) {
    let begun = SIZED.begin();
    black_box(work(x));
    // Sixteen size classes.
    SIZED.end_sized(begun, 1 << (x % 16));
}

fn main() {
    let mut recorder = Recorder::new();
    let operation = latency::Operation::named("bench.direct");
    let mut variants: Vec<Variant> = vec![
        (
            "nothing",
            false,
            Box::new(|| {
                sample(|x| {
                    black_box(work(x));
                })
            }),
        ),
        (
            "two reads of the clock",
            false,
            Box::new(|| {
                sample(|x| {
                    let begun = Instant::now();
                    black_box(work(x));
                    black_box(begun.elapsed());
                })
            }),
        ),
        ("probe, off", false, Box::new(|| sample(probed))),
        ("probe, on", true, Box::new(|| sample(probed))),
        (
            "probe with size, on",
            true,
            Box::new(|| sample(probed_by_size)),
        ),
        (
            "recorder, given a latency",
            false,
            Box::new(move || {
                sample(|x| {
                    recorder.record(operation, Duration::from_nanos(1000 + (work(x) >> 50)));
                })
            }),
        ),
    ];
    let mut times = vec![Vec::new(); variants.len()];
    for round in 0..=SAMPLES {
        for ((_, on, run), times) in variants.iter_mut().zip(&mut times) {
            if *on {
                latency::start();
            }
            let time = run();
            if *on {
                assert!(!latency::stop().is_empty(), "nothing was recorded");
            }
            // The first round warms up.
            if round > 0 {
                times.push(time);
            }
        }
    }
    let medians: Vec<f64> = times
        .into_iter()
        .map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect();
    println!("ns per call, median of {SAMPLES} samples of {CALLS} calls, variants in turns");
    for ((name, ..), median) in variants.iter().zip(&medians) {
        println!("{name:<28} {median:>8.2}");
    }
    let verdict = |ok: bool| if ok { "OK" } else { "over" };
    let off = medians[2] - medians[0];
    println!("\noff adds {off:.2} ns to a call: {}", verdict(off < 1.0));
    for (name, median) in [("on", medians[3]), ("on, by size", medians[4])] {
        let record = median - medians[1];
        println!(
            "{name} adds {record:.2} ns beyond the clock, limit {LIMIT}: {}",
            verdict(record < LIMIT)
        );
    }
}
