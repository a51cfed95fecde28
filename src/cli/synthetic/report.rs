//! What a run of a synthetic application came to.

use std::path::Path;

use serde::Serialize;

use super::super::record::{Mpich, bytes, print_table, seconds};
use super::super::resizes::Resizes;
use super::check;
use crate::workload::synthetic::{Finished, GroupResult, Ignored, Plan};

/// What `--json` gives.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    file: String,
    form: &'static str,
    capture: &'static str,
    rigid: bool,
    constant_bytes: u64,
    variable_bytes: u64,
    iterations: u64,
    verified: bool,
    #[serde(flatten)]
    facts: Facts,
    groups: Vec<GroupResult>,
    calibration: Vec<Calibration>,
    #[serde(flatten)]
    resizes: Resizes,
    /// Groups that the job did not come to.
    not_reached: Vec<usize>,
    ignored: Vec<Ignored>,
}

/// Where and how it ran.
#[derive(Debug, Serialize)]
pub(super) struct Facts {
    pub(super) ranks_start: usize,
    pub(super) ranks_end: usize,
    pub(super) wall_s: f64,
    pub(super) cores: usize,
    pub(super) mpich: Mpich,
    /// Whether a node had more active ranks than cores at any time.
    pub(super) oversubscribed: bool,
}

/// A stage that is given as a time: what was measured before, and how long it lasted.
#[derive(Debug, Serialize)]
struct Calibration {
    group: usize,
    phase: usize,
    stage: usize,
    kind: &'static str,
    operation_s: f64,
    repetitions: u64,
    asked_s: f64,
    median_s: Option<f64>,
    ratio: Option<f64>,
}

impl Report {
    pub(super) fn new(
        file: &Path,
        plan: Plan,
        finished: Finished,
        resizes: Resizes,
        facts: Facts,
    ) -> Self {
        let configuration = &plan.configuration;
        let groups = finished.groups;
        let all = groups.iter().flat_map(|group| {
            let phases = group.phases.iter();
            phases.flat_map(|phase| {
                phase
                    .stages
                    .iter()
                    .map(|stage| (group.group, phase.phase, stage))
            })
        });
        let calibration = all.filter_map(|(group, phase, stage)| {
            Some(Calibration {
                group,
                phase,
                stage: stage.stage,
                kind: stage.kind,
                operation_s: stage.operation_s?,
                repetitions: stage.repetitions?,
                asked_s: stage.asked_s?,
                median_s: stage.median_s,
                ratio: stage.ratio,
            })
        });
        Self {
            file: file.display().to_string(),
            form: check::form(configuration.form),
            capture: check::capture(configuration.capture),
            rigid: configuration.rigid,
            constant_bytes: configuration.constant_bytes,
            variable_bytes: configuration.variable_bytes,
            iterations: groups.iter().map(|group| group.iterations).sum(),
            verified: finished.verified,
            facts,
            calibration: calibration.collect(),
            resizes,
            not_reached: (groups.len()..configuration.groups.len()).collect(),
            ignored: plan.ignored,
            groups,
        }
    }

    /// The tables of a run.
    pub(super) fn print(&self) {
        println!(
            "{} ({}): {} constant, {} variable",
            self.file,
            self.form,
            bytes(self.constant_bytes),
            bytes(self.variable_bytes)
        );
        self.facts
            .mpich
            .print(self.facts.cores, self.facts.oversubscribed);
        println!(
            "{} iterations, {}; {} in all; times are medians of the {} over the ranks{}",
            self.iterations,
            if self.verified {
                "data verified"
            } else {
                "data not verified"
            },
            seconds(self.facts.wall_s),
            self.capture,
            if self.rigid { ", with barriers" } else { "" }
        );
        println!();
        print_groups(&self.groups);
        println!();
        print_stages(&self.groups);
        self.resizes.print();
        for group in &self.not_reached {
            println!("not reached: group {group}");
        }
        check::print_ignored(&self.ignored);
    }
}

fn or_dash(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), format)
}

fn print_groups(groups: &[GroupResult]) {
    let heading = ["group", "processes", "iterations", "under way", "iteration"];
    let mut rows = vec![heading.map(str::to_owned)];
    for group in groups {
        rows.push([
            group.group.to_string(),
            group.processes.to_string(),
            group.iterations.to_string(),
            group.overlapped.to_string(),
            or_dash(group.iteration_median_s, seconds),
        ]);
    }
    print_table(&rows);
}

fn print_stages(groups: &[GroupResult]) {
    let heading = [
        "group",
        "phase",
        "stage",
        "kind",
        "operation",
        "times",
        "asked",
        "lasted",
        "ratio",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    for group in groups {
        for phase in &group.phases {
            for stage in &phase.stages {
                let repetitions = stage.repetitions;
                rows.push([
                    group.group.to_string(),
                    phase.phase.to_string(),
                    stage.stage.to_string(),
                    stage.kind.to_owned(),
                    or_dash(stage.operation_s, seconds),
                    repetitions.map_or_else(|| "-".to_owned(), |count| count.to_string()),
                    or_dash(stage.asked_s, seconds),
                    or_dash(stage.median_s, seconds),
                    or_dash(stage.ratio, |ratio| format!("{ratio:.3}")),
                ]);
            }
        }
    }
    print_table(&rows);
}
