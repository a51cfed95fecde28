//! What the product with HPCG's matrix costs beside reading the matrix once: `cargo bench --bench spmv`.
//!
//! Nothing that uses every nonzero can be faster than reading the three arrays, so the ratio says how far the product is
//! from the memory's limit. One thread, no MPI. All grids take turns, and so do the two kernels of a grid, in an order that
//! changes from round to round; both run once untimed before. The ratio is taken in each round, then its median.
//!
//! The second table is the exact dot product, which the solver uses, beside a plain one.
//!
//! `--quick` makes fewer rounds: `cargo bench --bench spmv -- --quick`.

use std::hint::black_box;
use std::time::Instant;

use malleus::workload::exact_sum::ExactSum;
use malleus::workload::matrix::{Csr, Stencil, spmv};

/// Rows and nonzeros of one sample, at least: small grids are repeated until they have them.
const WORK: usize = 4_000_000;

fn main() {
    let has = |name: &str| std::env::args().any(|argument| argument == name);
    // Without `--bench` this is a test run: one tiny round to see that it works.
    let (rounds, grids): (usize, &[u64]) = match (has("--bench"), has("--quick")) {
        (false, _) => (1, &[16]),
        (true, true) => (7, &[16, 32, 48, 64, 80, 104]),
        (true, false) => (51, &[16, 32, 48, 64, 80, 104]),
    };
    let mut products: Vec<Product> = grids.iter().map(|&points| Product::new(points)).collect();
    let mut dots: Vec<Dot> = grids.iter().map(|&points| Dot::new(points)).collect();
    for round in 0..rounds {
        for product in &mut products {
            product.measure(round);
        }
        for dot in &mut dots {
            dot.measure(round);
        }
    }
    println!(
        "{}, {} core(s), one thread, no MPI, {rounds} round(s); median and middle half",
        processor(),
        std::thread::available_parallelism().map_or(1, usize::from)
    );
    println!();
    println!(
        "| y = A·x |  nonzeros |    MB |           read once, ms |                spmv, ms |        spmv / read | GB/s read | GB/s spmv |"
    );
    println!(
        "|---------|----------:|------:|------------------------:|------------------------:|-------------------:|----------:|----------:|"
    );
    for product in &products {
        let (bytes, times) = (product.bytes(), &product.times);
        println!(
            "| {:7} | {:9} | {:5.1} | {} | {} | {} | {:9.1} | {:9.1} |",
            product.name,
            product.matrix.nonzeros(),
            bytes / 1e6,
            times.first.in_milliseconds(),
            times.second.in_milliseconds(),
            times.ratio.plain(),
            bytes / times.first.quarter(2) / 1e9,
            bytes / times.second.quarter(2) / 1e9,
        );
    }
    println!();
    println!(
        "| dot     |  elements |           plain dot, ms |           exact dot, ms |      exact / plain | exact ns per element |"
    );
    println!(
        "|---------|----------:|------------------------:|------------------------:|-------------------:|---------------------:|"
    );
    for dot in &dots {
        let times = &dot.times;
        println!(
            "| {:7} | {:9} | {} | {} | {} | {:20.2} |",
            dot.name,
            dot.a.len(),
            times.first.in_milliseconds(),
            times.second.in_milliseconds(),
            times.ratio.plain(),
            times.second.quarter(2) * 1e9 / dot.a.len() as f64,
        );
    }
}

/// A matrix, and the times of its product.
struct Product {
    name: String,
    matrix: Csr,
    x: Vec<f64>,
    y: Vec<f64>,
    times: Pair,
}

impl Product {
    fn new(points: u64) -> Self {
        let matrix = stencil(points).csr();
        Self {
            name: format!("{points}³"),
            x: vector(matrix.cols, 1),
            y: vec![0.0; matrix.rows],
            times: Pair::new(matrix.rows + matrix.nonzeros()),
            matrix,
        }
    }

    fn measure(&mut self, round: usize) {
        let Self {
            matrix,
            x,
            y,
            times,
            ..
        } = self;
        let (end, row_starts) = matrix.row_starts.split_last().expect("rows + 1 offsets");
        times.measure(
            round,
            || {
                black_box(read_once(
                    black_box(row_starts),
                    black_box(&matrix.columns),
                    black_box(&matrix.values),
                ));
            },
            || {
                let (columns, values) = (black_box(&matrix.columns), black_box(&matrix.values));
                spmv(
                    black_box(row_starts),
                    *end,
                    columns,
                    values,
                    0,
                    black_box(x),
                    y,
                );
                black_box(&*y);
            },
        );
    }

