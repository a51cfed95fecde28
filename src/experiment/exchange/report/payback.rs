//! When persistence pays.

use maud::{Markup, html};

use super::super::super::Result;
use super::super::super::figure::{Draw, Line, Lines};
use super::super::super::number::{Unit, bytes, significant};
use super::super::super::report::{Section, figure_of, table};
use super::super::super::variant::Style;
use super::super::summary::{ONCE, Setting, Summary};
use super::{cell, finding, legend, of_setting, styles};

/// Totals beside the model, for the sizes around the paper's.
pub(super) fn totals(summary: &Summary) -> Result<Option<Section>> {
    const SHOWN: [&str; 4] = ["standard", "fence-once", "fence", "node-shared"];
    let mut parts = Vec::new();
    for setting in summary.settings() {
        let sizes = summary.sizes();
        let measured = |size: usize| !summary.totals_of(setting, size, "fence").is_empty();
        let sizes: Vec<usize> = sizes.into_iter().filter(|&size| measured(size)).collect();
        let wanted = [1024, 32_768, 1 << 20].map(|wanted: usize| {
            sizes
                .iter()
                .copied()
                .min_by_key(|&size| size.abs_diff(wanted))
        });
        let mut wanted: Vec<usize> = wanted.into_iter().flatten().collect();
        wanted.dedup();
        for size in wanted {
            parts.push(total(summary, setting, size, &SHOWN)?);
        }
    }
    if parts.is_empty() {
        return Ok(None);
    }
    let text = format!(
        "{} The points are measured, setup included; the curves are the model, T_init + N · T_iteration.",
        deviation(summary)
    );
    let content = html! {
        (finding(&text))
        @for part in &parts { (part) }
    };
    Ok(Some(Section {
        id: "totals".into(),
        heading: "Several exchanges with their setup, measured beside the model".into(),
        content,
    }))
}

/// How far the model is off.
fn deviation(summary: &Summary) -> String {
    let mut factors: Vec<f64> = summary
        .totals
        .iter()
        .filter_map(|total| {
            let row = summary.uniform(
                (total.ranks, &total.buffers),
                total.bytes_per_peer,
                &total.variant,
            )?;
            let factor = total.total_s / Summary::predicted(row, total.exchanges);
            Some(factor.max(1.0 / factor))
        })
        .collect();
    factors.sort_by(f64::total_cmp);
    let at = |part: usize| factors.get(factors.len() * part / 10).copied();
    match (at(5), at(9)) {
        (Some(half), Some(most)) => format!(
            "Half of the totals are within a factor of {} of the model, nine of ten within {}.",
            significant(half),
            significant(most)
        ),
        _ => "There are no totals.".to_owned(),
    }
}

fn total(summary: &Summary, setting: Setting<'_>, size: usize, wanted: &[&str]) -> Result<Markup> {
    let all = styles(&summary.variants());
    let shown: Vec<(&str, Style)> = all
        .into_iter()
        .filter(|(name, _)| wanted.contains(name))
        .collect();
    let exchanges: Vec<usize> = summary
        .totals_of(setting, size, "fence")
        .iter()
        .map(|total| total.exchanges)
        .collect();
    let places: Vec<String> = exchanges.iter().map(ToString::to_string).collect();
    let mut lines = Vec::new();
    for (name, style) in &shown {
        let measured = summary.totals_of(setting, size, name);
        let find = |wanted: &usize| measured.iter().find(|total| total.exchanges == *wanted);
        lines.push(Line {
            style: *style,
            values: exchanges.iter().map(|n| Some(find(n)?.total_s)).collect(),
            draw: Draw::Points,
        });
        if let Some(row) = summary.uniform(setting, size, name) {
            let predicted = exchanges.iter().map(|&n| Some(Summary::predicted(row, n)));
            lines.push(Line {
                style: *style,
                values: predicted.collect(),
                draw: Draw::Curve,
            });
        }
    }
    let heading = format!(
        "{} to each peer, {}",
        bytes(size as f64),
        of_setting(summary, setting)
    );
    let greatest = lines.iter().flat_map(|line| line.values.iter().flatten());
    let figure = Lines {
        title: &heading,
        quantity: "setup and N exchanges",
        unit: Unit::of_seconds(greatest.copied().fold(0.0, f64::max)),
        places: &places,
        across: "N, exchanges",
        lines,
        reference: None,
    };
    Ok(html! {
        h3 { (heading) }
        (figure_of(&legend(&shown)?, &figure.draw()?, "Less is better.", ""))
    })
}

pub(super) fn break_even(summary: &Summary) -> Option<Section> {
    if summary.break_even.is_empty() {
        return None;
    }
    let rows = summary.break_even.iter().map(|one| {
        let measured = match one.measured {
            Some(exchanges) => format!("≤ {exchanges}"),
            None if one.largest == 0 => "–".to_owned(),
            None => format!("> {}", one.largest),
        };
        vec![
            one.variant.clone(),
            one.against.clone(),
            of_setting(summary, (one.ranks, &one.buffers)),
            bytes(one.bytes_per_peer as f64),
            cell(one.predicted, |n| significant(n.max(1.0).ceil())),
            measured,
        ]
    });
    let header = [
        "variant",
        "against",
        "ranks",
        "bytes",
        "N* by the model",
        "measured",
    ];
    let text = ONCE.map(|(variant, once)| {
        let of = summary.break_even.iter().filter(|one| one.variant == variant && one.against == once);
        let (all, at_once) = of.fold((0, 0), |(all, at_once), one| {
            (all + 1, at_once + usize::from(one.predicted.is_some_and(|n| n <= 1.0)))
        });
        format!("against {once}, the model has {variant} pay with the first exchange in {at_once} of {all} cells")
    });
    let mut text = text.join("; ");
    text.replace_range(..1, "A");
    Some(Section {
        id: "break-even".into(),
        heading: "When persistence pays: N* = T_init / (T_base − T_iteration)".into(),
        content: html! {
            (finding(&format!("{text}.")))
            p.note { "A – is a variant that is never faster. Measured is the fewest of the measured numbers of exchanges from \
                      which on its total is no longer than the other's." }
            div.tall { (table(&header, rows)) }
        },
    })
}
