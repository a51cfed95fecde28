//! What the progress thread changes.

use maud::html;

use super::super::figure::{Points, Series};
use super::super::number::Unit;
use super::super::statistics::Measure;
use super::super::summary::Summary;
use super::super::{Result, sentence};
use super::Section;
use super::parts::{figure_of, legend, style};
use super::table::pairs;

/// Measures without and with the progress thread, where there are both.
pub(super) fn progress_thread(summary: &Summary) -> Result<Option<Section>> {
    let mut parts = Vec::new();
    for (heading, quantity, subject, measure) in [
        (
            "ω without and with the progress thread",
            "ω",
            "ω",
            Measure::Omega,
        ),
        (
            "Iterations without and with the progress thread",
            "iterations",
            "the number of iterations",
            Measure::Iterations,
        ),
    ] {
        let grids = summary.with_and_without(measure);
        if grids[0].is_empty() {
            continue;
        }
        let mut series = Vec::new();
        for (without, with) in grids[0].lines.iter().zip(&grids[1].lines) {
            for (line, hollow) in [(without, false), (with, true)] {
                series.push(Series {
                    style: style(summary, &line.variant),
                    hollow,
                    values: &line.values,
                });
            }
        }
        let drawing = Points {
            title: heading,
            quantity,
            unit: Unit::NONE,
            resizes: &grids[0].resizes,
            series,
            reference: (measure == Measure::Omega).then_some(1.0),
        }
        .draw()?;
        parts.push(html! {
            h3 { (heading) }
            p.finding { (sentence::progress(&grids, subject)) }
            (figure_of(
                &legend(summary, &grids[0])?,
                &drawing,
                "Filled: runs without the progress thread. Hollow, to their right: with it.",
                "",
            ))
            (pairs(&grids, quantity))
        });
    }
    Ok((!parts.is_empty()).then(|| Section {
        id: "progress-thread".into(),
        heading: "The progress thread".into(),
        content: html! { @for part in &parts { (part) } },
    }))
}
