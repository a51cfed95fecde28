//! `malleus bench`. Times are never checked: only that they are told, for
//! everything that was asked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use malleus::alltoallv::Variant;
use serde_json::Value;

use super::expect;
use crate::harness::{Case, Ended, Mpich, Outcome, Run, mpiexec};

pub fn cases() -> Vec<Case> {
    vec![
        Case::command("bench_window_tells_all_phases", window).seconds(180),
        Case::command("bench_window_on_a_merged_communicator", merged)
            .needs_spawn()
            .seconds(180),
        Case::command("bench_window_on_some_ranks", some_ranks).seconds(180),
        Case::command("bench_window_writes_files_and_a_table", files).seconds(180),
        Case::command("bench_latency_tells_all_operations", latency).seconds(180),
        Case::command("bench_latency_prints_a_table", latency_table).seconds(180),
        Case::command("bench_redistribute_other_settings", other_settings)
            .needs_spawn()
            .seconds(120),
        Case::command("bench_redistribute_grows", |run| redistribute(run, (1, 3)))
            .needs_spawn()
            .seconds(180),
        Case::command("bench_redistribute_shrinks", |run| {
            redistribute(run, (3, 2))
        })
        .seconds(180),
        Case::command("bench_alltoallv_tells_all_variants", alltoallv).seconds(180),
        Case::command("pattern_tells_the_halos", halos),
        Case::command("bench_refuses_bad_arguments", bad_arguments).seconds(120),
    ]
}

type Failure = Box<dyn std::error::Error>;

fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_malleus"))
}

fn bench(ranks: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["-n", ranks, "bench"]).args(arguments);
    command
}

fn told(ended: &Ended) -> String {
    format!("{}\n{}{}", ended.status, ended.stdout, ended.stderr)
}

fn succeeded(run: &Run, command: Command) -> Result<Ended, Failure> {
    let ended = run.finish(command)?;
    expect(
        &format!("{}\nsuccess", told(&ended)),
        ended.status.success(),
        true,
    )?;
    expect("nothing on standard error", ended.stderr.as_str(), "")?;
    Ok(ended)
}

fn json(run: &Run, ranks: &str, arguments: &[&str]) -> Result<Value, Failure> {
    let mut command = bench(ranks, arguments);
    command.args(["--json", "-"]);
    Ok(serde_json::from_str(&succeeded(run, command)?.stdout)?)
}

fn rows(report: &Value) -> Result<&[Value], Failure> {
    let rows = report["rows"].as_array().ok_or("no rows")?;
    Ok(rows.as_slice())
}

/// Every number of a row is there, and its percentiles are in order.
fn check_row(row: &Value, iterations: u64) -> Outcome {
    expect("count", row["count"].as_u64(), Some(iterations))?;
    let mut last = 0.0;
    for key in ["p50_s", "p90_s", "p99_s", "max_s"] {
        let value = row[key]
            .as_f64()
            .ok_or_else(|| format!("no {key} in {row}"))?;
        expect(&format!("{row}: {key} in order"), value >= last, true)?;
        last = value;
    }
    let first = row["first_s"].as_f64();
    expect(
        "a first time",
        first.is_some_and(|first| first >= 0.0),
        true,
    )
}

fn check_header(report: &Value, benchmark: &str, ranks: u64) -> Outcome {
    expect("benchmark", report["benchmark"].as_str(), Some(benchmark))?;
    expect("ranks", report["ranks"].as_u64(), Some(ranks))?;
    expect(
        "version",
        report["mpich"]["version"].as_str(),
        Some(malleus::MPICH_VERSION),
    )?;
    for key in ["device", "netmod", "provider", "thread_level"] {
        expect(key, report["mpich"][key].is_string(), true)?;
    }
    expect("cores", report["cores"].is_u64(), true)?;
    expect(
        "oversubscribed",
        report["oversubscribed"].is_boolean(),
        true,
    )
}

/// Flavour, phase, bytes, windows.
type Kind = (String, String, u64, u64);

fn kinds(rows: &[Value], communicator: &str) -> Result<Vec<Kind>, Failure> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let number = |row: &Value, key: &str| row[key].as_u64().ok_or("no number");
    rows.iter()
        .filter(|row| row["communicator"] == communicator)
        .map(|row| {
            let (bytes, windows) = (number(row, "bytes")?, number(row, "windows")?);
            Ok((text(row, "flavour"), text(row, "phase"), bytes, windows))
        })
        .collect()
}

