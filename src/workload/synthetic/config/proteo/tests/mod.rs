//! Proteo's two languages: what is read, what is listed, and each message.

mod refused;

use std::path::Path;

use super::super::{Capture, Counting, Method, Stage, StageKind, Strategy};
use super::*;

const JSON: &str = include_str!("../test.json");
const INI: &str = include_str!("../test.ini");
const PHASES: &str = "\
[general]
Total_Resizes=0
Total_Phases=2
SDR=0
ADR=10
Datasize=4
[phase0]
Total_Iters=3
Total_Stages=1
[phase0.stage0]
Stage_Type=5
Granularity=20
Stage_Bytes=0
Stage_Time_Capped=1
Stage_Time=0.25
[phase1]
Total_Iters=4
Total_Stages=2
[phase1.stage0]
Stage_Type=3
Stage_Bytes=8
Stage_Identifier=1
Stage_Time=0
[phase1.stage1]
Stage_Type=4
Stage_Bytes=0
Stage_Identifier=1
Stage_Time=0
[resize0]
Iters=1
Procs=2
FactorS=1
Dist=spread
Redistribution_Method=0
Redistribution_Strategy=0
Spawn_Method=0
Spawn_Strategy=0,1
";

fn read_with(
    name: &str,
    text: &str,
    proteo_numbers: Option<ProteoNumbers>,
) -> Result<Configuration, Error> {
    Configuration::from_text(Path::new(name), text, &ReadOptions { proteo_numbers })
}

fn json(text: &str) -> Result<Configuration, Error> {
    read_with("p.json", text, None)
}

/// An INI file, with the old numbers unless it shows others.
fn ini(text: &str) -> Result<Configuration, Error> {
    match read_with("p.ini", text, None) {
        Err(error) if matches!(*error.problem, Problem::AmbiguousNumbers { .. }) => {
            read_with("p.ini", text, Some(ProteoNumbers::Old))
        }
        result => result,
    }
}

