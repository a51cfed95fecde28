//! Matrices whose verdicts, sizes, products, norms and halos are known from elsewhere.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::OnceLock;

use malleus::workload::matrix::{Csr, Stencil, market, pattern};
use serde_json::Value;

use crate::{MIB, block_cuts, data, heap};

fn json(path: PathBuf) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("valid JSON")
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("a whole number")).expect("a 64-bit machine")
}

struct Reference {
    name: String,
    expected: Value,
    stored: usize,
    matrix: Csr,
}

/// Every matrix of the folder, with what is known about it; read once for all tests.
fn references() -> &'static [Reference] {
    if data().is_none() {
        return &[];
    }
    static REFERENCES: OnceLock<Vec<Reference>> = OnceLock::new();
    REFERENCES.get_or_init(|| {
        let folder = data().expect("it was there before");
        let all = json(folder.join("reference.json"));
        let read = |(name, expected): (&String, &Value)| {
            let coordinate = market::read_path(folder.join(name)).expect("a valid matrix");
            Reference {
                name: name.clone(),
                expected: expected.clone(),
                stored: coordinate.entries.len(),
                matrix: coordinate.into_csr().expect("a valid matrix"),
            }
        };
        let references: Vec<_> = all
            .as_object()
            .expect("an object")
            .iter()
            .map(read)
            .collect();
        assert_eq!(references.len(), 14);
        references
    })
}

#[test]
fn malformed_files_get_their_verdicts_in_little_memory() {
    let Some(folder) = data().map(|folder| folder.join("malformed")) else {
        return;
    };
    let cases = json(folder.join("expected.json"));
    let cases = cases.as_array().expect("an array");
    assert_eq!(cases.len(), 39);
    let mut accepted = BTreeSet::new();
    for case in cases {
        let name = case["file"].as_str().expect("a name");
        let (result, peak) = heap::peak_of(|| {
            market::read_path(folder.join(name)).and_then(|matrix| matrix.into_csr())
        });
        assert!(peak < 64 * MIB, "{name}: {peak} bytes");
        match result {
            Ok(matrix) => {
                assert_ne!(case["expect"], "reject", "{name}");
                assert_eq!(matrix.rows, number(&case["rows"]), "{name}");
                assert_eq!(matrix.cols, number(&case["cols"]), "{name}");
                assert_eq!(
                    matrix.nonzeros(),
                    number(&case["entries_after_symmetric_expansion"]),
                    "{name}"
                );
                if case["expect"] == "either" {
                    accepted.insert(name);
                }
                if name == "hand__fortran_D_exponent.mtx" {
                    assert_eq!(matrix.values, [150.0, -0.25]);
                }
            }
            Err(error) => {
                assert_ne!(case["expect"], "accept", "{name}: {error}");
                let message = error.to_string();
                assert!(
                    message.contains(name) && message.contains("line "),
                    "{message}"
                );
                assert!(
                    message.contains("allowed: ") || message.contains("supported: "),
                    "{message}"
                );
                assert!(!message.contains('\n'), "{message}");
            }
        }
    }
    // What is free to be either: these are read for what they mean, the others would have to be
    // guessed at.
    assert_eq!(
        accepted,
        BTreeSet::from([
            "hand__fortran_D_exponent.mtx",
            "hand__symmetric_upper_triangle.mtx"
        ])
    );
}

