//! Who owns which elements of a distributed array.
//!
//! An array of `len` elements is cut into contiguous blocks, one per rank and in rank order. A [`Partition`] answers in
//! which block an element lies and where a block begins and ends. It is arithmetic only: no MPI, no communication, and
//! every process that holds an equal partition gets equal answers.
//!
//! ```
//! use malleus::partition::Partition;
//!
//! let block = Partition::block(10, 4); // the remainder goes to the first ranks
//! assert_eq!(block.range(0), 0..3);
//! assert_eq!(block.range(3), 8..10);
//! assert_eq!(block.owner(7), Some(2));
//!
//! let weighted = Partition::cuts(vec![0, 7, 7, 10])?; // rank 1 owns nothing
//! assert_eq!(weighted.owner(7), Some(2));
//! # Ok::<(), malleus::partition::Error>(())
//! ```

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a partition could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A partition needs at least one rank: one for a block partition, two cut points for an explicit one.
    #[error("a partition needs at least one rank")]
    NoRanks,
    /// The first cut point is where rank 0 begins, so it must be 0.
    #[error("`cuts` must begin at 0, not at {first}")]
    FirstCut {
        /// The first cut point given.
        first: u64,
    },
    /// Cut points may be equal (an empty block) but must not decrease.
    #[error("`cuts` decrease at rank {rank}: from {start} to {end}")]
    Decreasing {
        /// The rank whose block would have a negative length.
        rank: usize,
        /// Where its block begins.
        start: u64,
        /// Where its block would end.
        end: u64,
    },
}

/// Which contiguous global range each rank owns.
///
/// Clones are cheap: explicit cut points are shared. Two partitions are equal when they were given in the same form with
/// the same numbers; a block partition and its own cut points are not, because [`recut`](Self::recut) treats them
/// differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Partition(Shape);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    /// The first `remainder` ranks own `quotient + 1` elements, the others `quotient`.
    Block {
        len: u64,
        ranks: usize,
        quotient: u64,
        remainder: u64,
    },
    Cuts(Arc<Cuts>),
}

/// Cut points, and a sample of them that makes a search short: the sample stays in cache, where a search through a million
/// cut points misses at almost every step.
#[derive(Debug, PartialEq, Eq)]
struct Cuts {
    /// Rank `r` owns `points[r]..points[r + 1]`; at least two entries, the first 0, never decreasing.
    points: Box<[u64]>,
    /// Every [`STRIDE`]th of them, the first included, and the last.
    sample: Box<[u64]>,
}

const STRIDE: usize = 256;

/// The serialized form, checked again when it is read.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    Block { len: u64, ranks: usize },
    Cuts(Vec<u64>),
}

impl Partition {
    /// Equal blocks, as paper R's `Block_id`: where `len` does not divide evenly, the first `len % ranks` ranks own one
    /// element more. With fewer elements than ranks the last ranks own nothing. Takes no memory, whatever `ranks` is.
    ///
    /// # Panics
    ///
    /// If `ranks` is 0.
    #[must_use]
    pub fn block(len: u64, ranks: usize) -> Self {
        Self::try_block(len, ranks).expect("a partition needs at least one rank")
    }

    fn try_block(len: u64, ranks: usize) -> Result<Self, Error> {
        if ranks == 0 {
            return Err(Error::NoRanks);
        }
        Ok(Self(Shape::Block {
            len,
            ranks,
            quotient: len / ranks as u64,
            remainder: len % ranks as u64,
        }))
    }

    /// Explicit cut points: rank `r` owns `cuts[r]..cuts[r + 1]`, so `cuts` has one entry more than there are ranks.
    ///
    /// This is the form for weighted blocks, for the rows of a sparse matrix, and for the nonzeros behind those rows.
    ///
    /// # Errors
    ///
    /// [`Error::NoRanks`] for fewer than two cut points, [`Error::FirstCut`] if they do not begin at 0,
    /// [`Error::Decreasing`] if one is smaller than the one before it.
    pub fn cuts(cuts: Vec<u64>) -> Result<Self, Error> {
        if cuts.len() < 2 {
            return Err(Error::NoRanks);
        }
        if cuts[0] != 0 {
            return Err(Error::FirstCut { first: cuts[0] });
        }
        for (rank, pair) in cuts.windows(2).enumerate() {
            if pair[1] < pair[0] {
                return Err(Error::Decreasing {
                    rank,
                    start: pair[0],
                    end: pair[1],
                });
            }
        }
        Ok(Self(Shape::Cuts(Arc::new(Cuts::new(cuts.into())))))
    }