fn ignored(configuration: &Configuration) -> Vec<String> {
    configuration
        .ignored
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// The base with one change, which has to apply.
fn changed(base: &str, from: &str, to: &str) -> String {
    assert!(base.contains(from), "{from:?} is not in the base");
    base.replacen(from, to, 1)
}

#[test]
fn json_is_read() {
    let configuration = json(JSON).unwrap();
    assert_eq!(configuration.element_bytes, 8);
    assert_eq!(configuration.variable_bytes, 8000);
    assert_eq!(configuration.constant_bytes, 24_000);
    assert_eq!(
        (
            configuration.rigid,
            configuration.capture,
            configuration.counting
        ),
        (true, Capture::Median, Counting::Sequence)
    );
    assert_eq!(
        configuration.phases[0].stages[1],
        Stage {
            kind: StageKind::StartPointToPoint { identifier: 7 },
            bytes: 4096,
            time_s: 0.0,
            capped: false,
            granularity: 600,
            operations: None,
        }
    );
    assert_eq!(configuration.cursor().planned(), [0..10, 10..20]);
    assert_eq!(configuration.groups[1].placement, Placement::Spread);
    assert_eq!(
        configuration.groups[1].resize,
        Some(Transition {
            management: Management::Merge,
            method: Method::RmaLock,
            strategy: Strategy::WaitTargets,
            spawn_in_background: true,
        })
    );
    let proteo = configuration.proteo.as_ref().unwrap();
    assert_eq!(
        proteo.groups[1],
        ProteoGroup {
            redistribution_method: 2,
            redistribution_strategies: vec![0, 3],
            spawn_method: 1,
            spawn_strategies: vec![1, 4],
            distribution: 1,
        }
    );
    assert_eq!(
        ignored(&configuration),
        [
            "line 4: general.ADR: the fraction of 3000.75 is cut off, as in SAM",
            "line 20: groups[0].Dist: where processes go is up to the process manager",
            "line 21: groups[0].Spawn_Method: no resize leads into the first group",
            "line 21: groups[0].Spawn_Strategy: no resize leads into the first group",
            "line 22: groups[0].Redistribution_Method: no resize leads into the first group",
            "line 22: groups[0].Redistribution_Strategy: no resize leads into the first group",
            "line 25: groups[1].Dist: where processes go is up to the process manager",
            "line 26: groups[1].Spawn_Strategy: strategy 4 (multiple) does not exist here: one call starts \
             all processes",
        ]
    );
}

#[test]
fn an_ini_is_read() {
    let configuration = ini(INI).unwrap();
    assert_eq!(configuration.form, Form::ProteoIni(IniGeneration::OneB));
    assert_eq!(configuration.counting, Counting::PerGroup);
    let kinds: Vec<_> = configuration.phases[0]
        .stages
        .iter()
        .map(|stage| (stage.kind, stage.time_s, stage.granularity))
        .collect();
    assert_eq!(
        kinds,
        [
            (StageKind::MatVec, 0.5, 1000),
            (StageKind::Allreduce, 0.0, 1000)
        ]
    );
    let resize = configuration.groups[1].resize.unwrap();
    assert_eq!(
        (resize.variant().as_str(), resize.spawn_in_background),
        ("rma2-t", false)
    );
    assert!(ignored(&configuration).contains(
        &"line 35: resize1.Spawn_Strategy: strategy 3 (single) does not exist here: one call starts all \
          processes"
            .to_owned()
    ));
}

#[test]
fn an_ini_with_phases_is_read() {
    let configuration = ini(PHASES).unwrap();
    assert_eq!(configuration.form, Form::ProteoIni(IniGeneration::Three));
    assert_eq!(configuration.counting, Counting::Sequence);
    assert_eq!(configuration.constant_bytes, 40);
    assert_eq!(configuration.cursor().iterations(), 7);
    assert_eq!(configuration.cursor().phase(3), Some(1));
    let broadcast = &configuration.phases[0].stages[0];
    assert_eq!(
        (broadcast.kind, broadcast.capped, broadcast.granularity),
        (StageKind::Broadcast { root: 0 }, true, 20)
    );
    assert_eq!(configuration.proteo.as_ref().unwrap().granularity, None);
}

#[test]
fn the_generations_are_told_apart() {
    let first = INI
        .replace(
            "Redistribution_Method=0\nRedistribution_Strategy=1",
            "Asynch_Redistribution_Type=3",
        )
        .replace(
            "Redistribution_Method=3\nRedistribution_Strategy=2",
            "Asynch_Redistribution_Type=3",
        );
    let configuration = read_with("p.ini", &first, None).unwrap();
    assert_eq!(configuration.form, Form::ProteoIni(IniGeneration::One));
    assert_eq!(configuration.groups[1].resize.unwrap().variant(), "col");
    assert!(ignored(&configuration).contains(
        &"line 31: resize1.Asynch_Redistribution_Type: what its values mean is not documented; all data moves \
          at the switch, by a collective"
            .to_owned()
    ));
    // A method that goes with whatever strategy 2 is.
    let base = changed(INI, "Redistribution_Method=3", "Redistribution_Method=1");
    let new = changed(&base, "Rigid=1", "Rigid=1\nCapture_Method=1");
    let configuration = read_with("p.ini", &new, None).unwrap();
    assert_eq!(configuration.form, Form::ProteoIni(IniGeneration::Two));
    assert_eq!(
        configuration.phases[0].stages[1].kind,
        StageKind::Allgatherv
    );
    let resize = configuration.groups[1].resize.unwrap();
    assert_eq!(resize.variant(), "p2p-nb");
    for (from, to) in [
        ("Stage_Type=6", "Stage_Type=7"),
        ("Spawn_Strategy=3", "Spawn_Strategy=4"),
        ("Spawn_Strategy=3", "Spawn_Strategy=5"),
        ("Spawn_Strategy=3", "Spawn_Strategy=1,0"),
        ("Redistribution_Strategy=2", "Redistribution_Strategy=3"),
    ] {
        let configuration = read_with("p.ini", &changed(&base, from, to), None).unwrap();
        assert_eq!(
            configuration.form,
            Form::ProteoIni(IniGeneration::Two),
            "{to}"
        );
    }
    let six = changed(&base, "Spawn_Strategy=3", "Spawn_Strategy=6");
    let configuration = read_with("p.ini", &six, None).unwrap();
    assert_eq!(configuration.form, Form::ProteoIni(IniGeneration::OneB));
    assert!(configuration.groups[1].resize.unwrap().spawn_in_background);
}

#[test]
fn numbers_and_evidence_have_to_agree() {
    use ProteoNumbers::{New, Old};
    let eight = changed(INI, "Stage_Type=6", "Stage_Type=8");
    let asynchronous = changed(
        INI,
        "Redistribution_Method=3",
        "Asynch_Redistribution_Type=3",
    );
    let both = changed(&asynchronous, "Stage_Type=6", "Stage_Type=8");
    for (name, text, asked, message) in [
        (
            "p.ini",
            eight.as_str(),
            Some(Old),
            "p.ini:15: --proteo-numbers old contradicts Stage_Type 8 in line 15, which only the new numbers \
             have; allowed: --proteo-numbers new, or none",
        ),
        (
            "p.ini",
            &asynchronous,
            Some(New),
            "p.ini:32: --proteo-numbers new contradicts Asynch_Redistribution_Type in line 32, which only \
             files with the old numbers have; allowed: --proteo-numbers old, or none",
        ),
        (
            "p.ini",
            &both,
            None,
            "p.ini:32: Asynch_Redistribution_Type in line 32, which only files with the old numbers have, but \
             Stage_Type 8 in line 15, which only the new numbers have; allowed: one table of numbers in one \
             file",
        ),
        (
            "p.ini",
            PHASES,
            Some(Old),
            "p.ini: --proteo-numbers old contradicts [phase0], which only new files have; allowed: \
             --proteo-numbers new, or none",
        ),
        (
            "p.json",
            JSON,
            Some(Old),
            "p.json: --proteo-numbers old contradicts JSON, which always has the new numbers; allowed: \
             --proteo-numbers new, or none",
        ),
    ] {
        let error = read_with(name, text, asked).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert!(read_with("p.json", JSON, Some(New)).is_ok());
    assert!(read_with("p.ini", PHASES, Some(New)).is_ok());
}

#[test]
fn what_has_no_effect_is_listed() {
    for (from, to, note) in [
        (
            "\"Rigid\": 1,",
            "\"Rigid\": 1, \"Rigidd\": 2,",
            "line 5: general.Rigidd: not a key of Proteo here",
        ),
        (
            "\"groups\": [",
            "\"extra\": [], \"groups\": [",
            "line 18: extra: not a key of Proteo here",
        ),
        (
            "\"Stage_Bytes\": 0, \"Stage_Time\": 0.5",
            "\"Stage_Bytes\": 5, \"Stage_Time\": 0.5",
            "line 11: phases[0].stages[0].Stage_Bytes: no effect on stages of type 1 (matvec)",
        ),
        (
            "\"Granularity\": 300",
            "\"Stage_Time_Capped\": 1",
            "line 11: phases[0].stages[0].Stage_Time_Capped: no effect on stages of type 1 (matvec)",
        ),
        (
            "\"Granularity\": 300",
            "\"Stage_Identifier\": 1",
            "line 11: phases[0].stages[0].Stage_Identifier: no effect on stages of type 1 (matvec)",
        ),
        (
            "\"Granularity\": 300",
            "\"Stage_Involved_Procs\": 1",
            "line 11: phases[0].stages[0].Stage_Involved_Procs: no effect on stages of type 1 (matvec)",
        ),
        (
            "4096, \"Stage_Time\": 0",
            "4096, \"Stage_Time\": 3",
            "line 12: phases[0].stages[1].Stage_Time: a stage with Stage_Bytes runs as often as these need, \
             as in SAM",
        ),
        (
            "4096,",
            "4096, \"Granularity\": 1,",
            "line 12: phases[0].stages[1].Granularity: no effect on a stage with Stage_Bytes",
        ),
        (
            "4096,",
            "4096, \"Stage_Time_Capped\": 1,",
            "line 12: phases[0].stages[1].Stage_Bytes: a capped stage has operations of Granularity bytes, as \
             in SAM",
        ),
        (
            "4096,",
            "4096, \"Stage_Time_Capped\": 1,",
            "line 12: phases[0].stages[1].Stage_Time_Capped: only the wait of this start can end it, as in SAM",
        ),
        (
            "\"Stage_Type\": 4, \"Stage_Bytes\": 0, \"Stage_Time\": 0",
            "\"Stage_Type\": 4, \"Stage_Bytes\": 0, \"Stage_Time\": 1",
            "line 13: phases[0].stages[2].Stage_Time: no effect on a wait that is not capped",
        ),
        (
            "\"Total_Iters\": 20",
            "\"Total_Iters\": 10",
            "line 24: groups[1]: never reached: the phases have 10 iterations, all of groups before",
        ),
        (
            "\"Iters\": 10",
            "\"Iters\": 10.5",
            "line 20: groups[0].Iters: the fraction of 10.5 is cut off, as in SAM",
        ),
    ] {
        let configuration = json(&changed(JSON, from, to)).unwrap();
        let notes = ignored(&configuration);
        assert!(notes.contains(&note.to_owned()), "{note}: {notes:#?}");
    }
}

#[test]
fn what_sam_reads_otherwise_is_listed() {
    for (from, to, note) in [
        (
            "Stage_Bytes=8\nStage_Time=0\n",
            "Stage_Time=0\nStage_Bytes=8\n",
            "line 17: stage1.Stage_Bytes: read here, but SAM skips it: it expects sections in order, and \
             Stage_Time or Spawn_Strategy as the last key of each",
        ),
        (
            "Redistribution_Strategy=2\nSpawn_Method=1\nSpawn_Strategy=3\n",
            "Spawn_Method=1\nSpawn_Strategy=3\nRedistribution_Strategy=2\n",
            "line 35: resize1.Redistribution_Strategy: read here, but SAM skips it: it expects sections in \
             order, and Stage_Time or Spawn_Strategy as the last key of each",
        ),
        (
            "Dist=compact\nRedistribution_Method=3",
            "Dist=spread   # over nodes\nRedistribution_Method=3",
            "line 31: resize1.Dist: \"spread   # over nodes\" is \"compact\" to SAM, as all but \"spread\" \
             is; where processes go is up to the process manager",
        ),
        (
            "Procs=2",
            "Procs=2 # two",
            "line 29: resize1.Procs: # starts no comment inside a line; SAM reads the number before it",
        ),
        (
            "Total_Resizes=1",
            "Total_Resizes=0",
            "line 27: resize1: beyond the number that Total_Resizes gives",
        ),
        (
            "Total_Stages=2",
            "Total_Stages=1",
            "line 14: stage1: beyond the number that Total_Stages gives",
        ),
        (
            "[stage1]",
            "[stage01]\nx=1\n[stage1]",
            "line 14: stage01: not a section of Proteo here",
        ),
        (
            "; a comment",
            "Procs=3",
            "line 1: Procs: not a key of Proteo here",
        ),
        (
            "Stage_Bytes=8",
            "Stages_Bytes=9\nStage_Bytes=8",
            "line 16: stage1.Stages_Bytes: not a key of Proteo here",
        ),
    ] {
        let configuration = ini(&changed(INI, from, to)).unwrap();
        let notes = ignored(&configuration);
        assert!(notes.contains(&note.to_owned()), "{note}: {notes:#?}");
    }
    let configuration = ini(&changed(
        PHASES,
        "[phase1.stage0]",
        "[phase5.stage0]\n[phase1.stage0]",
    ))
    .unwrap();
    assert!(
        ignored(&configuration)
            .contains(&"line 19: phase5.stage0: a stage of a phase that is not there".to_owned())
    );
    let skipped = |text: &str| {
        ignored(&ini(text).unwrap())
            .iter()
            .filter(|note| note.contains("SAM skips it"))
            .count()
    };
    assert_eq!((skipped(INI), skipped(PHASES)), (0, 0));
    // A stage in front of the one before it.
    let (before, rest) = INI.split_once("[stage0]").unwrap();
    let (first, rest) = rest.split_once("[stage1]").unwrap();
    let (second, rest) = rest.split_once("[resize0]").unwrap();
    let swapped = format!("{before}[stage1]{second}[stage0]{first}[resize0]{rest}");
    assert_eq!(skipped(&swapped), 3);
}
