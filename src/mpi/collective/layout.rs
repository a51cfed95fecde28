//! Where the blocks of a vector collective lie in a buffer.

use std::ffi::c_int;
use std::ops::Range;

use crate::mpi::datatype::large_count;
use crate::mpi::error::{Error, Result, mpi};
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

/// Blocks at regular distances in a buffer: `count` blocks of `block` elements from `displacement` on, whose
/// starts are `stride` elements apart. Some columns of a matrix in rows, for example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strides {
    /// Where the first block starts.
    pub displacement: usize,
    /// Elements of a block.
    pub block: usize,
    /// Elements from the start of a block to that of the next.
    pub stride: usize,
    /// How many blocks.
    pub count: usize,
}

impl Strides {
    fn is_empty(&self) -> bool {
        self.block == 0 || self.count == 0
    }

    /// The elements from the start of the first block to the end of the last; `None` beyond `usize`.
    fn extent(&self) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        (self.count - 1)
            .checked_mul(self.stride)?
            .checked_add(self.block)
    }
}

/// What a buffer holds for or from each rank, as strided blocks: a transposition of a distributed matrix, for
/// example, needs no packing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StridedLayout {
    parts: Vec<Strides>,
}

impl StridedLayout {
    /// One part for each rank.
    #[must_use]
    pub fn new(parts: Vec<Strides>) -> Self {
        Self { parts }
    }

    /// The part of each rank.
    #[must_use]
    pub fn parts(&self) -> &[Strides] {
        &self.parts
    }

    /// Checks that there is a part for each rank, that its blocks do not overlap each other, and that they lie
    /// inside a buffer of this length.
    pub(in crate::mpi) fn check(
        &self,
        operation: &'static str,
        argument: &'static str,
        length: usize,
        ranks: usize,
    ) -> Result<()> {
        let refused = |found: String, expected: String| {
            Err(Error::argument(operation, argument, found, expected))
        };
        if self.parts.len() != ranks {
            let found = format!("{} parts", self.parts.len());
            return refused(found, format!("{ranks}, one per rank"));
        }
        for (rank, part) in self.parts.iter().enumerate() {
            if part.is_empty() {
                continue;
            }
            if part.stride < part.block && part.count > 1 {
                let found = format!("a stride of {} for rank {rank}", part.stride);
                return refused(found, format!("at least the block of {}", part.block));
            }
            let extent = part.extent();
            let end = extent.and_then(|extent| part.displacement.checked_add(extent));
            if end.is_none_or(|end| end > length) {
                let found = format!("{part:?} for rank {rank}");
                return refused(found, format!("inside the {length} of the buffer"));
            }
        }
        Ok(())
    }

    /// The layout of one block per rank, whose datatype says what it is made of; displacements in bytes.
    pub(super) fn of_types(&self, element_size: usize) -> BlockLayout {
        let parts = self.parts.iter();
        BlockLayout {
            counts: parts
                .clone()
                .map(|part| usize::from(!part.is_empty()))
                .collect(),
            displacements: parts
                .map(|part| part.displacement.saturating_mul(element_size))
                .collect(),
        }
    }
}

/// The datatypes of a strided layout, in bytes as all that is not reduced; they are freed with this value.
#[derive(Debug, Default)]
pub(super) struct Datatypes(pub(super) Vec<sys::MPI_Datatype>);

impl Datatypes {
    /// `MPI_Type_vector_c`, `MPI_Type_commit` for each part of a layout that was checked.
    pub(super) fn new(layout: &StridedLayout, element_size: usize) -> Result<Self> {
        let mut types = Self::default();
        for part in &layout.parts {
            types.0.push(sys::MALLEUS_BYTE);
            if part.is_empty() {
                continue;
            }
            let stride = if part.count == 1 {
                part.block
            } else {
                part.stride
            };
            let large = |elements: usize| large_count(elements * element_size);
            let mut raw = sys::MALLEUS_DATATYPE_NULL;
            // SAFETY: the blocks lie inside of a slice, so that no number overflows. The new datatype is freed
            // when this value is dropped.
            unsafe {
                mpi!(MPI_Type_vector_c(
                    large_count(part.count),
                    large(part.block),
                    large(stride),
                    sys::MALLEUS_BYTE,
                    &raw mut raw
                ))?;
            }
            *types.0.last_mut().expect("it was pushed") = raw;
            // SAFETY: the datatype was just created.
            unsafe { mpi!(MPI_Type_commit(&raw mut raw))? };
        }
        Ok(types)
    }
}

impl Drop for Datatypes {
    fn drop(&mut self) {
        for raw in &mut self.0 {
            if *raw != sys::MALLEUS_BYTE {
                // SAFETY: the datatype was made by `new` and this is its last use; freeing it is local.
                unsafe { sys::MPI_Type_free(raw) };
            }
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
