//! Faults that tests bring about: memory that can't be had, and data that arrives wrong; and the number of windows
//! that are created and freed.
//!
//! The last two go through MPI's profiling interface (MPI standard, chapter 15.2): this program defines
//! `MPI_Alltoallv`, `MPI_Get`, `MPI_Win_create` and `MPI_Win_free` itself, and passes the calls on under their second names.
#![allow(unsafe_code, non_snake_case)]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::calls;
use malleus::sys::{MPI_Aint, MPI_Comm, MPI_Datatype, MPI_Info, MPI_Win};

static CORRUPT: AtomicBool = AtomicBool::new(false);

/// From now on, a byte of whatever this process receives is wrong.
pub fn corrupt_received(corrupt: bool) {
    CORRUPT.store(corrupt, Ordering::Relaxed);
}

static WINDOWS: AtomicUsize = AtomicUsize::new(0);

/// How many windows this process has created with `MPI_Win_create`.
pub fn windows_created() -> usize {
    WINDOWS.load(Ordering::Relaxed)
}

static FREED: AtomicUsize = AtomicUsize::new(0);

/// How many windows this process has freed with `MPI_Win_free`.
pub fn windows_freed() -> usize {
    FREED.load(Ordering::Relaxed)
}

unsafe extern "C" {
    fn PMPI_Win_free(win: *mut MPI_Win) -> c_int;
    fn PMPI_Win_create(
        base: *mut c_void,
        size: MPI_Aint,
        unit: c_int,
        info: MPI_Info,
        comm: MPI_Comm,
        win: *mut MPI_Win,
    ) -> c_int;
    fn PMPI_Alltoallv(
        sendbuf: *const c_void,
        sendcounts: *const c_int,
        sdispls: *const c_int,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcounts: *const c_int,
        rdispls: *const c_int,
        recvtype: MPI_Datatype,
        comm: MPI_Comm,
    ) -> c_int;
    fn PMPI_Get(
        origin: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        rank: c_int,
        displacement: MPI_Aint,
        target_count: c_int,
        target_type: MPI_Datatype,
        win: MPI_Win,
    ) -> c_int;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_create(
    base: *mut c_void,
    size: MPI_Aint,
    unit: c_int,
    info: MPI_Info,
    comm: MPI_Comm,
    win: *mut MPI_Win,
) -> c_int {
    WINDOWS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the caller's arguments, unchanged.
    unsafe { PMPI_Win_create(base, size, unit, info, comm, win) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Win_free(win: *mut MPI_Win) -> c_int {
    FREED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the caller's argument, unchanged.
    unsafe { PMPI_Win_free(win) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Alltoallv(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    calls::count(calls::Call::Alltoallv);
    // SAFETY: the caller's arguments, unchanged.
    let code = unsafe {
        PMPI_Alltoallv(
            sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
        )
    };
    if CORRUPT.load(Ordering::Relaxed) {
        // SAFETY: the library receives bytes, from rank 0 among others, and at least one.
        unsafe { *recvbuf.cast::<u8>() ^= 1 };
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Get(
    origin: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    rank: c_int,
    displacement: MPI_Aint,
    target_count: c_int,
    target_type: MPI_Datatype,
    win: MPI_Win,
) -> c_int {
    // A byte beside the one that was asked for.
    let shift = MPI_Aint::from(CORRUPT.load(Ordering::Relaxed) && displacement == 0);
    let shorter = count - shift as c_int;
    // SAFETY: the caller's arguments, except for a displacement that the exposed block still holds.
    unsafe {
        PMPI_Get(
            origin,
            shorter,
            datatype,
            rank,
            displacement + shift,
            target_count - shift as c_int,
            target_type,
            win,
        )
    }
}

/// The limit of this process's address space.
pub fn address_space_limit() -> libc::rlimit {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure lives.
    let code = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    assert_eq!(code, 0);
    limit
}

pub fn restore_address_space(limit: libc::rlimit) {
    // SAFETY: the structure lives.
    let code = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(code, 0);
}

/// Lets this process map only so many bytes more.
pub fn limit_address_space(more: Option<u64>) {
    let mut limit = address_space_limit();
    let pages: u64 = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .expect("/proc/self/statm tells the size");
    limit.rlim_cur = more.map_or(limit.rlim_max, |more| {
        pages * malleus::memory::page_size() as u64 + more
    });
    restore_address_space(limit);
}