    /// The number of elements of the whole array.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.0 {
            Shape::Block { len, .. } => *len,
            Shape::Cuts(cuts) => cuts.len(),
        }
    }

    /// Whether the whole array has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of ranks, those with empty blocks included; at least 1.
    #[must_use]
    pub fn ranks(&self) -> usize {
        match &self.0 {
            Shape::Block { ranks, .. } => *ranks,
            Shape::Cuts(cuts) => cuts.ranks(),
        }
    }

    /// The global range that `rank` owns.
    ///
    /// A rank beyond the partition owns nothing, and gets the empty range at the end of the array: that is what a process
    /// holds that is only a source or only a target of a resize.
    #[must_use]
    pub fn range(&self, rank: usize) -> Range<u64> {
        match &self.0 {
            Shape::Block { len, ranks, .. } if rank >= *ranks => *len..*len,
            Shape::Block {
                quotient,
                remainder,
                ..
            } => {
                // At most `len`, so neither product nor sum can overflow.
                let rank = rank as u64;
                let start = rank * quotient + rank.min(*remainder);
                start..start + quotient + u64::from(rank < *remainder)
            }
            Shape::Cuts(cuts) if rank >= cuts.ranks() => cuts.len()..cuts.len(),
            Shape::Cuts(cuts) => cuts.points[rank]..cuts.points[rank + 1],
        }
    }

    /// The rank that owns element `index`, or `None` past the end. Never a rank whose block is empty.
    ///
    /// Constant time for blocks, at most logarithmic in the number of ranks for cut points.
    #[must_use]
    pub fn owner(&self, index: u64) -> Option<usize> {
        if index >= self.len() {
            return None;
        }
        Some(match &self.0 {
            Shape::Block {
                quotient,
                remainder,
                ..
            } => {
                // The number of elements in the blocks with one more; where there are any, there are two ranks or more, and
                // `quotient + 1` does not overflow.
                let long = remainder * quotient + remainder;
                to_rank(if index < long {
                    index / (quotient + 1)
                } else {
                    // Past the long blocks there are elements only where `quotient` is not 0.
                    remainder + (index - long) / quotient
                })
            }
            Shape::Cuts(cuts) => cuts.owner(index),
        })
    }

    /// The ranks that own elements of `range`: from the first with an overlap to one past the last with an overlap.
    ///
    /// What lies past the end of the array is ignored; where nothing is left, the result is `0..0`. Between the first and
    /// the last rank there may be ranks with empty blocks. Both ends are found directly, as in [`owner`](Self::owner).
    #[must_use]
    pub fn owners(&self, range: Range<u64>) -> Range<usize> {
        let end = range.end.min(self.len());
        if range.start >= end {
            return 0..0;
        }
        let Some(first) = self.owner(range.start) else {
            return 0..0;
        };
        let last = match &self.0 {
            Shape::Block { .. } => self.owner(end - 1).unwrap_or(first),
            Shape::Cuts(cuts) => cuts.owner_near(end - 1, first),
        };
        first..last + 1
    }

    /// The owner of `index`, known to be `rank` or, past empty blocks, a rank soon after it.
    ///
    /// `index` must be inside the array and not before the block of `rank`.
    pub(crate) fn owner_from(&self, index: u64, rank: usize) -> usize {
        match &self.0 {
            // No empty block stands before an element.
            Shape::Block { .. } => rank,
            Shape::Cuts(cuts) => cuts.owner_near(index, rank),
        }
    }

    /// A partition of the same length over another number of ranks that keeps the shape of this one.
    ///
    /// Blocks stay blocks. Cut points are read as a curve over the ranks, linear between them, and the new cut points are
    /// taken from it at equal distances, rounded down: where many elements belonged to few ranks, they still do. With the
    /// number of ranks unchanged the result is equal to this partition. Exact integer arithmetic, so every process gets
    /// the same result.
    ///
    /// ```
    /// # use malleus::partition::Partition;
    /// let heavy_front = Partition::cuts(vec![0, 60, 80])?;
    /// assert_eq!(heavy_front.recut(4), Partition::cuts(vec![0, 30, 60, 70, 80])?);
    /// # Ok::<(), malleus::partition::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If `ranks` is 0.
    #[must_use]
    pub fn recut(&self, ranks: usize) -> Self {
        assert!(ranks > 0, "a partition needs at least one rank");
        match &self.0 {
            Shape::Block { len, .. } => Self::block(*len, ranks),
            Shape::Cuts(cuts) if cuts.ranks() == ranks => self.clone(),
            Shape::Cuts(cuts) => {
                let (old, new) = (cuts.ranks() as u128, ranks as u128);
                let at = |cut: usize| {
                    let position = cut as u128 * old;
                    // Below `old` for every cut but the last.
                    let segment = usize::try_from(position / new).unwrap_or(usize::MAX);
                    let (start, end) = (cuts.points[segment], cuts.points[segment + 1]);
                    let rise = u128::from(end - start) * (position % new) / new;
                    // `rise` is less than `end - start`.
                    start + u64::try_from(rise).unwrap_or(u64::MAX)
                };
                let points = (0..ranks).map(at).chain([cuts.len()]).collect();
                Self(Shape::Cuts(Arc::new(Cuts::new(points))))
            }
        }
    }
}

