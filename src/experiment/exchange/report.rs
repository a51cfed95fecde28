//! The report: one page that needs nothing else.

use maud::{Markup, html};

use super::super::Result;
use super::super::figure::{Draw, Line, Lines, symbol};
use super::super::number::{Unit, bytes, significant};
use super::super::report::{Section, facts, figure_of, list, page, table, time};
use super::super::variant::{self, Style};
use super::row::Exchange;
use super::summary::{ONCE, Setting, Summary};

/// The page as text.
pub(super) fn html(summary: &Summary) -> Result<String> {
    let mut sections = vec![claimed(summary)];
    for setting in summary.settings() {
        sections.extend(sizes(summary, setting)?);
    }
    for buffers in summary.buffers() {
        sections.extend(over_ranks(summary, buffers)?);
    }
    for setting in summary.settings() {
        sections.extend(matrices(summary, setting)?);
    }
    sections.extend(totals(summary)?);
    sections.extend(break_even(summary));
    sections.push(failures(summary));
    Ok(page(
        "Persistent Alltoallv experiment",
        &head(summary),
        &sections,
    ))
}

fn head(summary: &Summary) -> Markup {
    let crowded = summary.rows.iter().any(|row| row.oversubscribed);
    html! {
        p {
            (summary.rows.len()) " exchanges of " (summary.variants().len()) " variants. Times are those of start and wait, \
            the longest of any rank, with a barrier before each and the setup outside; variants take turns. "
            @if summary.failures.is_empty() {
                "All data was right."
            } @else {
                (summary.failures.len()) " failed and count in no figure: " a href="#failures" { "see below" } "."
            }
        }
        @if crowded {
            p.note { "Numbers of ranks marked * are more than there are cores: their times tell how ranks share cores as \
                      much as how data moves." }
        }
        (facts(&summary.environment))
    }
}

fn finding(text: &str) -> Markup {
    html! { p.finding { (text) } }
}

fn claimed(summary: &Summary) -> Section {
    let rows = summary.claims.iter().map(|claim| {
        let holds = match claim.holds {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "not measured",
        };
        vec![claim.claim.clone(), holds.to_owned(), claim.finding.clone()]
    });
    let holding = summary
        .claims
        .iter()
        .filter(|claim| claim.holds == Some(true))
        .count();
    let tested = summary
        .claims
        .iter()
        .filter(|claim| claim.holds.is_some())
        .count();
    Section {
        id: "claims".into(),
        heading: "What the paper claims, and what is so here".into(),
        content: html! {
            (finding(&format!("Of {tested} claims that were tested, {holding} hold on this machine.")))
            (table(&["claim", "here", "found"], rows))
        },
    }
}

/// How a variant looks in every figure.
fn styles<'a>(variants: &[&'a str]) -> Vec<(&'a str, Style)> {
    variant::styles(variants.iter().copied())
}

fn legend(styles: &[(&str, Style)]) -> Result<Markup> {
    let entries: Vec<(String, String)> = styles
        .iter()
        .map(|(name, style)| Ok((symbol(*style)?, (*name).to_owned())))
        .collect::<Result<_>>()?;
    Ok(list(&entries))
}

fn of_ranks(summary: &Summary, ranks: usize) -> String {
    let crowded = summary
        .rows
        .iter()
        .any(|row| row.ranks == ranks && row.oversubscribed);
    format!("{ranks}{} ranks", if crowded { "*" } else { "" })
}

/// The rows' variants in their order, with what each line shows for each place.
fn lines(
    summary: &Summary,
    draw: Draw,
    places: usize,
    value: impl Fn(&str, usize) -> Option<f64>,
) -> (Vec<(&str, Style)>, Vec<Line>) {
    let all = styles(&summary.variants());
    let mut shown = Vec::new();
    let mut lines = Vec::new();
    for (name, style) in all {
        let values: Vec<Option<f64>> = (0..places).map(|place| value(name, place)).collect();
        if values.iter().any(Option::is_some) {
            shown.push((name, style));
            lines.push(Line {
                style,
                values,
                draw,
            });
        }
    }
    (shown, lines)
}

fn of_setting(summary: &Summary, (ranks, buffers): Setting<'_>) -> String {
    format!(
        "{} and {} buffers",
        of_ranks(summary, ranks),
        whose(buffers)
    )
}

fn whose(buffers: &str) -> &str {
    match buffers {
        "own" => "the plan's",
        "caller" => "the caller's",
        other => other,
    }
}

