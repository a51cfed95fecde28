//! Operations of passive target epochs that can be waited for one by one (MPI standard, chapter 12.3.6), and
//! those that wait at once.

use super::accumulate::{Integer, OperationOn, combining, same_length};
use super::epoch::{ExposedRank, transfer};
use super::passive::PassiveEpoch;
use crate::mpi::datatype::{Element, raw_of};
use crate::mpi::error::{Error, Result, mpi, mpi_count};
use crate::mpi::request::Request;
use crate::sys;

impl<'scope, 'buffers, T: Element> PassiveEpoch<'scope, 'buffers, T> {
    /// As [`super::Epoch::put`], with a request that tells when the source was read. `MPI_Rput`; starts only.
    ///
    /// # Errors
    ///
    /// As for [`super::Epoch::put`].
    pub fn rput(
        &'scope self,
        source: &'buffers [T],
        rank: impl Into<ExposedRank>,
        displacement: u64,
    ) -> Result<Request<'scope>> {
        let (rank, displacement) =
            self.place("MPI_Rput", rank.into(), displacement, source.len() as u64)?;
        let mut request = sys::MALLEUS_REQUEST_NULL;
        // SAFETY: as for `put`; a request that is forgotten completes at the scope's end all the same.
        unsafe {
            transfer!(
                MPI_Rput | MPI_Rput_c,
                source.len(),
                [source.as_ptr().cast()],
                raw_of::<T>(),
                (rank, displacement),
                [self.window.as_raw(), &raw mut request]
            )?;
        }
        Ok(Request::in_scope(request))
    }

    /// As [`super::Epoch::get`], with a request that tells when the data is there. `MPI_Rget`; starts only.
    ///
    /// # Errors
    ///
    /// As for [`super::Epoch::get`].
    pub fn rget(
        &'scope self,
        destination: &'buffers mut [T],
        rank: impl Into<ExposedRank>,
        displacement: u64,
    ) -> Result<Request<'scope>> {
        let (rank, displacement) = self.place(
            "MPI_Rget",
            rank.into(),
            displacement,
            destination.len() as u64,
        )?;
        let mut request = sys::MALLEUS_REQUEST_NULL;
        // SAFETY: as for `get`; a request that is forgotten completes at the scope's end all the same.
        unsafe {
            transfer!(
                MPI_Rget | MPI_Rget_c,
                destination.len(),
                [destination.as_mut_ptr().cast()],
                raw_of::<T>(),
                (rank, displacement),
                [self.window.as_raw(), &raw mut request]
            )?;
        }
        Ok(Request::in_scope(request))
    }

    /// As [`super::Epoch::accumulate`], with a request that tells when the source was read.
    /// `MPI_Raccumulate`; starts only.
    ///
    /// # Errors
    ///
    /// As for [`super::Epoch::accumulate`].
    pub fn raccumulate(
        &'scope self,
        source: &'buffers [T],
        rank: impl Into<ExposedRank>,
        displacement: u64,
        operation: impl OperationOn<T>,
    ) -> Result<Request<'scope>> {
        const CALL: &str = "MPI_Raccumulate";
        let (rank, displacement) =
            self.place(CALL, rank.into(), displacement, source.len() as u64)?;
        let operation = combining(CALL, operation.as_raw())?;
        let mut request = sys::MALLEUS_REQUEST_NULL;
        // SAFETY: as for `accumulate`; a request that is forgotten completes at the scope's end all the same.
        unsafe {
            transfer!(
                MPI_Raccumulate | MPI_Raccumulate_c,
                source.len(),
                [source.as_ptr().cast()],
                raw_of::<T>(),
                (rank, displacement),
                [operation, self.window.as_raw(), &raw mut request]
            )?;
        }
        Ok(Request::in_scope(request))
    }

    /// As [`super::Epoch::get_accumulate`], with a request that tells when the result is there.
    /// `MPI_Rget_accumulate`; starts only.
    ///
    /// # Errors
    ///
    /// As for [`super::Epoch::get_accumulate`].
    pub fn rget_accumulate(
        &'scope self,
        source: &'buffers [T],
        result: &'buffers mut [T],
        rank: impl Into<ExposedRank>,
        displacement: u64,
        operation: impl OperationOn<T>,
    ) -> Result<Request<'scope>> {
        const CALL: &str = "MPI_Rget_accumulate";
        same_length(CALL, source, result)?;
        let (rank, displacement) =
            self.place(CALL, rank.into(), displacement, source.len() as u64)?;
        let mut request = sys::MALLEUS_REQUEST_NULL;
        // SAFETY: as for `get_accumulate`; a request that is forgotten completes at the scope's end all the
        // same.
        unsafe {
            transfer!(
                MPI_Rget_accumulate | MPI_Rget_accumulate_c,
                source.len(),
                [source.as_ptr().cast(), result.as_mut_ptr().cast()],
                raw_of::<T>(),
                (rank, displacement),
                [operation.as_raw(), self.window.as_raw(), &raw mut request]
            )?;
        }
        Ok(Request::in_scope(request))
    }

    /// Reads elements of a rank's memory, which are there when it returns. Blocking; `MPI_Get`, and
    /// `MPI_Win_flush_local` on the rank. The job is aborted if that fails.
    ///
    /// # Errors
    ///
    /// As for [`super::Epoch::get`].
    pub fn get_now(
        &self,
        destination: &mut [T],
        rank: impl Into<ExposedRank>,
        displacement: u64,
    ) -> Result<()> {
        let rank = rank.into();
        // SAFETY: the operation is complete before this function returns.
        let started = unsafe { self.get_raw(destination, rank, displacement) };
        self.complete_now(rank, started)
    }

    /// As [`super::Epoch::fetch_and_op`], with the result at once; the value itself for nobody. Blocking;
    /// `MPI_Fetch_and_op`, and `MPI_Win_flush_local` on the rank. The job is aborted if that fails.
    ///
    /// # Errors
    ///
    /// As for [`super::Epoch::fetch_and_op`].
    pub fn fetch_and_op_now(
        &self,
        value: T,
        rank: impl Into<ExposedRank>,
        displacement: u64,
        operation: impl OperationOn<T>,
    ) -> Result<T> {
        let rank = rank.into();
        let mut result = value;
        // SAFETY: the operation is complete before this function returns.
        let started = unsafe {
            self.fetch_and_op_raw(&value, &mut result, rank, displacement, operation.as_raw())
        };
        self.complete_now(rank, started).map(|()| result)
    }

    /// As [`super::Epoch::compare_and_swap`], with the result at once; `compare` itself for nobody. Blocking;
    /// `MPI_Compare_and_swap`, and `MPI_Win_flush_local` on the rank. The job is aborted if that fails.
    ///
    /// # Errors
    ///
    /// As for [`super::Epoch::compare_and_swap`].
    pub fn compare_and_swap_now(
        &self,
        value: T,
        compare: T,
        rank: impl Into<ExposedRank>,
        displacement: u64,
    ) -> Result<T>
    where
        T: Integer,
    {
        let rank = rank.into();
        let mut result = compare;
        // SAFETY: the operation is complete before this function returns.
        let started =
            unsafe { self.compare_and_swap_raw(&value, &compare, &mut result, rank, displacement) };
        self.complete_now(rank, started).map(|()| result)
    }

    /// Completes an operation whose buffers are not borrowed for the scope, unless it was refused before MPI saw
    /// it.
    fn complete_now(&self, rank: ExposedRank, started: Result<()>) -> Result<()> {
        let seen = !matches!(started, Err(Error::Argument { .. }));
        if let ExposedRank::Rank(rank) = rank
            && seen
            && let Err(error) = self.flush_local(rank)
        {
            self.window
                .inner()
                .abort(&format!("an operation can't be completed: {error}"), 1);
        }
        started
    }
}
