//! All three readers together: real files, how stages run, and texts of any kind.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

/// A file of Proteo's, or `None` with a printed reason.
fn real(name: &str, numbers: Option<ProteoNumbers>) -> Option<Result<Configuration, Error>> {
    let Some(data) = std::env::var_os("MALLEUS_DATA") else {
        println!("skipped: MALLEUS_DATA does not say where Proteo's files are");
        return None;
    };
    let path = PathBuf::from(data).join("proteo").join(name);
    if !path.exists() {
        println!("skipped: {} is not there", path.display());
        return None;
    }
    let options = ReadOptions {
        proteo_numbers: numbers,
    };
    Some(Configuration::read(&path, &options))
}

fn kinds(configuration: &Configuration) -> Vec<Vec<StageKind>> {
    configuration
        .phases
        .iter()
        .map(|phase| phase.stages.iter().map(|stage| stage.kind).collect())
        .collect()
}

fn ignored(configuration: &Configuration) -> Vec<(u64, &str)> {
    configuration
        .ignored
        .iter()
        .map(|ignored| (ignored.line, ignored.key.as_str()))
        .collect()
}

#[test]
fn proteos_json_is_read() {
    let Some(result) = real("test.json", None) else {
        return;
    };
    let configuration = result.unwrap();
    assert_eq!(configuration.form, Form::ProteoJson);
    assert_eq!(
        (configuration.constant_bytes, configuration.variable_bytes),
        (500_000, 500_000)
    );
    assert_eq!(configuration.counting, Counting::Sequence);
    assert_eq!(configuration.cursor().planned(), [0..5, 5..15, 15..24]);
    assert_eq!(
        kinds(&configuration),
        [
            vec![
                StageKind::FileRead { ranks: 2 },
                StageKind::Broadcast { root: 0 },
                StageKind::Pi
            ],
            vec![
                StageKind::Pi,
                StageKind::Allreduce,
                StageKind::Allreduce,
                StageKind::Allgatherv
            ],
            vec![StageKind::FileWrite { ranks: 0 }],
        ]
    );
    let read = &configuration.phases[0].stages[0];
    assert_eq!(
        (read.amount(), read.message_bytes()),
        (
            Amount::OperationTime {
                seconds: 4.0,
                scaled: false
            },
            1000
        )
    );
    let write = &configuration.phases[2].stages[0];
    assert_eq!(
        (write.amount(), write.message_bytes()),
        (Amount::Operations(10), 1 << 20)
    );
    let processes: Vec<usize> = configuration
        .groups
        .iter()
        .map(|group| group.processes)
        .collect();
    assert_eq!(processes, [2, 4, 6]);
    assert_eq!(configuration.groups[0].resize, None);
    let transition = configuration.groups[1].resize.unwrap();
    assert_eq!(
        (transition.management, transition.variant().as_str()),
        (Management::Merge, "col")
    );
    let proteo = configuration.proteo.as_ref().unwrap();
    assert_eq!(
        proteo.stage_types,
        [vec![10, 5, 0], vec![0, 8, 8, 6], vec![9]]
    );
    assert_eq!(proteo.groups[1].spawn_method, 1);
    assert_eq!(
        ignored(&configuration),
        [
            (13, "groups[0].Dist"),
            (17, "groups[0].Redistribution_Method"),
            (18, "groups[0].Redistribution_Strategy"),
            (21, "groups[0].Spawn_Method"),
            (22, "groups[0].Spawn_Strategy"),
            (27, "groups[1].Dist"),
            (41, "groups[2].Dist"),
            (114, "phases[2].stages[0].Stage_Time"),
        ]
    );
}

#[test]
fn the_manuals_json_never_resizes() {
    let Some(result) = real("manual-full-example.json", None) else {
        return;
    };
    let configuration = result.unwrap();
    assert_eq!(configuration.variable_bytes, 1_000_000_000);
    assert_eq!(configuration.groups[0].placement, Placement::Spread);
    assert_eq!(configuration.cursor().planned(), [0..1, 1..1]);
    let last = configuration
        .ignored
        .iter()
        .find(|ignored| ignored.key == "groups[1]");
    assert_eq!(
        last.unwrap().to_string(),
        "line 46: groups[1]: never reached: the phases have 1 iterations, all of groups before"
    );
    // No bytes: messages of the granularity, which is SAM's default here.
    let gather = &configuration.phases[0].stages[2];
    assert_eq!(gather.message_bytes(), 600);
    assert_eq!(
        gather.amount(),
        Amount::OperationTime {
            seconds: 0.025,
            scaled: true
        }
    );
}