fn cell(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

/// A table with a row for each place, and a column for each variant.
fn by_place(
    first: &str,
    shown: &[(&str, Style)],
    places: &[String],
    value: impl Fn(&str, usize) -> Option<f64>,
    show: impl Fn(f64) -> String,
) -> Markup {
    let mut header = vec![first];
    header.extend(shown.iter().map(|(name, _)| *name));
    let rows = places.iter().enumerate().map(|(index, place)| {
        let cells = shown
            .iter()
            .map(|(name, _)| cell(value(name, index), &show));
        std::iter::once(place.clone())
            .chain(cells)
            .collect::<Vec<_>>()
    });
    table(&header, rows)
}

fn sizes(summary: &Summary, setting: Setting<'_>) -> Result<Option<Section>> {
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
    let figure = Lines {
        title: &heading,
        quantity: "start and wait, median",
        unit: Unit::of_seconds(greatest.fold(0.0, f64::max)),
        places: &places,
        across: "bytes to each peer",
        lines,
        reference: None,
    };
    let best = fastest(summary, setting, &sizes);
    let content = html! {
        (finding(&best))
        (figure_of(&legend(&shown)?, &figure.draw()?, "Less is better.", ""))
        (by_place("bytes", &shown, &places, value, time))
    };
    Ok(Some(Section {
        id: format!("sizes-{}-{}", setting.0, setting.1).into(),
        heading: heading.into(),
        content,
    }))
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

fn over_ranks(summary: &Summary, buffers: &str) -> Result<Option<Section>> {
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
    let figure = Lines {
        title: &heading,
        quantity: "start and wait, median",
        unit: Unit::of_seconds(greatest.fold(0.0, f64::max)),
        places: &places,
        across: "ranks",
        lines,
        reference: None,
    };
    let text = summary.claims.get(1).map_or("", |claim| &claim.finding);
    let content = html! {
        (finding(&format!("What the persistent fence saves against its other form, {text}.")))
        (figure_of(&legend(&shown)?, &figure.draw()?, "Less is better.", ""))
        (by_place("ranks", &shown, &places, value, time))
    };
    Ok(Some(Section {
        id: format!("ranks-{buffers}").into(),
        heading: heading.into(),
        content,
    }))
}

fn matrices(summary: &Summary, setting: Setting<'_>) -> Result<Option<Section>> {
    let matrices = summary.matrices();
    let row = |variant: &str, place: usize| -> Option<&Exchange> {
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

/// Totals beside the model, for the sizes around the paper's.
fn totals(summary: &Summary) -> Result<Option<Section>> {
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

fn break_even(summary: &Summary) -> Option<Section> {
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

fn failures(summary: &Summary) -> Section {
    let rows = summary.failures.iter().map(|row| {
        let why = if row.error.is_empty() {
            "it delivered wrong data"
        } else {
            &row.error
        };
        vec![
            row.variant.clone(),
            row.pattern.clone(),
            of_setting(summary, (row.ranks, &row.buffers)),
            bytes(row.bytes_per_peer as f64),
            why.to_owned(),
        ]
    });
    Section {
        id: "failures".into(),
        heading: "What failed".into(),
        content: html! {
            @if summary.failures.is_empty() {
                (finding("Nothing."))
            } @else {
                (table(&["variant", "pattern", "ranks", "bytes", "why"], rows))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{exchange, total};
    use super::*;

    fn summary() -> Summary {
        let mut rows = Vec::new();
        let mut totals = Vec::new();
        for ranks in [2, 8] {
            for size in [64, 32_768] {
                for (at, variant) in ["standard", "fence", "fence-once", "node-shared"]
                    .into_iter()
                    .enumerate()
                {
                    let mut row =
                        exchange(variant, ranks, size, (at + 1) as f64 * 1e-6 * size as f64);
                    row.speed_up = Some(1.0 / (at + 1) as f64);
                    row.init_s = 1e-5;
                    for n in [1, 10] {
                        totals.push(total(variant, ranks, size, n, Summary::predicted(&row, n)));
                    }
                    rows.push(row);
                }
            }
            let mut halo = exchange("fence", ranks, 100, 1e-6);
            halo.pattern = "matrix:/data/<b>.mtx".to_owned();
            halo.speed_up = Some(2.0);
            rows.push(halo);
        }
        let mut failed = exchange("lock", 2, 64, 1e-6);
        failed.error = "it hung & died".to_owned();
        rows.push(failed);
        Summary::new(&[("MPICH".to_owned(), "4.2.3".to_owned())], rows, totals)
    }

    #[test]
    fn a_page_has_every_section() {
        let page = html(&summary()).unwrap();
        for id in [
            "claims",
            "sizes-2-own",
            "sizes-8-own",
            "ranks-own",
            "matrices-2-own",
            "matrices-8-own",
            "totals",
            "break-even",
            "failures",
        ] {
            assert_eq!(page.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
            assert!(page.contains(&format!("href=\"#{id}\"")), "{id}");
        }
        assert!(
            page.contains("the fastest is standard from 64 B to 32 KiB"),
            "who wins"
        );
        assert!(
            page.contains("nine of ten within 1."),
            "the model is exact here"
        );
        assert!(page.contains("8* ranks") && page.contains("more than there are cores"));
        assert!(
            page.contains("it hung &amp; died") && !page.contains("<b>"),
            "escaped"
        );
        assert!(page.contains("on 1 of 1 matrices"));
    }

    #[test]
    fn a_page_of_nothing_says_so() {
        let page = html(&Summary::new(&[], Vec::new(), Vec::new())).unwrap();
        assert!(page.contains("Of 0 claims that were tested, 0 hold"));
        assert!(!page.contains("id=\"totals\""));
    }
}
