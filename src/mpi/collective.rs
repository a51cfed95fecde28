//! Collective communication (MPI standard, chapter 6). Every function here is collective over the
//! communicator and blocking; counts and displacements are in elements.

use std::ffi::c_int;

use super::communicator::Communicator;
use super::datatype::{Element, Operation, int, large_count, raw_of};
use super::error::{Error, Result, mpi, mpi_count};
use super::request::Request;
use crate::sys;

impl Communicator {
    /// Returns when every process has called it. `MPI_Barrier`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn barrier(&self) -> Result<()> {
        // SAFETY: the communicator is valid as long as its handle lives.
        unsafe { mpi!(MPI_Barrier(self.as_raw())) }
    }

    /// Starts a barrier; its request completes when every process has started it. `MPI_Ibarrier`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn ibarrier(&self) -> Result<Request<'static>> {
        let mut raw = sys::MALLEUS_REQUEST_NULL;
        // SAFETY: the communicator is valid; no buffer is involved.
        unsafe { mpi!(MPI_Ibarrier(self.as_raw(), &raw mut raw))? };
        Ok(Request::adopt(raw, self.inner()))
    }

    /// Copies the root's buffer into everybody's. `MPI_Bcast`.
    ///
    /// # Errors
    ///
    /// The MPI error, among others where the lengths differ between ranks.
    pub fn broadcast<T: Element>(&self, buffer: &mut [T], root: usize) -> Result<()> {
        let root = int("MPI_Bcast", "root", root)?;
        // SAFETY: the buffer holds as many elements of this datatype, and the call blocks.
        unsafe {
            mpi_count!(MPI_Bcast | MPI_Bcast_c, buffer.len(), |count| (
                buffer.as_mut_ptr().cast(),
                count,
                raw_of::<T>(),
                root,
                self.as_raw()
            ))
        }
    }

    /// Broadcasts bytes whose number only the root knows; the others' content is replaced.
    /// `MPI_Bcast`, twice.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn broadcast_bytes(&self, bytes: &mut Vec<u8>, root: usize) -> Result<()> {
        let mut length = [bytes.len() as u64];
        self.broadcast(&mut length, root)?;
        let length = usize::try_from(length[0]).map_err(|_| {
            Error::argument(
                "MPI_Bcast",
                "count",
                length[0],
                "what fits into this process",
            )
        })?;
        bytes.resize(length, 0);
        self.broadcast(bytes, root)
    }

    /// Reduces every element over all processes, in place, with the result everywhere. `MPI_Allreduce`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn all_reduce<T: Element>(&self, buffer: &mut [T], operation: Operation) -> Result<()> {
        // SAFETY: the buffer holds as many elements of this datatype; in place is allowed on an
        // intracommunicator, and the call blocks.
        unsafe {
            mpi_count!(MPI_Allreduce | MPI_Allreduce_c, buffer.len(), |count| (
                sys::in_place(),
                buffer.as_mut_ptr().cast(),
                count,
                raw_of::<T>(),
                operation.as_raw(),
                self.as_raw()
            ))
        }
    }

    /// Every process's `send`, in rank order, at everybody. `MPI_Allgather`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless `receive` holds `send.len()` elements per rank; the MPI error otherwise.
    pub fn all_gather<T: Element>(&self, send: &[T], receive: &mut [T]) -> Result<()> {
        check_total("MPI_Allgather", receive.len(), send.len(), self.size())?;
        // SAFETY: `receive` has room for `size` times `send`; both live until the call returns.
        unsafe {
            mpi_count!(MPI_Allgather | MPI_Allgather_c, send.len(), |count| (
                send.as_ptr().cast(),
                count,
                raw_of::<T>(),
                receive.as_mut_ptr().cast(),
                count,
                raw_of::<T>(),
                self.as_raw()
            ))
        }
    }

    /// Every process's bytes, of any length, in rank order, at everybody. `MPI_Allgather` of the
    /// lengths, `MPI_Allgatherv` of the bytes.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn all_gather_bytes(&self, send: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut lengths = vec![0_u64; self.size()];
        self.all_gather(&[send.len() as u64], &mut lengths)?;
        let counts = lengths
            .iter()
            .map(|&length| {
                sys::MPI_Count::try_from(length)
                    .map_err(|_| Error::argument("MPI_Allgatherv", "count", length, "an MPI_Count"))
            })
            .collect::<Result<Vec<_>>>()?;
        let mut displacements: Vec<sys::MPI_Aint> = Vec::with_capacity(counts.len());
        let mut total: sys::MPI_Aint = 0;
        for &count in &counts {
            displacements.push(total);
            total += sys::MPI_Aint::try_from(count)
                .map_err(|_| Error::argument("MPI_Allgatherv", "count", count, "an MPI_Aint"))?;
        }
        let mut all = vec![0_u8; usize::try_from(total).expect("a sum of sizes is not negative")];
        // SAFETY: `all` has room for all blocks at their displacements; the buffers live until the
        // call returns.
        unsafe {
            mpi!(MPI_Allgatherv_c(
                send.as_ptr().cast(),
                large_count(send.len()),
                raw_of::<u8>(),
                all.as_mut_ptr().cast(),
                counts.as_ptr(),
                displacements.as_ptr(),
                raw_of::<u8>(),
                self.as_raw()
            ))?;
        }
        let mut rest = all.as_slice();
        let mut parts = Vec::with_capacity(lengths.len());
        for &length in &lengths {
            let (part, tail) =
                rest.split_at(usize::try_from(length).expect("it is part of an allocation"));
            parts.push(part.to_vec());
            rest = tail;
        }
        Ok(parts)
    }

    /// The `i`-th block of `send` goes to rank `i`, whose block of it comes from here. `MPI_Alltoall`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless both buffers hold the same number of elements, a multiple of the
    /// number of ranks; the MPI error otherwise.
    pub fn all_to_all<T: Element>(&self, send: &[T], receive: &mut [T]) -> Result<()> {
        let each = send.len() / self.size();
        check_total("MPI_Alltoall", send.len(), each, self.size())?;
        check_total("MPI_Alltoall", receive.len(), each, self.size())?;
        // SAFETY: both buffers hold `each` elements for every rank and live until the call returns.
        unsafe {
            mpi_count!(MPI_Alltoall | MPI_Alltoall_c, each, |count| (
                send.as_ptr().cast(),
                count,
                raw_of::<T>(),
                receive.as_mut_ptr().cast(),
                count,
                raw_of::<T>(),
                self.as_raw()
            ))
        }
    }

    /// Blocks of any length from everybody to everybody. `MPI_Alltoallv`, or `MPI_Alltoallv_c` where a
    /// count or displacement exceeds `int`.
    ///
    /// The choice is made from the local arguments: an `int` call on one rank matches a large one on
    /// another, since they name the same operation.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if a layout does not have one block per rank or does not fit into its
    /// buffer; the MPI error otherwise.
    pub fn all_to_all_v<T: Element>(
        &self,
        send: &[T],
        send_layout: &BlockLayout,
        receive: &mut [T],
        receive_layout: &BlockLayout,
    ) -> Result<()> {
        send_layout.check("send layout", send.len(), self.size())?;
        receive_layout.check("receive layout", receive.len(), self.size())?;
        let (send_raw, receive_raw) = (send.as_ptr().cast(), receive.as_mut_ptr().cast());
        if let (Some(sends), Some(receives)) = (send_layout.to_ints(), receive_layout.to_ints()) {
            // SAFETY: both layouts have one block per rank inside their buffer (checked above); all
            // arguments live until the call returns.
            return unsafe {
                mpi!(MPI_Alltoallv(
                    send_raw,
                    sends.0.as_ptr(),
                    sends.1.as_ptr(),
                    raw_of::<T>(),
                    receive_raw,
                    receives.0.as_ptr(),
                    receives.1.as_ptr(),
                    raw_of::<T>(),
                    self.as_raw()
                ))
            };
        }
        let (sends, receives) = (send_layout.to_large(), receive_layout.to_large());
        // SAFETY: as above.
        unsafe {
            mpi!(MPI_Alltoallv_c(
                send_raw,
                sends.0.as_ptr(),
                sends.1.as_ptr(),
                raw_of::<T>(),
                receive_raw,
                receives.0.as_ptr(),
                receives.1.as_ptr(),
                raw_of::<T>(),
                self.as_raw()
            ))
        }
    }
}