#[test]
fn an_ini_with_old_numbers_needs_the_callers_word() {
    use StageKind::{Allgatherv, Allreduce, MatVec};
    let Some(result) = real("cg-old-numbers.ini", None) else {
        return;
    };
    let message = result.unwrap_err().to_string();
    assert!(
        message.ends_with(
            "cg-old-numbers.ini: nothing here tells whether the numbers are Proteo's old or new ones (a stage \
             above 6, Capture_Method, or a strategy 0, 4 or 5 would show the new, Asynch_Redistribution_Type \
             the old): the stages are matvec, allreduce, allreduce, allgatherv by the old, matvec, allgatherv, \
             allgatherv, wait by the new; allowed: with --proteo-numbers old or --proteo-numbers new"
        ),
        "{message}"
    );
    let configuration = real("cg-old-numbers.ini", Some(ProteoNumbers::Old))
        .unwrap()
        .unwrap();
    assert_eq!(configuration.form, Form::ProteoIni(IniGeneration::OneB));
    assert_eq!(
        kinds(&configuration),
        [[MatVec, Allreduce, Allreduce, Allgatherv]]
    );
    assert_eq!(
        (configuration.constant_bytes, configuration.variable_bytes),
        (3_813_655_464, 134_228_039)
    );
    assert_eq!(configuration.cursor().planned(), [0..500, 500..1000]);
    assert_eq!(configuration.groups[0].speed_factor, 0.204_068_352_101_469);
    let resize = configuration.groups[1].resize.unwrap();
    assert_eq!(
        (
            resize.management,
            resize.variant(),
            resize.spawn_in_background
        ),
        (Management::Baseline, "col".to_owned(), false)
    );
    assert_eq!(
        configuration.ignored[0].to_string(),
        "line 5: general.SDR: the fraction of 134228039.13600022 is cut off, as in SAM"
    );
    assert_eq!(
        ignored(&configuration)[1..],
        [
            (6, "general.ADR"),
            (33, "resize0.Dist"),
            (34, "resize0.Redistribution_Method"),
            (35, "resize0.Redistribution_Strategy"),
            (36, "resize0.Spawn_Method"),
            (37, "resize0.Spawn_Strategy"),
            (43, "resize1.Dist"),
        ]
    );
    // By the new numbers its last stage is a wait, which an INI file of this kind cannot pair.
    let message = real("cg-old-numbers.ini", Some(ProteoNumbers::New))
        .unwrap()
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("cg-old-numbers.ini:24: stage3.Stage_Identifier: missing;"),
        "{message}"
    );
}

#[test]
fn an_ini_with_new_numbers_shows_it() {
    let Some(result) = real("mnv-new-numbers.ini", None) else {
        return;
    };
    let configuration = result.unwrap();
    assert_eq!(configuration.form, Form::ProteoIni(IniGeneration::Two));
    assert_eq!(
        kinds(&configuration),
        [[StageKind::Pi, StageKind::Allgatherv]]
    );
    assert!(configuration.rigid);
    assert_eq!(configuration.phases[0].iterations, 15);
    assert_eq!(configuration.phases[0].stages[0].granularity, 100_000);
    let proteo = configuration.proteo.as_ref().unwrap();
    assert_eq!(
        (proteo.numbers, proteo.synchronous, proteo.granularity),
        (ProteoNumbers::New, 10_000, Some(100_000))
    );
    let message = real("mnv-new-numbers.ini", Some(ProteoNumbers::Old))
        .unwrap()
        .unwrap_err()
        .to_string();
    assert!(
        message.ends_with(
            "mnv-new-numbers.ini:28: --proteo-numbers old contradicts Spawn_Strategy 0 in line 28, which only \
             the new numbers have; allowed: --proteo-numbers new, or none"
        ),
        "{message}"
    );
}

#[test]
fn files_are_told_apart_by_their_names() {
    let options = ReadOptions::default();
    for (name, message) in [
        (
            "cg",
            "cg: found no extension; allowed: a file name that ends in .toml, .json or .ini",
        ),
        (
            "a/cg.TOML",
            "a/cg.TOML: found the extension \"TOML\"; allowed: a file name that ends in .toml, .json or .ini",
        ),
    ] {
        let error = Configuration::from_text(Path::new(name), "", &options).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("absent.toml");
    let message = Configuration::read(&path, &options)
        .unwrap_err()
        .to_string();
    let expected = format!("{}: cannot be read: No such file", path.display());
    assert!(message.starts_with(&expected), "{message}");

    let path = folder.path().join("bytes.ini");
    fs::write(&path, b"\xff\xfe").unwrap();
    let message = Configuration::read(&path, &options)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("cannot be read: stream did not contain valid UTF-8"),
        "{message}"
    );

    let path = folder.path().join("marked.toml");
    fs::write(&path, "\u{feff}scale = 0").unwrap();
    let message = Configuration::read(&path, &options)
        .unwrap_err()
        .to_string();
    assert!(
        message.ends_with("marked.toml:1: scale: 0 is too small; allowed: above 0"),
        "{message}"
    );
}

