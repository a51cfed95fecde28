//! What the sections share.

use maud::{Markup, PreEscaped, html};

use super::super::Result;
use super::super::figure::symbol;
use super::super::number::Unit;
use super::super::statistics::{CellSummary, Measure};
use super::super::summary::{Figure, Grid, Line, Place, Summary};
use super::super::variant::{self, Style};

/// How a figure is told.
pub(super) struct Telling {
    pub(super) id: &'static str,
    pub(super) heading: &'static str,
    /// What is drawn, without its unit.
    pub(super) quantity: &'static str,
    /// What a winner did.
    pub(super) won: &'static str,
    /// What there is none of when the figure is empty.
    pub(super) missing: &'static str,
    /// What it is, below the drawing.
    pub(super) caption: &'static str,
}

pub(super) const fn telling(figure: Figure) -> Telling {
    match figure {
        Figure::Blocking => Telling {
            id: "figure-5",
            heading: "Figure 5: blocking redistribution times",
            quantity: "T_redis",
            won: "was fastest",
            missing: "no blocking variant has a run that is fine",
            caption: "Time of a blocking redistribution, T_redis; less is better.",
        },
        Figure::Omega => Telling {
            id: "figure-6",
            heading: "Figure 6: ω of all variants in the background",
            quantity: "ω",
            won: "slowed the application's iterations least",
            missing: "no variant in the background has a run that is fine",
            caption: "Time of an iteration during a redistribution over its time without one, ω; the line at 1 is an \
                      application that does not notice. Less is better.",
        },
        Figure::OmegaWithoutThreads => Telling {
            id: "figure-7",
            heading: "Figure 7: ω of NB and WT only",
            quantity: "ω",
            won: "slowed the application's iterations least",
            missing: "no variant without helper threads has a run in the background that is fine",
            caption: "As figure 6, without the variants that have helper threads (T).",
        },
        Figure::Iterations => Telling {
            id: "figure-8",
            heading: "Figure 8: iterations during a redistribution in the background",
            quantity: "iterations",
            won: "was done after the fewest iterations",
            missing: "no variant in the background has a run that is fine",
            caption: "Iterations that the application does while a redistribution is in progress. Few of them mean that \
                      it ends soon, or that each takes long: compare ω and T_redis.",
        },
        Figure::Equations => Telling {
            id: "figure-9",
            heading: "Figure 9: blocking against background, equations (1) and (2)",
            quantity: "T_total",
            won: "was fastest",
            missing: "the equations need a variant in the background whose runs are fine",
            caption: "Time until the application has done the same iterations: equation (1) for blocking variants (●), \
                      equation (2) for those in the background. Less is better.",
        },
        Figure::Resize => Telling {
            id: "stages",
            heading: "Stages of a resize",
            quantity: "whole resize",
            won: "took the least time as a whole",
            missing: "no variant has a run that is fine",
            caption: "Median of each stage, stacked; each panel has its own axis. The mark is the median of the whole \
                      resize: it lies elsewhere than the end of the bar where time passes between stages or where \
                      stages overlap, and because medians do not add up.",
        },
    }
}

pub(super) fn nothing(telling: &Telling) -> Markup {
    html! { p.finding { "There is nothing to show: " (telling.missing) "." } }
}

pub(in super::super) fn figure_of(
    legend: &Markup,
    drawing: &str,
    caption: &str,
    setting: &str,
) -> Markup {
    html! {
        figure {
            (legend)
            div.scroll tabindex="0" { (PreEscaped(drawing)) }
            figcaption { (caption) (setting) }
        }
    }
}

pub(super) fn legend(summary: &Summary, grid: &Grid) -> Result<Markup> {
    let entry = |line: &Line| {
        let drawn = symbol(style(summary, &line.variant))?;
        Ok((drawn, variant::label(&line.variant)))
    };
    let entries: Vec<(String, String)> = grid.lines.iter().map(entry).collect::<Result<_>>()?;
    Ok(list(&entries))
}

/// The entries of a legend: drawings and names.
pub(in super::super) fn list(entries: &[(String, impl AsRef<str>)]) -> Markup {
    html! {
        ul.legend {
            @for (drawn, name) in entries { li { (PreEscaped(drawn)) (name.as_ref()) } }
        }
    }
}

/// Which runs are shown, where there is a choice.
pub(super) fn setting(summary: &Summary) -> &'static str {
    let both = summary.cells_of_all(true).next().is_some();
    match (both, summary.progress_thread_shown) {
        (false, _) => "",
        (true, false) => " Runs without the progress thread.",
        (true, true) => " Runs with the progress thread.",
    }
}

/// How a variant looks in every figure of this report.
pub(super) fn style(summary: &Summary, name: &str) -> Style {
    let styles = variant::styles(summary.variants());
    let own = styles.iter().find(|(known, _)| *known == name);
    own.map_or_else(|| variant::styles([name])[0].1, |(_, style)| *style)
}

pub(super) fn unit_of(grid: &Grid, measure: Measure) -> Unit {
    match measure {
        Measure::Omega | Measure::Iterations => Unit::NONE,
        _ => Unit::of_seconds(
            grid.spreads()
                .map(|spread| spread.median)
                .fold(0.0, f64::max),
        ),
    }
}

pub(super) fn percent(low: f64, high: f64) -> String {
    let (low, high) = (
        format!("{:.0}", low * 100.0),
        format!("{:.0}", high * 100.0),
    );
    if low == high {
        format!("{low} %")
    } else {
        format!("{low} to {high} %")
    }
}

pub(in super::super) fn time(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0".to_owned();
    }
    let unit = Unit::of_seconds(seconds);
    format!("{} {}", unit.show(seconds), unit.name)
}

pub(super) fn label(resizes: &[Place], cell: &CellSummary) -> String {
    let mut all = resizes.iter();
    let place = all.find(|place| (place.from, place.to) == (cell.from, cell.to));
    place.map_or_else(String::new, Place::to_string)
}

/// What heads a report: labels and values.
pub(in super::super) fn facts(facts: &[(String, String)]) -> Markup {
    html! {
        @if !facts.is_empty() {
            div.scroll tabindex="0" {
                table.facts {
                    tbody {
                        @for (label, value) in facts {
                            tr { th scope="row" { (label) } td { (value) } }
                        }
                    }
                }
            }
        }
    }
}

/// A table of texts; the first column names the rows.
pub(in super::super) fn table(
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Markup {
    html! {
        div.scroll tabindex="0" {
            table {
                thead { tr { @for name in header { th scope="col" { (name) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

pub(super) const fn yes_or_no(answer: bool) -> &'static str {
    if answer { "yes" } else { "no" }
}
