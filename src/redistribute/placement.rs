//! Which process becomes which rank: the order after a resize that moves least.
//!
//! Paper R numbers the processes of a resize sources first, so that from 2 to 4 ranks three quarters of a block
//! distribution change their process: source 1 held the second half, and becomes the rank of the second quarter. Any order
//! will do for the job. In the best one, each process that stays becomes the rank whose block overlaps most with what it
//! holds, as far as two do not want the same.

use super::plan::{Error, Plan, same_length};
use crate::partition::Partition;

/// A source that stays could become this target, and keep so many elements.
#[derive(Clone, Copy, Debug)]
struct Overlap {
    source: usize,
    target: usize,
    elements: u64,
}

/// The rank after the resize of each process: first of the sources that stay, which are the first ones, then of the
/// newcomers. No other order keeps more elements in their process. One step per source and target.
///
/// ```
/// use malleus::partition::Partition;
/// use malleus::redistribute::placement::{keep_most, kept_elements};
///
/// let (two, four) = (Partition::block(1000, 2), Partition::block(1000, 4));
/// let order = keep_most(&two, &four)?;
/// assert_eq!(order, [0, 2, 1, 3]);
/// assert_eq!(kept_elements(&two, &four, &order)?, 500);
/// # Ok::<(), malleus::redistribute::plan::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::LengthsDiffer`] if the partitions are not of one length.
pub fn keep_most(from: &Partition, to: &Partition) -> Result<Vec<usize>, Error> {
    let overlaps = overlaps(from, to)?;
    // Blocks are in order on both sides, so that the overlaps of a source are neighbours here, and those of a target as
    // well. Which overlap a process keeps rules out its neighbours only: what the first overlaps bring at best follows from
    // what fewer of them do.
    let mut best = Vec::with_capacity(overlaps.len() + 1);
    best.push(0_u64);
    let mut compatible = Vec::with_capacity(overlaps.len());
    let (mut first_of_source, mut first_of_target) = (0, 0);
    for (at, overlap) in overlaps.iter().enumerate() {
        if overlaps[first_of_source].source != overlap.source {
            first_of_source = at;
        }
        if overlaps[first_of_target].target != overlap.target {
            first_of_target = at;
        }
        // So many overlaps before this one are of other sources and other targets.
        let before = first_of_source.min(first_of_target);
        compatible.push(before);
        best.push(best[at].max(best[before] + overlap.elements));
    }
    let mut target_of = vec![None; to.ranks()];
    let mut process_of = vec![None; to.ranks()];
    let mut at = overlaps.len();
    while at > 0 {
        if best[at] == best[at - 1] {
            at -= 1;
            continue;
        }
        let Overlap { source, target, .. } = overlaps[at - 1];
        target_of[source] = Some(target);
        process_of[target] = Some(source);
        at = compatible[at - 1];
    }
    // The others keep nothing, wherever they go.
    let mut free = (0..to.ranks()).filter(|&target| process_of[target].is_none());
    let rank = |target: Option<usize>| target.or_else(|| free.next());
    Ok(target_of.into_iter().filter_map(rank).collect())
}

/// Where sources that stay and targets overlap, in order.
fn overlaps(from: &Partition, to: &Partition) -> Result<Vec<Overlap>, Error> {
    let mut overlaps = Vec::new();
    for source in 0..from.ranks().min(to.ranks()) {
        let plan = Plan::for_source(from, to, source)?;
        overlaps.extend(plan.pieces().map(|piece| Overlap {
            source,
            target: piece.peer,
            elements: piece.len,
        }));
    }
    same_length(from, to)?;
    Ok(overlaps)
}

/// How many elements stay in their process, where process `p` becomes rank `order[p]`. One step per process.
///
/// # Errors
///
/// [`Error::LengthsDiffer`] if the partitions are not of one length.
pub fn kept_elements(from: &Partition, to: &Partition, order: &[usize]) -> Result<u64, Error> {
    same_length(from, to)?;
    let kept = |(process, &rank): (usize, &usize)| {
        let (before, after) = (from.range(process), to.range(rank));
        let start = before.start.max(after.start);
        before.end.min(after.end).saturating_sub(start)
    };
    let staying = order.iter().take(from.ranks());
    Ok(staying.enumerate().map(kept).sum())
}
