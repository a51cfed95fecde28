//! Tables of a figure's values.

use maud::{Markup, html};

use super::super::equations::Equations;
use super::super::number::{self, Unit, significant};
use super::super::statistics::{CellSummary, Measure, Spread};
use super::super::summary::{Figure, Grid, Place, Summary, Verdict, Winner};
use super::super::variant;
use super::parts::{percent, time};

/// Medians and quartiles, a row per resize.
pub(super) fn matrix(grid: &Grid, winners: &[&Winner], unit: Unit, quantity: &str) -> Markup {
    let row = |index: usize, place: &Place| {
        let winner = winners
            .iter()
            .find(|winner| (winner.from, winner.to) == (place.from, place.to));
        html! {
            tr {
                th scope="row" { (place) }
                @for line in &grid.lines {
                    @match line.values[index] {
                        None => td { "–" },
                        Some(spread) => (value(&line.variant, &spread, winner, unit)),
                    }
                }
            }
        }
    };
    html! {
        div.scroll tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { "NS→NT" }
                        @for line in &grid.lines { th scope="col" { (variant::label(&line.variant)) } }
                    }
                }
                tbody {
                    @for (index, place) in grid.resizes.iter().enumerate() { (row(index, place)) }
                }
            }
        }
        p.note {
            (unit.label(quantity)) ": median, and the quartiles below it. Bold: the least median. ≈: not different from \
            it beyond the spread."
        }
    }
}

fn value(name: &str, spread: &Spread, winner: Option<&&Winner>, unit: Unit) -> Markup {
    let best =
        winner.is_some_and(|winner| winner.variant == name && winner.verdict != Verdict::Alone);
    let close = winner.is_some_and(|winner| winner.within_spread.iter().any(|other| other == name));
    html! {
        td class=[best.then_some("best")] {
            @if close { "≈ " }
            (unit.show(spread.median))
            small { (unit.show(spread.q1)) "–" (unit.show(spread.q3)) }
        }
    }
}

/// Everything that is known of a figure's values, a row each.
pub(super) fn statistics(
    summary: &Summary,
    figure: Figure,
    progress_thread: bool,
    unit: Unit,
    quantity: &str,
) -> Markup {
    let grid = summary.grid(figure, progress_thread);
    let extra = extra_columns(figure);
    let rows = grid.resizes.iter().enumerate().flat_map(|(index, place)| {
        let lines = grid.lines.iter();
        lines.filter_map(move |line| Some((place, line, line.values[index]?)))
    });
    let row = |place: &Place, name: &str, spread: Spread| {
        let mut cells = summary.cells_of_all(progress_thread);
        let cell = cells
            .find(|cell| (cell.from, cell.to) == (place.from, place.to) && cell.variant == name);
        let known = [
            spread.min,
            spread.q1,
            spread.median,
            spread.q3,
            spread.p95,
            spread.max,
        ];
        html! {
            tr {
                th scope="row" { (place) }
                td.text { (variant::label(name)) }
                td { (spread.n) }
                td { (cell.map_or(0, |cell| cell.failed)) }
                @for value in known { td { (unit.show(value)) } }
                @for (_, of) in &extra {
                    td { (cell.and_then(|cell| of(summary, cell)).unwrap_or_else(|| "–".to_owned())) }
                }
            }
        }
    };
    html! {
        p.note { (unit.label(quantity)) }
        div.scroll.tall tabindex="0" {
            table {
                thead {
                    tr {
                        @for name in ["NS→NT", "variant", "n", "failed", "min", "quartile", "median", "quartile", "p95", "max"] {
                            th.text[name == "variant"] scope="col" { (name) }
                        }
                        @for (name, _) in &extra { th scope="col" { (name) } }
                    }
                }
                tbody {
                    @for (place, line, spread) in rows { (row(place, &line.variant, spread)) }
                }
            }
        }
    }
}

/// What an additional column shows of a cell.
type Of = Box<dyn Fn(&Summary, &CellSummary) -> Option<String>>;

fn extra_columns(figure: Figure) -> Vec<(&'static str, Of)> {
    fn median(measure: Measure, show: fn(f64) -> String) -> Of {
        Box::new(move |_, cell| Some(show(cell.get(measure)?.median)))
    }
    match figure {
        Figure::Blocking => vec![
            ("moved", median(Measure::Moved, number::bytes)),
            ("kept", median(Measure::Kept, number::bytes)),
            (
                "most memory of a rank",
                median(Measure::PeakRss, number::bytes),
            ),
        ],
        Figure::Omega | Figure::OmegaWithoutThreads => vec![
            ("T_it(NS)", median(Measure::IterationBefore, time)),
            ("T_it during", median(Measure::IterationDuring, time)),
            (
                "ω of the whole resize",
                median(Measure::OmegaTotal, significant),
            ),
            (
                "copying, of ω − 1",
                median(Measure::CopyShare, |share| percent(share, share)),
            ),
        ],
        Figure::Iterations => vec![
            (
                "ideal",
                Box::new(|_, cell| cell.ideal_iterations.map(significant)),
            ),
            ("T_redis", median(Measure::Redistribute, time)),
            ("T_it during", median(Measure::IterationDuring, time)),
        ],
        Figure::Equations => {
            fn equations<'a>(summary: &'a Summary, cell: &CellSummary) -> Option<&'a Equations> {
                let here = (cell.from, cell.to, cell.progress_thread);
                let mut all = summary.equations.iter();
                all.find(|of| (of.from, of.to, of.progress_thread) == here)
            }
            vec![
                (
                    "equation",
                    Box::new(|_, cell| {
                        Some(if cell.background { "(2)" } else { "(1)" }.to_owned())
                    }),
                ),
                ("T_redis", median(Measure::Redistribute, time)),
                (
                    "T_it(NT)",
                    Box::new(|summary, cell| {
                        let after = equations(summary, cell)?.iteration_after_s?;
                        (!cell.background).then(|| time(after.median))
                    }),
                ),
                (
                    "fewest iterations",
                    Box::new(|summary, cell| {
                        let fewest = equations(summary, cell)?.fewest_iterations.as_ref()?;
                        let name = variant::label(&fewest.variant);
                        (!cell.background)
                            .then(|| format!("{} ({name})", significant(fewest.median)))
                    }),
                ),
            ]
        }
        Figure::Resize => Vec::new(),
    }
}

pub(super) fn pairs([without, with]: &[Grid; 2], quantity: &str) -> Markup {
    let spread = |value: Option<Spread>| {
        html! {
            td {
                @match value {
                    None => "–",
                    Some(spread) => {
                        (significant(spread.median))
                        small { (significant(spread.q1)) "–" (significant(spread.q3)) }
                    }
                }
            }
        }
    };
    html! {
        div.scroll tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { "NS→NT" }
                        @for line in &without.lines { th scope="col" colspan="2" { (variant::label(&line.variant)) } }
                    }
                    tr.second {
                        th {}
                        @for _ in &without.lines { th scope="col" { "without" } th scope="col" { "with" } }
                    }
                }
                tbody {
                    @for (index, place) in without.resizes.iter().enumerate() {
                        tr {
                            th scope="row" { (place) }
                            @for (before, after) in without.lines.iter().zip(&with.lines) {
                                (spread(before.values[index]))
                                (spread(after.values[index]))
                            }
                        }
                    }
                }
            }
        }
        p.note { (quantity) ": median, and the quartiles below it." }
    }
}
