//! Reductions (MPI standard, chapters 6.9 to 6.11).

use super::{Call, Memory};
use crate::mpi::communicator::Communicator;
use crate::mpi::datatype::{Element, Operation};
use crate::mpi::error::Result;

impl Communicator {
    /// Reduces every element over all processes, in place, with the result everywhere. `MPI_Allreduce`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn all_reduce<T: Element>(&self, buffer: &mut [T], operation: Operation) -> Result<()> {
        self.run(&Call::all_reduce(None, Memory::write(buffer), operation)?)
    }

    /// [`Communicator::all_reduce`] from one buffer into another. `MPI_Allreduce`.
    ///
    /// # Errors
    ///
    /// [`super::Error::Argument`] unless both are equally long; the MPI error otherwise.
    pub fn all_reduce_into<T: Element>(
        &self,
        send: &[T],
        receive: &mut [T],
        operation: Operation,
    ) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::all_reduce(Some(send), receive, operation)?)
    }

    /// Reduces every element over all processes, with the result at the root. `receive` counts at the
    /// root only. `MPI_Reduce`.
    ///
    /// # Errors
    ///
    /// [`super::Error::Argument`] unless the root's buffers are equally long; the MPI error otherwise.
    pub fn reduce<T: Element>(
        &self,
        send: &[T],
        receive: &mut [T],
        operation: Operation,
        root: usize,
    ) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::reduce(self, Some(send), receive, operation, root)?)
    }

    /// [`Communicator::reduce`] into the root's own buffer; the others' stay as they are.
    /// `MPI_Reduce`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::reduce`].
    pub fn reduce_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        operation: Operation,
        root: usize,
    ) -> Result<()> {
        let buffer = Memory::write(buffer);
        self.run(&Call::reduce(self, None, buffer, operation, root)?)
    }

    /// Reduces every element over all processes; rank `i` gets the `i`-th of equally long blocks.
    /// `MPI_Reduce_scatter_block`.
    ///
    /// # Errors
    ///
    /// [`super::Error::Argument`] unless `send` holds `receive.len()` elements per rank; the MPI error
    /// otherwise.
    pub fn reduce_scatter_block<T: Element>(
        &self,
        send: &[T],
        receive: &mut [T],
        operation: Operation,
    ) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::reduce_scatter_block(
            self,
            Some(send),
            receive,
            operation,
        )?)
    }

    /// [`Communicator::reduce_scatter_block`] with one buffer, whose first block is the result.
    /// `MPI_Reduce_scatter_block`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::reduce_scatter_block`].
    pub fn reduce_scatter_block_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        operation: Operation,
    ) -> Result<()> {
        let buffer = Memory::write(buffer);
        self.run(&Call::reduce_scatter_block(self, None, buffer, operation)?)
    }

    /// Reduces every element over all processes; rank `i` gets the next `counts[i]` of them.
    /// `MPI_Reduce_scatter`.
    ///
    /// # Errors
    ///
    /// [`super::Error::Argument`] unless there is one count per rank, `send` holds their sum and
    /// `receive` this rank's count; the MPI error otherwise.
    pub fn reduce_scatter<T: Element>(
        &self,
        send: &[T],
        receive: &mut [T],
        counts: &[usize],
        operation: Operation,
    ) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::reduce_scatter(
            self,
            Some(send),
            receive,
            counts,
            operation,
        )?)
    }

    /// [`Communicator::reduce_scatter`] with one buffer, which starts with the result.
    /// `MPI_Reduce_scatter`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::reduce_scatter`].
    pub fn reduce_scatter_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        counts: &[usize],
        operation: Operation,
    ) -> Result<()> {
        let buffer = Memory::write(buffer);
        self.run(&Call::reduce_scatter(
            self, None, buffer, counts, operation,
        )?)
    }

    /// Reduces every element over this process and all of lower rank. `MPI_Scan`.
    ///
    /// # Errors
    ///
    /// [`super::Error::Argument`] unless both buffers are equally long; the MPI error otherwise.
    pub fn scan<T: Element>(
        &self,
        send: &[T],
        receive: &mut [T],
        operation: Operation,
    ) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::scan(Some(send), receive, operation)?)
    }

    /// [`Communicator::scan`] in place. `MPI_Scan`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn scan_in_place<T: Element>(&self, buffer: &mut [T], operation: Operation) -> Result<()> {
        self.run(&Call::scan(None, Memory::write(buffer), operation)?)
    }

    /// Reduces every element over all processes of lower rank. Rank 0 has none: its `receive` stays
    /// as it is. `MPI_Exscan`.
    ///
    /// # Errors
    ///
    /// [`super::Error::Argument`] unless both buffers are equally long; the MPI error otherwise.
    pub fn exclusive_scan<T: Element>(
        &self,
        send: &[T],
        receive: &mut [T],
        operation: Operation,
    ) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::exclusive_scan(Some(send), receive, operation)?)
    }

    /// [`Communicator::exclusive_scan`] in place. `MPI_Exscan`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn exclusive_scan_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        operation: Operation,
    ) -> Result<()> {
        self.run(&Call::exclusive_scan(
            None,
            Memory::write(buffer),
            operation,
        )?)
    }
}
