use std::path::PathBuf;

use super::super::config::{ProteoNumbers, ReadOptions};
use super::super::{PhaseResult, StageResult};
use super::*;
use crate::redistribute::{Method, Variant};

/// Proteo's own files, where they are.
fn folder() -> Option<PathBuf> {
    let data = std::env::var_os("MALLEUS_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    let folder = data.join("proteo");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: the folder {} is not there", folder.display());
    None
}

/// Results with as many iterations, all of the same times.
fn results(configuration: &Configuration, group: usize, iterations: &[u64]) -> GroupResult {
    let times = |count: u64| vec![0.25; usize::try_from(count).unwrap()];
    let phases = configuration.phases.iter().enumerate().zip(iterations);
    let phases = phases.map(|((phase, described), &count)| PhaseResult {
        phase,
        overlapped: 0,
        iterations_s: times(count),
        stages: (0..described.stages.len())
            .map(|stage| StageResult {
                stage,
                kind: "",
                operation_s: None,
                repetitions: None,
                asked_s: None,
                median_s: None,
                ratio: None,
                times_s: times(count),
            })
            .collect(),
    });
    GroupResult {
        group,
        processes: configuration.groups[group].processes,
        iterations: iterations.iter().sum(),
        overlapped: 0,
        iteration_median_s: None,
        phases: phases.collect(),
    }
}

fn resize(from: usize, to: usize) -> Resize {
    Resize {
        iteration: 5,
        from,
        to,
        variant: Variant::blocking(Method::Collective),
        decide_s: 0.0,
        processes_s: 0.5,
        redistribute_s: 0.25,
        background_s: 0.0,
        iterations_during: 0,
        expose_s: 0.0,
        transfer_s: 0.0,
        release_s: 0.0,
        resume_s: 0.0,
        total_s: 1.0,
        spawned: 0,
        recalled: 0,
        parked: 0,
        released: 0,
        moved_bytes: 0,
        kept_bytes: 0,
        verified: true,
        oversubscribed: false,
    }
}

/// Times, which differ, are replaced: what has six decimals and stands in a line of times.
fn shape(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let Some((name, times)) = line
            .split_once(": ")
            .filter(|(name, _)| name.starts_with("T_"))
        else {
            return line.to_owned();
        };
        let times = times.split(' ').map(|time| {
            let decimals = time
                .split_once('.')
                .map_or(0, |(_, decimals)| decimals.len());
            if decimals == 6 { "#" } else { time }
        });
        format!("{name}: {}", times.collect::<Vec<_>>().join(" "))
    };
    text.lines().map(line).collect()
}

/// The real files hold 20 records each, of the configuration that lies beside them: every one has the lines that
/// are written here, to the last character but for the times.
#[test]
fn records_have_the_form_of_the_real_ones() {
    let Some(folder) = folder() else {
        return;
    };
    let options = ReadOptions {
        proteo_numbers: Some(ProteoNumbers::New),
    };
    let configuration = Configuration::read(&folder.join("mnv-new-numbers.ini"), &options).unwrap();
    let groups = [
        results(&configuration, 0, &[5]),
        results(&configuration, 1, &[10]),
    ];
    let resizes = [resize(224, 112)];
    let measured = Measured {
        groups: &groups,
        resizes: &resizes,
        total_s: 3.0,
    };
    let ours = tempfile::tempdir().unwrap();
    for _ in 0..20 {
        append(ours.path(), 0, &configuration, &measured).unwrap();
    }
    for name in ["R0_Global.out", "R0_G0NP224ID0.out", "R0_G1NP112ID0.out"] {
        let read = |folder: &Path| std::fs::read_to_string(folder.join(name)).unwrap();
        let (found, expected) = (read(ours.path()), read(&folder));
        assert!(expected.lines().count() > 100, "{name}");
        for (found, expected) in shape(&found).iter().zip(&shape(&expected)) {
            assert_eq!(found, expected, "{name}");
        }
        assert_eq!(found.lines().count(), expected.lines().count(), "{name}");
        assert_eq!(found.ends_with('\n'), expected.ends_with('\n'), "{name}");
    }
}

/// Written by hand after the source of SAM that prints it: no sample is to be had.
#[test]
fn several_phases_are_written_apart() {
    let text = r#"
        constant = 600
        variable = 400
        capture = "median"
        [[phase]]
        iterations = 2
        [[phase.stage]]
        kind = "matvec"
        time = 0.5
        [[phase]]
        iterations = 3
        [[phase.stage]]
        kind = "file-write"
        bytes = 8
        ranks = 1
        [[phase.stage]]
        kind = "allreduce"
        time = 0.5
        capped = true
        [[group]]
        processes = 1
        iterations = 1
        speed_factor = 2.0
        [[group]]
        processes = 1
        iterations = 1
        speed_factor = 1.0
        [[group]]
        processes = 2
        speed_factor = 1.0
        variant = "rma1-wt"
    "#;
    let configuration =
        Configuration::from_text(Path::new("x.toml"), text, &ReadOptions::default()).unwrap();
    let groups = [results(&configuration, 1, &[1, 2])];
    let resizes = [resize(1, 2)];
    let measured = Measured {
        groups: &groups,
        resizes: &resizes,
        total_s: 3.0,
    };
    let stages = "SDR=400, ADR=600, Rigid=0, Capture_Method=2\n\
        Phase 0: Qty_Stages=1, Qty_Iters=2\n\
        \tStage 0: PT=1, T_stage=0.500000, bytes=0, Granularity=600, Involved_Procs=0, T_capped=0\n\
        Phase 1: Qty_Stages=2, Qty_Iters=3\n\
        \tStage 0: PT=9, T_stage=0.000000, bytes=8, Granularity=600, Involved_Procs=1, T_capped=0\n\
        \tStage 1: PT=8, T_stage=0.500000, bytes=0, Granularity=600, Involved_Procs=0, T_capped=1\n";
    let found = global(&configuration, &measured);
    let expected = format!("Config loaded: R=2, Phases=2, {stages}");
    assert!(found.starts_with(&expected), "{found}");
    assert!(
        found.contains(
            "\nGroup 2: Iters=3, Procs=2, Factors=1.000000, Dist=2, RM=2, SM=1, RS=3, SS=0\n"
        ),
        "{found}"
    );
    // The first group change is no resize.
    assert!(found.contains("\nT_spawn: 0.000000 0.500000 \n"), "{found}");
    let expected = format!(
        "Config: {stages}\
         Group 1: Iters=1, Procs=1, Factors=1.000000, Dist=2, RM=0, SM=1, RS=0, SS=0, parents=1, children=2\n\
         R_Phase 0\n\
         \tAsync_Iters: 0\n\
         \tT_iter: 0.250000 \n\
         \tT_stage 0: 0.250000 \n\
         R_Phase 1\n\
         \tAsync_Iters: 0\n\
         \tT_iter: 0.250000 0.250000 \n\
         \tT_stage 0: 0.250000 0.250000 \n\
         \tT_stage 1: 0.250000 0.250000 \n"
    );
    assert_eq!(group(&configuration, &groups[0]), expected);
}
