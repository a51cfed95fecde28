//! `malleus experiment`: a small grid, an interruption, runs that fail.

use std::path::Path;
use std::process::Command;

use malleus::experiment::exchange::{Timing, Total};
use malleus::experiment::{Group, Run as Row, finished, read};

use super::expect;
use crate::harness::{Case, Ended, Outcome, Run};

pub fn cases() -> Vec<Case> {
    vec![
        Case::command("experiment_redistribution", redistribution)
            .needs_spawn()
            .seconds(180),
        Case::command("experiment_resumes", resumes),
        Case::command("experiment_keeps_runs_that_fail", fails),
        Case::command("experiment_refuses_bad_arguments", bad_arguments),
        Case::command("experiment_alltoallv", exchanges).seconds(180),
    ]
}

/// Sizes, ranks, a folder of matrices one of which is none, an interruption in the middle of a cell.
fn exchanges(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let (output, matrices) = (
        folder.path().join("results"),
        folder.path().join("matrices"),
    );
    std::fs::create_dir(&matrices)?;
    let matrix =
        "%%MatrixMarket matrix coordinate pattern symmetric\n4 4 5\n1 1\n2 1\n3 2\n4 3\n4 4\n";
    std::fs::write(matrices.join("line.mtx"), matrix)?;
    std::fs::write(matrices.join("none.mtx"), "4 4\n")?;
    std::fs::write(matrices.join("other.txt"), "no matrix at all")?;
    let variants = ["fence", "fence-once", "node-shared", "auto"];
    let experiment = |more: &[&str]| -> Result<Ended, Failure> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_malleus"));
        command.args(["experiment", "alltoallv", "-m", "64:128", "--ranks", "1,2"]);
        command.args(["-i", "3", "--iterations-oversubscribed", "3"]);
        command.args(["--break-even", "1,3", "--variants", &variants.join(",")]);
        command.arg("--matrices").arg(&matrices);
        command.arg("--output").arg(&output).args(more);
        run.finish(command)
    };
    let ended = experiment(&[])?;
    let said = format!("{}{}", ended.stdout, ended.stderr);
    // The matrix that is none is a failure on each number of ranks and with each kind of buffers.
    expect(&said, ended.status.code(), Some(1))?;
    expect(&said, ended.stdout.contains("4 failed"), true)?;
    let csv = output.join("runs.csv");
    let rows = || -> Result<Vec<Timing>, Failure> { Ok(read(&csv)?.runs) };
    let before = rows()?;
    // Two numbers of ranks and kinds of buffers; two sizes and a matrix of all variants and standard, and the failure.
    expect("rows", before.len(), 2 * 2 * (3 * 5 + 1))?;
    for row in &before {
        let told = format!("{row:?}");
        let is_matrix = row.pattern.ends_with("none.mtx");
        expect(&told, row.failed(), is_matrix)?;
        expect(&told, row.error.contains("none.mtx"), is_matrix)?;
        if !row.failed() {
            let over_ranks = row.rank_min_s <= row.mean_s && row.mean_s <= row.rank_max_s;
            expect(&told, over_ranks && row.rank_min_s > 0.0, true)?;
            let quartiles = [row.min_s, row.q1_s, row.median_s, row.q3_s, row.p99_s];
            expect(&told, quartiles.is_sorted(), true)?;
            expect(&told, row.chosen != "auto" && row.iterations == 3, true)?;
        }
    }
    let totals: Vec<Total> = read(&output.join("totals.csv"))?.runs;
    // Where ranks fit the cores.
    let fit = before
        .iter()
        .filter(|row| row.pattern == "uniform" && !row.oversubscribed);
    expect("totals", totals.len(), 2 * fit.count())?;
    expect(
        "times",
        totals.iter().all(|total| total.total_s > 0.0),
        true,
    )?;
    let text = std::fs::read_to_string(&csv)?;
    let lines: Vec<&str> = text.lines().collect();
    let kept = lines[..7].join("\n") + "\n" + &lines[7][..20];
    std::fs::write(&csv, kept)?;
    let refused = experiment(&[])?;
    expect(&refused.stderr, refused.stderr.contains("--resume"), true)?;
    let resumed = experiment(&["--resume"])?;
    expect(&resumed.stderr, resumed.stderr.contains("is torn"), true)?;
    let after = rows()?;
    // The first cell was whole, and of the second one a row was.
    expect("kept", after[..6] == before[..6], true)?;
    expect("rows", after.len(), before.len() + 1)?;
    let report = std::fs::read_to_string(output.join("report.html"))?;
    for text in [
        "<svg",
        "does not hold",
        "fence-once",
        "line.mtx",
        "none.mtx",
        "N*",
    ] {
        expect(text, report.contains(text), true)?;
    }
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(output.join("summary.json"))?)?;
    let length = |name: &str| summary[name].as_array().map_or(0, Vec::len);
    expect("measured once", length("rows"), 2 * 2 * 3 * 5)?;
    expect("failures", length("failures"), 4)?;
    expect("claims", length("claims"), 5)?;
    let histogram = output.join("hgrm/2-own-64/alltoallv.fence.64B.hgrm");
    let histogram = std::fs::read_to_string(histogram)?;
    expect("a histogram", histogram.contains("#[Mean"), true)?;
    let left = std::fs::read_dir(&output)?.count();
    expect("files", left, 5)
}

