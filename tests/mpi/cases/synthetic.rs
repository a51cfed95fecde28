//! `malleus synthetic` as a user runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::expect;
use crate::harness::{Case, Ended, Outcome, Run, mpiexec};

pub fn cases() -> Vec<Case> {
    vec![
        Case::command("synthetic_shipped_configuration", shipped).needs_spawn(),
        Case::command("synthetic_every_stage", every_stage).needs_spawn(),
        Case::command("synthetic_captures", captures),
        Case::command("synthetic_proteo_files", proteo_files).needs_spawn(),
        Case::command("synthetic_checks_real_files", real_files),
        Case::command("synthetic_refuses", refuses),
        Case::command("synthetic_refuses_other_sizes", other_sizes),
        Case::command("synthetic_ends_where_a_resize_is_refused", refused).needs_spawn(),
    ]
}

type Failure = Box<dyn std::error::Error>;

fn malleus(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_malleus"));
    command.args(arguments);
    command
}

fn succeeded(ended: Ended) -> Result<String, Failure> {
    if !ended.status.success() {
        return Err(format!("{}\n{}{}", ended.status, ended.stdout, ended.stderr).into());
    }
    expect("nothing on standard error", ended.stderr.as_str(), "")?;
    Ok(ended.stdout)
}

/// Runs a text as a file of that name.
fn run_text(
    run: &Run,
    folder: &Path,
    (name, text): (&str, &str),
    options: &[&str],
) -> Result<Value, Failure> {
    let path = folder.join(name);
    std::fs::write(&path, text)?;
    let path = path.to_str().ok_or("a path that is not text")?;
    let mut arguments = vec!["synthetic", path, "--json", "-"];
    arguments.extend(options);
    let out = succeeded(run.finish(malleus(&arguments))?)?;
    Ok(serde_json::from_str(&out)?)
}

/// The numbers of a field of the elements of a list.
fn numbers(list: &Value, key: &str) -> Result<Vec<u64>, Failure> {
    let list = list.as_array().ok_or("no list")?;
    list.iter()
        .map(|one| {
            one[key]
                .as_u64()
                .ok_or_else(|| format!("no number {key} in {one}").into())
        })
        .collect()
}

/// The shipped configuration, small, grows and shrinks in the background.
fn shipped(run: &Run) -> Outcome {
    const ITERATIONS: u64 = 150;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/cg.toml");
    let mut text = std::fs::read_to_string(path)?
        .replace("scale = 0.017", "scale = 0.002")
        .replace("iterations = 100", &format!("iterations = {ITERATIONS}"));
    text.push_str(&format!(
        "[[group]]\nprocesses = 1\niterations = {ITERATIONS}\nspeed_factor = 2.0\nvariant = \"col-nb\"\n"
    ));
    let folder = tempfile::tempdir()?;
    let found = run_text(run, folder.path(), ("cg.toml", &text), &[])?;
    expect("verified", &found["verified"], &Value::from(true))?;
    expect("ignored", &found["ignored"], &Value::Array(Vec::new()))?;
    let groups = &found["groups"];
    expect("processes", numbers(groups, "processes")?, vec![1, 2, 1])?;
    let resizes = &found["resizes"];
    expect("to", numbers(resizes, "to")?, vec![2, 1])?;
    for (resize, variant) in resizes
        .as_array()
        .into_iter()
        .flatten()
        .zip(["rma1-wt", "col-nb"])
    {
        expect("variant", &resize["variant"], &Value::from(variant))?;
        expect("verified", &resize["verified"], &Value::from(true))?;
    }
    let during = numbers(resizes, "iterations_during")?;
    expect(
        "iterations meanwhile",
        during.iter().all(|&count| count > 0),
        true,
    )?;
    // Iterations under way count for the group after it.
    let overlapped = numbers(groups, "overlapped")?;
    expect(
        "under way",
        overlapped.as_slice(),
        &[during[0], during[1], 0],
    )?;
    let expected: Vec<u64> = (0..3)
        .map(|group: usize| {
            let before = group.checked_sub(1).map_or(0, |before| overlapped[before]);
            ITERATIONS.saturating_sub(before) + overlapped[group]
        })
        .collect();
    expect("iterations", numbers(groups, "iterations")?, expected)?;
    let calibration = &found["calibration"];
    expect(
        "measured stages",
        numbers(calibration, "stage")?,
        vec![0, 0, 0],
    )?;
    for (index, stage) in calibration.as_array().into_iter().flatten().enumerate() {
        let asked = stage["asked_s"].as_f64().ok_or("no time")?;
        let expected = 0.6085314 * 0.002 * [2.0, 1.0, 2.0][index];
        expect("asked", (asked - expected).abs() < 1e-9, true)?;
        let operation = stage["operation_s"].as_f64().ok_or("no time")?;
        let count = (asked / operation).ceil() as u64;
        expect("repetitions", stage["repetitions"].as_u64(), Some(count))?;
    }
    Ok(())
}

