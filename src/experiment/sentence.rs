//! What a figure shows, in words.

use super::summary::{Grid, Place, Verdict, Winner};
use super::variant;

/// Says who won where: `won` is what a winner did ("was fastest"), `least` what the first of equals has ("the
/// shortest median").
pub(super) fn wins(winners: &[&Winner], places: &[Place], won: &str) -> String {
    let mut sentences = Vec::new();
    let clear = by(winners, Verdict::Clear, |winner| winner.variant.clone());
    let parts: Vec<String> = clear
        .iter()
        .enumerate()
        .map(|(index, (name, group))| {
            let verb = if index == 0 { won } else { "" };
            let name = variant::label(name);
            let parts = [name.as_str(), verb, &format!("in {}", names(group, places))];
            let said: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            format!("{}{}", said.join(" "), ahead(group))
        })
        .collect();
    if !parts.is_empty() {
        sentences.push(parts.join("; "));
    }
    let close = by(winners, Verdict::WithinSpread, |winner| {
        let mut equals = vec![winner.variant.as_str()];
        equals.extend(winner.within_spread.iter().map(String::as_str));
        equals.sort_by_key(|name| (variant::place(name), *name));
        let labels: Vec<String> = equals.into_iter().map(variant::label).collect();
        list(&labels)
    });
    if !close.is_empty() {
        let parts = close.iter().enumerate().map(|(index, (equals, group))| {
            let names = names(group, places);
            match index {
                0 => format!("In {names} no difference beyond the spread among the best: {equals}"),
                _ => format!("in {names}: {equals}"),
            }
        });
        sentences.push(parts.collect::<Vec<_>>().join("; "));
    }
    let few = by(winners, Verdict::FewRuns, |winner| winner.variant.clone());
    if !few.is_empty() {
        let parts = lowest(&few, places);
        sentences.push(format!(
            "Too few runs to tell a spread; the least median was {parts}"
        ));
    }
    let alone = by(winners, Verdict::Alone, |winner| winner.variant.clone());
    if !alone.is_empty() {
        let parts = lowest(&alone, places);
        sentences.push(format!("Nothing to compare with: only {parts}"));
    }
    sentences
        .iter()
        .map(|sentence| format!("{sentence}."))
        .collect::<Vec<_>>()
        .join(" ")
}

fn lowest(groups: &[(String, Vec<&Winner>)], places: &[Place]) -> String {
    let part = |(name, group): &(String, Vec<&Winner>)| {
        format!("{} in {}", variant::label(name), names(group, places))
    };
    groups.iter().map(part).collect::<Vec<_>>().join("; ")
}

/// The winners of a verdict, grouped by something; larger groups first.
fn by<'a>(
    winners: &[&'a Winner],
    verdict: Verdict,
    key: impl Fn(&Winner) -> String,
) -> Vec<(String, Vec<&'a Winner>)> {
    let mut groups: Vec<(String, Vec<&Winner>)> = Vec::new();
    for winner in winners.iter().filter(|winner| winner.verdict == verdict) {
        let key = key(winner);
        match groups.iter_mut().find(|group| group.0 == key) {
            Some(group) => group.1.push(winner),
            None => groups.push((key, vec![winner])),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.1.len()));
    groups
}

/// The resizes of a group; if they are all, or most, that is said.
fn names(group: &[&Winner], places: &[Place]) -> String {
    let is_in = |place: &&Place| {
        let mut all = group.iter();
        all.any(|winner| (winner.from, winner.to) == (place.from, place.to))
    };
    let (these, others): (Vec<&Place>, Vec<&Place>) = places.iter().partition(is_in);
    let named = |places: &[&Place]| {
        let names: Vec<String> = places.iter().map(ToString::to_string).collect();
        list(&names)
    };
    if places.len() > 1 && others.is_empty() {
        return "every resize".to_owned();
    }
    if these.len() > 4 && these.len() > 3 * others.len() {
        return format!("every resize but {}", named(&others));
    }
    named(&these)
}

/// "a, b and c".
pub(super) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// How far ahead of the next, as a range.
fn ahead(group: &[&Winner]) -> String {
    let factors = group.iter().filter_map(|winner| winner.ahead);
    let range = factors.fold(None, |range: Option<(f64, f64)>, factor| {
        let (low, high) = range.unwrap_or((factor, factor));
        Some((low.min(factor), high.max(factor)))
    });
    match range.map(|(low, high)| (factor(low), factor(high))) {
        None => String::new(),
        Some((low, high)) if low == high => format!(" (next best: {low}×)"),
        Some((low, high)) => format!(" (next best: {low}–{high}×)"),
    }
}

