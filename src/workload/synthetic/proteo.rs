//! The output files of Proteo's SAM, which its users' scripts read.
//!
//! A job appends to `R<run>_Global.out`, and for each group to `R<run>_G<group>NP<processes>ID0.out`. A
//! configuration of one phase is written in the form without phases.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use super::GroupResult;
use super::config::{
    Capture, Configuration, Form, Placement, Proteo, ProteoGroup, ProteoNumbers, Stage, StageKind,
};
use crate::job::Resize;

/// What a job measured.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The groups that were reached.
    pub groups: &'a [GroupResult],
    /// The resizes that were done, in order.
    pub resizes: &'a [Resize],
    /// The time of the whole job in seconds.
    pub total_s: f64,
}

/// The text of a job's global record.
#[must_use]
pub fn global(configuration: &Configuration, measured: &Measured<'_>) -> String {
    let numbers = numbers(configuration);
    let resizes = configuration.groups.len() - 1;
    let what = match configuration.phases.as_slice() {
        [phase] => format!("R={resizes}, S={}", phase.stages.len()),
        phases => format!("R={resizes}, Phases={}", phases.len()),
    };
    let mut text = format!(
        "Config loaded: {what}, {}",
        general(configuration, &numbers)
    );
    for group in 0..configuration.groups.len() {
        let _ = writeln!(text, "{}", group_line(configuration, &numbers, group));
    }
    // A group of the same size as the one before it has no resize, and so no times.
    let mut done = measured.resizes.iter();
    let by_group: Vec<Option<&Resize>> = configuration
        .groups
        .windows(2)
        .map(|pair| {
            let changes = pair[0].processes != pair[1].processes;
            changes.then(|| done.next()).flatten()
        })
        .collect();
    let mut row = |name: &str, time: fn(&Resize) -> f64| {
        let times = by_group.iter().map(|resize| resize.map_or(0.0, time));
        let _ = writeln!(text, "{name}: {}", columns(times));
    };
    row("T_spawn", |resize| resize.processes_s);
    row("T_SR", |resize| resize.redistribute_s);
    row("T_AR", |resize| resize.background_s);
    // There is no user's callback.
    row("T_US", |_| 0.0);
    row("T_Malleability", |resize| resize.total_s);
    let _ = writeln!(text, "T_total: {:.6}", measured.total_s);
    text
}

/// The text of a group's record.
#[must_use]
pub fn group(configuration: &Configuration, result: &GroupResult) -> String {
    let numbers = numbers(configuration);
    let index = result.group;
    let processes = |index: Option<usize>| {
        index
            .and_then(|index| configuration.groups.get(index))
            .map_or(0, |group| group.processes)
    };
    let mut text = format!("Config: {}", general(configuration, &numbers));
    let _ = writeln!(
        text,
        "{}, parents={}, children={}",
        group_line(configuration, &numbers, index),
        processes(index.checked_sub(1)),
        processes(index.checked_add(1))
    );
    let is_flat = configuration.phases.len() == 1;
    let tab = if is_flat { "" } else { "\t" };
    for (phase, described) in configuration.phases.iter().enumerate() {
        let found = result.phases.iter().find(|found| found.phase == phase);
        if !is_flat {
            let _ = writeln!(text, "R_Phase {phase}");
        }
        let overlapped = found.map_or(0, |found| found.overlapped);
        let _ = writeln!(text, "{tab}Async_Iters: {overlapped}");
        let iterations = found.map_or(&[][..], |found| &found.iterations_s);
        let _ = writeln!(text, "{tab}T_iter: {}", columns(iterations.iter().copied()));
        for stage in 0..described.stages.len() {
            let times = found.map_or(&[][..], |found| &found.stages[stage].times_s);
            let times = columns(times.iter().copied());
            let _ = writeln!(text, "{tab}T_stage {stage}: {times}");
        }
    }
    text
}

/// Appends a job's records to the files in a folder.
///
/// # Errors
///
/// Those of the system.
pub fn append(
    folder: &Path,
    run: u64,
    configuration: &Configuration,
    measured: &Measured<'_>,
) -> io::Result<()> {
    let write = |name: String, text: String| {
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(folder.join(name))?;
        file.write_all(text.as_bytes())
    };
    for result in measured.groups {
        let name = format!("R{run}_G{}NP{}ID0.out", result.group, result.processes);
        write(name, group(configuration, result))?;
    }
    write(
        format!("R{run}_Global.out"),
        global(configuration, measured),
    )
}

