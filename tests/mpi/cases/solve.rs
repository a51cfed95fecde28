//! The `malleus` command as a user runs it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use malleus::mpi::process::cannot_spawn;
use serde_json::Value;

use super::expect;
use crate::harness::{Case, Ended, Outcome, Run, mpiexec};

pub fn cases() -> Vec<Case> {
    vec![
        Case::command("solve_reference_without_resizes", reference_without_resizes).seconds(300),
        Case::command("solve_reference_with_resizes_col", |run| {
            reference_with_resizes(run, "col")
        })
        .needs_spawn()
        .seconds(300),
        Case::command("solve_reference_with_resizes_rma1", |run| {
            reference_with_resizes(run, "rma1")
        })
        .needs_spawn()
        .seconds(300),
        Case::command("solve_reference_with_resizes_rma2", |run| {
            reference_with_resizes(run, "rma2")
        })
        .needs_spawn()
        .seconds(300),
        Case::command("solve_reference_jacobi", reference_jacobi).seconds(120),
        Case::command("solve_generated_under_mpiexec", generated_under_mpiexec)
            .needs_spawn()
            .seconds(120),
        Case::command("solve_in_background", in_background).needs_spawn(),
        Case::command("solve_lean", lean).needs_spawn(),
        Case::command("solve_tells_what_it_did_not_reach", not_reached).needs_spawn(),
        Case::command("solve_prints_a_table", table).needs_spawn(),
        Case::command("solve_refuses_bad_arguments", bad_arguments).seconds(120),
        Case::command("solve_refuses_bad_matrices", bad_matrices).seconds(120),
        Case::command("solve_survives_malformed_files", malformed_files).seconds(120),
        Case::command("solve_refuses_a_start_beyond_limits", beyond_limits).needs_spawn(),
        Case::command("env_tells_what_it_found", env),
    ]
}

/// The `malleus` program.
fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_malleus"))
}

pub type Failure = Box<dyn std::error::Error>;

fn malleus(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments);
    command
}

pub fn solved(run: &Run, arguments: &[&str]) -> Result<Value, Failure> {
    let mut command = malleus(arguments);
    command.args(["--json", "-"]);
    json(&run.finish(command)?, arguments)
}

fn json(ended: &Ended, arguments: &[&str]) -> Result<Value, Failure> {
    if !ended.status.success() {
        return Err(format!(
            "{arguments:?}: {}\n{}{}",
            ended.status, ended.stdout, ended.stderr
        )
        .into());
    }
    expect("nothing on standard error", ended.stderr.as_str(), "")?;
    Ok(serde_json::from_str(&ended.stdout)?)
}

pub fn number(value: &Value, key: &str) -> Result<f64, Failure> {
    value[key]
        .as_f64()
        .ok_or_else(|| format!("no number {key} in {value}").into())
}

pub fn matrices() -> Option<PathBuf> {
    let data = std::env::var_os("MALLEUS_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    let folder = data.join("matrices");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: the folder {} is not there", folder.display());
    None
}

/// The matrices with a reference for conjugate gradients, by path.
fn references(folder: &Path) -> Result<BTreeMap<String, Value>, Failure> {
    let text = std::fs::read_to_string(folder.join("reference.json"))?;
    let all: BTreeMap<String, Value> = serde_json::from_str(&text)?;
    let spd: BTreeMap<_, _> = all
        .into_iter()
        .filter(|(_, reference)| reference["cg_iters"].is_number())
        .map(|(name, reference)| (folder.join(name).to_string_lossy().into_owned(), reference))
        .collect();
    expect("there are some", spd.len() >= 5, true)?;
    Ok(spd)
}

/// Iterations within max(2, 2 %), sum(x) within 1e-6.
fn compare(path: &str, found: &Value, reference: &Value) -> Outcome {
    let (iterations, expected) = (number(found, "iterations")?, number(reference, "cg_iters")?);
    if (iterations - expected).abs() > (0.02 * expected).max(2.0) {
        return Err(
            format!("{path}: {iterations} iterations, the reference has {expected}").into(),
        );
    }
    close(
        path,
        number(found, "sum_x")?,
        number(reference, "cg_sum_x")?,
        1e-6,
    )?;
    expect(
        "residual",
        number(found, "relative_residual")? <= 1e-8,
        true,
    )
}

fn close(path: &str, found: f64, expected: f64, fraction: f64) -> Outcome {
    if (found - expected).abs() <= fraction * expected.abs() {
        return Ok(());
    }
    Err(format!("{path}: sum(x) = {found:e}, expected {expected:e}").into())
}