fn factor(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

/// Says in how many resizes a measure is lower, higher, or neither with the progress thread.
pub(super) fn progress([without, with]: &[Grid; 2], measure: &str) -> String {
    let (mut lower, mut higher, mut neither, mut few) = (Vec::new(), Vec::new(), 0, 0);
    let mut all = 0;
    for (before, after) in without.lines.iter().zip(&with.lines) {
        let mut counts = [0, 0];
        for pair in before.values.iter().zip(&after.values) {
            let (Some(before), Some(after)) = pair else {
                continue;
            };
            all += 1;
            if before.n.min(after.n) < super::statistics::FEW {
                few += 1;
            } else if before.overlaps(after) {
                neither += 1;
            } else {
                counts[usize::from(after.median > before.median)] += 1;
            }
        }
        for (count, list) in counts.into_iter().zip([&mut lower, &mut higher]) {
            if count > 0 {
                list.push(format!("{} in {count}", variant::label(&before.variant)));
            }
        }
    }
    let mut parts = Vec::new();
    for (list_of, word) in [(lower, "lower"), (higher, "higher")] {
        if !list_of.is_empty() {
            parts.push(format!("{word} beyond the spread for {}", list(&list_of)));
        }
    }
    if neither > 0 {
        parts.push(format!(
            "no different beyond the spread in {neither} of {all} comparisons"
        ));
    }
    if few > 0 {
        parts.push(format!(
            "in {few} of {all} comparisons there are too few runs to tell a spread"
        ));
    }
    let resizes = if all == 1 {
        "comparison"
    } else {
        "comparisons (a variant in a resize each)"
    };
    format!(
        "With the progress thread, over {all} {resizes}, {measure} is {}.",
        parts.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::super::statistics::Spread;
    use super::super::summary::{Figure, Line};
    use super::*;

    fn place(from: usize, to: usize) -> Place {
        Place {
            from,
            to,
            oversubscribed: from.max(to) > 2,
        }
    }

    fn winner(
        at: Place,
        name: &str,
        ahead: Option<f64>,
        close: &[&str],
        verdict: Verdict,
    ) -> Winner {
        Winner {
            figure: Figure::Blocking,
            from: at.from,
            to: at.to,
            progress_thread: false,
            variant: name.to_owned(),
            median: 1.0,
            ahead,
            within_spread: close.iter().map(|&name| name.to_owned()).collect(),
            verdict,
        }
    }

    #[test]
    fn everybody_who_won_is_named_with_where_and_by_how_much() {
        let places = [
            place(1, 2),
            place(2, 1),
            place(1, 4),
            place(4, 1),
            place(2, 4),
        ];
        let clear = Verdict::Clear;
        let all = [
            winner(places[0], "col", Some(1.1), &[], clear),
            winner(places[1], "rma2", Some(1.5), &[], clear),
            winner(places[2], "rma2", Some(1.25), &[], clear),
            winner(
                places[3],
                "rma2",
                Some(1.01),
                &["col", "my-own"],
                Verdict::WithinSpread,
            ),
            winner(places[4], "rma1", Some(2.0), &[], Verdict::FewRuns),
        ];
        let all: Vec<&Winner> = all.iter().collect();
        assert_eq!(
            wins(&all, &places, "was fastest"),
            "RMA2 was fastest in 2→1 and 1→4* (next best: 1.25–1.50×); COL in 1→2 (next best: 1.10×). In 4→1* no difference beyond the spread among the best: COL, RMA2 and my-own. Too few runs to tell a \
             spread; the least median was RMA1 in 2→4*."
        );
    }

    #[test]
    fn one_who_won_everywhere_or_stood_alone() {
        let places = [place(1, 2), place(2, 1)];
        let won = places.map(|at| winner(at, "col", Some(1.2), &[], Verdict::Clear));
        assert_eq!(
            wins(&won.iter().collect::<Vec<_>>(), &places, "was fastest"),
            "COL was fastest in every resize (next best: 1.20×)."
        );
        let alone = winner(places[0], "col", None, &[], Verdict::Alone);
        assert_eq!(
            wins(&[&alone], &places[..1], "was fastest"),
            "Nothing to compare with: only COL in 1→2."
        );
        assert_eq!(wins(&[], &places, "was fastest"), "");
    }

    #[test]
    fn most_resizes_are_not_listed() {
        let places: Vec<Place> = (2..=8).map(|to| place(1, to)).collect();
        let tied = |&at: &Place| winner(at, "col", Some(1.0), &["rma1"], Verdict::WithinSpread);
        let mut all: Vec<Winner> = places[1..].iter().map(tied).collect();
        all.push(winner(places[0], "rma1", Some(12.3), &[], Verdict::Clear));
        assert_eq!(
            wins(&all.iter().collect::<Vec<_>>(), &places, "was fastest"),
            "RMA1 was fastest in 1→2 (next best: 12×). In every resize but 1→2 no difference beyond the spread among the \
             best: COL and RMA1."
        );
    }

    #[test]
    fn the_progress_thread_helps_harms_or_neither() {
        let of = |values: [f64; 3]| Spread::of(values);
        let grid = |values: Vec<Option<Spread>>| Grid {
            resizes: vec![place(1, 2), place(2, 1), place(1, 4), place(4, 1)],
            lines: vec![Line {
                variant: "rma1-wt".to_owned(),
                values,
            }],
        };
        let high = of([5.0, 5.1, 5.2]);
        let low = of([1.0, 1.1, 1.2]);
        let grids = [
            grid(vec![high, low, low, low]),
            grid(vec![low, high, low, Spread::of([1.0])]),
        ];
        assert_eq!(
            progress(&grids, "ω"),
            "With the progress thread, over 4 comparisons (a variant in a resize each), ω is lower beyond the spread \
             for RMA1-WT in 1; higher beyond the spread for RMA1-WT in 1; no different beyond the spread in 1 of 4 \
             comparisons; in 1 of 4 comparisons there are too few runs to tell a spread."
        );
    }
}
