//! Persistent collectives (MPI standard, chapter 6.13): the operations of [`Communicator`] with the same
//! names, set up once. The forms in place have no send buffer.

use super::Inactive;
use crate::mpi::collective::{BlockLayout, Call, StridedLayout};
use crate::mpi::communicator::Communicator;
use crate::mpi::datatype::Operation;
use crate::mpi::error::Result;
use crate::mpi::info::Info;
use crate::mpi::request::{Buffer, BufferMut, Nothing};

/// Everything here is collective and may block, checks its arguments as the blocking form does, and
/// returns the same errors.
impl Communicator {
    /// Sets up a barrier. `MPI_Barrier_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::barrier`].
    pub fn barrier_init(&self, info: Option<&Info>) -> Result<Inactive<Nothing>> {
        Inactive::collective(self, (Nothing, Nothing), info, |_, _| Ok(Call::barrier()))
    }

    /// Sets up a broadcast. `MPI_Bcast_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::broadcast`].
    pub fn broadcast_init<R: BufferMut>(
        &self,
        buffer: R,
        root: usize,
        info: Option<&Info>,
    ) -> Result<Inactive<Nothing, R>> {
        Inactive::collective(self, (Nothing, buffer), info, |_, buffer| {
            Call::broadcast(buffer, root)
        })
    }