/// What both records begin with, but for its first words: the rest of the first line, and the stages.
fn general(configuration: &Configuration, numbers: &Proteo) -> String {
    let mut text = String::new();
    let is_flat = configuration.phases.len() == 1;
    if is_flat {
        let first = configuration.phases.first();
        let first = first.and_then(|phase| phase.stages.first());
        let granularity = numbers
            .granularity
            .or_else(|| first.map(|stage| stage.granularity));
        let _ = write!(text, "granularity={}, ", granularity.unwrap_or_default());
    }
    let _ = writeln!(
        text,
        "SDR={}, ADR={}, Rigid={}, Capture_Method={}",
        numbers.synchronous,
        numbers.asynchronous,
        u8::from(configuration.rigid),
        numbers.capture_method
    );
    for ((index, phase), types) in configuration
        .phases
        .iter()
        .enumerate()
        .zip(&numbers.stage_types)
    {
        if !is_flat {
            let (stages, iterations) = (phase.stages.len(), phase.iterations);
            let _ = writeln!(
                text,
                "Phase {index}: Qty_Stages={stages}, Qty_Iters={iterations}"
            );
        }
        for ((index, stage), kind) in phase.stages.iter().enumerate().zip(types) {
            let tab = if is_flat { "" } else { "\t" };
            let _ = write!(
                text,
                "{tab}Stage {index}: PT={kind}, T_stage={:.6}, bytes={}, ",
                stage.time_s, stage.bytes
            );
            if !is_flat {
                let ranks = match stage.kind {
                    StageKind::FileWrite { ranks } | StageKind::FileRead { ranks } => ranks,
                    _ => 0,
                };
                let granularity = stage.granularity;
                let _ = write!(text, "Granularity={granularity}, Involved_Procs={ranks}, ");
            }
            let _ = writeln!(text, "T_capped={}", u8::from(stage.capped));
        }
    }
    text
}

fn group_line(configuration: &Configuration, numbers: &Proteo, index: usize) -> String {
    let (group, proteo) = (&configuration.groups[index], &numbers.groups[index]);
    format!(
        "Group {index}: Iters={}, Procs={}, Factors={:.6}, Dist={}, RM={}, SM={}, RS={}, SS={}",
        group.iterations,
        group.processes,
        group.speed_factor,
        proteo.distribution,
        proteo.redistribution_method,
        proteo.spawn_method,
        list(&proteo.redistribution_strategies),
        list(&proteo.spawn_strategies)
    )
}

/// Strategies; none is the first.
fn list(numbers: &[u64]) -> String {
    if numbers.is_empty() {
        return "0".to_owned();
    }
    let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
    numbers.join("/")
}

/// Each time is followed by a space.
fn columns(times: impl Iterator<Item = f64>) -> String {
    times.fold(String::new(), |mut text, time| {
        let _ = write!(text, "{time:.6} ");
        text
    })
}

/// The file's own numbers; for our own form, those that mean the same in Proteo's new tables.
fn numbers(configuration: &Configuration) -> Proteo {
    if let Some(proteo) = &configuration.proteo {
        return proteo.clone();
    }
    debug_assert_eq!(configuration.form, Form::Toml);
    let types = |stages: &[Stage]| stages.iter().map(|stage| stage_type(stage.kind)).collect();
    let element = configuration.element_bytes.max(1);
    Proteo {
        numbers: ProteoNumbers::New,
        synchronous: configuration.variable_bytes / element,
        asynchronous: configuration.constant_bytes / element,
        granularity: None,
        capture_method: match configuration.capture {
            Capture::Maximum => 0,
            Capture::Mean => 1,
            Capture::Median => 2,
        },
        stage_types: configuration
            .phases
            .iter()
            .map(|phase| types(&phase.stages))
            .collect(),
        groups: configuration
            .groups
            .iter()
            .map(|group| {
                let resize = group.resize;
                ProteoGroup {
                    redistribution_method: resize.map_or(0, |resize| resize.method as u64),
                    redistribution_strategies: vec![
                        resize.map_or(0, |resize| resize.strategy as u64),
                    ],
                    spawn_method: resize.map_or(0, |resize| resize.management as u64),
                    spawn_strategies: vec![
                        resize.map_or(0, |resize| u64::from(resize.spawn_in_background)),
                    ],
                    distribution: match group.placement {
                        Placement::Spread => 1,
                        Placement::Compact => 2,
                    },
                }
            })
            .collect(),
    }
}

/// A stage's number in the new table.
const fn stage_type(kind: StageKind) -> u64 {
    match kind {
        StageKind::Pi => 0,
        StageKind::MatVec => 1,
        StageKind::PointToPoint => 2,
        StageKind::StartPointToPoint { .. } => 3,
        StageKind::Wait { .. } => 4,
        StageKind::Broadcast { .. } => 5,
        StageKind::Allgatherv => 6,
        StageKind::Reduce { .. } => 7,
        StageKind::Allreduce => 8,
        StageKind::FileWrite { .. } => 9,
        StageKind::FileRead { .. } => 10,
    }
}

#[cfg(test)]
mod tests;
