//! Which elements go from which source to which target: paper R's Algorithm 1.
//!
//! A target needs, from each source whose block overlaps its own, one contiguous piece. Paper R finds the pieces by
//! comparing its block with that of every source. As printed, its overlap test is inverted (`ini ≥ s_end || end ≤ s_ini`
//! holds exactly when the blocks do *not* overlap), and `last_source` is never set when the target's range ends inside
//! the last source, because it is set only at the first source past the range. What it means is implemented here, and
//! without the scan: the first and the last source are found directly, so a plan costs the number of its pieces, not the
//! number of sources.
//!
//! | Algorithm 1 | here |
//! |---|---|
//! | `ini`, `end` | [`Partition::range`] of the rank |
//! | `first_source` (−1 if none) | [`Plan::first_source`] |
//! | `last_source`, one past the last | [`Plan::last_source`] |
//! | `first_index` | [`Plan::first_index`] |
//! | `counts[i]` | [`Piece::len`] of the piece whose peer is `i` |
//! | `displs[i]` | [`Piece::target_offset`] of the same piece |
//!
//! ```
//! use malleus::partition::Partition;
//! use malleus::redistribute::plan::{Piece, Plan};
//!
//! // Ten elements, from three sources (0..4, 4..7, 7..10) to two targets (0..5, 5..10).
//! let (from, to) = (Partition::block(10, 3), Partition::block(10, 2));
//! let plan = Plan::for_target(&from, &to, 1)?;
//! let pieces: Vec<Piece> = plan.pieces().collect();
//! assert_eq!(
//!     pieces,
//!     [
//!         Piece { peer: 1, source_offset: 1, target_offset: 0, len: 2 },
//!         Piece { peer: 2, source_offset: 0, target_offset: 2, len: 3 },
//!     ]
//! );
//! # Ok::<(), malleus::redistribute::plan::Error>(())
//! ```

use std::iter::FusedIterator;
use std::ops::Range;

use crate::partition::Partition;

/// Why there is no plan between two partitions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A resize moves elements; it neither makes nor loses any.
    #[error("`from` partitions {from} elements and `to` {to}: they must be of one length")]
    LengthsDiffer {
        /// The length of the partition before the resize.
        from: u64,
        /// The length of the partition after it.
        to: u64,
    },
}

/// One contiguous run of elements that goes from one source to one target. Offsets and length count elements; offsets
/// begin at the owner's own block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The rank at the other end: the source in a target's plan, the target in a source's plan.
    pub peer: usize,
    /// Where the run begins in the source's block.
    pub source_offset: u64,
    /// Where the run begins in the target's block.
    pub target_offset: u64,
    /// The number of elements, never 0.
    pub len: u64,
}

/// What one rank receives, or sends, in a resize.
///
/// It holds no list: [`pieces`](Self::pieces) computes them one by one, in ascending order and without allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    side: Side,
    rank: usize,
    /// The global range of this rank's own block.
    block: Range<u64>,
    /// The partition of the other side.
    other: Partition,
    /// From the first to one past the last rank of the other side with a piece.
    peers: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Target,
}

impl Plan {
    /// The pieces that target `rank` receives, one per source that holds some of its elements. A rank that is no target
    /// (`rank >= to.ranks()`) receives none.
    ///
    /// # Errors
    ///
    /// [`Error::LengthsDiffer`] if the partitions are not of one length.
    pub fn for_target(from: &Partition, to: &Partition, rank: usize) -> Result<Self, Error> {
        same_length(from, to)?;
        Ok(Self::new(Side::Target, rank, to, from))
    }

    /// The pieces that source `rank` sends, one per target that needs some of its elements. A rank that is no source
    /// (`rank >= from.ranks()`) sends none.
    ///
    /// # Errors
    ///
    /// [`Error::LengthsDiffer`] if the partitions are not of one length.
    pub fn for_source(from: &Partition, to: &Partition, rank: usize) -> Result<Self, Error> {
        same_length(from, to)?;
        Ok(Self::new(Side::Source, rank, from, to))
    }

