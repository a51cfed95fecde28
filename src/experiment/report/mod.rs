//! The report: one page that needs nothing else.

mod closing;
mod comparison;
mod parts;
mod progress;
mod stages;
mod table;

use std::borrow::Cow;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::summary::{Figure, Summary};
use super::{Result, number};
use closing::{definitions, failures};
use comparison::comparison;
pub(super) use parts::{facts, figure_of, list, table, time};
use progress::progress_thread;
use stages::stages;

const STYLE: &str = include_str!("style.css");

/// A section of the page.
pub(super) struct Section {
    pub(super) id: Cow<'static, str>,
    pub(super) heading: Cow<'static, str>,
    pub(super) content: Markup,
}

/// The page as text.
///
/// # Errors
///
/// [`super::Error::Figure`] if a figure cannot be drawn.
pub fn html(summary: &Summary) -> Result<String> {
    let mut sections = Vec::new();
    for figure in Figure::ALL {
        sections.push(if figure == Figure::Resize {
            stages(summary)?
        } else {
            comparison(summary, figure)?
        });
    }
    sections.extend(progress_thread(summary)?);
    sections.push(failures(summary));
    sections.push(definitions());
    Ok(page("Redistribution experiment", &head(summary), &sections))
}

/// A page that needs nothing else: what it is, its contents, and its sections.
pub(super) fn page(title: &str, head: &Markup, sections: &[Section]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    (head)
                }
                nav aria-label="Contents" {
                    h2 { "Contents" }
                    ol {
                        @for section in sections {
                            li { a href={ "#" (section.id) } { (section.heading) } }
                        }
                    }
                }
                main {
                    @for section in sections {
                        section id=(section.id) {
                            h2 { (section.heading) }
                            (section.content)
                        }
                    }
                }
            }
        }
    };
    page.into_string()
}

