//! What a configuration asks for, in words.

use std::path::Path;

use super::super::record::{bytes, print_table, seconds};
use crate::workload::synthetic::config::{
    Amount, Capture, Configuration, Counting, Form, IniGeneration, Stage,
};
use crate::workload::synthetic::{Ignored, Plan};

/// The form of the file.
pub(super) fn form(form: Form) -> &'static str {
    match form {
        Form::Toml => "TOML",
        Form::ProteoJson => "Proteo JSON",
        Form::ProteoIni(IniGeneration::One | IniGeneration::OneB) => "Proteo INI, old numbers",
        Form::ProteoIni(IniGeneration::Two | IniGeneration::Three) => "Proteo INI, new numbers",
    }
}

/// How the ranks' times become one.
pub(super) fn capture(capture: Capture) -> &'static str {
    match capture {
        Capture::Maximum => "max",
        Capture::Mean => "mean",
        Capture::Median => "median",
    }
}

/// What the job does, before it does it.
pub(super) fn print(file: &Path, plan: &Plan) {
    let configuration = &plan.configuration;
    println!(
        "{} ({}): {} constant, {} variable; times are the {} over the ranks{}",
        file.display(),
        form(configuration.form),
        bytes(configuration.constant_bytes),
        bytes(configuration.variable_bytes),
        capture(configuration.capture),
        if configuration.rigid {
            ", with barriers"
        } else {
            ""
        }
    );
    println!();
    print_stages(configuration);
    println!();
    print_groups(plan);
    print_ignored(&plan.ignored);
}

fn amount(stage: &Stage) -> String {
    match stage.amount() {
        Amount::Operations(1) => "once".to_owned(),
        Amount::Operations(count) => format!("{count} times"),
        Amount::OperationTime {
            seconds: time_s,
            scaled,
        } => format!(
            "{}{}",
            seconds(time_s),
            if scaled { " × factor" } else { "" }
        ),
        Amount::Until { seconds: time_s } => format!("until {}", seconds(time_s)),
    }
}

fn print_stages(configuration: &Configuration) {
    let mut rows =
        vec![["phase", "iterations", "stage", "kind", "size", "runs"].map(str::to_owned)];
    for (index, phase) in configuration.phases.iter().enumerate() {
        for (stage_index, stage) in phase.stages.iter().enumerate() {
            let message_bytes = stage.message_bytes();
            rows.push([
                index.to_string(),
                phase.iterations.to_string(),
                stage_index.to_string(),
                stage.kind.to_string(),
                if stage.kind.is_computation() {
                    stage.granularity.to_string()
                } else if message_bytes > 0 {
                    bytes(message_bytes)
                } else {
                    "-".to_owned()
                },
                amount(stage),
            ]);
        }
    }
    print_table(&rows);
}

fn print_groups(plan: &Plan) {
    let configuration = &plan.configuration;
    let planned = configuration.cursor().planned();
    let mut rows =
        vec![["group", "processes", "iterations", "factor", "method"].map(str::to_owned)];
    for (index, (group, range)) in configuration.groups.iter().zip(planned).enumerate() {
        let resizes = index > 0 && configuration.groups[index - 1].processes != group.processes;
        rows.push([
            index.to_string(),
            group.processes.to_string(),
            format!("{} to {}", range.start, range.end),
            group.speed_factor.to_string(),
            if resizes {
                plan.variants[index].to_string()
            } else {
                "-".to_owned()
            },
        ]);
    }
    print_table(&rows);
    println!(
        "iterations that run while a resize is under way {}",
        match configuration.counting {
            Counting::Sequence => "shift those after it",
            Counting::PerGroup => "count for the group after it",
        }
    );
}

/// What has no effect, if there is anything.
pub(super) fn print_ignored(ignored: &[Ignored]) {
    if ignored.is_empty() {
        return;
    }
    println!("\nignored:");
    for one in ignored {
        match one.line {
            Some(line) => println!("  line {line}: {}: {}", one.key, one.reason),
            None => println!("  {}: {}", one.key, one.reason),
        }
    }
}