    /// What is read of the matrix. The product reads x and writes y as well.
    fn bytes(&self) -> f64 {
        let Csr {
            row_starts,
            columns,
            values,
            ..
        } = &self.matrix;
        (size_of_val(&row_starts[1..]) + size_of_val(&columns[..]) + size_of_val(&values[..]))
            as f64
    }
}

/// Sums that the compiler makes vector instructions of.
fn read_once(row_starts: &[u64], columns: &[u32], values: &[f64]) -> (u64, u32, f64) {
    let starts = row_starts
        .iter()
        .fold(0_u64, |sum, &start| sum.wrapping_add(start));
    let indices = columns
        .iter()
        .fold(0_u32, |sum, &column| sum.wrapping_add(column));
    // Additions of f64 may not be reordered: the lanes are written out.
    let mut lanes = [0.0; 16];
    let (chunks, rest) = values.as_chunks::<16>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    (starts, indices, lanes.iter().chain(rest).sum())
}

/// Two vectors with an element for each point of a grid, and the times of their product.
struct Dot {
    name: String,
    a: Vec<f64>,
    b: Vec<f64>,
    sum: ExactSum,
    times: Pair,
}

impl Dot {
    fn new(points: u64) -> Self {
        let len = stencil(points).rows();
        Self {
            name: format!("{points}³"),
            a: vector(len, 2),
            b: vector(len, 3),
            sum: ExactSum::new(),
            times: Pair::new(len),
        }
    }

    fn measure(&mut self, round: usize) {
        let Self {
            a, b, sum, times, ..
        } = self;
        times.measure(
            round,
            || {
                let (a, b) = (black_box(&*a), black_box(&*b));
                black_box(a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>());
            },
            || {
                sum.clear();
                sum.add_products(black_box(&*a), black_box(&*b));
                black_box(sum.value());
            },
        );
    }
}

/// Times of two kernels on the same data.
struct Pair {
    repeats: usize,
    first: Samples,
    second: Samples,
    ratio: Samples,
}

impl Pair {
    fn new(work: usize) -> Self {
        Self {
            repeats: WORK.div_ceil(work),
            first: Samples::default(),
            second: Samples::default(),
            ratio: Samples::default(),
        }
    }

    fn measure(&mut self, round: usize, mut first: impl FnMut(), mut second: impl FnMut()) {
        // The data of the other grids has filled the caches.
        first();
        second();
        let repeats = self.repeats;
        let (first, second) = if round.is_multiple_of(2) {
            let first = time(repeats, &mut first);
            (first, time(repeats, &mut second))
        } else {
            let second = time(repeats, &mut second);
            (time(repeats, &mut first), second)
        };
        self.first.add(first);
        self.second.add(second);
        self.ratio.add(second / first);
    }
}

/// Seconds of one call.
fn time(repeats: usize, kernel: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..repeats {
        kernel();
    }
    start.elapsed().as_secs_f64() / repeats as f64
}

/// In ascending order.
#[derive(Default)]
struct Samples(Vec<f64>);

impl Samples {
    fn add(&mut self, sample: f64) {
        let at = self.0.partition_point(|&other| other < sample);
        self.0.insert(at, sample);
    }

    fn quarter(&self, quarter: usize) -> f64 {
        self.0[(self.0.len() - 1) * quarter / 4]
    }

    fn in_milliseconds(&self) -> String {
        let [low, median, high] = [1, 2, 3].map(|quarter| self.quarter(quarter) * 1e3);
        format!("{median:7.3} ({low:6.3}…{high:6.3})")
    }

    fn plain(&self) -> String {
        let [low, median, high] = [1, 2, 3].map(|quarter| self.quarter(quarter));
        format!("{median:5.2} ({low:4.2}…{high:4.2})")
    }
}

fn stencil(points: u64) -> Stencil {
    Stencil::hpcg(points, points, points).expect("a grid that a matrix can have")
}

/// Numbers from −1 to 1, the same in every run (splitmix64).
fn vector(len: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..len)
        .map(|_| (next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0)
        .collect()
}

/// What Linux calls the processor.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split(':').nth(1));
    name.map_or_else(
        || "a processor without a name".to_owned(),
        |name| name.trim().to_owned(),
    )
}