impl Communicator {
    /// Tells everybody about a problem that some ranks have: the first such rank, and its text; `None`
    /// where no rank has one. So a failure on one rank becomes the same result on all. `MPI_Allreduce`,
    /// and `MPI_Bcast` where there is a problem.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn agree(&self, problem: Option<String>) -> Result<Option<(usize, String)>> {
        let mut first = [if problem.is_some() {
            self.rank() as u64
        } else {
            u64::MAX
        }];
        self.all_reduce(&mut first, Operation::Minimum)?;
        if first[0] == u64::MAX {
            return Ok(None);
        }
        let rank = usize::try_from(first[0]).expect("a rank");
        let mut text = if rank == self.rank() {
            problem.unwrap_or_default().into_bytes()
        } else {
            Vec::new()
        };
        self.broadcast_bytes(&mut text, rank)?;
        Ok(Some((rank, String::from_utf8_lossy(&text).into_owned())))
    }
}

/// Where the block for or from each rank lies in a buffer: counts and displacements in elements.
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
        let mut end = 0;
        let displacements = counts
            .iter()
            .map(|count| {
                let start = end;
                end += count;
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
    pub fn block(&self, rank: usize) -> std::ops::Range<usize> {
        self.displacements[rank]..self.displacements[rank] + self.counts[rank]
    }

    fn check(&self, argument: &'static str, length: usize, ranks: usize) -> Result<()> {
        const CALL: &str = "MPI_Alltoallv";
        if self.counts.len() != ranks {
            let found = format!("{} blocks", self.counts.len());
            return Err(Error::argument(
                CALL,
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
                    CALL,
                    argument,
                    found,
                    format!("inside the {length} of the buffer"),
                ));
            }
        }
        Ok(())
    }

    fn to_ints(&self) -> Option<(Vec<c_int>, Vec<c_int>)> {
        let ints = |values: &[usize]| {
            values
                .iter()
                .map(|&value| c_int::try_from(value).ok())
                .collect::<Option<Vec<_>>>()
        };
        Some((ints(&self.counts)?, ints(&self.displacements)?))
    }

    fn to_large(&self) -> (Vec<sys::MPI_Count>, Vec<sys::MPI_Aint>) {
        let counts = self
            .counts
            .iter()
            .map(|&count| large_count(count))
            .collect();
        let displacements = self
            .displacements
            .iter()
            .map(|&displacement| {
                sys::MPI_Aint::try_from(displacement).expect("it lies inside a slice")
            })
            .collect();
        (counts, displacements)
    }
}

fn check_total(operation: &'static str, found: usize, each: usize, ranks: usize) -> Result<()> {
    if each.checked_mul(ranks) == Some(found) {
        return Ok(());
    }
    let found = format!("{found} elements");
    Err(Error::argument(
        operation,
        "buffer",
        found,
        format!("{each} for each of {ranks} ranks"),
    ))
}