fn reference_without_resizes(run: &Run) -> Outcome {
    let Some(folder) = matrices() else {
        return Ok(());
    };
    for (path, reference) in references(&folder)? {
        let one = solved(run, &["-n", "1", "solve", &path])?;
        compare(&path, &one, &reference)?;
        let two = solved(run, &["-n", "2", "solve", &path])?;
        compare(&path, &two, &reference)?;
        // The same arithmetic on any number of ranks: not only within 1e-8, but to the last bit.
        expect(
            "iterations on two ranks",
            &two["iterations"],
            &one["iterations"],
        )?;
        expect("sum(x) on two ranks", &two["sum_x"], &one["sum_x"])?;
    }
    Ok(())
}

fn reference_with_resizes(run: &Run, method: &str) -> Outcome {
    let Some(folder) = matrices() else {
        return Ok(());
    };
    for (path, reference) in references(&folder)? {
        let iterations = number(&reference, "cg_iters")? as u64;
        let at = |part: u64, procs: u64| format!("{}:{procs}", (iterations * part / 10).max(part));
        let (first, second, third) = (at(2, 2), at(4, 3), at(5, 1));
        let scripted = |start: &str, resizes: &[&str]| {
            let mut arguments = vec!["-n", start, "solve", &path, "--method", method, "--verify"];
            resizes
                .iter()
                .for_each(|resize| arguments.extend(["--resize", resize]));
            solved(run, &arguments)
        };
        let one = scripted("1", &[])?;
        let resized = scripted("1", &[&first, &second, &third])?;
        compare(&path, &resized, &reference)?;
        expect("sum(x) with resizes", &resized["sum_x"], &one["sum_x"])?;
        let resizes = resized["resizes"].as_array().ok_or("no resizes")?;
        expect("resizes", resizes.len(), 3)?;
        for (resize, to) in resizes.iter().zip([2, 3, 1]) {
            expect("to", &resize["to"], &Value::from(to))?;
            expect("verified", &resize["verified"], &Value::from(true))?;
            expect("variant", &resize["variant"], &Value::from(method))?;
            expect("moved", resize["moved_bytes"].as_u64() > Some(0), true)?;
            expect("kept", resize["kept_bytes"].as_u64() > Some(0), true)?;
        }
        let shrunk = scripted("2", &[&at(3, 1)])?;
        expect(
            "sum(x) after a shrink below the first size",
            &shrunk["sum_x"],
            &one["sum_x"],
        )?;
    }
    Ok(())
}

/// The matrix moves while the solver goes on, with the same result. Where the solution comes first, a resize is refused.
fn in_background(run: &Run) -> Outcome {
    let problem = "hpcg:24x24x24";
    let one = solved(run, &["-n", "1", "solve", problem])?;
    for variant in ["col-nb", "col-wt", "rma1-t", "rma2-wt"] {
        let resizes = ["--resize", "2:2", "--resize", "9:3", "--resize", "16:1"];
        let options = ["-n", "1", "solve", problem, "--method", variant, "--verify"];
        let found = solved(run, &[&options[..], &resizes].concat())?;
        for key in ["iterations", "sum_x"] {
            expect(key, &found[key], &one[key])?;
        }
        let resizes = found["resizes"].as_array().ok_or("no resizes")?;
        let refused = found["refused"].as_array().ok_or("no list of refusals")?;
        expect("resizes", resizes.len() + refused.len() > 0, true)?;
        for resize in resizes {
            expect("verified", &resize["verified"], &Value::from(true))?;
            expect(
                "iterations",
                resize["iterations_during"].as_u64() > Some(0),
                true,
            )?;
        }
    }
    Ok(())
}

fn reference_jacobi(run: &Run) -> Outcome {
    let Some(folder) = matrices() else {
        return Ok(());
    };
    for (path, reference) in references(&folder)? {
        let expected = number(&reference, "jacobi_pcg_iters")?;
        let found = solved(
            run,
            &[
                "-n",
                "1",
                "solve",
                &path,
                "--preconditioner",
                "jacobi",
                "--resize",
                "5:2",
                "--resize",
                "9:1",
                "--verify",
            ],
        )?;
        let iterations = number(&found, "iterations")?;
        if (iterations - expected).abs() > (0.02 * expected).max(2.0) {
            return Err(
                format!("{path}: {iterations} iterations, the reference has {expected}").into(),
            );
        }
        close(
            &path,
            number(&found, "sum_x")?,
            number(&reference, "cg_sum_x")?,
            1e-6,
        )?;
    }
    Ok(())
}

