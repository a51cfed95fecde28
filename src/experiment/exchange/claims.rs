//! The paper's claims, each held against what was measured here.

use serde::Serialize;

use super::super::number::bytes;
use super::summary::{ONCE, Summary};

/// From so many bytes per peer on, persistence pays at once, says the paper.
const AT_ONCE: usize = 32_768;
/// It saves up to so much of the time.
const UP_TO: f64 = 0.44;
/// And so much with the most ranks.
const AT_MOST_RANKS: f64 = 0.38;

/// A claim of the paper, or of this library, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// What is claimed.
    pub claim: String,
    /// Whether it holds here; nothing where it was not measured.
    pub holds: Option<bool>,
    /// What was found.
    pub finding: String,
}

fn claim(text: &str, found: Option<(bool, String)>) -> Claim {
    let (holds, finding) = match found {
        Some((holds, finding)) => (Some(holds), finding),
        None => (None, "this was not measured".to_owned()),
    };
    Claim {
        claim: text.to_owned(),
        holds,
        finding,
    }
}

/// What a persistent variant saves of the time of the form that sets up each time.
fn saved(
    summary: &Summary,
    ranks: usize,
    size: usize,
    (variant, once): (&str, &str),
) -> Option<f64> {
    let setting = (ranks, summary.papers_buffers());
    let persistent = summary.uniform(setting, size, variant)?.median_s;
    let once = summary.uniform(setting, size, once)?.median_s;
    Some(1.0 - persistent / once)
}