/// What there is to tell of two sizes and of three windows in a row.
fn expected_kinds(sizes: &[u64], flavours: &[&str], windows: u64) -> BTreeSet<Kind> {
    let kind = |flavour: &str, phase: &str, bytes, windows| {
        (flavour.to_owned(), phase.to_owned(), bytes, windows)
    };
    let mut kinds = BTreeSet::from([
        kind("none", "barrier", 0, 1),
        kind("none", "dup", 0, 1),
        kind("none", "allgather", 24, 1),
    ]);
    for &bytes in sizes {
        for flavour in flavours {
            let both = ["create", "free"].map(|phase| kind(flavour, phase, bytes, 1));
            kinds.extend(both);
        }
        kinds.insert(kind("dynamic", "attach", bytes, 1));
        for flavour in ["create", "dynamic"] {
            let both = ["create", "free"].map(|phase| kind(flavour, phase, bytes, windows));
            kinds.extend(both);
        }
    }
    kinds
}

fn check_kinds(rows: &[Value], communicator: &str, expected: &BTreeSet<Kind>) -> Outcome {
    let found = kinds(rows, communicator)?;
    expect("rows", found.len(), expected.len())?;
    expect("kinds", &found.into_iter().collect(), expected)
}

fn window(run: &Run) -> Outcome {
    let arguments = [
        "window",
        "-m",
        "8:16",
        "-i",
        "4",
        "-x",
        "1",
        "--windows",
        "3",
        "--communicators",
        "world,dup",
    ];
    let report = json(run, "2", &arguments)?;
    check_header(&report, "window", 2)?;
    let flavours = ["create", "allocate", "shared", "dynamic", "checked"];
    let expected = expected_kinds(&[8, 16], &flavours, 3);
    let rows = rows(&report)?;
    for communicator in ["world", "dup"] {
        check_kinds(rows, communicator, &expected)?;
    }
    let with_c = report["c_reference"].as_bool().ok_or("no c_reference")?;
    for row in rows {
        check_row(row, 4)?;
        expect("ranks", row["ranks"].as_u64(), Some(2))?;
        let own = row["flavour"] == "checked" || row["windows"] != 1;
        let c = row["c_p50_s"].is_number();
        expect(&format!("{row}: time of C"), c, with_c && !own)?;
    }
    expect(
        "nothing skipped",
        report["skipped"].as_array().map(Vec::len),
        Some(0),
    )
}

/// One rank and a child of it.
fn merged(run: &Run) -> Outcome {
    let arguments = [
        "window",
        "-m",
        "64",
        "-i",
        "3",
        "-x",
        "1",
        "--windows",
        "2",
        "--communicators",
        "merged",
    ];
    let report = json(run, "1", &arguments)?;
    let mut flavours = vec!["create", "allocate", "dynamic", "checked"];
    if Mpich::of_this_run().netmod == "ofi" {
        flavours.push("shared");
    } else {
        expect(
            "skipped",
            report["skipped"][0]["flavour"].as_str(),
            Some("shared"),
        )?;
    }
    let rows = rows(&report)?;
    check_kinds(rows, "merged", &expected_kinds(&[64], &flavours, 2))?;
    for row in rows {
        check_row(row, 3)?;
        expect("ranks", row["ranks"].as_u64(), Some(2))?;
    }
    Ok(())
}

fn some_ranks(run: &Run) -> Outcome {
    let arguments = [
        "window",
        "-m",
        "8",
        "-i",
        "2",
        "-x",
        "0",
        "--windows",
        "1",
        "--flavours",
        "create",
        "--ranks",
        "1,2",
        "--communicators",
        "world",
    ];
    let report = json(run, "3", &arguments)?;
    for (communicator, ranks) in [("part", 1), ("part", 2), ("world", 3)] {
        let of_them: Vec<_> = rows(&report)?
            .iter()
            .filter(|row| row["communicator"] == communicator && row["ranks"] == ranks)
            .map(|row| (row["flavour"].as_str(), row["phase"].as_str()))
            .collect();
        expect(
            &format!("{ranks} ranks"),
            of_them,
            [
                ("none", "barrier"),
                ("none", "dup"),
                ("none", "allgather"),
                ("create", "create"),
                ("create", "free"),
                ("checked", "create"),
                ("checked", "free"),
            ]
            .map(|(flavour, phase)| (Some(flavour), Some(phase)))
            .to_vec(),
        )?;
    }
    Ok(())
}