fn generated_under_mpiexec(run: &Run) -> Outcome {
    let mut sums = Vec::new();
    for (ranks, resizes) in [
        (1, vec![]),
        (2, vec!["50:1"]),
        (2, vec!["20:3", "60:1", "70:2"]),
    ] {
        let mut command = mpiexec(ranks);
        command
            .arg(program())
            .args(["solve", "poisson2d:100x90", "--json", "-"]);
        resizes.iter().for_each(|resize| {
            command.args(["--resize", resize]);
        });
        let found = json(&run.finish(command)?, &resizes)?;
        expect(
            "all resizes",
            found["resizes"].as_array().map(Vec::len),
            Some(resizes.len()),
        )?;
        sums.push((found["iterations"].clone(), found["sum_x"].clone()));
    }
    expect(
        "the same result",
        sums[1..].iter().all(|sum| *sum == sums[0]),
        true,
    )?;
    let found = solved(
        run,
        &[
            "-n",
            "2",
            "solve",
            "hpcg:12x10x11",
            "--resize",
            "3:1",
            "--verify",
        ],
    )?;
    for key in [
        "iterations",
        "relative_residual",
        "sum_x",
        "ranks_end",
        "wall_s",
    ] {
        number(&found, key)?;
    }
    for key in ["version", "device", "provider"] {
        expect(key, found["mpich"][key].is_string(), true)?;
    }
    let resize = &found["resizes"][0];
    let keys = [
        "iteration",
        "from",
        "to",
        "decide_s",
        "processes_s",
        "redistribute_s",
        "resume_s",
        "total_s",
        "spawned",
        "recalled",
        "parked",
        "released",
        "moved_bytes",
        "kept_bytes",
    ];
    for key in keys {
        number(resize, key)?;
    }
    expect(
        "one rank has parked",
        (number(resize, "parked")?, number(&found, "ranks_end")?),
        (1.0, 1.0),
    )?;
    expect("oversubscribed", found["oversubscribed"].is_boolean(), true)
}

fn lean(run: &Run) -> Outcome {
    let plain = solved(run, &["-n", "1", "solve", "hpcg:14x14x14"])?;
    for method in ["col", "rma1", "rma2"] {
        let arguments = [
            "-n",
            "1",
            "solve",
            "hpcg:14x14x14",
            "--lean",
            "--verify",
            "--method",
            method,
        ];
        let resizes = [
            "--resize", "4:3", "--resize", "8:2", "--resize", "10:1", "--resize", "12:2",
        ];
        let found = solved(run, &[&arguments[..], &resizes[..]].concat())?;
        expect("sum(x)", &found["sum_x"], &plain["sum_x"])?;
        expect(
            "resizes",
            found["resizes"].as_array().map(Vec::len),
            Some(4),
        )?;
    }
    Ok(())
}

fn not_reached(run: &Run) -> Outcome {
    let found = solved(
        run,
        &[
            "-n",
            "1",
            "solve",
            "poisson2d:20x20",
            "--resize",
            "100000:2",
            "--resize",
            "3:1",
            "--resize",
            "5:2",
        ],
    )?;
    expect(
        "not reached",
        &found["not_reached"],
        &serde_json::json!([{"iteration": 100_000, "to": 2}]),
    )?;
    // That to the current size does nothing.
    expect("done", found["resizes"].as_array().map(Vec::len), Some(1))?;
    let ended = run.finish(malleus(&[
        "-n",
        "1",
        "solve",
        "poisson2d:9x9",
        "--resize",
        "99999:2",
    ]))?;
    expect(
        "the table says so",
        ended
            .stdout
            .contains("not reached: the resize to 2 at iteration 99999"),
        true,
    )
}

fn table(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("result.json");
    let file = file.to_str().ok_or("a path that is not text")?;
    let ended = run.finish(malleus(&[
        "-n",
        "1",
        "solve",
        "poisson2d:30x30",
        "--resize",
        "9:2",
        "--verify",
        "--json",
        file,
    ]))?;
    expect("success", ended.status.success(), true)?;
    for part in [
        "poisson2d:30x30: 900 rows, 4380 nonzeros",
        "MPICH ",
        "converged in",
        "1 → 2",
        "redistribute",
    ] {
        expect(part, ended.stdout.contains(part), true)?;
    }
    expect("no progress line in a pipe", ended.stderr.as_str(), "")?;
    let written: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    expect(
        "the file has it, too",
        &written["problem"],
        &Value::from("poisson2d:30x30"),
    )
}

