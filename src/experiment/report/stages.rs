//! The stages of a resize.

use maud::{Markup, PreEscaped, html};

use super::super::figure::{Bar, Panel, stage_name, stage_symbols};
use super::super::number::Unit;
use super::super::row::Group;
use super::super::statistics::{CellSummary, Measure};
use super::super::summary::{Figure, Place, Summary};
use super::super::{Result, sentence, variant};
use super::Section;
use super::comparison::more;
use super::parts::{label, list, nothing, setting, telling, time, unit_of, yes_or_no};
use super::table::{matrix, statistics};

pub(super) fn stages(summary: &Summary) -> Result<Section> {
    let telling = telling(Figure::Resize);
    let shown = summary.progress_thread_shown;
    let grid = summary.grid(Figure::Resize, shown);
    let content = if grid.is_empty() {
        nothing(&telling)
    } else {
        let mut panels = Vec::new();
        for place in &grid.resizes {
            panels.extend(panel(summary, place)?);
        }
        let winners = summary.winners_in(Figure::Resize, shown);
        let unit = unit_of(&grid, Measure::Total);
        html! {
            p.finding { (sentence::wins(&winners, &grid.resizes, telling.won)) }
            @if let Some(more) = more(summary, Figure::Resize) { p { (more) } }
            figure {
                (list(&stage_symbols()?))
                div.panels {
                    @for panel in &panels { div { div.scroll tabindex="0" { (PreEscaped(panel)) } } }
                }
                figcaption { (telling.caption) (setting(summary)) }
            }
            (stage_table(summary, shown))
            details {
                summary { "The whole resize" }
                (matrix(&grid, &winners, unit, telling.quantity))
                (statistics(summary, Figure::Resize, shown, unit, telling.quantity))
            }
            (group_table(summary))
            @if summary.cells_of_all(!shown).any(|cell| cell.runs > cell.failed) {
                details {
                    summary { "The same " (if shown { "without" } else { "with" }) " the progress thread" }
                    (stage_table(summary, !shown))
                }
            }
        }
    };
    Ok(Section {
        id: telling.id.into(),
        heading: telling.heading.into(),
        content,
    })
}

/// The stages of one resize; nothing if no run of it is fine.
fn panel(summary: &Summary, place: &Place) -> Result<Option<String>> {
    let cells: Vec<&CellSummary> = summary
        .cells_of_all(summary.progress_thread_shown)
        .filter(|cell| (cell.from, cell.to) == (place.from, place.to) && !cell.measures.is_empty())
        .collect();
    let labels: Vec<String> = cells
        .iter()
        .map(|cell| variant::label(&cell.variant))
        .collect();
    let bars = cells.iter().zip(&labels).map(|(cell, label)| Bar {
        label,
        stages: Measure::STAGES.map(|stage| cell.get(stage).map_or(0.0, |spread| spread.median)),
        total: cell.get(Measure::Total).map(|spread| spread.median),
    });
    let bars: Vec<Bar> = bars.collect();
    if bars.is_empty() {
        return Ok(None);
    }
    let lengths = bars
        .iter()
        .map(|bar| bar.stages.iter().sum::<f64>().max(bar.total.unwrap_or(0.0)));
    let panel = Panel {
        title: place.to_string(),
        unit: Unit::of_seconds(lengths.fold(0.0, f64::max)),
        bars,
    };
    panel.draw().map(Some)
}

fn stage_table(summary: &Summary, progress_thread: bool) -> Markup {
    let resizes = summary.resizes();
    let columns = Measure::STAGES
        .into_iter()
        .chain([Measure::Redistribute, Measure::Total]);
    let columns: Vec<Measure> = columns.collect();
    html! {
        div.scroll.tall tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { "NS→NT" }
                        th.text scope="col" { "variant" }
                        @for stage in Measure::STAGES { th scope="col" { (stage_name(stage)) } }
                        th scope="col" { "T_redis" }
                        th scope="col" { "whole resize" }
                    }
                }
                tbody {
                    @for cell in summary.cells_of_all(progress_thread).filter(|cell| !cell.measures.is_empty()) {
                        tr {
                            th scope="row" { (label(&resizes, cell)) }
                            td.text { (variant::label(&cell.variant)) }
                            @for &measure in &columns {
                                td { (cell.get(measure).map_or_else(|| "–".to_owned(), |spread| time(spread.median))) }
                            }
                        }
                    }
                }
            }
        }
        p.note { "Medians. Each time is that of the rank that took longest." }
    }
}

/// The redistribution as each group of ranks saw it.
fn group_table(summary: &Summary) -> Markup {
    let resizes = summary.resizes();
    let columns = [
        ("window creation", Measure::Expose),
        ("transfer", Measure::Transfer),
        ("free", Measure::Release),
        ("T_redis", Measure::Redistribute),
        ("whole resize", Measure::Total),
    ];
    let both = !setting(summary).is_empty();
    let cells = summary
        .cells
        .iter()
        .filter(|cell| !cell.measures.is_empty());
    let cells: Vec<&CellSummary> = cells.filter(|cell| cell.group != Group::All).collect();
    html! {
        @if !cells.is_empty() {
            details {
                summary { "By rank group: source only, target only, both" }
                div.scroll.tall tabindex="0" {
                    table {
                        thead {
                            tr {
                                th scope="col" { "NS→NT" }
                                th.text scope="col" { "variant" }
                                @if both { th.text scope="col" { "progress thread" } }
                                th.text scope="col" { "ranks" }
                                th scope="col" { "n" }
                                @for (name, _) in columns { th scope="col" { (name) } }
                            }
                        }
                        tbody {
                            @for cell in cells {
                                tr {
                                    th scope="row" { (label(&resizes, cell)) }
                                    td.text { (variant::label(&cell.variant)) }
                                    @if both { td.text { (yes_or_no(cell.progress_thread)) } }
                                    td.text { (cell.group.name().replace('_', " ")) }
                                    td { (cell.runs - cell.failed) }
                                    @for (_, measure) in columns {
                                        td { (cell.get(measure).map_or_else(|| "–".to_owned(), |spread| time(spread.median))) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