fn files(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let mut command = bench(
        "2",
        &[
            "window", "-m", "8:16", "-i", "3", "-x", "1", "-f", "25,99.9",
        ],
    );
    command
        .args(["--communicators", "world", "--windows", "1"])
        .arg("--json")
        .arg(path("window.json"))
        .arg("--hgrm")
        .arg(path("histograms"))
        .arg("--figure")
        .arg(path("window.svg"));
    let ended = succeeded(run, command)?;
    for part in [
        "# MPICH ",
        "# Size",
        "p25",
        "p99.9",
        "# world, 2 ranks",
        "attach",
    ] {
        expect(
            &format!("{}\n{part}", ended.stdout),
            ended.stdout.contains(part),
            true,
        )?;
    }
    let report: Value = serde_json::from_str(&std::fs::read_to_string(path("window.json"))?)?;
    let log = std::fs::read_to_string(path("histograms/latency.hlog"))?;
    let tags = log
        .lines()
        .filter(|line| line.starts_with("Tag=window."))
        .count();
    expect("histograms in the log", tags, rows(&report)?.len())?;
    let hgrm = path("histograms/window.create.create.world.2x1.8B.hgrm");
    let text = std::fs::read_to_string(hgrm)?;
    expect(
        "three of them",
        text.contains("Total count    =            3]"),
        true,
    )?;
    let svg = std::fs::read_to_string(path("window.svg"))?;
    for part in ["<svg", "create", "allocate", "shared", "dynamic"] {
        expect(part, svg.contains(part), true)?;
    }
    Ok(())
}

fn latency(run: &Run) -> Outcome {
    let report = json(run, "3", &["latency", "-m", "8:16", "-i", "3", "-x", "1"])?;
    check_header(&report, "latency", 3)?;
    let mut found = Vec::new();
    for row in rows(&report)? {
        check_row(row, 3)?;
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let bytes = row["bytes"].as_u64().ok_or("no bytes")?;
        found.push((text("flavour"), text("operation"), bytes));
    }
    let mut expected = BTreeSet::new();
    for flavour in ["create", "allocate", "shared", "dynamic"] {
        let mut add = |operation: &str, bytes| {
            expected.insert((flavour.to_owned(), operation.to_owned(), bytes))
        };
        add("lock_all", 0);
        add("flush", 0);
        add("fetch_and_op", 8);
        for operation in ["put", "get", "rget", "fence", "pscw"] {
            add(operation, 8);
            add(operation, 16);
        }
    }
    expect("rows", found.len(), expected.len())?;
    expect("operations", found.into_iter().collect(), expected)?;
    let asleep = report["asleep"].as_array().ok_or("no sleeper")?;
    expect("reads from a sleeper", asleep.len(), 4)?;
    for read in asleep {
        let get = read["get_s"].as_f64().ok_or("no time")?;
        expect("passive or not", read["passive"].as_bool(), Some(get < 0.1))?;
    }
    Ok(())
}

fn latency_table(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut command = bench("2", &["latency", "-m", "64", "-i", "2", "-x", "0"]);
    command
        .args(["--flavours", "allocate"])
        .arg("--hgrm")
        .arg(folder.path());
    let ended = succeeded(run, command)?;
    for part in [
        "# Size",
        "put",
        "fetch_and_op",
        "while the exposed rank slept",
    ] {
        expect(
            &format!("{}\n{part}", ended.stdout),
            ended.stdout.contains(part),
            true,
        )?;
    }
    expect(
        "a histogram",
        folder.path().join("put.allocate.64B.hgrm").is_file(),
        true,
    )
}

/// Fails in time, with one line of message that contains a text, from one rank only.
fn alltoallv(run: &Run) -> Outcome {
    for (pattern, buffers) in [
        ("uniform", "own"),
        ("random:0.5", "caller"),
        ("hotspot", "own"),
        ("matrix:poisson2d:9x7", "own"),
    ] {
        let arguments = ["alltoallv", "-m", "64:128", "-i", "3", "-x", "1"];
        let arguments = [
            &arguments[..],
            &["--pattern", pattern, "--buffers", buffers],
        ]
        .concat();
        let report = json(run, "3", &arguments)?;
        check_header(&report, "alltoallv", 3)?;
        let rows = rows(&report)?;
        let names: Vec<_> = rows.iter().map(|row| row["variant"].as_str()).collect();
        let all = Variant::ALL.map(|variant| Some(variant.name()));
        // A matrix has sizes of its own.
        let times = if pattern.starts_with("matrix") { 1 } else { 2 };
        expect("variants", names, all.repeat(times))?;
        for row in rows {
            let told = row.to_string();
            expect(&told, row["validated"].as_bool(), Some(true))?;
            expect(&told, row["pattern"].as_str(), Some(pattern))?;
            expect(&told, row["buffers"].as_str(), Some(buffers))?;
            let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
            let ordered = 0.0 < number("min_s") && number("min_s") <= number("median_s");
            expect(&told, ordered, true)?;
            expect(&told, number("median_s") <= number("p99_s"), true)?;
            expect(&told, number("init_s") > 0.0, true)?;
            expect(&told, number("iterations"), 3.0)?;
        }
    }
    let table = succeeded(run, bench("2", &["alltoallv", "-m", "8", "-i", "2"]))?;
    for text in [
        "pattern uniform",
        "break-even",
        "node-shared",
        "standard-persistent",
    ] {
        expect(&table.stdout, table.stdout.contains(text), true)?;
    }
    Ok(())
}