/// Fails in time, with one line of message that contains a text, from one rank only.
fn refused(run: &Run, command: Command, text: &str) -> Outcome {
    let name = format!("{command:?}");
    let ended = run.finish(command)?;
    let told = format!("{name}: {}\n{}{}", ended.status, ended.stdout, ended.stderr);
    expect(&format!("{told}\nfails"), ended.status.success(), false)?;
    expect(
        &format!("{told}\nin time"),
        ended.elapsed < Duration::from_secs(10),
        true,
    )?;
    let is_error = |line: &&str| line.starts_with("malleus: error:") || line.starts_with("error:");
    let errors: Vec<&str> = ended.stderr.lines().filter(is_error).collect();
    expect(&format!("{told}\nmessages"), errors.len(), 1)?;
    expect(
        &format!("{told}\nhas {text:?}"),
        errors[0].contains(text),
        true,
    )?;
    expect(
        &format!("{told}\nno panic"),
        ended.stderr.contains("panicked"),
        false,
    )
}

/// Each under this program's own `-n` and under `mpiexec`.
pub fn refused_both_ways(run: &Run, arguments: &[&str], text: &str) -> Outcome {
    let mut own = malleus(&["-n", "2", "solve"]);
    own.args(arguments);
    refused(run, own, text)?;
    let mut under = mpiexec(2);
    under.arg(program()).arg("solve").args(arguments);
    refused(run, under, text)
}

fn bad_arguments(run: &Run) -> Outcome {
    let problem = "poisson2d:20x20";
    for (arguments, text) in [
        (&[problem, "--resize", "5:0"][..], "asks for no process"),
        (&[problem, "--resize", "x"], "is no resize"),
        (&[problem, "--resize", "0:2"], "before the first checkpoint"),
        (
            &[problem, "--resize", "5:2", "--resize", "5:3"],
            "two resizes at iteration 5",
        ),
        (&[problem, "--method", "rma3"], "unknown variant"),
        (&[problem, "--tolerance", "0"], "expected a positive number"),
        (&[problem, "--preconditioner", "ilu"], "invalid value"),
        (&["poisson2d:0x3"], "a size is zero"),
        (&["poisson2d:axb"], "not a size"),
        (&["hpcg:100000x100000x100000"], "too many points"),
        (&["/no/such/file.mtx"], "No such file"),
        (&["/"], "directory"),
        (
            &[problem, "--json", "/no/such/folder/x.json"],
            "No such file",
        ),
        (
            &[problem, "--max-iterations", "3"],
            "no convergence in 3 iterations",
        ),
    ] {
        refused_both_ways(run, arguments, text)?;
    }
    let mut nested = mpiexec(2);
    nested.arg(program()).args(["-n", "2", "solve", problem]);
    refused(run, nested, "leave it out under mpiexec")
}

fn bad_matrices(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let banner = "%%MatrixMarket matrix coordinate";
    for (name, content, text) in [
        (
            "text",
            "this is not a matrix\n".to_owned(),
            "not a Matrix Market file",
        ),
        (
            "binary",
            "\0\u{1}\u{2}\0".repeat(50),
            "not a Matrix Market file",
        ),
        ("empty", String::new(), "not a Matrix Market file"),
        (
            "wide",
            format!("{banner} real general\n2 3 2\n1 1 1.0\n2 2 1.0\n"),
            "as many rows as columns",
        ),
        (
            "unsymmetric",
            format!("{banner} real general\n2 2 3\n1 1 2.0\n1 2 1.0\n2 2 2.0\n"),
            "symmetric",
        ),
        (
            "skew",
            format!("{banner} real skew-symmetric\n2 2 1\n2 1 1.0\n"),
            "symmetric",
        ),
        (
            "complex",
            format!("{banner} complex general\n1 1 1\n1 1 1.0 0.0\n"),
            "complex",
        ),
        (
            "nan",
            format!("{banner} real general\n1 1 1\n1 1 nan\n"),
            "nan",
        ),
        (
            "infinite",
            format!("{banner} real general\n1 1 1\n1 1 inf\n"),
            "inf",
        ),
        (
            "indefinite",
            format!("{banner} real symmetric\n2 2 2\n1 1 1.0\n2 2 -1.0\n"),
            "not positive definite",
        ),
        (
            "zero",
            format!("{banner} real symmetric\n2 2 1\n1 1 0.0\n"),
            "not positive definite",
        ),
        (
            "short",
            format!("{banner} real general\n2 2 2\n1 1 1.0\n"),
            "line",
        ),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, content)?;
        let path = path.to_str().ok_or("a path that is not text")?;
        refused_both_ways(run, &[path], text).map_err(|error| format!("{name}: {error}"))?;
    }
    // Found while it solves, with ranks that joined and ranks that sleep.
    let path = folder.path().join("late");
    let diagonal: String = (1..=60)
        .map(|row| {
            format!(
                "{row} {row} {}\n",
                if row == 60 { -0.01 } else { f64::from(row) }
            )
        })
        .collect();
    std::fs::write(
        &path,
        format!("{banner} real symmetric\n60 60 60\n{diagonal}"),
    )?;
    let path = path.to_str().ok_or("a path that is not text")?;
    let resizes = ["--resize", "1:3", "--resize", "2:2", "--resize", "3:3"];
    refused_both_ways(
        run,
        &[&[path][..], &resizes[..]].concat(),
        "not positive definite",
    )?;
    let text = "the Jacobi preconditioner needs a positive diagonal; that of row 60";
    refused_both_ways(run, &[path, "--preconditioner", "jacobi"], text)
}