    fn new(side: Side, rank: usize, own: &Partition, other: &Partition) -> Self {
        let block = own.range(rank);
        let peers = other.owners(block.clone());
        Self {
            side,
            rank,
            block,
            other: other.clone(),
            peers,
        }
    }

    /// The pieces, ascending in the peer's rank and in every offset.
    #[must_use]
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces {
            plan: self,
            next: self.block.start,
            peer: self.peers.start,
        }
    }

    /// The rank whose plan this is.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of elements in all pieces together: the length of the rank's block.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.block.end - self.block.start
    }

    /// Whether there is no piece.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// The ranks at the other end, from the first with a piece to one past the last with a piece; `0..0` if there is
    /// none. Ranks between them that own nothing have no piece.
    #[must_use]
    pub fn peers(&self) -> Range<usize> {
        self.peers.clone()
    }

    /// The first source with a piece; `None` (paper R: −1) if there is none. In a source's plan that is the source itself.
    #[must_use]
    pub fn first_source(&self) -> Option<usize> {
        Some(self.sources()?.start)
    }

    /// One past the last source with a piece, so that paper R's loops run over `first_source..last_source`; `None` if
    /// there is none.
    #[must_use]
    pub fn last_source(&self) -> Option<usize> {
        Some(self.sources()?.end)
    }

    /// Where the first piece begins in the block of [`first_source`](Self::first_source); every other piece of a target
    /// begins at the start of its source's block. 0 if there is no piece.
    #[must_use]
    pub fn first_index(&self) -> u64 {
        self.pieces().next().map_or(0, |piece| piece.source_offset)
    }

    fn sources(&self) -> Option<Range<usize>> {
        match self.side {
            _ if self.is_empty() => None,
            Side::Target => Some(self.peers.clone()),
            // Not empty, so the rank is below the number of sources.
            Side::Source => Some(self.rank..self.rank + 1),
        }
    }
}

impl<'a> IntoIterator for &'a Plan {
    type Item = Piece;
    type IntoIter = Pieces<'a>;

    fn into_iter(self) -> Pieces<'a> {
        self.pieces()
    }
}

/// The pieces of a [`Plan`], computed as they are asked for.
#[derive(Debug, Clone)]
pub struct Pieces<'a> {
    plan: &'a Plan,
    /// The first global index not yet covered.
    next: u64,
    /// Its owner on the other side, as long as there is one.
    peer: usize,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let Plan {
            side, block, other, ..
        } = self.plan;
        if self.next >= block.end {
            return None;
        }
        let theirs = other.range(self.peer);
        let end = theirs.end.min(block.end);
        let (own_offset, peer_offset) = (self.next - block.start, self.next - theirs.start);
        let (source_offset, target_offset) = match side {
            Side::Target => (peer_offset, own_offset),
            Side::Source => (own_offset, peer_offset),
        };
        let piece = Piece {
            peer: self.peer,
            source_offset,
            target_offset,
            len: end - self.next,
        };
        self.next = end;
        if end < block.end {
            self.peer = other.owner_from(end, self.peer + 1);
        }
        Some(piece)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.next >= self.plan.block.end {
            (0, Some(0))
        } else {
            (1, Some(self.plan.peers.end - self.peer))
        }
    }
}

impl FusedIterator for Pieces<'_> {}

/// How many elements stay with their rank when sources and targets share one numbering (paper R's Merge: the ranks that
/// both exist before and after the resize are the same processes). One step per rank.
///
/// # Errors
///
/// [`Error::LengthsDiffer`] if the partitions are not of one length.
pub fn kept_elements(from: &Partition, to: &Partition) -> Result<u64, Error> {
    same_length(from, to)?;
    let kept = |rank| {
        let (before, after) = (from.range(rank), to.range(rank));
        let start = before.start.max(after.start);
        before.end.min(after.end).saturating_sub(start)
    };
    Ok((0..from.ranks().min(to.ranks())).map(kept).sum())
}

