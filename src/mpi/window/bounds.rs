//! What each process of a window exposes. MPICH 4.2.3 checks no displacement, so this is what keeps safe code
//! out of memory that was not exposed (decision record 11).

use std::ptr::NonNull;
use std::sync::Arc;

use super::dynamic::Region;
use crate::mpi::communicator::Communicator;
use crate::mpi::datatype::{Element, address};
use crate::mpi::error::{Error, Result};
use crate::mpi::runtime_check::is_mpich_4_0;
use crate::sys;

/// What may be accessed, by rank.
#[derive(Debug)]
pub(super) enum Bounds {
    /// So many elements from displacement 0 on; where MPI was given memory that begins earlier, how many
    /// elements earlier ([`Boundary`]).
    Elements {
        lengths: Arc<[u64]>,
        before: Option<Arc<[u64]>>,
    },
    /// The regions that were published; displacements are addresses.
    Regions(Vec<Vec<Region>>),
}

/// A length, the kind of its elements and the number of those before it travel in one word.
const KIND_BITS: u32 = 4;
const BEFORE_BITS: u32 = 4;
const MARK_BITS: u32 = KIND_BITS + BEFORE_BITS;

/// MPICH 4.0.2 (ucx) accesses an exposed memory from the multiple of 16 below its base on: a put comes up to
/// 15 bytes too early, into memory that was not exposed. So there MPI is given memory that begins at such a
/// multiple, and displacements count from there.
pub(super) struct Boundary;

impl Boundary {
    const BYTES: usize = 16;

    /// Whether MPI may so know another base and size than the window has.
    pub(super) fn is_needed() -> bool {
        is_mpich_4_0()
    }

    /// How many elements before this one the memory has to begin.
    pub(super) fn elements_before<T: Element>(base: NonNull<T>) -> usize {
        if Self::is_needed() {
            base.as_ptr().addr() % Self::BYTES / size_of::<T>()
        } else {
            0
        }
    }

    /// The length of allocated memory, behind which another rank's may begin.
    pub(super) fn round_up<T: Element>(length: usize) -> usize {
        let boundary = Self::BYTES / size_of::<T>();
        if Self::is_needed() {
            length.checked_next_multiple_of(boundary).unwrap_or(length)
        } else {
            length
        }
    }
}

impl Bounds {
    #[inline]
    pub(super) fn processes(&self) -> usize {
        match self {
            Self::Elements { lengths, .. } => lengths.len(),
            Self::Regions(regions) => regions.len(),
        }
    }

    /// What nobody knows yet.
    pub(super) fn unknown() -> Self {
        Self::Elements {
            lengths: Arc::from([]),
            before: None,
        }
    }

    /// Tells everybody the own length, and how many elements MPI was given before it. The inner result is the same on every rank. Collective; one
    /// `MPI_Allgather` of 8 bytes.
    pub(super) fn gather<T: Element>(
        operation: &'static str,
        communicator: &Communicator,
        length: usize,
        before: usize,
    ) -> Result<Result<Self>> {
        const {
            assert!((T::KIND as u64) < 1 << KIND_BITS);
            assert!(Boundary::BYTES <= 1 << BEFORE_BITS);
        }
        let marks = (before as u64) << KIND_BITS | T::KIND as u64;
        let mut words = vec![0; communicator.size()];
        communicator.all_gather(&[(length as u64) << MARK_BITS | marks], &mut words)?;
        let kind = |word: u64| word & ((1 << KIND_BITS) - 1);
        let other = words.iter().position(|&word| kind(word) != kind(words[0]));
        if let Some(rank) = other {
            return Ok(Err(Error::argument(
                operation,
                "memory",
                format!("of another element type on rank {rank} than on rank 0"),
                "the same on every rank",
            )));
        }
        let before = words
            .iter()
            .map(|word| word >> KIND_BITS & ((1 << BEFORE_BITS) - 1));
        let is_moved = before.clone().any(|before| before > 0);
        let before = is_moved.then(|| before.collect());
        let lengths = words.iter().map(|word| word >> MARK_BITS).collect();
        Ok(Ok(Self::Elements { lengths, before }))
    }

    /// Lengths that the caller knows, checked as far as this process can; `None` where it has to be told more.
    pub(super) fn given(
        operation: &'static str,
        lengths: Arc<[u64]>,
        communicator: &Communicator,
        length: usize,
    ) -> Result<Option<Self>> {
        let (rank, size) = (communicator.rank(), communicator.size());
        if lengths.len() != size {
            return Err(Error::argument(
                operation,
                "lengths",
                format!("{} numbers", lengths.len()),
                format!("one for each of {size} ranks"),
            ));
        }
        if lengths[rank] != length as u64 {
            return Err(Error::argument(
                operation,
                "lengths",
                format!("{} for this rank", lengths[rank]),
                format!("the {length} elements that it exposes"),
            ));
        }
        let bounds = Self::Elements {
            lengths,
            before: None,
        };
        Ok((!Boundary::is_needed()).then_some(bounds))
    }

    /// Checks that a rank exposes `extent` elements from a displacement on, and that MPI's integer for the
    /// displacement can hold it.
    #[inline]
    pub(super) fn check<T: Element>(
        &self,
        operation: &'static str,
        rank: usize,
        displacement: u64,
        extent: u64,
    ) -> Result<sys::MPI_Aint> {
        let (inside, before) = match self {
            Self::Elements { lengths, before } => (
                displacement
                    .checked_add(extent)
                    .is_some_and(|end| end <= lengths[rank]),
                before.as_ref().map_or(0, |before| before[rank]),
            ),
            Self::Regions(_) if extent == 0 => return Ok(0),
            Self::Regions(regions) => (
                regions[rank]
                    .iter()
                    .any(|region| region.holds::<T>(displacement, extent)),
                0,
            ),
        };
        if inside {
            address(operation, "displacement", displacement + before)
        } else {
            Err(self.outside(operation, rank, displacement, extent))
        }
    }

    #[cold]
    fn outside(
        &self,
        operation: &'static str,
        rank: usize,
        displacement: u64,
        extent: u64,
    ) -> Error {
        let expected = match self {
            Self::Elements { lengths, .. } => {
                let length = lengths[rank];
                format!("a range inside the {length} elements that rank {rank} exposes")
            }
            Self::Regions(_) => {
                format!("an address of an element in a region that rank {rank} published")
            }
        };
        let found = format!("{displacement}, for {extent} elements");
        Error::argument(operation, "displacement", found, expected)
    }
}