impl TryFrom<Form> for Partition {
    type Error = Error;

    fn try_from(form: Form) -> Result<Self, Error> {
        match form {
            Form::Block { len, ranks } => Self::try_block(len, ranks),
            Form::Cuts(cuts) => Self::cuts(cuts),
        }
    }
}

impl From<Partition> for Form {
    fn from(partition: Partition) -> Self {
        match partition.0 {
            Shape::Block { len, ranks, .. } => Form::Block { len, ranks },
            Shape::Cuts(cuts) => Form::Cuts(cuts.points.to_vec()),
        }
    }
}

/// A rank computed in 64 bits; it is below a number of ranks that came as a `usize`.
fn to_rank(rank: u64) -> usize {
    usize::try_from(rank).expect("a rank is smaller than the number of ranks")
}

impl Cuts {
    /// `points` fulfil the conditions of the field.
    fn new(points: Box<[u64]>) -> Self {
        let last = points.len() - 1;
        let sample = points[..last]
            .iter()
            .step_by(STRIDE)
            .chain([&points[last]])
            .copied()
            .collect();
        Self { points, sample }
    }

    fn ranks(&self) -> usize {
        self.points.len() - 1
    }

    fn len(&self) -> u64 {
        self.points[self.points.len() - 1]
    }

    /// The rank that owns `index`, which is inside the array. The sample tells between which points; there the answer is
    /// sought where it would be if the blocks were even.
    fn owner(&self, index: u64) -> usize {
        let part = self.sample.partition_point(|&point| point <= index) - 1;
        let (start, end) = (self.sample[part], self.sample[part + 1]);
        let first = part * STRIDE;
        let ranks = STRIDE.min(self.ranks() - first);
        let guess = u128::from(index - start) * ranks as u128 / u128::from(end - start);
        // Below `ranks` because `index` is below `end`.
        let guess = usize::try_from(guess).unwrap_or(0);
        self.owner_near(index, first + guess)
    }

