//! What failed, and what words mean.

use maud::html;

use super::super::row::Group;
use super::super::summary::{Place, Summary};
use super::super::variant;
use super::Section;
use super::parts::yes_or_no;

pub(super) fn failures(summary: &Summary) -> Section {
    let resizes = summary.resizes();
    let counts = summary.variants().into_iter().map(|name| {
        let cells = summary.cells.iter();
        let cells = cells.filter(|cell| cell.variant == name && cell.group == Group::All);
        let sum = cells.fold((0, 0), |sum, cell| (sum.0 + cell.runs, sum.1 + cell.failed));
        (name, sum)
    });
    let place = |from: usize, to: usize| {
        let here = resizes
            .iter()
            .find(|place| (place.from, place.to) == (from, to));
        here.map_or_else(String::new, Place::to_string)
    };
    let content = html! {
        p.finding {
            @if summary.failed == 0 {
                "None of the " (summary.runs) " runs failed."
            } @else {
                (summary.failed) " of the " (summary.runs) " runs failed: they ended with an error, or their data did \
                not verify."
            }
        }
        @if !summary.failures.is_empty() {
            div.scroll.tall tabindex="0" {
                table {
                    thead {
                        tr {
                            @for name in ["NS→NT", "variant", "progress thread", "repetition"] { th.text[name == "variant" || name == "progress thread"] scope="col" { (name) } }
                            th.text scope="col" { "why" }
                        }
                    }
                    tbody {
                        @for failure in &summary.failures {
                            tr {
                                th scope="row" { (place(failure.from, failure.to)) }
                                td.text { (variant::label(&failure.variant)) }
                                td.text { (yes_or_no(failure.progress_thread)) }
                                td { (failure.rep) }
                                td.long { (failure.reason) }
                            }
                        }
                    }
                }
            }
        }
        @if summary.runs > 0 {
            details {
                summary { "Runs by variant" }
                div.scroll tabindex="0" {
                    table {
                        thead { tr { th.text scope="col" { "variant" } th scope="col" { "runs" } th scope="col" { "failed" } } }
                        tbody {
                            @for (name, (runs, failed)) in counts {
                                tr { th.text scope="row" { (variant::label(name)) } td { (runs) } td { (failed) } }
                            }
                        }
                    }
                }
            }
        }
    };
    Section {
        id: "failures".into(),
        heading: "Runs that failed".into(),
        content,
    }
}

pub(super) fn definitions() -> Section {
    let content = html! {
        p {
            "Figures and equations are numbered as in paper R: I. Martín-Álvarez, J. I. Aliaga, M. Castillo, "
            em lang="es" { "Redimensionamiento dinámico de aplicaciones maleables mediante RMA" } "."
        }
        dl {
            dt { "NS, NT" }
            dd { "How many processes hold the data before a resize (sources) and after it (targets)." }
            dt { "Variants" }
            dd {
                "COL moves data by MPI_Alltoallv; RMA1 by one-sided reads, with a lock per source; RMA2 by one-sided \
                reads under one lock of all; P2P by messages. Without a suffix everybody waits (blocking). In the \
                background: T, a helper thread on each source does it, and tests its requests; at unlock, the same, but \
                the reads are completed by unlocking, as in the paper; NB, non-blocking calls that the sources test; WT \
                (Wait Targets), as NB, and a barrier tells the sources that the targets have their data."
            }
            dt { "T_redis" }
            dd { "From the start of the redistribution to its end, window creation included." }
            dt { "T_it(NS), T_it(NT)" }
            dd { "Time of an iteration of the application with NS or NT ranks when nothing is redistributed." }
            dt { "ω" }
            dd {
                "Mean time of an iteration during a redistribution in the background over T_it(NS). That of the whole \
                resize is the time from the request to the switch, over the iterations in it × T_it(NS). Where it is \
                given, the share of copying is the processor time that sources spend on it, as a part of ω − 1."
            }
            dt { "Equation (1): blocking" }
            dd {
                p.equation {
                    "T" sub { "bl_total" } " = T" sub { "bl_redis" } " + T" sub { "it" } "(NT) × min" sub { "variants" }
                    " ( N" sub { "it" } sup { "NS→NT" } " )"
                }
                "N" sub { "it" } " is the median number of iterations during a redistribution in the background, and the \
                minimum is over all variants in the background: what the application, having waited, still has to do \
                with NT ranks to get as far. T_it(NT) is the median of the runs of all variants on that resize."
            }
            dt { "Equation (2): background" }
            dd { p.equation { "T" sub { "sp_total" } " = T" sub { "sp_redis" } } }
            dt { "Ideal iterations" }
            dd { "T_redis of the same method when it blocks, over T_it(NS), rounded up." }
            dt { "Median, quartiles, p95" }
            dd {
                "Quantiles interpolate linearly between the two nearest of the sorted values (the quantile p at position \
                p × (n − 1), counted from 0). Each run gives one value: that of the rank that took longest."
            }
            dt { "Beyond the spread" }
            dd {
                "Two medians differ beyond the spread if the ranges between their quartiles do not touch. Below three \
                runs there is no spread to speak of. This is a rule of thumb, not a test of significance."
            }
        }
    };
    Section {
        id: "definitions".into(),
        heading: "Definitions".into(),
        content,
    }
}