/// `malleus pattern`: the reference's numbers of elements and messages.
fn halos(run: &Run) -> Outcome {
    let pattern = |matrix: &Path, more: &[&str]| {
        let mut command = Command::new(program());
        command.arg("pattern").arg(matrix).args(more);
        command
    };
    // Two rows of eleven unknowns on each side of a cut.
    let table = succeeded(
        run,
        pattern(Path::new("poisson2d:11x4"), &["--ranks", "1,2"]),
    )?;
    let rows: Vec<Vec<&str>> = table
        .stdout
        .lines()
        .skip(2)
        .map(|line| line.split_whitespace().collect())
        .collect();
    let expected = vec![
        vec!["1", "0", "0", "0", "0"],
        vec!["2", "22", "2", "11", "1"],
    ];
    expect("a table", rows, expected)?;
    refused(run, pattern(Path::new("none.mtx"), &[]), "none.mtx")?;
    let Some(folder) = super::solve::matrices() else {
        return Ok(());
    };
    let text = std::fs::read_to_string(folder.join("reference.json"))?;
    let all: Value = serde_json::from_str(&text)?;
    let all = all.as_object().ok_or("no matrices")?;
    let mut seen = 0;
    for (name, reference) in all {
        let Some(halos) = reference["halo"].as_array() else {
            continue;
        };
        let ended = succeeded(run, pattern(&folder.join(name), &["--json", "-"]))?;
        let found: Value = serde_json::from_str(&ended.stdout)?;
        let found = found["patterns"].as_array().ok_or("no patterns")?;
        expect(name, found.len(), halos.len())?;
        for (found, expected) in found.iter().zip(halos) {
            for (key, theirs) in [
                ("ranks", "P"),
                ("elements", "recv_elems"),
                ("messages", "messages"),
            ] {
                expect(&format!("{name} {key}"), &found[key], &expected[theirs])?;
            }
            seen += 1;
        }
    }
    expect("numbers of ranks in the reference", seen > 50, true)
}

fn refused(run: &Run, command: Command, text: &str) -> Outcome {
    let name = format!("{command:?}");
    let ended = run.finish(command)?;
    let told = format!("{name}: {}", told(&ended));
    expect(&format!("{told}\nfails"), ended.status.success(), false)?;
    let in_time = ended.elapsed < Duration::from_secs(10);
    expect(&format!("{told}\nin time"), in_time, true)?;
    let is_error = |line: &&str| line.starts_with("malleus: error:") || line.starts_with("error:");
    let errors: Vec<&str> = ended.stderr.lines().filter(is_error).collect();
    expect(&format!("{told}\nmessages"), errors.len(), 1)?;
    expect(
        &format!("{told}\nhas {text:?}"),
        errors[0].contains(text),
        true,
    )
}