fn head(summary: &Summary) -> Markup {
    let count = |n: usize, one: &str| {
        if n == 1 {
            format!("{n} {one}")
        } else {
            format!("{n} {one}s")
        }
    };
    let size = number::bytes(summary.bytes as f64);
    let resizes = summary.resizes();
    html! {
            p {
                (count(summary.runs, "run")) " of " (count(summary.variants().len(), "variant")) " on "
                (count(resizes.len(), "resize"))
                @if summary.runs > 0 {
                    ", each of " (size) " in " (count(usize::try_from(summary.arrays).unwrap_or(usize::MAX), "array"))
                }
                ". "
                @if summary.failed == 0 {
                    "Every run ended well, and its data verified."
                } @else {
                    (count(summary.failed, "run")) " failed and "
                    (if summary.failed == 1 { "counts" } else { "count" })
                    " in no statistic: " a href="#failures" { "see below" } "."
                }
                @if summary.repeated > 0 {
                    " " (count(summary.repeated, "run")) " were done again: the last time counts."
                }
            }
            @if resizes.iter().any(|place| place.oversubscribed) {
                p.note { "Resizes marked * have more ranks than cores: their times tell how ranks share cores as much \
                          as how data moves." }
            }
            (facts(&summary.environment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::row::Run;
    use crate::experiment::sample::run;

    fn page(runs: &[Run]) -> String {
        let environment = [("MPICH".to_owned(), "4.2.3".to_owned())];
        let summary = Summary::new(&environment, runs).expect("a summary");
        html(&summary).expect("a page")
    }

    const VARIANTS: [&str; 15] = [
        "col",
        "col-t",
        "col-nb",
        "col-wt",
        "rma1",
        "rma1-t",
        "rma1-wt",
        "rma2",
        "rma2-t",
        "rma2-wt",
        "rma1-t-unlock",
        "rma2-t-unlock",
        "p2p",
        "p2p-nb",
        "p2p-wt",
    ];

    fn full() -> Vec<Run> {
        let mut all = Vec::new();
        let sizes = [1, 2, 4, 8];
        for (from, to) in sizes.iter().flat_map(|&from| sizes.map(|to| (from, to))) {
            for name in VARIANTS.iter().filter(|_| from != to) {
                all.extend((0..3).map(|rep| run(from, to, name, rep)));
            }
        }
        all
    }

    /// Whether every element that is opened is closed, in order.
    fn check_nesting(page: &str) {
        let mut open: Vec<&str> = Vec::new();
        for part in page.split('<').skip(1) {
            let (tag, _) = part.split_once('>').expect("a tag ends");
            let name = tag.split([' ', '\n', '/']).next().unwrap_or_default();
            if let Some(closing) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(closing.trim()), "</{closing}>");
            } else if !(tag.ends_with('/') || tag.starts_with('!') || name == "meta") {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn a_full_grid_has_every_figure() {
        let page = page(&full());
        check_nesting(&page);
        for id in [
            "figure-5",
            "figure-6",
            "figure-7",
            "figure-8",
            "figure-9",
            "stages",
            "failures",
            "definitions",
        ] {
            assert_eq!(page.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
            assert!(page.contains(&format!("href=\"#{id}\"")), "{id}");
        }
        assert!(
            !page.contains("id=\"progress-thread\"") && !page.contains("There is nothing to show")
        );
        // Five figures, and a panel per resize.
        assert_eq!(page.matches("role=\"img\"").count(), 5 + 12);
        for part in [
            "540 runs of 15 variants on 12 resizes, each of 64 MiB in 1 array",
            "RMA1-T at unlock",
            "4→8*",
            "4.2.3",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let page = page(&full());
        for part in ["<script", "<link", "<img", "@import", "url(", "src="] {
            assert!(!page.contains(part), "{part}");
        }
        let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !elsewhere.contains("http"),
            "only the name of SVG's namespace"
        );
    }

    #[test]
    fn a_single_run_is_not_called_a_winner() {
        let page = page(&[run(1, 2, "col", 0), run(1, 2, "rma1", 0)]);
        check_nesting(&page);
        assert!(page.contains("Too few runs to tell a spread; the least median was COL in 1→2."));
        assert!(page.contains(
            "There is nothing to show: no variant in the background has a run that is fine."
        ));
        assert!(
            page.contains(
                "There is nothing to show: the equations need a variant in the background"
            )
        );
    }

    #[test]
    fn background_variants_alone() {
        let page = page(&[run(1, 2, "col-t", 0), run(2, 1, "rma1-t", 0)]);
        check_nesting(&page);
        assert!(page.contains("nothing to show: no blocking variant has a run that is fine"));
        assert!(page.contains("nothing to show: no variant without helper threads"));
        assert!(page.contains("only COL-T in 1→2; RMA1-T in 2→1."));
    }

    #[test]
    fn all_failed_or_none_at_all() {
        let mut all = full();
        for run in &mut all {
            run.error = "crashed".to_owned();
        }
        let failed = page(&all);
        check_nesting(&failed);
        assert!(failed.contains("540 of the 540 runs failed"));
        assert_eq!(failed.matches("There is nothing to show").count(), 6);
        assert!(!failed.contains("<svg "));
        let none = page(&[]);
        check_nesting(&none);
        assert!(none.contains("0 runs of 0 variants on 0 resizes."));
    }

    #[test]
    fn hostile_texts_are_escaped() {
        let hostile = "</style><script>alert(\"1\" & '2')</script>";
        let mut bad = run(1, 2, hostile, 1);
        bad.error = hostile.to_owned();
        let mut background = run(1, 2, hostile, 0);
        background.iterations_during = Some(2.0);
        background.omega = Some(2.0);
        let environment = [(hostile.to_owned(), hostile.to_owned())];
        let summary = Summary::new(&environment, &[background, bad]).expect("a summary");
        let page = html(&summary).expect("a page");
        check_nesting(&page);
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
        assert_eq!(page.matches("</style>").count(), 1);
    }

    #[test]
    fn the_progress_thread_is_beside() {
        let mut all = full();
        for run in full() {
            all.push(Run {
                progress_thread: true,
                omega: run.omega.map(|omega| omega / 1.4),
                ..run
            });
        }
        let page = page(&all);
        check_nesting(&page);
        assert!(page.contains("id=\"progress-thread\""));
        assert!(page.contains("over 132 comparisons (a variant in a resize each), ω is lower beyond the spread for COL-T in 12,"));
        assert!(page.contains("The same with the progress thread"));
        assert!(page.contains("Runs without the progress thread."));
        assert_eq!(page.matches("role=\"img\"").count(), 5 + 12 + 2);
    }
}