/// Two phases; group changes with and without a resize.
const EVERY_STAGE: &str = r#"
constant = "64KiB"
variable = 10_003
capture = "mean"
[[phase]]
iterations = 6
stage = [
    { kind = "pi", time = 0.002 },
    { kind = "matvec", time = 0.002 },
    { kind = "point-to-point", bytes = 5000 },
    { kind = "start-point-to-point", identifier = 3, time = 0.001 },
    { kind = "broadcast", bytes = 100, root = 1 },
    { kind = "wait", identifier = 3 },
    { kind = "allgatherv", bytes = 1001 },
    { kind = "reduce", bytes = 80, root = 1 },
    { kind = "allreduce", time = 0.002, capped = true },
    { kind = "file-write", bytes = "3MiB", ranks = 1 },
    { kind = "file-read", bytes = 2000 },
]
[[phase]]
iterations = 6
stage = [
    { kind = "start-point-to-point", identifier = 1, operations = 50, bytes = 70000 },
    { kind = "wait", identifier = 1 },
    { kind = "file-write", time = 0.002, capped = true },
    { kind = "file-read", time = 0.002 },
    { kind = "reduce", time = 0.002 },
]
[[group]]
processes = 2
iterations = 2
speed_factor = 1
[[group]]
processes = 2
iterations = 3
speed_factor = 2
variant = "rma2"
[[group]]
processes = 3
iterations = 4
speed_factor = 1
variant = "rma1"
management = "baseline"
spawn_in_background = true
[[group]]
processes = 2
speed_factor = 1
variant = "col"
"#;

fn every_stage(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let files = folder.path().join("files");
    std::fs::create_dir(&files)?;
    let files = files.to_str().ok_or("a path that is not text")?;
    let options = ["--files", files];
    let found = run_text(run, folder.path(), ("all.toml", EVERY_STAGE), &options)?;
    expect("verified", &found["verified"], &Value::from(true))?;
    expect("no file is left", Path::new(files).read_dir()?.count(), 0)?;
    let groups = &found["groups"];
    expect("processes", numbers(groups, "processes")?, vec![2, 2, 3, 2])?;
    expect(
        "iterations",
        numbers(groups, "iterations")?,
        vec![2, 3, 4, 3],
    )?;
    let phases: Vec<_> = groups
        .as_array()
        .into_iter()
        .flatten()
        .map(|group| numbers(&group["phases"], "phase"))
        .collect::<Result<_, _>>()?;
    expect(
        "phases",
        phases,
        vec![vec![0], vec![0], vec![0, 1], vec![1]],
    )?;
    let stages = &groups[2]["phases"][0]["stages"];
    expect("stages", stages.as_array().map(Vec::len), Some(11))?;
    for stage in stages.as_array().into_iter().flatten() {
        expect("times", stage["times_s"].as_array().map(Vec::len), Some(1))?;
    }
    expect(
        "3 MiB in pieces",
        &stages[9]["repetitions"],
        &Value::from(3),
    )?;
    let ignored: Vec<_> = found["ignored"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["key"].as_str())
        .collect();
    let expected = vec![
        "group 1: the resize into it",
        "group 2: management baseline",
        "group 2: starting processes in the background",
    ];
    expect("ignored", ignored, expected)?;
    // The same for a person.
    let path = folder.path().join("all.toml");
    let path = path.to_str().ok_or("a path that is not text")?;
    let shown = succeeded(run.finish(malleus(&["synthetic", path, "--no-verify"]))?)?;
    for part in [
        "12 iterations, data not verified;",
        "start-point-to-point",
        "3 → 2",
        "ignored:",
        "management baseline: processes that are in both groups go on (merge)",
    ] {
        expect(part, shown.contains(part), true)?;
    }
    Ok(())
}

