//! `malleus solve --exchange`: a persistent Alltoallv for the solver's halo gives what messages give.

use serde_json::Value;

use super::expect;
use super::solve::{Failure, number, refused_both_ways, solved};
use crate::harness::{Case, Outcome, Run};

pub fn cases() -> Vec<Case> {
    vec![
        Case::command("exchange_gives_the_same_result", same_result)
            .needs_spawn()
            .seconds(300),
        Case::command("exchange_with_resizes", with_resizes)
            .needs_spawn()
            .seconds(300),
        Case::command("exchange_in_background", in_background)
            .needs_spawn()
            .seconds(300),
        Case::command("exchange_ends_with_the_solver", failures)
            .needs_spawn()
            .seconds(120),
    ]
}

/// The variants, each of which has another end.
const EXCHANGES: [&str; 5] = [
    "alltoallv:standard-persistent",
    "alltoallv:fence",
    "alltoallv:lock",
    "alltoallv:pscw",
    "alltoallv:node-shared",
];

/// What must be the same to the last bit.
fn result(found: &Value) -> [Value; 3] {
    ["iterations", "relative_residual", "sum_x"].map(|key| found[key].clone())
}

/// A time for each segment, which is part of that of its iterations.
fn check_times(found: &Value, exchange: &str) -> Outcome {
    expect("exchange", &found["exchange"], &Value::from(exchange))?;
    let segments = found["segments"].as_array().ok_or("no segments")?;
    expect("segments", segments.is_empty(), false)?;
    for segment in segments {
        let exchange_s = number(segment, "exchange_s")?;
        let has_some = number(segment, "ranks")? > 1.0;
        expect("time", exchange_s > 0.0 || !has_some, true)?;
    }
    Ok(())
}

fn run_with(run: &Run, exchange: &str, options: &[&str]) -> Result<Value, Failure> {
    let found = solved(run, &[options, &["--exchange", exchange]].concat())?;
    check_times(&found, exchange)?;
    Ok(found)
}

/// Columns far from the diagonal, and ranks that get nothing from some others.
fn same_result(run: &Run) -> Outcome {
    for problem in ["hpcg:6x5x9", "poisson2d:7x3"] {
        let messages = run_with(run, "p2p", &["-n", "3", "solve", problem])?;
        for ranks in ["1", "2", "3"] {
            for exchange in EXCHANGES {
                let found = run_with(run, exchange, &["-n", ranks, "solve", problem])?;
                expect(exchange, result(&found), result(&messages))?;
            }
        }
    }
    Ok(())
}

fn with_resizes(run: &Run) -> Outcome {
    same_with(
        run,
        "hpcg:12x12x12",
        &[
            ("1", &["3:2"], &[]),
            ("2", &["3:1"], &[]),
            // Ranks that leave come back, with a halo of their own again.
            ("2", &["3:1", "6:3", "9:2"], &["--lean"]),
        ],
    )
}

fn in_background(run: &Run) -> Outcome {
    same_with(
        run,
        "hpcg:24x24x24",
        &[
            ("1", &["2:2", "16:1"], &["--method", "rma1-wt"]),
            ("2", &["2:3", "16:1"], &["--method", "col-t"]),
            ("2", &["2:1", "16:2"], &["--method", "p2p-nb"]),
        ],
    )
}

/// Ranks at the start, resizes, and other options.
type Script<'a> = (&'a str, &'a [&'a str], &'a [&'a str]);

fn same_with(run: &Run, problem: &str, scripts: &[Script<'_>]) -> Outcome {
    let tolerance = ["--tolerance", "1e-12"];
    let options = ["-n", "1", "solve", problem];
    let messages = run_with(run, "p2p", &[&options[..], &tolerance].concat())?;
    for (ranks, resizes, more) in scripts {
        for exchange in EXCHANGES {
            let mut arguments = vec!["-n", ranks, "solve", problem, "--verify"];
            arguments.extend(tolerance.iter().chain(*more));
            for resize in *resizes {
                arguments.extend(["--resize", resize]);
            }
            let found = run_with(run, exchange, &arguments)?;
            let told = format!("{arguments:?} with {exchange}: {found}");
            expect(&told, result(&found), result(&messages))?;
            let count = |key: &str| found[key].as_array().map_or(0, Vec::len);
            if more.contains(&"--method") {
                // The next one may be due before the matrix has moved, and the solution come before both.
                let known = count("resizes") + count("refused") + count("queued");
                expect(&told, known >= resizes.len(), true)?;
            } else {
                expect(&told, count("resizes"), resizes.len())?;
            }
        }
    }
    Ok(())
}

/// One message, and nothing of a plan that was not freed.
fn failures(run: &Run) -> Outcome {
    let problem = "poisson2d:20x20";
    let listed = "the exchanges are p2p, alltoallv:standard, alltoallv:standard-persistent, ";
    for name in ["alltoallv", "alltoallv:rma", "lock"] {
        refused_both_ways(run, &[problem, "--exchange", name], listed)?;
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("late");
    let diagonal: String = (1..=60)
        .map(|row| format!("{row} {row} {}\n", if row == 60 { -1 } else { 100 * row }))
        .collect();
    let banner = "%%MatrixMarket matrix coordinate real symmetric";
    std::fs::write(&path, format!("{banner}\n60 60 60\n{diagonal}"))?;
    let path = path.to_str().ok_or("a path that is not text")?;
    for exchange in EXCHANGES {
        let limited = [problem, "--max-iterations", "3", "--exchange", exchange];
        refused_both_ways(run, &limited, "no convergence in 3 iterations")?;
        let resizes = ["--resize", "1:3", "--resize", "2:2"];
        let options = [path, "--exchange", exchange];
        let arguments = [&options[..], &resizes].concat();
        refused_both_ways(run, &arguments, "not positive definite")?;
    }
    Ok(())
}