#[test]
fn reference_matrices_have_their_sizes_and_symmetry() {
    for Reference {
        name,
        expected,
        stored,
        matrix,
    } in references()
    {
        assert_eq!(matrix.rows, number(&expected["rows"]), "{name}");
        assert_eq!(matrix.cols, number(&expected["cols"]), "{name}");
        assert_eq!(*stored, number(&expected["stored"]), "{name}");
        assert_eq!(
            matrix.nonzeros(),
            number(&expected["nnz_expanded"]),
            "{name}"
        );
        let zeros = matrix.values.iter().filter(|&&value| value == 0.0).count();
        assert_eq!(zeros, number(&expected["explicit_zeros"]), "{name}");
        // One matrix lists both triangles, and they differ in the last digits.
        let class = expected["class"].as_str().expect("a class");
        let rounded = name == "ani5_crop.mtx.gz";
        let symmetric = class.starts_with("SPD") || class.starts_with("sym");
        assert_eq!(
            matrix.check_symmetric().is_ok(),
            symmetric && !rounded,
            "{name}: {class}"
        );
        let nearly = matrix.check_symmetric_within(1e-13);
        assert_eq!(nearly.is_ok(), symmetric, "{name}: {class}");
        matrix.check_finite().expect(name);
    }
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * b.abs()
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// The reference's vector x is (1, 1/2, 1/3, …).
#[test]
fn reference_matrices_give_their_products() {
    for Reference {
        name,
        expected,
        matrix,
        ..
    } in references()
    {
        let x: Vec<f64> = (1..=matrix.cols)
            .map(|number| 1.0 / number as f64)
            .collect();
        let mut y = vec![f64::NAN; matrix.rows];
        matrix.multiply(&x, &mut y);
        let sum: f64 = y.iter().sum();
        assert!(
            close(sum, expected["sum_y"].as_f64().expect("a number"), 1e-12),
            "{name}: sum {sum}"
        );
        assert!(
            close(
                norm(&y),
                expected["norm2_y"].as_f64().expect("a number"),
                1e-12
            ),
            "{name}: norm {}",
            norm(&y)
        );
    }
}

/// The largest singular value: k steps of Lanczos on AᵀA, then bisection in the tridiagonal matrix.
fn spectral_norm(matrix: &Csr, steps: usize) -> f64 {
    let n = matrix.cols;
    let mut v: Vec<f64> = (0..n)
        .map(|i| 1.0 + ((i * 7919) % 1009) as f64 / 1009.0)
        .collect();
    let length = norm(&v);
    v.iter_mut().for_each(|value| *value /= length);
    let (mut before, mut beta) = (vec![0.0; n], 0.0);
    let (mut diagonal, mut off_squared) = (Vec::new(), Vec::new());
    let mut av = vec![0.0; matrix.rows];
    for _ in 0..steps {
        matrix.multiply(&v, &mut av);
        let mut w = vec![0.0; n];
        for (row, &factor) in av.iter().enumerate() {
            let (columns, values) = matrix.row(row);
            for (&column, &value) in columns.iter().zip(values) {
                w[column as usize] += value * factor;
            }
        }
        let alpha: f64 = v.iter().zip(&w).map(|(a, b)| a * b).sum();
        for i in 0..n {
            w[i] -= alpha * v[i] + beta * before[i];
        }
        diagonal.push(alpha);
        beta = norm(&w);
        off_squared.push(beta * beta);
        if beta <= 1e-14 * alpha {
            break;
        }
        w.iter_mut().for_each(|value| *value /= beta);
        before = std::mem::replace(&mut v, w);
    }
    // All eigenvalues are below s if all pivots of T − s·I are negative.
    let all_below = |s: f64| {
        let mut pivot = -1.0;
        let mut pivots = diagonal.iter().enumerate().map(|(i, &alpha)| {
            pivot = alpha
                - s
                - if i > 0 {
                    off_squared[i - 1] / pivot
                } else {
                    0.0
                };
            pivot
        });
        pivots.all(|pivot| pivot < 0.0)
    };
    // Gershgorin's bound, generously.
    let largest = diagonal
        .iter()
        .copied()
        .chain(off_squared.iter().map(|b| b.sqrt()))
        .fold(0.0, f64::max);
    let (mut low, mut high) = (0.0, 4.0 * largest);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if all_below(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high.sqrt()
}

/// The reference's `norm2_A` is the largest singular value, not the root of the sum of squares.
#[test]
fn reference_matrices_have_their_norms() {
    for Reference {
        name,
        expected,
        matrix,
        ..
    } in references()
    {
        let found = spectral_norm(matrix, 24);
        let expected = expected["norm2_A"].as_f64().expect("a number");
        // Lanczos comes from below, slowly where large singular values crowd, as a Laplacian's do.
        let allowed = expected * (1.0 - 1e-2)..=expected * (1.0 + 1e-9);
        assert!(
            allowed.contains(&found),
            "{name}: {found} instead of {expected}"
        );
    }
}

#[test]
fn reference_matrices_have_their_halos() {
    for Reference {
        name,
        expected,
        matrix,
        ..
    } in references()
    {
        let cases = expected["halo"].as_array().expect("an array");
        assert_eq!(cases.len(), 6, "{name}");
        for case in cases {
            let halo = pattern::halo(matrix, &block_cuts(matrix.rows, number(&case["P"])))
                .expect("a partition");
            assert_eq!(halo.elements, case["recv_elems"], "{name} {case}");
            assert_eq!(halo.messages, case["messages"], "{name} {case}");
        }
    }
}

#[test]
fn the_generated_laplacian_is_the_one_on_file() {
    let on_file = references()
        .iter()
        .find(|reference| reference.name == "lap2D_5pt_n100.mtx");
    if let Some(Reference { matrix, .. }) = on_file {
        assert!(*matrix == Stencil::poisson2d(100, 100).expect("a size").csr());
    }
}
