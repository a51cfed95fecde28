//! What each process of a window exposes. MPICH 4.2.3 checks no displacement, so this is what keeps safe code
//! out of memory that was not exposed (decision record 11).

use std::sync::Arc;

use super::dynamic::Region;
use crate::mpi::communicator::Communicator;
use crate::mpi::datatype::{Element, address};
use crate::mpi::error::{Error, Result};
use crate::sys;

/// What may be accessed, by rank.
#[derive(Debug)]
pub(super) enum Bounds {
    /// So many elements from displacement 0 on.
    Elements(Arc<[u64]>),
    /// The regions that were published; displacements are addresses.
    Regions(Vec<Vec<Region>>),
}

/// A length and the kind of its elements travel in one word: the kind is in the low bits.
const KIND_BITS: u32 = 8;

impl Bounds {
    #[inline]
    pub(super) fn processes(&self) -> usize {
        match self {
            Self::Elements(lengths) => lengths.len(),
            Self::Regions(regions) => regions.len(),
        }
    }

    /// Tells everybody the own length. The inner result is the same on every rank. Collective; one
    /// `MPI_Allgather` of 8 bytes.
    pub(super) fn gather<T: Element>(
        operation: &'static str,
        communicator: &Communicator,
        length: usize,
    ) -> Result<Result<Self>> {
        let kind = T::KIND as u64;
        let mut words = vec![0; communicator.size()];
        communicator.all_gather(&[(length as u64) << KIND_BITS | kind], &mut words)?;
        let other = words
            .iter()
            .position(|word| word & ((1 << KIND_BITS) - 1) != words[0] & ((1 << KIND_BITS) - 1));
        if let Some(rank) = other {
            return Ok(Err(Error::argument(
                operation,
                "memory",
                format!("of another element type on rank {rank} than on rank 0"),
                "the same on every rank",
            )));
        }
        for word in &mut words {
            *word >>= KIND_BITS;
        }
        Ok(Ok(Self::Elements(words.into())))
    }

    /// Checks lengths that the caller knows, as far as this process can.
    pub(super) fn check_given(
        operation: &'static str,
        lengths: &[u64],
        communicator: &Communicator,
        length: usize,
    ) -> Result<()> {
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
        Ok(())
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
        let inside = match self {
            Self::Elements(lengths) => displacement
                .checked_add(extent)
                .is_some_and(|end| end <= lengths[rank]),
            Self::Regions(_) if extent == 0 => return Ok(0),
            Self::Regions(regions) => regions[rank]
                .iter()
                .any(|region| region.holds::<T>(displacement, extent)),
        };
        if inside {
            address(operation, "displacement", displacement)
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
            Self::Elements(lengths) => {
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
