//! What a job tells about its resizes.

use serde::Serialize;

use super::record::{bytes, print_table, seconds};
use crate::job::{Event, Resize};

/// The resizes of a job, by what became of them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Resizes {
    queued: Vec<Queued>,
    #[serde(rename = "resizes")]
    pub(super) done: Vec<Resize>,
    refused: Vec<Refused>,
}

#[derive(Debug, Serialize)]
struct Queued {
    iteration: u64,
    to: usize,
}

#[derive(Debug, Serialize)]
struct Refused {
    iteration: u64,
    from: usize,
    to: usize,
    reason: String,
}

impl Resizes {
    pub(super) fn of(events: Vec<Event>) -> Self {
        let mut resizes = Self::default();
        for event in events {
            match event {
                Event::Resized(resize) => resizes.done.push(resize),
                Event::Queued { iteration, to } => resizes.queued.push(Queued { iteration, to }),
                Event::Refused {
                    iteration,
                    from,
                    to,
                    reason,
                } => resizes.refused.push(Refused {
                    iteration,
                    from,
                    to,
                    reason,
                }),
            }
        }
        resizes
    }

    /// Whether a node had more active ranks than cores after any of them.
    pub(super) fn oversubscribed(&self) -> bool {
        self.done.iter().any(|resize| resize.oversubscribed)
    }

    /// The table of those that were done, after an empty line, and what became of the others.
    pub(super) fn print(&self) {
        if !self.done.is_empty() {
            println!();
            print_done(&self.done);
        }
        for queued in &self.queued {
            println!(
                "queued: the resize to {} at iteration {}, when another one was under way",
                queued.to, queued.iteration
            );
        }
        for refused in &self.refused {
            println!(
                "not done: the resize from {} to {} at iteration {}: {}",
                refused.from, refused.to, refused.iteration, refused.reason
            );
        }
    }
}

/// A time in the background, where there was one.
fn background(time_s: f64) -> String {
    if time_s > 0.0 {
        seconds(time_s)
    } else {
        "-".to_owned()
    }
}

fn print_done(resizes: &[Resize]) {
    let heading = [
        "resize",
        "at",
        "method",
        "decide",
        "processes",
        "background",
        "iterations",
        "redistribute",
        "resume",
        "total",
        "spawned",
        "recalled",
        "parked",
        "released",
        "moved",
        "kept",
        "verified",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    for resize in resizes {
        rows.push([
            format!(
                "{} → {}{}",
                resize.from,
                resize.to,
                if resize.oversubscribed { " *" } else { "" }
            ),
            resize.iteration.to_string(),
            resize.variant.to_string(),
            seconds(resize.decide_s),
            seconds(resize.processes_s),
            background(resize.background_s),
            resize.iterations_during.to_string(),
            seconds(resize.redistribute_s),
            seconds(resize.resume_s),
            seconds(resize.total_s),
            resize.spawned.to_string(),
            resize.recalled.to_string(),
            resize.parked.to_string(),
            resize.released.to_string(),
            bytes(resize.moved_bytes),
            bytes(resize.kept_bytes),
            if resize.verified { "yes" } else { "-" }.to_owned(),
        ]);
    }
    print_table(&rows);
    if resizes.iter().any(|resize| resize.oversubscribed) {
        println!("* more active ranks than cores from here on");
    }
}
