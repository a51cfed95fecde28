//! Our own form: what is read, and each message.

use std::path::Path;

use super::super::{Amount, ProteoNumbers};
use super::*;

const EXAMPLE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/cg.toml"));

/// Every line of it is changed by a test.
const BASE: &str = "\
constant = \"1KiB\"
variable = 8
[[stage]]
kind = \"matvec\"
time = 0.5
[[stage]]
kind = \"reduce\"
bytes = 8
root = 1
[[stage]]
kind = \"start-point-to-point\"
bytes = 64
identifier = 3
[[stage]]
kind = \"wait\"
identifier = 3
[[group]]
processes = 4
iterations = 10
[[group]]
processes = 2
iterations = 20
variant = \"rma1-wt\"
";

const PHASES: &str = "\
[[phase]]
iterations = 30
[[phase.stage]]
kind = \"pi\"
operations = 2
[[phase]]
iterations = 5
stage = [{ kind = \"file-write\", bytes = 10, ranks = 1 }]
[[group]]
processes = 1
iterations = 10
[[group]]
processes = 2
";

fn read(text: &str) -> Result<Configuration, Error> {
    Configuration::from_text(Path::new("cg.toml"), text, &ReadOptions::default())
}

fn changed(base: &str, from: &str, to: &str) -> String {
    assert!(base.contains(from), "{from:?} is not in the base");
    base.replacen(from, to, 1)
}

#[test]
fn the_example_is_small() {
    let configuration = read(EXAMPLE).unwrap();
    // Rounded up from 0.017 × 3,813,655,465 and 0.017 × 134,228,039.
    assert_eq!(configuration.constant_bytes, 64_832_143);
    assert_eq!(configuration.variable_bytes, 2_281_877);
    let total = configuration.constant_bytes + configuration.variable_bytes;
    assert_eq!(total >> 20, 64);
    let stages = &configuration.phases[0].stages;
    let names: Vec<&str> = stages.iter().map(|stage| stage.kind.name()).collect();
    assert_eq!(names, ["matvec", "allreduce", "allreduce", "allgatherv"]);
    // 0.6085314 s × 0.017, and with the factor 2 of the first group 20.7 ms.
    assert!((stages[0].time_s - 0.010_345_033_8).abs() < 1e-12);
    assert_eq!(stages[1].message_bytes(), 8);
    assert_eq!(stages[3].message_bytes(), 564_007);
    assert!(configuration.rigid);
    assert!(configuration.ignored.is_empty());
    assert_eq!(configuration.cursor().planned(), [0..100, 100..200]);
    let resize = configuration.groups[1].resize.unwrap();
    assert_eq!(
        (resize.variant().as_str(), resize.management),
        ("rma1-wt", Management::Merge)
    );
}

#[test]
fn the_unscaled_example_is_the_original() {
    let configuration = read(&changed(EXAMPLE, "scale = 0.017", "scale = 1")).unwrap();
    assert_eq!(
        configuration.constant_bytes + configuration.variable_bytes,
        3_947_883_504
    );
    assert_eq!(configuration.phases[0].stages[0].time_s, 0.608_531_4);
    assert_eq!(configuration.phases[0].stages[3].bytes, 33_176_880);
}

#[test]
fn defaults_are_few() {
    let configuration = read(BASE).unwrap();
    assert_eq!(configuration.form, Form::Toml);
    assert_eq!(configuration.constant_bytes, 1024);
    assert_eq!(
        (configuration.rigid, configuration.capture),
        (false, Capture::Maximum)
    );
    assert_eq!(configuration.counting, Counting::PerGroup);
    assert_eq!(configuration.phases[0].iterations, 30);
    assert_eq!(
        configuration.groups[1],
        Group {
            iterations: 20,
            processes: 2,
            speed_factor: 1.0,
            placement: Placement::Compact,
            resize: Some(Transition {
                management: Management::Merge,
                method: Method::RmaLock,
                strategy: Strategy::WaitTargets,
                spawn_in_background: false,
            }),
        }
    );
    let configuration = read(&changed(BASE, "variant = \"rma1-wt\"", "")).unwrap();
    assert_eq!(configuration.groups[1].resize.unwrap().variant(), "col");
}

#[test]
fn phases_are_a_sequence() {
    let configuration = read(PHASES).unwrap();
    assert_eq!(configuration.counting, Counting::Sequence);
    assert_eq!(configuration.groups[1].iterations, 25);
    assert_eq!(configuration.cursor().planned(), [0..10, 10..35]);
    assert_eq!(
        configuration.phases[0].stages[0].amount(),
        Amount::Operations(2)
    );
    assert_eq!(
        configuration.phases[1].stages[0].kind,
        StageKind::FileWrite { ranks: 1 }
    );
}

#[test]
fn stages_say_how_often_they_run() {
    use Amount::{OperationTime, Operations, Until};
    let fill = |scaled| OperationTime {
        seconds: 2.0,
        scaled,
    };
    for (keys, amount, message) in [
        ("kind = 'pi'\ntime = 2", fill(true), 0),
        (
            "kind = 'matvec'\noperations = 7\ngranularity = 9",
            Operations(7),
            0,
        ),
        ("kind = 'allreduce'\nbytes = 8", Operations(1), 8),
        (
            "kind = 'allreduce'\nbytes = 8\noperations = 7",
            Operations(7),
            8,
        ),
        ("kind = 'allreduce'\nbytes = 8\ntime = 2", fill(true), 8),
        ("kind = 'allreduce'\ntime = 2", fill(true), 600),
        (
            "kind = 'allreduce'\nbytes = 8\ntime = 2\ncapped = true",
            Until { seconds: 2.0 },
            8,
        ),
        (
            "kind = 'point-to-point'\nbytes = '2 KiB'",
            Operations(1),
            2048,
        ),
        ("kind = 'file-read'\nbytes = 8\ntime = 2", fill(false), 8),
        ("kind = 'file-read'\nbytes = '3MiB'", Operations(3), 1 << 20),
        (
            "kind = 'file-read'\nbytes = '3MiB'\noperations = 2",
            Operations(2),
            3 << 20,
        ),
    ] {
        let text = format!("[[stage]]\n{keys}\n[[group]]\nprocesses = 1\niterations = 1\n");
        let configuration = read(&text).unwrap();
        let stage = &configuration.phases[0].stages[0];
        assert_eq!(
            (stage.amount(), stage.message_bytes()),
            (amount, message),
            "{keys}"
        );
    }
}

#[test]
fn scale_rounds_up_and_leaves_small_messages_alone() {
    let text = "\
scale = 0.001
constant = 1
variable = 1001
[[stage]]
kind = \"allgatherv\"
bytes = 1
[[stage]]
kind = \"allreduce\"
bytes = 8
time = 2
[[group]]
processes = 1
iterations = 1
";
    let configuration = read(text).unwrap();
    assert_eq!(
        (configuration.constant_bytes, configuration.variable_bytes),
        (1, 2)
    );
    let stages = &configuration.phases[0].stages;
    assert_eq!(stages[0].message_bytes(), 1);
    assert_eq!((stages[1].message_bytes(), stages[1].time_s), (8, 0.002));
}

#[test]
fn wrong_files_are_refused() {
    const STAGE_KINDS: &str = "pi, matvec, point-to-point, start-point-to-point, wait, broadcast, allgatherv, \
                               reduce, allreduce, file-write, file-read";
    const VARIANTS: &str = "col, col-t, col-nb, col-wt, p2p, p2p-t, p2p-nb, p2p-wt, rma1, rma1-t, rma1-wt, \
                            rma2, rma2-t, rma2-wt";
    const SIZES: &str = "bytes, or a text with B, KiB, MiB, GiB or TiB such as \"64KiB\"";
    const PAIRS: &str = "for each identifier one start, and after it in the same phase one wait";
    for (from, to, message) in [
        // The language.
        (
            "variable = 8",
            "variable =",
            "2: not TOML: string values must be quoted, expected literal string",
        ),
        ("variable = 8", "constant = 8", "2: not TOML: duplicate key"),
        // Keys.
        (
            "variable = 8",
            "variables = 8",
            "2: variables: unknown key, did you mean `variable`?; allowed: constant, variable, scale, rigid, \
             capture, stage, phase, group",
        ),
        (
            "bytes = 8",
            "byte = 8",
            "8: stage.byte: unknown key, did you mean `bytes`?; allowed: kind, bytes, time, operations, \
             capped, root",
        ),
        (
            "time = 0.5",
            "time = 0.5\nroot = 0",
            "6: stage.root: unknown key; allowed: kind, time, operations, granularity",
        ),
        (
            "identifier = 3\n[[group]]",
            "identifier = 3\ntime = 1\n[[group]]",
            "17: stage.time: unknown key; allowed: kind, identifier",
        ),
        (
            "variant = \"rma1-wt\"",
            "varriant = \"col\"",
            "23: group.varriant: unknown key, did you mean `variant`?; allowed: processes, iterations, \
             speed_factor, variant, management, spawn_in_background",
        ),
        (
            "kind = \"matvec\"\n",
            "",
            &format!("3: stage.kind: missing; allowed: {STAGE_KINDS}"),
        ),
        (
            "kind = \"matvec\"",
            "kind = \"mat-vec\"",
            &format!(
                "4: stage.kind: \"mat-vec\", did you mean \"matvec\"?; allowed: {STAGE_KINDS}"
            ),
        ),
        (
            "kind = \"matvec\"",
            "kind = 1",
            &format!("4: stage.kind: 1; allowed: {STAGE_KINDS}"),
        ),
        // Bytes.
        (
            "bytes = 8",
            "bytes = -8",
            "8: stage.bytes: -8 is negative; allowed: 0 and above",
        ),
        (
            "bytes = 8",
            "bytes = 8.5",
            &format!("8: stage.bytes: 8.5; allowed: {SIZES}"),
        ),
        (
            "bytes = 8",
            "bytes = \"8KB\"",
            &format!("8: stage.bytes: \"8KB\"; allowed: {SIZES}"),
        ),
        (
            "bytes = 8",
            "bytes = \"-8B\"",
            &format!("8: stage.bytes: \"-8B\"; allowed: {SIZES}"),
        ),
        (
            "bytes = 8",
            "bytes = \"8\"",
            &format!("8: stage.bytes: \"8\"; allowed: {SIZES}"),
        ),
        (
            "variable = 8",
            "variable = 9223372036854775808",
            "2: variable: 9223372036854775808 is too large; allowed: 0 to 9223372036854775807",
        ),
        (
            "variable = 8",
            "scale = 1e300\nvariable = 8",
            "1: constant: 1024 bytes times the scale 1e300 are too many; allowed: at most 9223372036854775807 \
             after scaling",
        ),
        (
            "bytes = 8",
            "bytes = 0",
            "6: stage.bytes: missing; allowed: bytes above 0, or a time above 0",
        ),
        (
            "bytes = 8",
            "operations = 4",
            "6: stage.bytes: missing; allowed: bytes above 0, or a time above 0",
        ),
        // Times.
        (
            "time = 0.5",
            "time = -1",
            "5: stage.time: -1 is negative; allowed: above 0",
        ),
        (
            "time = 0.5",
            "time = 0",
            "5: stage.time: 0 is too small; allowed: above 0",
        ),
        (
            "time = 0.5",
            "time = nan",
            "5: stage.time: NaN is not finite; allowed: a number, above 0",
        ),
        (
            "time = 0.5",
            "time = \"1s\"",
            "5: stage.time: \"1s\"; allowed: a number, above 0",
        ),
        (
            "time = 0.5\n",
            "",
            "3: stage.time: missing; allowed: a time above 0, or operations",
        ),
        (
            "time = 0.5",
            "time = 0.5\noperations = 3",
            "6: stage.operations: given beside time (line 5); allowed: either time or operations",
        ),
        (
            "time = 0.5",
            "operations = 0",
            "5: stage.operations: 0 is too small; allowed: 1 to 2147483647",
        ),
        (
            "bytes = 8",
            "bytes = 8\ncapped = true",
            "9: stage.capped: true without a time; allowed: true with time, false",
        ),
        (
            "bytes = 8",
            "bytes = 8\ncapped = 1",
            "9: stage.capped: 1; allowed: true or false",
        ),
        (
            "variable = 8",
            "scale = 0",
            "2: scale: 0 is too small; allowed: above 0",
        ),
        // Ranks.
        (
            "root = 1",
            "root = 2",
            "9: stage.root: rank 2 does not exist in group 1, which has 2 processes (line 21); allowed: 0 to 1",
        ),
        (
            "kind = \"reduce\"\nbytes = 8\nroot = 1",
            "kind = \"file-read\"\nbytes = 8\nranks = 3",
            "9: stage.ranks: 3 ranks, but group 1 has 2 processes (line 21); allowed: 0 (all) to 2",
        ),
        // Pairs.
        (
            "identifier = 3\n[[group]]",
            "identifier = 4\n[[group]]",
            &format!("16: stage.identifier: no start with identifier 4 before; allowed: {PAIRS}"),
        ),
        (
            "kind = \"wait\"",
            "kind = \"start-point-to-point\"\nbytes = 8",
            &format!(
                "17: stage.identifier: 3 is the identifier of the start in line 13; allowed: {PAIRS}"
            ),
        ),
        (
            "[[group]]",
            "[[stage]]\nkind = \"wait\"\nidentifier = 3\n[[group]]",
            &format!("19: stage.identifier: a second wait for 3; allowed: {PAIRS}"),
        ),
        (
            "[[stage]]\nkind = \"wait\"\nidentifier = 3\n",
            "",
            &format!("13: stage.identifier: no wait for 3 after it; allowed: {PAIRS}"),
        ),
        (
            "identifier = 3\n[[group]]",
            "[[group]]",
            "14: stage.identifier: missing; allowed: an integer that the start and its wait share",
        ),
        // Groups.
        (
            "processes = 4",
            "processes = 0",
            "18: group.processes: 0 is too small; allowed: 1 to 2147483647",
        ),
        (
            "processes = 4\n",
            "",
            "17: group.processes: missing; allowed: an integer, 1 and above",
        ),
        (
            "iterations = 20",
            "iterations = 0",
            "22: group.iterations: 0 is too small; allowed: 1 to 2147483647",
        ),
        (
            "iterations = 20\n",
            "",
            "20: group.iterations: missing; allowed: an integer, 1 and above",
        ),
        (
            "iterations = 20",
            "iterations = 20\nspeed_factor = -1.5",
            "23: group.speed_factor: -1.5 is negative; allowed: 0 and above",
        ),
        (
            "processes = 4",
            "processes = 4\nvariant = \"col\"",
            "19: group.variant: given for the first group, into which no resize leads; allowed: processes, \
             iterations, speed_factor",
        ),
        (
            "rma1-wt",
            "rma3",
            &format!("23: group.variant: \"rma3\"; allowed: {VARIANTS}"),
        ),
        (
            "rma1-wt",
            "rma2-nb",
            "23: group.variant: \"rma2-nb\" does not go with the one-sided method rma2: the targets read, so \
             no request tells a source when its data has left; allowed: rma2, rma2-t, rma2-wt",
        ),
        (
            "iterations = 20",
            "iterations = 20\nmanagement = \"merged\"",
            "23: group.management: \"merged\", did you mean \"merge\"?; allowed: baseline, merge",
        ),
        (
            "iterations = 20",
            "iterations = 20\nspawn_in_background = 2020-01-01",
            "23: group.spawn_in_background: a date or time; allowed: true or false",
        ),
        (
            "variable = 8",
            "capture = \"min\"",
            "2: capture: \"min\"; allowed: max, mean, median",
        ),
        (
            "variable = 8",
            "rigid = 1",
            "2: rigid: 1; allowed: true or false",
        ),
    ] {
        let error = read(&changed(BASE, from, to)).unwrap_err();
        assert_eq!(error.to_string(), format!("cg.toml:{message}"), "{to}");
    }
}

#[test]
fn wrong_phases_are_refused() {
    for (from, to, message) in [
        (
            "processes = 2",
            "processes = 2\niterations = 25",
            "14: group.iterations: given for the last group, which runs until the phases end; allowed: no \
             iterations here",
        ),
        (
            "iterations = 10\n",
            "iterations = 35\n",
            "11: group.iterations: 35 iterations, but the phases have 35, of which 35 are left; allowed: so \
             many that each group has some",
        ),
        (
            "iterations = 30",
            "iterations = 0",
            "2: phase.iterations: 0 is too small; allowed: 1 to 2147483647",
        ),
        (
            "iterations = 30\n",
            "",
            "1: phase.iterations: missing; allowed: an integer, 1 and above",
        ),
        (
            "iterations = 30",
            "iteration = 30\niterations = 30",
            "2: phase.iteration: unknown key, did you mean `iterations`?; allowed: iterations, stage",
        ),
        (
            "operations = 2",
            "operations = -2",
            "5: phase.stage.operations: -2 is negative; allowed: 1 to 2147483647",
        ),
        (
            "stage = [{ kind = \"file-write\", bytes = 10, ranks = 1 }]",
            "stage = []",
            "8: phase.stage: no stage; allowed: one [[phase.stage]] or more",
        ),
        (
            "stage = [{ kind = \"file-write\", bytes = 10, ranks = 1 }]",
            "",
            "6: phase.stage: missing; allowed: one [[phase.stage]] or more",
        ),
        (
            "[[group]]",
            "[[stage]]\nkind = \"pi\"\ntime = 1\n[[group]]",
            "1: phase: given beside [[stage]] (line 9); allowed: either [[stage]] or [[phase]]",
        ),
    ] {
        let error = read(&changed(PHASES, from, to)).unwrap_err();
        assert_eq!(error.to_string(), format!("cg.toml:{message}"), "{to}");
    }
    for (text, message) in [
        (
            "",
            "1: stage: missing; allowed: one [[stage]] or more, or [[phase]] with stages",
        ),
        (
            "stage = []",
            "1: stage: no stage; allowed: one [[stage]] or more",
        ),
        (
            "phase = []",
            "1: phase: no phase; allowed: one [[phase]] or more",
        ),
        ("stage = 3", "1: stage: 3; allowed: a list of tables"),
        ("stage = [3]", "1: stage: 3; allowed: a table"),
        (
            "[[stage]]\nkind = 'pi'\ntime = 1",
            "1: group: missing; allowed: one [[group]] or more",
        ),
        (
            "group = []\n[[stage]]\nkind = 'pi'\ntime = 1",
            "1: group: no group; allowed: one [[group]] or more",
        ),
    ] {
        assert_eq!(
            read(text).unwrap_err().to_string(),
            format!("cg.toml:{message}")
        );
    }
}

#[test]
fn numbers_of_proteo_are_not_for_toml() {
    let options = ReadOptions {
        proteo_numbers: Some(ProteoNumbers::Old),
    };
    let error = Configuration::from_text(Path::new("cg.toml"), BASE, &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cg.toml: --proteo-numbers old contradicts TOML, which has names in place of numbers; allowed: only \
         for .ini files"
    );
}