/// Ranks that take part make the times of those that do not matter.
fn captures(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    for (capture, share) in [("max", 1.0), ("mean", 0.5), ("median", 0.5)] {
        let text = format!(
            "capture = \"{capture}\"\n\
             stage = [{{ kind = \"file-write\", time = 0.05, capped = true, ranks = 1 }}]\n\
             group = [{{ processes = 2, iterations = 3, speed_factor = 1 }}]\n"
        );
        let found = run_text(run, folder.path(), ("x.toml", &text), &[])?;
        let median = &found["groups"][0]["phases"][0]["stages"][0]["median_s"];
        let median = median.as_f64().ok_or("no time")?;
        // A cap is a lower bound, on any machine.
        expect(capture, median >= 0.05 * share, true)?;
    }
    Ok(())
}

const PROTEO_JSON: &str = r#"{
  "general": { "Total_Resizes": 1, "Total_Phases": 1, "SDR": 1000, "ADR": 0, "Datasize": 8, "Rigid": 1,
    "Capture_Method": 0 },
  "phases": [ { "Total_Iters": 7, "Total_Stages": 2, "stages": [
    { "Stage_Type": 0, "Stage_Bytes": 0, "Stage_Time": 0.002, "Granularity": 1000 },
    { "Stage_Type": 6, "Stage_Bytes": 1000, "Stage_Time": 0 } ] } ],
  "groups": [
    { "Iters": 3, "Procs": 1, "FactorS": 1, "Dist": "compact", "Spawn_Method": 0, "Spawn_Strategy": [0],
      "Redistribution_Method": 0, "Redistribution_Strategy": [0] },
    { "Iters": 3, "Procs": 2, "FactorS": 0.5, "Dist": "compact", "Spawn_Method": 0, "Spawn_Strategy": [0],
      "Redistribution_Method": 2, "Redistribution_Strategy": [0] } ]
}"#;

/// Stage 3 is a broadcast by the old numbers; by the new ones it starts an exchange that nobody waits for.
const PROTEO_INI: &str = "\
[general]
Total_Resizes=1
Total_Stages=2
Granularity=100
SDR=1000.5
ADR=5000
;end [general]
[stage0]
Stage_Type=0
Stage_Bytes=0
Stage_Time=0.001
[stage1]
Stage_Type=6
Stage_Bytes=8
Stage_Time=0
[resize0]
Iters=4
Procs=2
FactorS=1
Dist=compact
Redistribution_Method=0
Redistribution_Strategy=1
Spawn_Method=1
Spawn_Strategy=1
[resize1]
Iters=5
Procs=1
FactorS=2
Dist=compact
Redistribution_Method=0
Redistribution_Strategy=1
Spawn_Method=1
Spawn_Strategy=1
";

