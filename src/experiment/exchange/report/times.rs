//! Times over sizes, ranks and matrices.

use maud::html;

use super::super::super::Result;
use super::super::super::figure::{Draw, Line, Lines};
use super::super::super::number::{Unit, bytes, significant};
use super::super::super::report::{Section, figure_of, table, time};
use super::super::row::Timing;
use super::super::summary::{Setting, Summary};
use super::{by_place, cell, finding, legend, lines, of_ranks, of_setting, whose};

pub(super) fn sizes(summary: &Summary, setting: Setting<'_>) -> Result<Option<Section>> {
    let sizes: Vec<usize> = summary.sizes();
    let value = |variant: &str, place: usize| {
        Some(summary.uniform(setting, sizes[place], variant)?.median_s)
    };
    let (shown, lines) = lines(summary, Draw::Both, sizes.len(), value);
    if shown.is_empty() {
        return Ok(None);
    }
    let places: Vec<String> = sizes.iter().map(|&size| bytes(size as f64)).collect();
    let greatest = sizes
        .iter()
        .filter_map(|&size| Some(summary.uniform(setting, size, "standard")?.median_s));
    let heading = format!("Time over message size, {}", of_setting(summary, setting));
    let unit = Unit::of_seconds(greatest.fold(0.0, f64::max));
    let drawing = times(&heading, unit, (&places, "bytes to each peer"), lines)?;
    let best = fastest(summary, setting, &sizes);
    let content = html! {
        (finding(&best))
        (figure_of(&legend(&shown)?, &drawing, "Less is better.", ""))
        (by_place("bytes", &shown, &places, value, time))
    };
    Ok(Some(Section {
        id: format!("sizes-{}-{}", setting.0, setting.1).into(),
        heading: heading.into(),
        content,
    }))
}

/// A drawing of medians.
fn times(
    title: &str,
    unit: Unit,
    (places, across): (&[String], &str),
    lines: Vec<Line>,
) -> Result<String> {
    let figure = Lines {
        title,
        quantity: "start and wait, median",
        unit,
        places,
        across,
        lines,
        reference: None,
    };
    figure.draw()
}

/// Which variant wins where.
fn fastest(summary: &Summary, setting: Setting<'_>, sizes: &[usize]) -> String {
    let mut runs: Vec<(String, usize, usize)> = Vec::new();
    for &size in sizes {
        let rows = summary.rows.iter().filter(|row| {
            row.pattern == "uniform"
                && (row.ranks, row.buffers.as_str()) == setting
                && row.bytes_per_peer == size
        });
        // `auto` is one of the others.
        let rows = rows.filter(|row| row.variant != "auto");
        let Some(best) = rows.min_by(|a, b| a.median_s.total_cmp(&b.median_s)) else {
            continue;
        };
        match runs.last_mut() {
            Some((name, _, last)) if *name == best.variant => *last = size,
            _ => runs.push((best.variant.clone(), size, size)),
        }
    }
    let told: Vec<String> = runs
        .iter()
        .map(|(name, first, last)| {
            if first == last {
                format!("{name} at {}", bytes(*first as f64))
            } else {
                format!(
                    "{name} from {} to {}",
                    bytes(*first as f64),
                    bytes(*last as f64)
                )
            }
        })
        .collect();
    format!(
        "With {}, the fastest is {}.",
        of_setting(summary, setting),
        told.join(", ")
    )
}

