//! The three forms in which MPI runs a collective, with the same arguments.

use std::ffi::c_int;

use super::call::{Call, Kind};
use super::layout::Layouts;
use crate::mpi::communicator::Communicator;
use crate::mpi::error::{Result, mpi};
use crate::sys;

/// How MPI runs a collective.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) enum Form {
    Blocking,
    NonBlocking,
    Persistent(sys::MPI_Info),
}

/// Calls one of the three forms of a collective with the same arguments. Where a size in bytes is given,
/// latencies are recorded in its class.
macro_rules! in_form {
    ($form:expr, $request:ident, [$blocking:ident $now:ident $init:ident], ($($argument:expr),* $(,)?)
        $(, $bytes:expr)?) => {
        match $form {
            Form::Blocking => mpi!($blocking($($argument),*) $(, $bytes)?),
            Form::NonBlocking => mpi!($now($($argument,)* &raw mut $request) $(, $bytes)?),
            Form::Persistent(info) => mpi!($init($($argument,)* info, &raw mut $request) $(, $bytes)?),
        }
    };
}

/// A collective with one count: the `int` functions where it fits, else the `_c` ones.
macro_rules! with_count {
    ($form:ident, $request:ident, $bytes:ident, $count:expr, $small:tt $large:tt, |$n:ident| $arguments:tt) => {
        match c_int::try_from($count) {
            Ok($n) => in_form!($form, $request, $small, $arguments, $bytes),
            Err(_) => {
                let $n = crate::mpi::datatype::large_count($count);
                in_form!($form, $request, $large, $arguments, $bytes)
            }
        }
    };
}

/// A collective with layouts: the `int` functions where they fit, else the `_c` ones.
macro_rules! with_layouts {
    ($form:ident, $request:ident, $bytes:ident, $layouts:expr, $small:tt $large:tt,
        |$s:ident, $r:ident| $arguments:tt) => {
        match $layouts.as_ref().expect("a vector collective has layouts") {
            Layouts::Int($s, $r) => in_form!($form, $request, $small, $arguments, $bytes),
            Layouts::Large($s, $r) => in_form!($form, $request, $large, $arguments, $bytes),
        }
    };
}