/// Whatever becomes of them: one message or a solution, in time, nobody left.
fn malformed_files(run: &Run) -> Outcome {
    let Some(folder) = matrices() else {
        return Ok(());
    };
    let folder = folder.join("malformed");
    let verdicts: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(folder.join("expected.json"))?)?;
    expect("files", verdicts.len(), 39)?;
    for verdict in verdicts {
        let name = verdict["file"].as_str().ok_or("no file name")?;
        let path = folder.join(name);
        let ended = run.finish(malleus(&[
            "-n",
            "2",
            "solve",
            path.to_str().ok_or("a path that is not text")?,
        ]))?;
        let told = format!("{name}: {}\n{}{}", ended.status, ended.stdout, ended.stderr);
        expect(
            &format!("{told}\nin time"),
            ended.elapsed < Duration::from_secs(10),
            true,
        )?;
        let messages = ended.stderr.matches("malleus: error:").count();
        expect(
            &format!("{told}\nmessages"),
            messages,
            usize::from(!ended.status.success()),
        )?;
        if verdict["expect"] == "reject" {
            expect(&format!("{told}\nrejected"), ended.status.success(), false)?;
        }
    }
    Ok(())
}

fn beyond_limits(run: &Run) -> Outcome {
    let mut command = Command::new("sh");
    let script = format!(
        "ulimit -n 60; exec {} -n 1 solve poisson2d:30x30 --resize 9:100 --json -",
        program().display()
    );
    command.args(["-c", &script]);
    let found = json(&run.finish(command)?, &[])?;
    expect(
        "refused",
        found["refused"].as_array().map(Vec::len),
        Some(1),
    )?;
    let reason = found["refused"][0]["reason"].as_str().ok_or("no reason")?;
    expect(
        &format!("{reason}: names the limit"),
        reason.contains("ulimit -n"),
        true,
    )?;
    expect("size", number(&found, "ranks_end")?, 1.0)
}

fn env(run: &Run) -> Outcome {
    let ended = run.finish(malleus(&["env", "--json", "-"]))?;
    let found = json(&ended, &["env"])?;
    expect(
        "version",
        found["mpich"]["version"].as_str(),
        Some(malleus::MPICH_VERSION),
    )?;
    expect("mpiexec", found["mpiexec"].as_str(), Some(malleus::MPIEXEC))?;
    expect(
        "the library agrees",
        found["library"]
            .as_str()
            .is_some_and(|text| text.contains(malleus::MPICH_VERSION)),
        true,
    )?;
    let (reads, reason) = match cannot_spawn() {
        None => (2, None),
        Some(reason) => (1, Some(format!("MPI_Comm_spawn: {reason}"))),
    };
    expect(
        "reads",
        found["reads"].as_array().map(Vec::len),
        Some(reads),
    )?;
    expect(
        "why no process can be started",
        found["cannot_start"].as_str(),
        reason.as_deref(),
    )?;
    let ended = run.finish(malleus(&["env"]))?;
    expect(
        "text",
        ended.stdout.contains("thread level  MPI_THREAD_MULTIPLE"),
        true,
    )
}