/// The numbers of ranks that fit the cores; where none does, all.
fn fitting(summary: &Summary) -> Vec<usize> {
    let crowded = |ranks: usize| {
        let mut rows = summary.rows.iter();
        rows.any(|row| row.ranks == ranks && row.oversubscribed)
    };
    let all = summary.ranks();
    let fit: Vec<usize> = all
        .iter()
        .copied()
        .filter(|&ranks| !crowded(ranks))
        .collect();
    if fit.is_empty() { all } else { fit }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

fn of_size(size: usize) -> String {
    bytes(size as f64)
}

/// Each of them.
#[must_use]
pub fn claims(summary: &Summary) -> Vec<Claim> {
    vec![
        claim(
            "The persistent fence variant takes up to 44 % less time than the non-persistent form, with large messages.",
            up_to(summary),
        ),
        claim(
            "The gain grows with the number of ranks: 38 % at the most.",
            with_ranks(summary),
        ),
        claim(
            "From 32 KiB per peer on, persistence pays at once.",
            at_once(summary),
        ),
        claim(
            "The fence variant is faster than the lock variant.",
            fence_or_lock(summary),
        ),
        claim(
            "Of this library, not of the paper: node-shared, with buffers of its own, is faster than MPI_Alltoallv at every size \
             where ranks fit the cores.",
            node_shared(summary),
        ),
    ]
}

fn up_to(summary: &Summary) -> Option<(bool, String)> {
    let mut best: Option<(f64, usize, usize)> = None;
    for ranks in fitting(summary) {
        for size in summary.sizes().into_iter().filter(|&size| size >= AT_ONCE) {
            let Some(saved) = saved(summary, ranks, size, ONCE[0]) else {
                continue;
            };
            if best.is_none_or(|(most, ..)| saved > most) {
                best = Some((saved, ranks, size));
            }
        }
    }
    let (most, ranks, size) = best?;
    let finding = format!(
        "at most {} less, with {ranks} ranks and {} per peer",
        percent(most),
        of_size(size)
    );
    Some((most >= UP_TO, finding))
}

fn with_ranks(summary: &Summary) -> Option<(bool, String)> {
    // The largest size that all numbers of ranks have.
    let ranks = summary.ranks();
    let all = |size: usize| -> Option<Vec<f64>> {
        let each = ranks
            .iter()
            .map(|&ranks| saved(summary, ranks, size, ONCE[0]));
        each.collect()
    };
    let sizes = summary.sizes().into_iter().rev();
    let (size, parts) = sizes.filter_map(|size| Some((size, all(size)?))).next()?;
    if parts.len() < 2 {
        return None;
    }
    let fit = fitting(summary);
    let list: Vec<String> = ranks
        .iter()
        .zip(&parts)
        .map(|(ranks, part)| {
            let crowded = if fit.contains(ranks) {
                ""
            } else {
                ", more than cores"
            };
            format!("{} with {ranks} ranks{crowded}", percent(*part))
        })
        .collect();
    let grows = parts.is_sorted() && parts.last() > parts.first();
    let reached = parts.last().is_some_and(|&part| part >= AT_MOST_RANKS);
    let finding = format!(
        "at {} per peer: {}; it {}",
        of_size(size),
        list.join("; "),
        if grows {
            "grows"
        } else {
            "does not grow with each step"
        }
    );
    Some((grows && reached, finding))
}

fn at_once(summary: &Summary) -> Option<(bool, String)> {
    let of_fence = summary.break_even.iter().filter(|one| {
        (one.variant.as_str(), one.against.as_str()) == ONCE[0]
            && one.buffers == summary.papers_buffers()
            && one.bytes_per_peer >= AT_ONCE
            && one.largest > 0
    });
    let mut latest: Option<(usize, usize, usize)> = None;
    let mut never = Vec::new();
    for one in of_fence {
        match one.measured {
            Some(exchanges) => {
                if latest.is_none_or(|(most, ..)| exchanges > most) {
                    latest = Some((exchanges, one.ranks, one.bytes_per_peer));
                }
            }
            None => never.push(format!(
                "within {} exchanges at {} with {} ranks",
                one.largest,
                of_size(one.bytes_per_peer),
                one.ranks
            )),
        }
    }
    if let [first, ..] = never.as_slice() {
        return Some((false, format!("it does not pay {first}")));
    }
    let (most, ranks, size) = latest?;
    let finding = format!(
        "measured with setup, it pays after at most {most} exchange{}, with {ranks} ranks and {} per peer",
        if most == 1 { "" } else { "s" },
        of_size(size)
    );
    Some((most <= 1, finding))
}

fn fence_or_lock(summary: &Summary) -> Option<(bool, String)> {
    let mut counts = (0, 0);
    for ranks in fitting(summary) {
        let setting = (ranks, summary.papers_buffers());
        for size in summary.sizes() {
            let times = ["fence", "lock"].map(|variant| summary.uniform(setting, size, variant));
            if let [Some(fence), Some(lock)] = times {
                counts.1 += 1;
                counts.0 += usize::from(fence.median_s < lock.median_s);
            }
        }
    }
    let (faster, all) = counts;
    let finding = format!("in {faster} of {all} cells where ranks fit the cores");
    (all > 0).then_some((2 * faster > all, finding))
}

fn node_shared(summary: &Summary) -> Option<(bool, String)> {
    let rows = summary.rows.iter().filter(|row| {
        row.pattern == "uniform"
            && row.variant == "node-shared"
            && row.buffers == "own"
            && !row.oversubscribed
    });
    let mut ratios: Vec<(f64, usize)> = rows
        .filter_map(|row| Some((row.speed_up?, row.bytes_per_peer)))
        .collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((least, at_least), (most, at_most)) = (ratios.first()?, ratios.last()?);
    let finding = format!(
        "from {least:.2} times as fast at {} to {most:.2} times at {}",
        of_size(*at_least),
        of_size(*at_most)
    );
    Some((*least >= 1.0, finding))
}

#[cfg(test)]
mod tests {
    use super::super::row::Timing;
    use super::super::sample::{exchange, total};
    use super::*;

    fn found(rows: Vec<Timing>) -> Vec<(Option<bool>, String)> {
        let mut totals = Vec::new();
        for row in &rows {
            for exchanges in [1, 10] {
                let total_s = row.init_s + row.median_s * exchanges as f64;
                let (ranks, size) = (row.ranks, row.bytes_per_peer);
                totals.push(total(&row.variant, ranks, size, exchanges, total_s));
            }
        }
        let summary = Summary::new(&[], rows, totals);
        let claims = summary.claims.into_iter();
        claims.map(|claim| (claim.holds, claim.finding)).collect()
    }

    /// Fence and its other form, where persistence saves so much.
    fn pair(ranks: usize, size: usize, saved: f64, init_s: f64) -> Vec<Timing> {
        let mut fence = exchange("fence", ranks, size, 1e-3 * (1.0 - saved));
        fence.init_s = init_s;
        vec![fence, exchange("fence-once", ranks, size, 1e-3)]
    }

    #[test]
    fn claims_that_hold() {
        let mut rows = [pair(2, 65_536, 0.45, 1e-5), pair(8, 65_536, 0.46, 1e-5)].concat();
        let mut shared = exchange("node-shared", 2, 64, 1e-6);
        shared.speed_up = Some(2.5);
        rows.push(shared);
        rows.push(exchange("lock", 2, 65_536, 2e-3));
        let found = found(rows);
        let holds: Vec<_> = found.iter().map(|one| one.0).collect();
        assert_eq!(holds, [Some(true); 5], "{found:?}");
        // Eight ranks are more than cores.
        assert_eq!(
            found[0].1,
            "at most 45 % less, with 2 ranks and 64 KiB per peer"
        );
        assert!(
            found[1]
                .1
                .contains("45 % with 2 ranks; 46 % with 8 ranks, more than cores")
        );
        assert!(
            found[2].1.contains("after at most 1 exchange, "),
            "{found:?}"
        );
        assert!(found[3].1.contains("in 1 of 1 cells"));
        assert!(found[4].1.contains("2.50 times as fast at 64 B"));
    }

    #[test]
    fn claims_that_do_not_hold() {
        let mut rows = [pair(2, 65_536, 0.3, 2e-3), pair(8, 65_536, 0.2, 1e-5)].concat();
        let mut shared = exchange("node-shared", 2, 64, 1e-6);
        shared.speed_up = Some(0.9);
        rows.push(shared);
        rows.push(exchange("lock", 2, 65_536, 1e-6));
        let found = found(rows);
        let holds: Vec<_> = found.iter().map(|one| one.0).collect();
        assert_eq!(holds, [Some(false); 5], "{found:?}");
        assert!(found[1].1.contains("does not grow"));
        assert!(
            found[2].1.contains("after at most 10 exchanges"),
            "{found:?}"
        );
    }

    #[test]
    fn what_was_not_measured_is_said_so() {
        let found = found(vec![exchange("standard", 2, 64, 1e-6)]);
        assert!(
            found
                .iter()
                .all(|(holds, text)| holds.is_none() && text.contains("not measured"))
        );
        // Small messages say nothing of large ones.
        let small = super::super::summary::Summary::new(&[], pair(2, 1024, 0.9, 0.0), Vec::new());
        assert_eq!(small.claims[0].holds, None);
    }
}