impl Call {
    /// Runs or starts the collective. The request is null after the blocking form.
    ///
    /// # Safety
    ///
    /// The communicator is the one that the call was checked against. Memory, and this value with its
    /// layouts, live untouched until the operation is complete; for the persistent form,
    /// until the request is freed.
    #[allow(clippy::too_many_lines)] // one arm per collective
    pub(in crate::mpi) unsafe fn run(
        &self,
        communicator: &Communicator,
        form: Form,
    ) -> Result<sys::MPI_Request> {
        let comm = communicator.as_raw();
        let mut request = sys::MALLEUS_REQUEST_NULL;
        let Self {
            send,
            receive,
            each,
            root,
            operation,
            datatype,
            unit,
            layouts,
            types,
            ..
        } = self;
        let (root, operation) = (*root, *operation);
        // The size class: what goes to one rank where all get the same, else what this rank sends.
        let bytes = match layouts {
            None => each * send.element_size,
            Some(_) => send.bytes(),
        };
        let (input, output, each) = (send.pointer, receive.pointer, each * unit);
        let (from, to) = (*datatype, *datatype);
        // SAFETY: the constructors checked that counts and layouts lie inside the memory, which the
        // caller keeps; every bit pattern of whose elements is valid.
        unsafe {
            match self.kind {
                Kind::Barrier => {
                    in_form!(form, request, [MPI_Barrier MPI_Ibarrier MPI_Barrier_init], (comm))
                }
                Kind::Broadcast => with_count!(form, request, bytes, each,
                    [MPI_Bcast MPI_Ibcast MPI_Bcast_init] [MPI_Bcast_c MPI_Ibcast_c MPI_Bcast_init_c],
                    |count| (output, count, to, root, comm)),
                Kind::Reduce => with_count!(form, request, bytes, each,
                    [MPI_Reduce MPI_Ireduce MPI_Reduce_init] [MPI_Reduce_c MPI_Ireduce_c MPI_Reduce_init_c],
                    |count| (input, output, count, to, operation, root, comm)),
                Kind::AllReduce => with_count!(form, request, bytes, each,
                    [MPI_Allreduce MPI_Iallreduce MPI_Allreduce_init]
                    [MPI_Allreduce_c MPI_Iallreduce_c MPI_Allreduce_init_c],
                    |count| (input, output, count, to, operation, comm)),
                Kind::ReduceScatterBlock => with_count!(form, request, bytes, each,
                    [MPI_Reduce_scatter_block MPI_Ireduce_scatter_block MPI_Reduce_scatter_block_init]
                    [MPI_Reduce_scatter_block_c MPI_Ireduce_scatter_block_c MPI_Reduce_scatter_block_init_c],
                    |count| (input, output, count, to, operation, comm)),
                Kind::ReduceScatter => with_layouts!(form, request, bytes, layouts,
                    [MPI_Reduce_scatter MPI_Ireduce_scatter MPI_Reduce_scatter_init]
                    [MPI_Reduce_scatter_c MPI_Ireduce_scatter_c MPI_Reduce_scatter_init_c],
                    |_s, r| (input, output, r.counts.as_ptr(), to, operation, comm)),
                Kind::Scan => with_count!(form, request, bytes, each,
                    [MPI_Scan MPI_Iscan MPI_Scan_init] [MPI_Scan_c MPI_Iscan_c MPI_Scan_init_c],
                    |count| (input, output, count, to, operation, comm)),
                Kind::ExclusiveScan => with_count!(form, request, bytes, each,
                    [MPI_Exscan MPI_Iexscan MPI_Exscan_init] [MPI_Exscan_c MPI_Iexscan_c MPI_Exscan_init_c],
                    |count| (input, output, count, to, operation, comm)),
                Kind::Gather => with_count!(form, request, bytes, each,
                    [MPI_Gather MPI_Igather MPI_Gather_init] [MPI_Gather_c MPI_Igather_c MPI_Gather_init_c],
                    |count| (input, count, from, output, count, to, root, comm)),
                Kind::GatherV => with_layouts!(form, request, bytes, layouts,
                    [MPI_Gatherv MPI_Igatherv MPI_Gatherv_init] [MPI_Gatherv_c MPI_Igatherv_c MPI_Gatherv_init_c],
                    |s, r| (input, s.counts[0], from, output, r.counts.as_ptr(), r.displacements.as_ptr(), to, root, comm)),
                Kind::Scatter => with_count!(form, request, bytes, each,
                    [MPI_Scatter MPI_Iscatter MPI_Scatter_init] [MPI_Scatter_c MPI_Iscatter_c MPI_Scatter_init_c],
                    |count| (input, count, from, output, count, to, root, comm)),
                Kind::ScatterV => with_layouts!(form, request, bytes, layouts,
                    [MPI_Scatterv MPI_Iscatterv MPI_Scatterv_init]
                    [MPI_Scatterv_c MPI_Iscatterv_c MPI_Scatterv_init_c],
                    |s, r| (input, s.counts.as_ptr(), s.displacements.as_ptr(), from, output, r.counts[0], to, root, comm)),
                Kind::AllGather => with_count!(form, request, bytes, each,
                    [MPI_Allgather MPI_Iallgather MPI_Allgather_init]
                    [MPI_Allgather_c MPI_Iallgather_c MPI_Allgather_init_c],
                    |count| (input, count, from, output, count, to, comm)),
                Kind::AllGatherV => with_layouts!(form, request, bytes, layouts,
                    [MPI_Allgatherv MPI_Iallgatherv MPI_Allgatherv_init]
                    [MPI_Allgatherv_c MPI_Iallgatherv_c MPI_Allgatherv_init_c],
                    |s, r| (input, s.counts[0], from, output, r.counts.as_ptr(), r.displacements.as_ptr(), to, comm)),
                Kind::AllToAll => with_count!(form, request, bytes, each,
                    [MPI_Alltoall MPI_Ialltoall MPI_Alltoall_init]
                    [MPI_Alltoall_c MPI_Ialltoall_c MPI_Alltoall_init_c],
                    |count| (input, count, from, output, count, to, comm)),
                Kind::AllToAllV => with_layouts!(form, request, bytes, layouts,
                    [MPI_Alltoallv MPI_Ialltoallv MPI_Alltoallv_init]
                    [MPI_Alltoallv_c MPI_Ialltoallv_c MPI_Alltoallv_init_c],
                    |s, r| (input, s.counts.as_ptr(), s.displacements.as_ptr(), from,
                            output, r.counts.as_ptr(), r.displacements.as_ptr(), to, comm)),
                Kind::AllToAllW => {
                    let (from, to) = types.as_ref().expect("this collective has datatypes");
                    with_layouts!(form, request, bytes, layouts,
                        [MPI_Alltoallw MPI_Ialltoallw MPI_Alltoallw_init]
                        [MPI_Alltoallw_c MPI_Ialltoallw_c MPI_Alltoallw_init_c],
                        |s, r| (input, s.counts.as_ptr(), s.displacements.as_ptr(), from.0.as_ptr(),
                                output, r.counts.as_ptr(), r.displacements.as_ptr(), to.0.as_ptr(), comm))
                }
                Kind::NeighborAllGather => with_count!(form, request, bytes, each,
                    [MPI_Neighbor_allgather MPI_Ineighbor_allgather MPI_Neighbor_allgather_init]
                    [MPI_Neighbor_allgather_c MPI_Ineighbor_allgather_c MPI_Neighbor_allgather_init_c],
                    |count| (input, count, from, output, count, to, comm)),
                Kind::NeighborAllToAllV => with_layouts!(form, request, bytes, layouts,
                    [MPI_Neighbor_alltoallv MPI_Ineighbor_alltoallv MPI_Neighbor_alltoallv_init]
                    [MPI_Neighbor_alltoallv_c MPI_Ineighbor_alltoallv_c MPI_Neighbor_alltoallv_init_c],
                    |s, r| (input, s.counts.as_ptr(), s.displacements.as_ptr(), from,
                            output, r.counts.as_ptr(), r.displacements.as_ptr(), to, comm)),
            }?;
        }
        Ok(request)
    }
}