fn proteo_files(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let records = folder.path().join("records");
    let records = records.to_str().ok_or("a path that is not text")?;
    let options = ["--proteo-output", records, "--run", "7"];
    for _ in 0..2 {
        let found = run_text(run, folder.path(), ("x.json", PROTEO_JSON), &options)?;
        expect("form", &found["form"], &Value::from("Proteo JSON"))?;
        expect("variable", &found["variable_bytes"], &Value::from(8000))?;
        expect(
            "iterations",
            numbers(&found["groups"], "iterations")?,
            vec![3, 4],
        )?;
        let ignored = found["ignored"].as_array().ok_or("no list")?;
        let baseline = ignored
            .iter()
            .any(|one| one["key"] == "group 1: management baseline");
        expect("baseline is ignored", baseline, true)?;
    }
    let read = |name: &str| std::fs::read_to_string(Path::new(records).join(name));
    let group = read("R7_G1NP2ID0.out")?;
    let lines: Vec<&str> = group.lines().collect();
    expect("two records", lines.len(), 16)?;
    expect(
        "group",
        lines[3],
        "Group 1: Iters=3, Procs=2, Factors=0.500000, Dist=2, RM=2, SM=0, RS=0, SS=0, parents=1, children=0",
    )?;
    for (line, name) in [(5, "T_iter: "), (6, "T_stage 0: "), (15, "T_stage 1: ")] {
        let times = lines[line].strip_prefix(name).ok_or(name)?;
        expect(name, times.split_terminator(' ').count(), 4)?;
    }
    let global = read("R7_Global.out")?;
    let first =
        "Config loaded: R=1, S=2, granularity=1000, SDR=1000, ADR=0, Rigid=1, Capture_Method=0";
    expect(
        "global",
        global.lines().filter(|line| *line == first).count(),
        2,
    )?;
    expect(
        "the other group",
        read("R7_G0NP1ID0.out")?.lines().count(),
        16,
    )?;

    // A wait that gives up at once.
    let capped = PROTEO_JSON
        .replace("\"Total_Stages\": 2", "\"Total_Stages\": 3")
        .replace(
            "\"Stage_Type\": 6, \"Stage_Bytes\": 1000, \"Stage_Time\": 0 }",
            "\"Stage_Type\": 3, \"Stage_Bytes\": 300000, \"Stage_Time\": 0, \"Stage_Identifier\": 1 },
             { \"Stage_Type\": 4, \"Stage_Bytes\": 0, \"Stage_Time\": 1e-9, \"Stage_Identifier\": 1,
               \"Stage_Time_Capped\": 1 }",
        );
    let found = run_text(run, folder.path(), ("x.json", &capped), &[])?;
    let wait = &found["groups"][1]["phases"][0]["stages"][2];
    expect("wait", &wait["kind"], &Value::from("wait"))?;
    expect("until", &wait["asked_s"], &Value::from(1e-9))?;

    for (numbers, kind) in [("old", "allreduce"), ("new", "allgatherv")] {
        // By the new numbers, strategy 1 is a thread.
        let options = ["--proteo-numbers", numbers];
        let found = run_text(run, folder.path(), ("x.ini", PROTEO_INI), &options)?;
        let stage = &found["groups"][0]["phases"][0]["stages"][1];
        expect(numbers, &stage["kind"], &Value::from(kind))?;
        let variant = if numbers == "old" { "col" } else { "col-t" };
        expect(
            numbers,
            &found["resizes"][0]["variant"],
            &Value::from(variant),
        )?;
    }
    Ok(())
}

fn real(name: &str) -> Option<PathBuf> {
    let data = std::env::var_os("MALLEUS_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    let path = data.join("proteo").join(name);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: the file {} is not there", path.display());
    None
}

/// Proteo's own files ask for minutes and hundreds of processes: they are read, and nothing is started.
fn real_files(run: &Run) -> Outcome {
    for (name, numbers, parts) in [
        (
            "mnv-new-numbers.ini",
            None,
            &[
                "Proteo INI, new numbers",
                "allgatherv",
                "0 to 5",
                "5 to 15",
                "with barriers",
            ][..],
        ),
        (
            "cg-old-numbers.ini",
            Some("old"),
            &[
                "Proteo INI, old numbers",
                "3.6 GiB constant",
                "allreduce",
                "500 to 1000",
                "group 1: management baseline",
            ],
        ),
        (
            "test.json",
            None,
            &[
                "Proteo JSON",
                "file-read",
                "broadcast",
                "15 to 24",
                "line 13: groups[0].Dist: where processes go",
            ],
        ),
        (
            "manual-full-example.json",
            None,
            &["Proteo JSON", "allgatherv", "0 to 1"],
        ),
    ] {
        let Some(path) = real(name) else {
            return Ok(());
        };
        let path = path.to_str().ok_or("a path that is not text")?;
        let mut arguments = vec!["synthetic", path, "--check"];
        let ended = run.finish(malleus(&arguments))?;
        expect(name, ended.status.success(), numbers.is_none())?;
        if let Some(numbers) = numbers {
            let asks = ended.stderr.contains("with --proteo-numbers old or");
            expect("it asks", asks, true)?;
            arguments.extend(["--proteo-numbers", numbers]);
        }
        let shown = succeeded(run.finish(malleus(&arguments))?)?;
        for part in parts {
            if !shown.contains(part) {
                return Err(format!("{name}: no {part:?} in\n{shown}").into());
            }
        }
    }
    Ok(())
}

const GROUP: &str = "[[group]]\nprocesses = 1\niterations = 1\nspeed_factor = 1\n";

/// Errors of configurations and of options, on standard error with exit code 1, before anything is started.
fn refuses(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let with_group = |text: &str| format!("{text}\n{GROUP}");
    for (name, text, options, expected) in [
        ("missing.toml", None, &[][..], ": cannot be read: "),
        (
            "x.yaml",
            Some(String::new()),
            &[],
            ": found the extension \"yaml\"; allowed: ",
        ),
        (
            "x.toml",
            Some("stage = 1 2".to_owned()),
            &[],
            ":1: not TOML: ",
        ),
        (
            "x.toml",
            Some(with_group("[[stage]]\nkind = \"pi\"\ntmie = 1.0")),
            &[],
            ":3: stage.tmie: unknown key",
        ),
        (
            "x.toml",
            Some(with_group("[[stage]]\nkind = \"allreduce\"\nbytes = -8")),
            &[],
            ":3: stage.bytes: -8 is negative",
        ),
        (
            "x.toml",
            Some(with_group(
                "[[stage]]\nkind = \"broadcast\"\nbytes = 8\nroot = 1",
            )),
            &[],
            ":4: stage.root: rank 1 does not exist in group 0",
        ),
        (
            "x.toml",
            Some(with_group("[[stage]]\nkind = \"pi\"\ntime = 1.0")),
            &["--proteo-numbers", "new"],
            ": --proteo-numbers new contradicts TOML",
        ),
        (
            "x.json",
            Some(PROTEO_JSON.replace("\"Total_Resizes\": 1", "\"Total_Resizes\": 2")),
            &[],
            ":2: general.Total_Resizes: found 2 groups; allowed: 3",
        ),
        (
            "x.ini",
            Some(PROTEO_INI.to_owned()),
            &[],
            ": nothing here tells",
        ),
    ] {
        let path = folder.path().join(name);
        if let Some(text) = text {
            std::fs::write(&path, text)?;
        }
        let path = path.to_str().ok_or("a path that is not text")?;
        for check in [&["--check"][..], &[]] {
            let arguments = [&["synthetic", path][..], options, check].concat();
            let ended = run.finish(malleus(&arguments))?;
            expect(expected, ended.status.code(), Some(1))?;
            let begins = format!("malleus: error: {path}{expected}");
            if !ended.stderr.starts_with(&begins) {
                return Err(format!("{:?} instead of {begins:?}", ended.stderr).into());
            }
        }
    }
    Ok(())
}

/// What fits no group, or can't be written, is an error once.
fn other_sizes(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("x.toml");
    let stage = "[[stage]]\nkind = \"file-write\"\nbytes = 8\n";
    std::fs::write(&path, format!("{stage}{GROUP}"))?;
    let path = path.to_str().ok_or("a path that is not text")?;
    let missing = folder.path().join("missing/x");
    let missing = missing.to_str().ok_or("a path that is not text")?;
    let size = format!("{path}: the first group has 1 processes, but 2 are started");
    let mut under_mpiexec = mpiexec(2);
    under_mpiexec
        .arg(env!("CARGO_BIN_EXE_malleus"))
        .args(["synthetic", path]);
    for (command, expected) in [
        (malleus(&["-n", "2", "synthetic", path]), size.clone()),
        (under_mpiexec, size),
        (
            malleus(&["synthetic", path, "--json", missing]),
            format!("--json {missing}: "),
        ),
        (
            malleus(&["synthetic", path, "--files", missing]),
            format!("phases[0].stages[0] (file-write) on rank 0: {missing}: "),
        ),
    ] {
        let ended = run.finish(command)?;
        expect(&expected, ended.status.code(), Some(1))?;
        let begins = format!("malleus: error: {expected}");
        if !ended.stderr.starts_with(&begins) || ended.stderr.lines().count() != 1 {
            return Err(format!("{:?} instead of {begins:?}", ended.stderr).into());
        }
    }
    Ok(())
}

/// The next group can't begin: an error, and an end in order.
fn refused(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("x.toml");
    let stage = "[[stage]]\nkind = \"allreduce\"\nbytes = 8\n";
    let large = GROUP.replace("processes = 1", "processes = 100");
    std::fs::write(&path, format!("{stage}{GROUP}{large}"))?;
    let mut command = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_malleus");
    let script = format!("ulimit -n 60; exec {program} synthetic {}", path.display());
    command.args(["-c", &script]);
    let ended = run.finish(command)?;
    expect("exit code", ended.status.code(), Some(1))?;
    let begins = "malleus: error: the resize from 1 to 100 processes, for group 1, was refused: ";
    let is_told = ended.stderr.starts_with(begins) && ended.stderr.contains("ulimit -n");
    expect(&ended.stderr, is_told, true)?;
    expect("once", ended.stderr.lines().count(), 1)
}