type Failure = Box<dyn std::error::Error>;

fn experiment(run: &Run, folder: &Path, options: &[&str]) -> Result<Ended, Failure> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_malleus"));
    command
        .args(["experiment", "redistribution", "--bytes", "64KiB"])
        .arg("--output")
        .arg(folder)
        .args(options);
    if !options.contains(&"--iteration") {
        command.args(["--iteration", "1"]);
    }
    run.finish(command)
}

fn well(ended: &Ended) -> Outcome {
    let said = format!("{}{}", ended.stdout, ended.stderr);
    expect(&said, ended.status.success(), true)
}

fn rows(folder: &Path) -> Result<Vec<Row>, Failure> {
    Ok(read(&folder.join("runs.csv"))?.runs)
}

fn redistribution(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let variants = ["--variants", "col,col-wt,rma2,rma2-t", "--baseline"];
    let reps = ["--reps", "2", "--reps-oversubscribed", "1"];
    let ended = experiment(
        run,
        folder,
        &[&["--grid", "1,2"][..], &variants, &reps].concat(),
    )?;
    well(&ended)?;
    let rows = rows(folder)?;
    // Four variants twice in both directions, two of them once without a progress thread, and two blocking ones once
    // or twice by Baseline, which needs three cores.
    let baseline = |row: &&Row| row.variant.ends_with("baseline");
    let all: Vec<&Row> = rows.iter().filter(|row| row.group == Group::All).collect();
    let by_baseline = all.iter().copied().filter(|row| baseline(row)).count();
    expect("by Baseline", [4, 8].contains(&by_baseline), true)?;
    expect("by Merge", all.len() - by_baseline, 16 + 4)?;
    for row in &rows {
        expect("verified", row.verified, true)?;
        expect("error", row.error.as_str(), "")?;
        expect("bytes", row.bytes, 64 << 10)?;
        let background = row.variant.contains('-');
        expect("background", row.omega.is_some(), background)?;
        expect("time", row.redistribute_s > 0.0, true)?;
    }
    let growth = |row: &&&Row| !baseline(row) && (row.from, row.to) == (1, 2);
    expect(
        "started",
        all.iter().filter(growth).all(|row| row.spawn_s > 0.0),
        true,
    )?;
    let groups = |from, to| {
        let of = rows
            .iter()
            .filter(move |row| (row.from, row.to) == (from, to));
        let mut groups: Vec<_> = of
            .filter(|row| !baseline(row))
            .map(|row| row.group.name())
            .collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    };
    expect("groups", groups(1, 2), vec!["all", "both", "target_only"])?;
    expect("groups", groups(2, 1), vec!["all", "both", "source_only"])?;
    let report = std::fs::read_to_string(folder.join("report.html"))?;
    for text in ["<svg", "Figure 5", "Figure 9", "RMA2-T", "NS→NT"] {
        expect(text, report.contains(text), true)?;
    }
    let summary = std::fs::read_to_string(folder.join("summary.json"))?;
    let summary: serde_json::Value = serde_json::from_str(&summary)?;
    expect(
        "summary",
        summary["cells"]
            .as_array()
            .is_some_and(|cells| !cells.is_empty()),
        true,
    )?;
    let stage = folder.join("hgrm").join("1-2.rma2.expose.hgrm");
    expect(
        "a histogram",
        std::fs::read_to_string(stage)?.contains("#[Mean"),
        true,
    )
}