/// How each kind of stage runs: notes of Proteo's sources, as a table.
#[test]
fn stages_run_as_in_sam() {
    use Amount::{OperationTime, Operations, Until};
    const MIB: u64 = 1 << 20;
    let fill = |scaled| OperationTime {
        seconds: 2.0,
        scaled,
    };
    let until = Until { seconds: 2.0 };
    let start = StageKind::StartPointToPoint { identifier: 1 };
    let wait = StageKind::Wait { identifier: 1 };
    let write = StageKind::FileWrite { ranks: 0 };
    let read = StageKind::FileRead { ranks: 0 };
    for (kind, bytes, capped, granularity, amount, message) in [
        (StageKind::Pi, 0, false, 100, fill(true), 0),
        (StageKind::MatVec, 8, true, 100, fill(true), 0),
        (StageKind::Allreduce, 8, false, 100, Operations(1), 8),
        (StageKind::Allreduce, 0, false, 100, fill(true), 100),
        (StageKind::Allreduce, 8, true, 100, until, 100),
        (StageKind::Allgatherv, 0, true, 100, until, 100),
        (StageKind::PointToPoint, 8, false, 100, Operations(1), 8),
        (
            StageKind::Broadcast { root: 0 },
            0,
            false,
            100,
            fill(true),
            100,
        ),
        (
            StageKind::Reduce { root: 0 },
            9,
            false,
            100,
            Operations(1),
            9,
        ),
        (start, 8, false, 100, Operations(1), 8),
        (start, 8, true, 100, Operations(1), 100),
        (start, 0, true, 100, fill(true), 100),
        (wait, 0, false, 100, Operations(1), 0),
        (wait, 0, true, 100, until, 0),
        (write, 8, false, 100, Operations(1), 8),
        (write, MIB, false, 100, Operations(1), MIB),
        (write, MIB + 1, false, 100, Operations(2), MIB),
        (write, 0, false, 3 * MIB, fill(false), MIB),
        (read, 0, false, 100, fill(false), 100),
        (read, 8, true, 100, until, 100),
    ] {
        let stage = Stage {
            kind,
            bytes,
            time_s: 2.0,
            capped,
            granularity,
            operations: None,
        };
        assert_eq!(stage.amount(), amount, "{stage:?}");
        assert_eq!(stage.message_bytes(), message, "{stage:?}");
    }
}

const TOML: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/cg.toml"));
const JSON: &str = include_str!("proteo/test.json");
const INI: &str = include_str!("proteo/test.ini");

const OPTIONS: [ReadOptions; 3] = [
    ReadOptions {
        proteo_numbers: None,
    },
    ReadOptions {
        proteo_numbers: Some(ProteoNumbers::Old),
    },
    ReadOptions {
        proteo_numbers: Some(ProteoNumbers::New),
    },
];

/// Reads a text with every reader; each gives a configuration that can be asked, or a message of one line.
fn read_all(text: &str) {
    for name in ["x.toml", "x.json", "x.ini"] {
        for options in OPTIONS {
            match Configuration::from_text(Path::new(name), text, &options) {
                Ok(configuration) => {
                    let cursor = configuration.cursor();
                    assert_eq!(cursor.planned().len(), configuration.groups.len());
                    assert!(cursor.phase(0).is_some());
                    for stage in configuration.phases.iter().flat_map(|phase| &phase.stages) {
                        let _ = (stage.amount(), stage.message_bytes());
                    }
                }
                Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
            }
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(text in "\\PC{0,200}") {
        read_all(&text);
    }

    #[test]
    fn no_text_of_the_languages_signs_makes_a_reader_panic(
        text in "([a-z0-9=:;#\\[\\]{}\",. \\n\\t+-]|general|stage0|resize0|phase0|\\[\\[stage\\]\\]|NaN|1e999){0,80}"
    ) {
        read_all(&text);
    }

    #[test]
    fn no_change_of_a_file_makes_a_reader_panic(
        which in 0..3_usize,
        start in any::<prop::sample::Index>(),
        length in 0..30_usize,
        text in prop_oneof![
            "[0-9.e-]{0,25}",
            Just("9223372036854775807".to_owned()),
            Just("-1".to_owned()),
            Just("nan".to_owned()),
            "\\PC{0,10}",
            "[\\[\\]{}\",=\\n]{0,5}",
        ],
    ) {
        let base: Vec<char> = [TOML, JSON, INI][which].chars().collect();
        let start = start.index(base.len());
        let end = (start + length).min(base.len());
        let changed: String = base[..start]
            .iter()
            .copied()
            .chain(text.chars())
            .chain(base[end..].iter().copied())
            .collect();
        read_all(&changed);
    }
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [
        ("[", "]"),
        ("{\"a\":", "}"),
        ("a = [", "]"),
        ("a = { b = ", "}"),
    ] {
        let text = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        read_all(&text);
    }
}