/// Every variant, with as many bytes moved as the partitions say.
fn redistribute(run: &Run, (from, to): (u64, u64)) -> Outcome {
    let variants = "col,col-t,col-nb,col-wt,rma1,rma1-t,rma1-wt,rma2,rma2-t,rma2-wt,rma1-t-unlock,rma2-t-unlock,rma1-paced,rma2-paced,p2p,p2p-nb,p2p-wt";
    let (from_text, to_text) = (from.to_string(), to.to_string());
    let mut command = Command::new(program());
    command
        .args([
            "bench",
            "redistribute",
            "--from",
            &from_text,
            "--to",
            &to_text,
        ])
        .args(["--bytes", "96KiB", "--arrays", "2", "--variants", variants])
        .args(["--reps", "1", "-x", "0", "--iteration", "1", "--json", "-"]);
    let found: Value = serde_json::from_str(&succeeded(run, command)?.stdout)?;
    let rows = found["rows"].as_array().ok_or("no rows")?;
    let names: Vec<_> = rows
        .iter()
        .filter_map(|row| row["variant"].as_str())
        .collect();
    expect("variants", names.join(","), variants.to_owned())?;
    // Blocks of 6144 elements of 8 bytes on 1, 3 and 2 ranks: of 1 to 3, a third stays; of 3 to 2, the first
    // third on rank 0, and the middle of the second on rank 1.
    let kept = 2 * 8 * if from == 1 { 2048 } else { 2048 + 1024 };
    for row in rows {
        let name = row["variant"].as_str().unwrap_or_default();
        let number = |key: &str| {
            row[key]
                .as_f64()
                .ok_or_else(|| format!("{name}: {key} is {}", row[key]))
        };
        expect(name, row["verified"].as_bool(), Some(true))?;
        expect(name, row["bytes"].as_u64(), Some(96 << 10))?;
        expect(name, row["kept_bytes"].as_u64(), Some(kept))?;
        expect(name, row["moved_bytes"].as_u64(), Some((96 << 10) - kept))?;
        let stages = number("expose_s")? + number("move_s")? + number("release_s")?;
        let told = format!("{name}: stages take {stages}");
        expect(&told, stages > 0.0, true)?;
        expect(name, number("expose_s")? > 0.0, name.starts_with("rma"))?;
        expect(name, number("min_s")? <= number("p95_s")?, true)?;
        expect(name, number("peak_rss_bytes")? > 0.0, true)?;
        if name.contains('-') {
            for key in ["omega", "omega_total", "iteration_s"] {
                expect(key, number(key)? > 0.0, true)?;
            }
            expect(name, number("iterations_during")? >= 1.0, true)?;
        } else {
            expect(name, row["omega"].is_null(), true)?;
        }
    }
    Ok(())
}

/// Without a progress thread, with MPICH's own, and where all targets are started.
fn other_settings(run: &Run) -> Outcome {
    for (settings, key, kept) in [
        (["--progress", "none"], "progress", 2048),
        (["--progress", "mpich"], "progress", 2048),
        (["--management", "baseline"], "management", 0),
    ] {
        let mut command = Command::new(program());
        command
            .args(["bench", "redistribute", "--from", "1", "--to", "2"])
            .args([
                "--bytes",
                "32KiB",
                "--variants",
                "col,rma1-t,rma2-wt,p2p-nb",
            ])
            .args(["--reps", "1", "-x", "0", "--iteration", "1", "--json", "-"])
            .args(settings);
        let found: Value = serde_json::from_str(&succeeded(run, command)?.stdout)?;
        let rows = found["rows"].as_array().ok_or("no rows")?;
        expect("rows", rows.len(), 4)?;
        for row in rows {
            expect("verified", row["verified"].as_bool(), Some(true))?;
            expect(key, row[key].as_str(), Some(settings[1]))?;
            expect("kept", row["kept_bytes"].as_u64(), Some(8 * kept))?;
        }
    }
    Ok(())
}

fn bad_arguments(run: &Run) -> Outcome {
    let missing = "/no/such/folder/x";
    let svg = format!("{missing}.svg");
    for (arguments, text) in [
        (&["window", "-m", "8:4"][..], "larger than the last"),
        (&["window", "-m", "0"], "zero bytes"),
        (&["window", "-m", "4T"], "no size"),
        (&["window", "-i", "0"], "from 1 on"),
        (&["window", "-f", "101"], "between 0 and 100"),
        (&["window", "--windows", "0"], "from 1 on"),
        (
            &["window", "--flavours", "made"],
            "expected create, allocate",
        ),
        (&["window", "--communicators", "self"], "invalid value"),
        (&["window", "--ranks", "3"], "there are 2 ranks"),
        (&["window", "--figure", "x.png"], ".svg"),
        (&["window", "--figure", &svg], "No such file"),
        (&["window", "--json", missing], "No such file"),
        (&["window", "--hgrm", "/dev/null/x"], "--hgrm"),
        (&["latency", "-m", "x"], "no size"),
        (&["latency", "--json", missing], "No such file"),
        (&["redistribute", "--variants", "col,rma3"], "rma1-wt"),
        (&["redistribute", "--bytes", "0"], "zero bytes"),
        (&["redistribute", "--from", "3"], "there are 2 ranks"),
        (
            &["redistribute", "--json", missing, "--from", "2"],
            "No such file",
        ),
        (&["bandwidth"], "unrecognized subcommand"),
    ] {
        refused(run, bench("2", arguments), text)?;
        let mut under = mpiexec(2);
        under.arg(program()).arg("bench").args(arguments);
        refused(run, under, text)?;
    }
    refused(run, bench("1", &["latency"]), "needs two ranks")
}