    /// The rank that owns `index`, which is inside the array: an exponential search that leaves from the rank `near` in
    /// whichever direction the answer lies, so that it costs the logarithm of the distance.
    fn owner_near(&self, index: u64, near: usize) -> usize {
        let points = &self.points;
        let (mut low, mut high) = (near, near);
        let mut step = 1;
        if points[near] <= index {
            // Ends because the last point, the length, is above every index.
            loop {
                high = high.saturating_add(step).min(self.ranks());
                if points[high] > index {
                    break;
                }
                low = high;
                step *= 2;
            }
        } else {
            // Ends because the first point, 0, is not above any index.
            loop {
                low = low.saturating_sub(step);
                if points[low] <= index {
                    break;
                }
                high = low;
                step *= 2;
            }
        }
        low + points[low..high].partition_point(|&point| point <= index) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_gives_the_remainder_to_the_first_ranks() {
        let partition = Partition::block(10, 4);
        let ranges: Vec<_> = (0..4).map(|rank| partition.range(rank)).collect();
        assert_eq!(ranges, [0..3, 3..6, 6..8, 8..10]);
        let owners: Vec<_> = (0..11).map(|index| partition.owner(index)).collect();
        let expected = [0, 0, 0, 1, 1, 1, 2, 2, 3, 3].map(Some);
        assert_eq!(owners[..10], expected);
        assert_eq!(owners[10], None);
    }

    #[test]
    fn fewer_elements_than_ranks() {
        let partition = Partition::block(2, 5);
        assert_eq!(partition.range(1), 1..2);
        assert_eq!(partition.range(2), 2..2);
        assert_eq!(partition.owner(1), Some(1));
        assert_eq!(partition.owners(0..2), 0..2);
    }

    #[test]
    fn ranks_beyond_the_partition_own_nothing() {
        assert_eq!(Partition::block(10, 4).range(4), 10..10);
        let cuts = Partition::cuts(vec![0, 3, 10]).unwrap();
        assert_eq!(cuts.range(2), 10..10);
        assert_eq!(cuts.range(usize::MAX), 10..10);
    }

    #[test]
    fn empty_blocks_own_no_element() {
        let partition = Partition::cuts(vec![0, 0, 4, 4, 4, 9, 9]).unwrap();
        assert_eq!(partition.ranks(), 6);
        assert_eq!(partition.owner(0), Some(1));
        assert_eq!(partition.owner(4), Some(4));
        assert_eq!(partition.owner(9), None);
        assert_eq!(partition.owners(3..5), 1..5);
        assert_eq!(partition.owners(0..100), 1..5);
        assert_eq!(partition.owners(4..4), 0..0);
        assert_eq!(partition.owners(9..12), 0..0);
    }

    #[test]
    fn an_empty_array_has_ranks_and_no_owner() {
        for partition in [
            Partition::block(0, 3),
            Partition::cuts(vec![0, 0, 0, 0]).unwrap(),
        ] {
            assert!(partition.is_empty());
            assert_eq!(partition.ranks(), 3);
            assert_eq!(partition.range(1), 0..0);
            assert_eq!(partition.owner(0), None);
            assert_eq!(partition.owners(0..1), 0..0);
            assert_eq!(partition.recut(5).len(), 0);
        }
    }

    #[test]
    fn bad_cut_points_are_named() {
        assert_eq!(Partition::cuts(vec![]), Err(Error::NoRanks));
        assert_eq!(Partition::cuts(vec![0]), Err(Error::NoRanks));
        assert_eq!(
            Partition::cuts(vec![1, 2]),
            Err(Error::FirstCut { first: 1 })
        );
        assert_eq!(
            Partition::cuts(vec![0, 5, 4]),
            Err(Error::Decreasing {
                rank: 1,
                start: 5,
                end: 4
            })
        );
    }

    #[test]
    fn the_sample_holds_every_strideth_point_and_the_last() {
        let squares: Vec<u64> = (0..=1000).map(|rank| rank * rank).collect();
        let cuts = Cuts::new(squares.into());
        assert_eq!(
            *cuts.sample,
            [0, 256 * 256, 512 * 512, 768 * 768, 1_000_000]
        );
        let exact: Vec<u64> = (0..=512).collect();
        assert_eq!(*Cuts::new(exact.into()).sample, [0, 256, 512]);
        assert_eq!(*Cuts::new([0, 7].into()).sample, [0, 7]);
    }

    #[test]
    fn recut_follows_the_curve() {
        let partition = Partition::cuts(vec![0, 8, 10]).unwrap();
        // Read at ranks 0, 2/3, 4/3, 2 of the old curve: 0, 5 1/3, 8 2/3, 10.
        assert_eq!(
            partition.recut(3),
            Partition::cuts(vec![0, 5, 8, 10]).unwrap()
        );
        assert_eq!(partition.recut(1), Partition::cuts(vec![0, 10]).unwrap());
        assert_eq!(partition.recut(2), partition);
        assert_eq!(Partition::block(10, 4).recut(3), Partition::block(10, 3));
    }

    #[test]
    #[should_panic(expected = "at least one rank")]
    fn no_ranks_is_a_mistake_of_the_caller() {
        let _ = Partition::block(10, 0);
    }
}