pub(super) fn over_ranks(summary: &Summary, buffers: &str) -> Result<Option<Section>> {
    let ranks = summary.ranks();
    let size = summary.sizes().into_iter().rev().find(|&size| {
        let measured = |&ranks: &usize| {
            summary
                .uniform((ranks, buffers), size, "standard")
                .is_some()
        };
        ranks.iter().all(measured)
    });
    let Some(size) = size.filter(|_| ranks.len() > 1) else {
        return Ok(None);
    };
    let value = |variant: &str, place: usize| {
        Some(
            summary
                .uniform((ranks[place], buffers), size, variant)?
                .median_s,
        )
    };
    let (shown, lines) = lines(summary, Draw::Both, ranks.len(), value);
    let places: Vec<String> = ranks
        .iter()
        .map(|&ranks| of_ranks(summary, ranks))
        .collect();
    let greatest = ranks.iter().filter_map(|&ranks| {
        Some(
            summary
                .uniform((ranks, buffers), size, "standard")?
                .median_s,
        )
    });
    let heading = format!(
        "Time over ranks, {} to each peer, {} buffers",
        bytes(size as f64),
        whose(buffers)
    );
    let unit = Unit::of_seconds(greatest.fold(0.0, f64::max));
    let drawing = times(&heading, unit, (&places, "ranks"), lines)?;
    let text = summary.claims.get(1).map_or("", |claim| &claim.finding);
    let content = html! {
        (finding(&format!("What the persistent fence saves against its other form, {text}.")))
        (figure_of(&legend(&shown)?, &drawing, "Less is better.", ""))
        (by_place("ranks", &shown, &places, value, time))
    };
    Ok(Some(Section {
        id: format!("ranks-{buffers}").into(),
        heading: heading.into(),
        content,
    }))
}

pub(super) fn matrices(summary: &Summary, setting: Setting<'_>) -> Result<Option<Section>> {
    let matrices = summary.matrices();
    let row = |variant: &str, place: usize| -> Option<&Timing> {
        summary.rows.iter().find(|row| {
            (row.ranks, row.buffers.as_str()) == setting
                && row.pattern == matrices[place]
                && row.variant == variant
        })
    };
    let ratio = |variant: &str, place: usize| row(variant, place)?.speed_up;
    let (shown, lines) = lines(summary, Draw::Points, matrices.len(), ratio);
    if shown.is_empty() {
        return Ok(None);
    }
    let places: Vec<String> = matrices
        .iter()
        .map(|matrix| name_of(matrix).to_owned())
        .collect();
    let heading = format!("Halos of sparse matrices, {}", of_setting(summary, setting));
    let figure = Lines {
        title: &heading,
        quantity: "times as fast as MPI_Alltoallv",
        unit: Unit::NONE,
        places: &places,
        across: "matrix",
        lines,
        reference: Some(1.0),
    };
    let persistent = |place: usize| {
        let variants = shown
            .iter()
            .filter(|(name, _)| !matches!(*name, "standard" | "auto"));
        let ratios = variants.filter_map(|(name, _)| Some((*name, ratio(name, place)?)));
        ratios.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let best: Vec<(usize, (&str, f64))> = (0..matrices.len())
        .filter_map(|place| Some((place, persistent(place)?)))
        .collect();
    let faster = best.iter().filter(|(_, (_, ratio))| *ratio > 1.0).count();
    let text = format!(
        "With {}, the best other variant beats MPI_Alltoallv on {faster} of {} matrices.",
        of_setting(summary, setting),
        best.len()
    );
    let rows = best.iter().map(|(place, (name, ratio))| {
        let median = |variant: &str| cell(row(variant, *place).map(|row| row.median_s), time);
        let mean = row(name, *place).map_or(0, |row| row.bytes_per_peer);
        vec![
            places[*place].clone(),
            bytes(mean as f64),
            median("standard"),
            (*name).to_owned(),
            median(name),
            significant(*ratio),
        ]
    });
    let header = [
        "matrix",
        "bytes per message",
        "MPI_Alltoallv",
        "best",
        "takes",
        "ratio",
    ];
    let content = html! {
        (finding(&text))
        (figure_of(&legend(&shown)?, &figure.draw()?, "More is better; the line is MPI_Alltoallv itself.", ""))
        (table(&header, rows))
    };
    Ok(Some(Section {
        id: format!("matrices-{}-{}", setting.0, setting.1).into(),
        heading: heading.into(),
        content,
    }))
}

fn name_of(pattern: &str) -> &str {
    let name = pattern.trim_start_matches("matrix:");
    name.rsplit('/').next().unwrap_or(name)
}
