//! How often this process calls MPI's collective functions, and starts persistent operations, through the profiling interface as in [`crate::faults`].
#![allow(unsafe_code, non_snake_case)]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use malleus::sys::{MPI_Comm, MPI_Datatype, MPI_Info, MPI_Op, MPI_Request, MPI_Win};

/// Defines functions of MPI that count themselves and pass the call on under its second name.
macro_rules! counted {
    ($($call:ident: $name:ident, $second:ident($($argument:ident: $kind:ty),*);)*) => {
        /// A function that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Call {
            Alltoallv,
            $($call,)*
        }

        impl Call {
            pub const ALL: &[Self] = &[Self::Alltoallv, $(Self::$call,)*];
        }

        unsafe extern "C" {
            $(fn $second($($argument: $kind),*) -> c_int;)*
        }

        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                count(Call::$call);
                // SAFETY: the caller's arguments, unchanged.
                unsafe { $second($($argument),*) }
            }
        )*
    };
}

counted! {
    Barrier: MPI_Barrier, PMPI_Barrier(comm: MPI_Comm);
    Ibarrier: MPI_Ibarrier, PMPI_Ibarrier(comm: MPI_Comm, request: *mut MPI_Request);
    Bcast: MPI_Bcast, PMPI_Bcast(
        buffer: *mut c_void, count: c_int, kind: MPI_Datatype, root: c_int, comm: MPI_Comm
    );
    Reduce: MPI_Reduce, PMPI_Reduce(
        send: *const c_void, receive: *mut c_void, count: c_int, kind: MPI_Datatype, operation: MPI_Op, root: c_int,
        comm: MPI_Comm
    );
    Allreduce: MPI_Allreduce, PMPI_Allreduce(
        send: *const c_void, receive: *mut c_void, count: c_int, kind: MPI_Datatype, operation: MPI_Op, comm: MPI_Comm
    );
    Iallreduce: MPI_Iallreduce, PMPI_Iallreduce(
        send: *const c_void, receive: *mut c_void, count: c_int, kind: MPI_Datatype, operation: MPI_Op, comm: MPI_Comm,
        request: *mut MPI_Request
    );
    Allgather: MPI_Allgather, PMPI_Allgather(
        send: *const c_void, send_count: c_int, send_kind: MPI_Datatype, receive: *mut c_void, count: c_int,
        kind: MPI_Datatype, comm: MPI_Comm
    );
    Alltoall: MPI_Alltoall, PMPI_Alltoall(
        send: *const c_void, send_count: c_int, send_kind: MPI_Datatype, receive: *mut c_void, count: c_int,
        kind: MPI_Datatype, comm: MPI_Comm
    );
    AlltoallvInit: MPI_Alltoallv_init, PMPI_Alltoallv_init(
        send: *const c_void, send_counts: *const c_int, send_places: *const c_int, send_kind: MPI_Datatype,
        receive: *mut c_void, counts: *const c_int, places: *const c_int, kind: MPI_Datatype, comm: MPI_Comm,
        info: MPI_Info, request: *mut MPI_Request
    );
    Start: MPI_Start, PMPI_Start(request: *mut MPI_Request);
    WinFence: MPI_Win_fence, PMPI_Win_fence(asserts: c_int, window: MPI_Win);
}

static COUNTS: [AtomicUsize; Call::ALL.len()] = [const { AtomicUsize::new(0) }; Call::ALL.len()];

/// Counts a call.
pub fn count(call: Call) {
    COUNTS[call as usize].fetch_add(1, Ordering::Relaxed);
}

/// The calls of some work on every thread of this process, those that were made at all.
pub fn of<T>(work: impl FnOnce() -> T) -> (T, Vec<(Call, usize)>) {
    let counts = || COUNTS.each_ref().map(|count| count.load(Ordering::Relaxed));
    let before = counts();
    let result = work();
    let made = counts().into_iter().zip(before);
    let made = made.map(|(after, before)| after - before);
    let calls = Call::ALL.iter().copied().zip(made);
    (result, calls.filter(|(_, times)| *times > 0).collect())
}