/// After an interruption, what is missing is measured, and nothing else.
fn resumes(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let options = ["--grid", "2,1", "--variants", "col,rma1-wt", "--reps", "3"];
    // From two ranks to one no process is started.
    let one_way = [
        &options[..],
        &["--reps-without-progress", "0", "--shrink-only"],
    ]
    .concat();
    well(&experiment(run, folder, &one_way)?)?;
    let before = rows(folder)?;
    expect("runs", finished(&before).len(), 6)?;
    let refused = experiment(run, folder, &one_way)?;
    expect("refused", refused.status.code(), Some(1))?;
    expect(&refused.stderr, refused.stderr.contains("--resume"), true)?;
    // As if it had been interrupted in the middle of a line.
    let csv = folder.join("runs.csv");
    let text = std::fs::read_to_string(&csv)?;
    let lines: Vec<&str> = text.lines().collect();
    let kept = lines[..7].join("\n") + "\n" + &lines[7][..20];
    std::fs::write(&csv, kept)?;
    let resumed = experiment(run, folder, &[&one_way[..], &["--resume"]].concat())?;
    well(&resumed)?;
    expect(&resumed.stderr, resumed.stderr.contains("is torn"), true)?;
    let after = rows(folder)?;
    expect("runs", finished(&after), finished(&before))?;
    let kept = after.iter().zip(&before).take(6);
    expect(
        "kept",
        kept.filter(|(after, before)| after == before).count(),
        6,
    )
}

/// A run that hangs is a row with its error, and the experiment goes on; a variant that hung three times is given up.
fn fails(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let ended = experiment(
        run,
        folder,
        &[
            &["--grid", "2,1", "--shrink-only", "--variants", "col,rma2"][..],
            &["--reps", "4", "--iteration", "20000", "--time-out", "1"],
        ]
        .concat(),
    )?;
    expect("exit code", ended.status.code(), Some(1))?;
    let rows = rows(folder)?;
    for variant in ["col", "rma2"] {
        let rows = rows.iter().filter(|row| row.variant == variant);
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| row.rep);
        let given_up = "not run after 3 failures: no sample for 1 s";
        let hung = "no sample for 1 s";
        expect("rows", rows.len(), 4)?;
        for (row, error) in rows.into_iter().zip([hung, hung, hung, given_up]) {
            expect(&row.error, row.error.starts_with(error), true)?;
            expect("verified", row.verified, false)?;
        }
    }
    let report = std::fs::read_to_string(folder.join("report.html"))?;
    expect("told", report.contains("no sample for 1 s"), true)
}

fn bad_arguments(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    for (options, text) in [
        (&["--grid", "1,0"][..], "from 1 on"),
        (&["--grid", "2"], "no two different numbers"),
        (&["--variants", "rma3"], "unknown variant"),
        (&["--reps", "1"], "--output /dev/null"),
    ] {
        let nowhere = text.starts_with("--output");
        let folder = if nowhere {
            Path::new("/dev/null")
        } else {
            folder.path()
        };
        let ended = experiment(run, folder, options)?;
        expect(text, ended.status.success(), false)?;
        expect(&ended.stderr, ended.stderr.contains(text), true)?;
    }
    Ok(())
}