    /// Sets up a reduction with the result everywhere. `MPI_Allreduce_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_reduce_into`].
    pub fn all_reduce_init<S, R>(
        &self,
        send: S,
        receive: R,
        operation: Operation,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::all_reduce(Some(send), receive, operation)
        })
    }

    /// Sets up a reduction with the result everywhere, in place. `MPI_Allreduce_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_reduce`].
    pub fn all_reduce_init_in_place<R: BufferMut>(
        &self,
        buffer: R,
        operation: Operation,
        info: Option<&Info>,
    ) -> Result<Inactive<Nothing, R>> {
        Inactive::collective(self, (Nothing, buffer), info, |_, buffer| {
            Call::all_reduce(None, buffer, operation)
        })
    }

    /// Sets up a reduction with the result at the root. `MPI_Reduce_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::reduce`].
    pub fn reduce_init<S, R>(
        &self,
        send: S,
        receive: R,
        operation: Operation,
        root: usize,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::reduce(self, Some(send), receive, operation, root)
        })
    }

    /// Sets up a reduction with the result at the root, in place. `MPI_Reduce_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::reduce_in_place`].
    pub fn reduce_init_in_place<R: BufferMut>(
        &self,
        buffer: R,
        operation: Operation,
        root: usize,
        info: Option<&Info>,
    ) -> Result<Inactive<Nothing, R>> {
        Inactive::collective(self, (Nothing, buffer), info, |_, buffer| {
            Call::reduce(self, None, buffer, operation, root)
        })
    }

    /// Sets up a reduction of which each rank gets a block. `MPI_Reduce_scatter_block_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::reduce_scatter_block`].
    pub fn reduce_scatter_block_init<S, R>(
        &self,
        send: S,
        receive: R,
        operation: Operation,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::reduce_scatter_block(self, Some(send), receive, operation)
        })
    }

    /// Sets up a reduction of which each rank gets a block, in place. `MPI_Reduce_scatter_block_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::reduce_scatter_block_in_place`].
    pub fn reduce_scatter_block_init_in_place<R: BufferMut>(
        &self,
        buffer: R,
        operation: Operation,
        info: Option<&Info>,
    ) -> Result<Inactive<Nothing, R>> {
        Inactive::collective(self, (Nothing, buffer), info, |_, buffer| {
            Call::reduce_scatter_block(self, None, buffer, operation)
        })
    }

    /// Sets up a reduction of which each rank gets a block of any length. `MPI_Reduce_scatter_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::reduce_scatter`].
    pub fn reduce_scatter_init<S, R>(
        &self,
        send: S,
        receive: R,
        counts: &[usize],
        operation: Operation,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::reduce_scatter(self, Some(send), receive, counts, operation)
        })
    }

    /// Sets up a reduction of which each rank gets a block of any length, in place. `MPI_Reduce_scatter_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::reduce_scatter_in_place`].
    pub fn reduce_scatter_init_in_place<R: BufferMut>(
        &self,
        buffer: R,
        counts: &[usize],
        operation: Operation,
        info: Option<&Info>,
    ) -> Result<Inactive<Nothing, R>> {
        Inactive::collective(self, (Nothing, buffer), info, |_, buffer| {
            Call::reduce_scatter(self, None, buffer, counts, operation)
        })
    }

    /// Sets up a scan. `MPI_Scan_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::scan`].
    pub fn scan_init<S, R>(
        &self,
        send: S,
        receive: R,
        operation: Operation,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::scan(Some(send), receive, operation)
        })
    }

    /// Sets up a scan, in place. `MPI_Scan_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::scan_in_place`].
    pub fn scan_init_in_place<R: BufferMut>(
        &self,
        buffer: R,
        operation: Operation,
        info: Option<&Info>,
    ) -> Result<Inactive<Nothing, R>> {
        Inactive::collective(self, (Nothing, buffer), info, |_, buffer| {
            Call::scan(None, buffer, operation)
        })
    }

    /// Sets up an exclusive scan. `MPI_Exscan_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::exclusive_scan`].
    pub fn exclusive_scan_init<S, R>(
        &self,
        send: S,
        receive: R,
        operation: Operation,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::exclusive_scan(Some(send), receive, operation)
        })
    }

    /// Sets up an exclusive scan, in place. `MPI_Exscan_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::exclusive_scan_in_place`].
    pub fn exclusive_scan_init_in_place<R: BufferMut>(
        &self,
        buffer: R,
        operation: Operation,
        info: Option<&Info>,
    ) -> Result<Inactive<Nothing, R>> {
        Inactive::collective(self, (Nothing, buffer), info, |_, buffer| {
            Call::exclusive_scan(None, buffer, operation)
        })
    }

    /// Sets up a gather at the root. `MPI_Gather_init`, or its vector form with MPICH 4.0.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::gather`].
    pub fn gather_init<S, R>(
        &self,
        send: S,
        receive: R,
        root: usize,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::gather(self, Some(send), receive, root)
        })
    }

    /// Sets up a gather at the root, in place. `MPI_Gather_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::gather_in_place`].
    pub fn gather_init_in_place<R: BufferMut>(
        &self,
        buffer: R,
        root: usize,
        info: Option<&Info>,
    ) -> Result<Inactive<Nothing, R>> {
        Inactive::collective(self, (Nothing, buffer), info, |_, buffer| {
            Call::gather(self, None, buffer, root)
        })
    }

    /// Sets up a gather of blocks of any length at the root. `MPI_Gatherv_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::gather_v`].
    pub fn gather_v_init<S, R>(
        &self,
        send: S,
        receive: R,
        layout: &BlockLayout,
        root: usize,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::gather_v(self, Some(send), receive, layout, root)
        })
    }

    /// Sets up a scatter of the root's blocks. `MPI_Scatterv_init`: MPICH's `MPI_Scatter_init` delivers nothing
    /// when it is started the second time.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::scatter`].
    pub fn scatter_init<S, R>(
        &self,
        send: S,
        receive: R,
        root: usize,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::scatter(self, send, Some(receive), root)
        })
    }

    /// Sets up a scatter of the root's blocks, in place. `MPI_Scatterv_init`, as above.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::scatter_in_place`].
    pub fn scatter_init_in_place<R: BufferMut>(
        &self,
        buffer: R,
        root: usize,
        info: Option<&Info>,
    ) -> Result<Inactive<Nothing, R>> {
        Inactive::collective(self, (Nothing, buffer), info, |_, buffer| {
            Call::scatter(self, buffer, None, root)
        })
    }

    /// Sets up a scatter of the root's blocks of any length. `MPI_Scatterv_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::scatter_v`].
    pub fn scatter_v_init<S, R>(
        &self,
        send: S,
        receive: R,
        layout: &BlockLayout,
        root: usize,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::scatter_v(self, send, layout, Some(receive), root)
        })
    }

    /// Sets up a gather at everybody. `MPI_Allgather_init`, or its vector form with MPICH 4.0.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_gather`].
    pub fn all_gather_init<S, R>(
        &self,
        send: S,
        receive: R,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::all_gather(self, Some(send), receive)
        })
    }

    /// Sets up a gather at everybody, in place. `MPI_Allgather_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_gather_in_place`].
    pub fn all_gather_init_in_place<R: BufferMut>(
        &self,
        buffer: R,
        info: Option<&Info>,
    ) -> Result<Inactive<Nothing, R>> {
        Inactive::collective(self, (Nothing, buffer), info, |_, buffer| {
            Call::all_gather(self, None, buffer)
        })
    }

    /// Sets up a gather of blocks of any length at everybody. `MPI_Allgatherv_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_gather_v`].
    pub fn all_gather_v_init<S, R>(
        &self,
        send: S,
        receive: R,
        layout: &BlockLayout,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::all_gather_v(self, Some(send), receive, layout)
        })
    }

    /// Sets up a gather of blocks of any length at everybody, in place. `MPI_Allgatherv_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_gather_v_in_place`].
    pub fn all_gather_v_init_in_place<R: BufferMut>(
        &self,
        buffer: R,
        layout: &BlockLayout,
        info: Option<&Info>,
    ) -> Result<Inactive<Nothing, R>> {
        Inactive::collective(self, (Nothing, buffer), info, |_, buffer| {
            Call::all_gather_v(self, None, buffer, layout)
        })
    }

    /// Sets up an exchange of equally long blocks. `MPI_Alltoall_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_to_all`].
    pub fn all_to_all_init<S, R>(
        &self,
        send: S,
        receive: R,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::all_to_all(self, Some(send), receive)
        })
    }

    /// Sets up an exchange of equally long blocks, in place. `MPI_Alltoall_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_to_all_in_place`].
    pub fn all_to_all_init_in_place<R: BufferMut>(
        &self,
        buffer: R,
        info: Option<&Info>,
    ) -> Result<Inactive<Nothing, R>> {
        Inactive::collective(self, (Nothing, buffer), info, |_, buffer| {
            Call::all_to_all(self, None, buffer)
        })
    }

    /// Sets up an exchange of blocks of any length. `MPI_Alltoallv_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_to_all_v`].
    pub fn all_to_all_v_init<S, R>(
        &self,
        send: S,
        send_layout: &BlockLayout,
        receive: R,
        receive_layout: &BlockLayout,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::all_to_all_v(self, Some((send, send_layout)), receive, receive_layout)
        })
    }

    /// Sets up an exchange of blocks of any length, in place. `MPI_Alltoallv_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_to_all_v_in_place`].
    pub fn all_to_all_v_init_in_place<R: BufferMut>(
        &self,
        buffer: R,
        layout: &BlockLayout,
        info: Option<&Info>,
    ) -> Result<Inactive<Nothing, R>> {
        Inactive::collective(self, (Nothing, buffer), info, |_, buffer| {
            Call::all_to_all_v(self, None, buffer, layout)
        })
    }

    /// Sets up an exchange of strided blocks. `MPI_Alltoallw_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_to_all_w`].
    pub fn all_to_all_w_init<S, R>(
        &self,
        send: S,
        send_layout: &StridedLayout,
        receive: R,
        receive_layout: &StridedLayout,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::all_to_all_w(self, Some((send, send_layout)), receive, receive_layout)
        })
    }

    /// Sets up an exchange of strided blocks, in place. `MPI_Alltoallw_init`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_to_all_w_in_place`].
    pub fn all_to_all_w_init_in_place<R: BufferMut>(
        &self,
        buffer: R,
        layout: &StridedLayout,
        info: Option<&Info>,
    ) -> Result<Inactive<Nothing, R>> {
        Inactive::collective(self, (Nothing, buffer), info, |_, buffer| {
            Call::all_to_all_w(self, None, buffer, layout)
        })
    }
}