/// How many elements change their rank when sources and targets share one numbering: all that are not
/// [kept](kept_elements).
///
/// # Errors
///
/// [`Error::LengthsDiffer`] if the partitions are not of one length.
pub fn moved_elements(from: &Partition, to: &Partition) -> Result<u64, Error> {
    Ok(from.len() - kept_elements(from, to)?)
}

pub(super) fn same_length(from: &Partition, to: &Partition) -> Result<(), Error> {
    if from.len() == to.len() {
        Ok(())
    } else {
        Err(Error::LengthsDiffer {
            from: from.len(),
            to: to.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(peer: usize, source_offset: u64, target_offset: u64, len: u64) -> Piece {
        Piece {
            peer,
            source_offset,
            target_offset,
            len,
        }
    }

    fn collect(plan: &Plan) -> Vec<Piece> {
        plan.pieces().collect()
    }

    #[test]
    fn three_sources_to_two_targets() {
        // 10,001 elements: sources begin at 0, 3334, 6668 (the last owns 3333), targets at 0 and 5001.
        let (from, to) = (Partition::block(10_001, 3), Partition::block(10_001, 2));
        let first = Plan::for_target(&from, &to, 0).unwrap();
        assert_eq!(
            collect(&first),
            [piece(0, 0, 0, 3334), piece(1, 0, 3334, 1667)]
        );
        let second = Plan::for_target(&from, &to, 1).unwrap();
        assert_eq!(
            collect(&second),
            [piece(1, 1667, 0, 1667), piece(2, 0, 1667, 3333)]
        );
        assert_eq!(second.first_source(), Some(1));
        // The last source is where the paper's own loop never sets it.
        assert_eq!(second.last_source(), Some(3));
        assert_eq!(second.first_index(), 1667);
        assert_eq!(second.len(), 5000);
        let middle = Plan::for_source(&from, &to, 1).unwrap();
        assert_eq!(
            collect(&middle),
            [piece(0, 0, 3334, 1667), piece(1, 1667, 0, 1667)]
        );
        assert_eq!(middle.peers(), 0..2);
        assert_eq!(
            (middle.first_source(), middle.last_source()),
            (Some(1), Some(2))
        );
        assert_eq!(kept_elements(&from, &to), Ok(3334 + 1667));
        assert_eq!(moved_elements(&from, &to), Ok(5000));
    }

    #[test]
    fn ranks_of_one_side_only_have_no_pieces() {
        let (from, to) = (Partition::block(100, 2), Partition::block(100, 5));
        for plan in [
            Plan::for_target(&from, &to, 5).unwrap(),
            Plan::for_source(&from, &to, 2).unwrap(),
            Plan::for_source(&from, &to, usize::MAX).unwrap(),
        ] {
            assert!(plan.is_empty());
            assert_eq!(collect(&plan), []);
            assert_eq!((plan.first_source(), plan.last_source()), (None, None));
            assert_eq!((plan.first_index(), plan.peers()), (0, 0..0));
        }
    }

    #[test]
    fn empty_blocks_between_two_pieces_are_passed_over() {
        let mut cuts = vec![0; 1];
        cuts.extend(vec![5; 1000]);
        cuts.push(10);
        let (from, to) = (Partition::cuts(cuts).unwrap(), Partition::block(10, 1));
        let plan = Plan::for_target(&from, &to, 0).unwrap();
        assert_eq!(collect(&plan), [piece(0, 0, 0, 5), piece(1000, 0, 5, 5)]);
        assert_eq!(plan.last_source(), Some(1001));
    }

    #[test]
    fn lengths_must_agree() {
        let (from, to) = (Partition::block(10, 2), Partition::block(11, 2));
        let error = Error::LengthsDiffer { from: 10, to: 11 };
        assert_eq!(Plan::for_target(&from, &to, 0), Err(error.clone()));
        assert_eq!(Plan::for_source(&from, &to, 0), Err(error.clone()));
        assert_eq!(kept_elements(&from, &to), Err(error.clone()));
        assert_eq!(moved_elements(&from, &to), Err(error));
    }
}
