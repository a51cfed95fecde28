//! Figures 5 to 9: points, what they say, and their tables.

use maud::{Markup, html};

use super::super::figure::{Points, Series};
use super::super::number::{Unit, significant};
use super::super::statistics::{CellSummary, Measure};
use super::super::summary::{Figure, Grid, Summary};
use super::super::{Result, sentence};
use super::Section;
use super::parts::{
    Telling, figure_of, legend, nothing, percent, setting, style, telling, unit_of,
};
use super::table::{matrix, statistics};

/// A figure of points, with its sentence and tables.
pub(super) fn comparison(summary: &Summary, figure: Figure) -> Result<Section> {
    let telling = telling(figure);
    let shown = summary.progress_thread_shown;
    let grid = summary.grid(figure, shown);
    let content = if grid.is_empty() {
        nothing(&telling)
    } else {
        let unit = unit_of(&grid, figure.measure());
        let winners = summary.winners_in(figure, shown);
        let drawing = draw(summary, &telling, &grid, unit)?;
        html! {
            p.finding { (sentence::wins(&winners, &grid.resizes, telling.won)) }
            @if let Some(more) = more(summary, figure) { p { (more) } }
            (figure_of(&legend(summary, &grid)?, &drawing, telling.caption, setting(summary)))
            (matrix(&grid, &winners, unit, telling.quantity))
            details {
                summary { "All statistics" }
                (statistics(summary, figure, shown, unit, telling.quantity))
            }
            (the_other_setting(summary, figure, &telling))
        }
    };
    Ok(Section {
        id: telling.id.into(),
        heading: telling.heading.into(),
        content,
    })
}

fn the_other_setting(summary: &Summary, figure: Figure, telling: &Telling) -> Markup {
    let other = !summary.progress_thread_shown;
    let grid = summary.grid(figure, other);
    let unit = unit_of(&grid, figure.measure());
    html! {
        @if !grid.is_empty() {
            details {
                summary { "The same " (if other { "with" } else { "without" }) " the progress thread" }
                (matrix(&grid, &summary.winners_in(figure, other), unit, telling.quantity))
                (statistics(summary, figure, other, unit, telling.quantity))
            }
        }
    }
}

fn draw(summary: &Summary, telling: &Telling, grid: &Grid, unit: Unit) -> Result<String> {
    let series = grid.lines.iter().map(|line| Series {
        style: style(summary, &line.variant),
        hollow: false,
        values: &line.values,
    });
    let points = Points {
        title: telling.heading,
        quantity: telling.quantity,
        unit,
        resizes: &grid.resizes,
        series: series.collect(),
        reference: (telling.quantity == "ω").then_some(1.0),
    };
    points.draw()
}

/// What else a figure has to say.
pub(super) fn more(summary: &Summary, figure: Figure) -> Option<String> {
    let shown = summary.progress_thread_shown;
    let range = |values: &[f64]| {
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        Some(percent(low, high))
    };
    let values = |of: &dyn Fn(&CellSummary) -> Option<f64>| -> Vec<f64> {
        summary.cells_of_all(shown).filter_map(of).collect()
    };
    match figure {
        Figure::Omega => {
            let shares = values(&|cell| cell.get(Measure::CopyShare).map(|share| share.median));
            let range = range(&shares)?;
            Some(format!(
                "The processor time of copying is {range} of ω − 1 (medians, over variants and resizes)."
            ))
        }
        Figure::Iterations => {
            let excess = values(&|cell| {
                let ideal = cell.ideal_iterations?;
                Some(cell.get(Measure::Iterations)?.median - ideal)
            });
            let all = excess.len();
            let within = excess.iter().filter(|&&excess| excess <= 1.0).count();
            (all > 0).then(|| {
                format!(
                    "In {within} of {all} cases (a variant in a resize each) the median is at most one iteration above \
                     the ideal: the blocking time of the same method in iterations."
                )
            })
        }
        Figure::Equations => {
            let fewest = summary
                .equations
                .iter()
                .filter(|of| of.progress_thread == shown);
            let fewest: Vec<f64> = fewest
                .filter_map(|of| Some(of.fewest_iterations.as_ref()?.median))
                .collect();
            let low = fewest.iter().copied().reduce(f64::min)?;
            let high = fewest.iter().copied().reduce(f64::max)?;
            let range = if low == high {
                significant(low)
            } else {
                format!("{} to {}", significant(low), significant(high))
            };
            Some(format!(
                "Equation (1) adds T_it(NT) × {range} to the blocking times: the least median number of iterations of \
                 the variants in the background."
            ))
        }
        Figure::Resize => {
            let windows = values(&|cell| {
                let parts = [Measure::Expose, Measure::Transfer, Measure::Release];
                let [expose, transfer, release] = parts.map(|part| cell.get(part));
                let expose = expose?.median;
                let sum = expose + transfer?.median + release?.median;
                (expose > 0.0 && !cell.background).then(|| expose / sum)
            });
            let range = range(&windows)?;
            Some(format!(
                "Creating windows takes {range} of a blocking redistribution with windows (window creation, transfer, \
                 free)."
            ))
        }
        _ => None,
    }
}
