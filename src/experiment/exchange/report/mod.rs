//! The report: one page that needs nothing else.

mod payback;
mod times;

use maud::{Markup, html};

use super::super::Result;
use super::super::figure::{Draw, Line, symbol};
use super::super::number::bytes;
use super::super::report::{Section, facts, list, page, table};
use super::super::variant::{self, Style};
use super::summary::{Setting, Summary};

/// The page as text.
pub(super) fn html(summary: &Summary) -> Result<String> {
    let mut sections = vec![claimed(summary)];
    for setting in summary.settings() {
        sections.extend(times::sizes(summary, setting)?);
    }
    for buffers in summary.buffers() {
        sections.extend(times::over_ranks(summary, buffers)?);
    }
    for setting in summary.settings() {
        sections.extend(times::matrices(summary, setting)?);
    }
    sections.extend(payback::totals(summary)?);
    sections.extend(payback::break_even(summary));
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
