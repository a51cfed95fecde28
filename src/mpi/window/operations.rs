//! Put and get (MPI standard, chapters 12.3.1 and 12.3.2).

use super::epoch::{Epoch, ExposedRank, transfer};
use super::strided::Strided;
use crate::mpi::datatype::{Element, raw_of};
use crate::mpi::error::{Result, mpi, mpi_count};

impl<'scope, 'buffers, T: Element> Epoch<'scope, 'buffers, T> {
    /// Writes elements to a rank's memory, from `displacement` on. `MPI_Put`; starts only.
    ///
    /// # Errors
    ///
    /// [`crate::mpi::Error::Argument`] for a rank or range that can't be accessed; the MPI error otherwise.
    pub fn put(
        &'scope self,
        source: &'buffers [T],
        rank: impl Into<ExposedRank>,
        displacement: u64,
    ) -> Result<()> {
        let (rank, displacement) =
            self.place("MPI_Put", rank.into(), displacement, source.len() as u64)?;
        // SAFETY: the source is borrowed beyond the scope, whose end completes the operation; rank and range
        // are exposed.
        unsafe {
            transfer!(
                MPI_Put | MPI_Put_c,
                source.len(),
                [source.as_ptr().cast()],
                raw_of::<T>(),
                (rank, displacement),
                [self.window.as_raw()]
            )
        }
    }

    /// Reads elements of a rank's memory, from `displacement` on. The data is there when the scope has ended.
    /// `MPI_Get`; starts only.
    ///
    /// # Errors
    ///
    /// As for [`Epoch::put`].
    pub fn get(
        &'scope self,
        destination: &'buffers mut [T],
        rank: impl Into<ExposedRank>,
        displacement: u64,
    ) -> Result<()> {
        // SAFETY: the destination is borrowed exclusively beyond the scope, whose end completes the operation.
        unsafe { self.get_raw(destination, rank.into(), displacement) }
    }

    /// # Safety
    ///
    /// The destination is not used until the operation is complete.
    pub(super) unsafe fn get_raw(
        &self,
        destination: &mut [T],
        rank: ExposedRank,
        displacement: u64,
    ) -> Result<()> {
        let (rank, displacement) =
            self.place("MPI_Get", rank, displacement, destination.len() as u64)?;
        // SAFETY: the caller's promise; rank and range are exposed, and every bit pattern is a valid element.
        unsafe {
            transfer!(
                MPI_Get | MPI_Get_c,
                destination.len(),
                [destination.as_mut_ptr().cast()],
                raw_of::<T>(),
                (rank, displacement),
                [self.window.as_raw()]
            )
        }
    }

    /// Writes packed elements to blocks of a rank's memory. `MPI_Put` to an `MPI_Type_vector`; starts only.
    ///
    /// # Errors
    ///
    /// As for [`Epoch::put`]; [`crate::mpi::Error::Argument`] unless `source` holds as many elements as the
    /// blocks.
    pub fn put_strided(
        &'scope self,
        source: &'buffers [T],
        rank: impl Into<ExposedRank>,
        displacement: u64,
        blocks: &Strided<T>,
    ) -> Result<()> {
        blocks.check_packed("MPI_Put", "source", source.len())?;
        let (rank, displacement) =
            self.place("MPI_Put", rank.into(), displacement, blocks.extent())?;
        // SAFETY: as for `put`; the blocks lie inside the range that was checked. A datatype may be freed while
        // operations that use it go on.
        unsafe {
            mpi_count!(MPI_Put | MPI_Put_c, source.len(), |count| (
                source.as_ptr().cast(),
                count,
                raw_of::<T>(),
                rank,
                displacement,
                1,
                blocks.as_raw(),
                self.window.as_raw()
            ))
        }
    }

    /// Reads blocks of a rank's memory, and packs them. `MPI_Get` of an `MPI_Type_vector`; starts only.
    ///
    /// # Errors
    ///
    /// As for [`Epoch::put_strided`].
    pub fn get_strided(
        &'scope self,
        destination: &'buffers mut [T],
        rank: impl Into<ExposedRank>,
        displacement: u64,
        blocks: &Strided<T>,
    ) -> Result<()> {
        blocks.check_packed("MPI_Get", "destination", destination.len())?;
        let (rank, displacement) =
            self.place("MPI_Get", rank.into(), displacement, blocks.extent())?;
        // SAFETY: as for `get`; the blocks lie inside the range that was checked. A datatype may be freed while
        // operations that use it go on.
        unsafe {
            mpi_count!(MPI_Get | MPI_Get_c, destination.len(), |count| (
                destination.as_mut_ptr().cast(),
                count,
                raw_of::<T>(),
                rank,
                displacement,
                1,
                blocks.as_raw(),
                self.window.as_raw()
            ))
        }
    }
}
