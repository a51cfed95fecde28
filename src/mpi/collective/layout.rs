//! Where the blocks of a vector collective lie in a buffer.

use std::ffi::c_int;
use std::ops::Range;

use crate::mpi::datatype::large_count;
use crate::mpi::error::{Error, Result};
use crate::sys;

/// Where the block for or from each rank (or neighbour) lies in a buffer: counts and displacements in
/// elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockLayout {
    counts: Vec<usize>,
    displacements: Vec<usize>,
}

impl BlockLayout {
    /// No elements for any of these ranks.
    #[must_use]
    pub fn empty(ranks: usize) -> Self {
        Self {
            counts: vec![0; ranks],
            displacements: vec![0; ranks],
        }
    }

    /// Blocks of these lengths, one after the other.
    #[must_use]
    pub fn packed(counts: Vec<usize>) -> Self {
        let mut end = 0_usize;
        let displacements = counts
            .iter()
            .map(|&count| {
                let start = end;
                end = end.saturating_add(count);
                start
            })
            .collect();
        Self {
            counts,
            displacements,
        }
    }

    /// Says where the block of one rank lies.
    ///
    /// # Panics
    ///
    /// If there is no such rank.
    pub fn set(&mut self, rank: usize, displacement: usize, count: usize) {
        self.counts[rank] = count;
        self.displacements[rank] = displacement;
    }

    /// Elements in all blocks.
    #[must_use]
    pub fn total(&self) -> usize {
        self.counts.iter().sum()
    }

    /// The elements of one rank's block.
    ///
    /// # Panics
    ///
    /// If there is no such rank.
    #[must_use]
    pub fn block(&self, rank: usize) -> Range<usize> {
        self.displacements[rank]..self.displacements[rank] + self.counts[rank]
    }

    /// The number of elements of every block.
    #[must_use]
    pub fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// Checks that there is one block per rank, and that it lies inside a buffer of this length.
    pub(in crate::mpi) fn check(
        &self,
        operation: &'static str,
        argument: &'static str,
        length: usize,
        ranks: usize,
    ) -> Result<()> {
        if self.counts.len() != ranks {
            let found = format!("{} blocks", self.counts.len());
            return Err(Error::argument(
                operation,
                argument,
                found,
                format!("{ranks}, one per rank"),
            ));
        }
        for (rank, (&count, &displacement)) in
            self.counts.iter().zip(&self.displacements).enumerate()
        {
            let end = displacement.checked_add(count);
            if count > 0 && end.is_none_or(|end| end > length) {
                let found = format!("{count} elements at {displacement} for rank {rank}");
                return Err(Error::argument(
                    operation,
                    argument,
                    found,
                    format!("inside the {length} of the buffer"),
                ));
            }
        }
        Ok(())
    }

    /// As [`BlockLayout::check`], for a buffer that is written: two blocks must not share an element.
    pub(in crate::mpi) fn check_receive(
        &self,
        operation: &'static str,
        argument: &'static str,
        length: usize,
        ranks: usize,
    ) -> Result<()> {
        self.check(operation, argument, length, ranks)?;
        let blocks = || {
            (0..ranks)
                .map(|rank| self.block(rank))
                .filter(|block| !block.is_empty())
        };
        if blocks().is_sorted_by(|before, after| before.end <= after.start) {
            return Ok(());
        }
        let mut sorted: Vec<_> = blocks().collect();
        sorted.sort_unstable_by_key(|block| block.start);
        match sorted.windows(2).find(|pair| pair[0].end > pair[1].start) {
            None => Ok(()),
            Some(pair) => Err(Error::argument(
                operation,
                argument,
                format!(
                    "blocks at {} and {} that overlap",
                    pair[0].start, pair[1].start
                ),
                "blocks apart from each other",
            )),
        }
    }
}

/// Counts and displacements as MPI reads them.
#[derive(Debug)]
pub(super) struct Side<Count, Displacement> {
    pub(super) counts: Vec<Count>,
    pub(super) displacements: Vec<Displacement>,
}

/// The counts and displacements of one call, all `int`, or all large where one is.
#[derive(Debug)]
pub(super) enum Layouts {
    Int(Side<c_int, c_int>, Side<c_int, c_int>),
    Large(
        Side<sys::MPI_Count, sys::MPI_Aint>,
        Side<sys::MPI_Count, sys::MPI_Aint>,
    ),
}

impl Layouts {
    /// Of layouts that were checked, with elements of `unit` of what MPI counts. The choice is made from
    /// the local arguments: an `int` call on one rank matches a large one on another, since they name the
    /// same operation.
    pub(super) fn new(send: &BlockLayout, receive: &BlockLayout, unit: usize) -> Self {
        let (send, receive) = (Side::large(send, unit), Side::large(receive, unit));
        match (send.to_ints(), receive.to_ints()) {
            (Some(send), Some(receive)) => Self::Int(send, receive),
            _ => Self::Large(send, receive),
        }
    }
}

impl Side<sys::MPI_Count, sys::MPI_Aint> {
    fn large(layout: &BlockLayout, unit: usize) -> Self {
        let displacement = |(&displacement, &count): (&usize, &usize)| {
            // An empty block may be said to lie anywhere.
            let start = if count == 0 { 0 } else { displacement * unit };
            sys::MPI_Aint::try_from(start).expect("it lies inside a slice")
        };
        let counts = layout.counts.iter();
        Self {
            counts: counts.map(|&count| large_count(count * unit)).collect(),
            displacements: layout
                .displacements
                .iter()
                .zip(&layout.counts)
                .map(displacement)
                .collect(),
        }
    }

    fn to_ints(&self) -> Option<Side<c_int, c_int>> {
        let counts = self.counts.iter();
        let displacements = self.displacements.iter();
        Some(Side {
            counts: counts
                .map(|&count| c_int::try_from(count).ok())
                .collect::<Option<_>>()?,
            displacements: displacements
                .map(|&displacement| c_int::try_from(displacement).ok())
                .collect::<Option<_>>()?,
        })
    }
}
