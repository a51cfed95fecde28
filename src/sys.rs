//! Raw bindings to the MPICH this crate was built with.
//!
//! This is the only file that includes generated code. `build.rs` runs bindgen on `wrapper.h`
//! against the `mpi.h` of the MPICH it found, so every constant, type and function here is that
//! of the very library the program is linked to: the values differ between MPICH versions.
//!
//! Names are MPI's own (`MPI_Comm_rank`, `MPI_SUCCESS`). What MPICH defines through casts, which
//! bindgen cannot read, is here under the prefix `MALLEUS_`: handles are typed constants
//! ([`MALLEUS_COMM_WORLD`], [`MALLEUS_DOUBLE`], [`MALLEUS_SUM`]), and pointer sentinels are the
//! functions at the top of this module ([`in_place`], [`status_ignore`]).
//!
//! # Mixing with the safe layer
//!
//! Everything the safe modules wrap can be taken apart and put together again: `as_raw` lends a
//! handle for a call that has no wrapper yet, `into_raw` gives it away, `from_raw` (unsafe) takes
//! it over. A handle that is only lent must not be freed. Return codes are plain integers here:
//! compare them with [`MPI_SUCCESS`].

#![allow(
    unsafe_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::undocumented_unsafe_blocks
)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

/// The address that a sentinel of `wrapper.h` holds; the sign extends, as in C.
const fn address(sentinel: i64) -> usize {
    sentinel as usize
}

/// `MPI_BOTTOM`: displacements are absolute addresses.
#[must_use]
pub const fn bottom() -> *mut c_void {
    ptr::without_provenance_mut(address(MALLEUS_BOTTOM as i64))
}

/// `MPI_IN_PLACE`: the operation reads its input from the receive buffer.
#[must_use]
pub const fn in_place() -> *mut c_void {
    ptr::without_provenance_mut(address(MALLEUS_IN_PLACE as i64))
}

/// `MPI_STATUS_IGNORE`: the caller wants no status.
#[must_use]
pub const fn status_ignore() -> *mut MPI_Status {
    ptr::without_provenance_mut(address(MALLEUS_STATUS_IGNORE as i64))
}

/// `MPI_STATUSES_IGNORE`: the caller wants none of the statuses.
#[must_use]
pub const fn statuses_ignore() -> *mut MPI_Status {
    ptr::without_provenance_mut(address(MALLEUS_STATUSES_IGNORE as i64))
}

/// `MPI_ERRCODES_IGNORE`: the caller of a spawn wants no code per process.
#[must_use]
pub const fn errcodes_ignore() -> *mut c_int {
    ptr::without_provenance_mut(address(MALLEUS_ERRCODES_IGNORE as i64))
}

/// `MPI_ARGV_NULL`: the spawned program gets no arguments.
#[must_use]
pub const fn argv_null() -> *mut *mut c_char {
    ptr::without_provenance_mut(address(MALLEUS_ARGV_NULL as i64))
}

/// `MPI_ARGVS_NULL`: none of the spawned programs gets arguments.
#[must_use]
pub const fn argvs_null() -> *mut *mut *mut c_char {
    ptr::without_provenance_mut(address(MALLEUS_ARGVS_NULL as i64))
}

/// `MPI_FILE_NULL`: no file.
#[must_use]
pub const fn file_null() -> MPI_File {
    ptr::without_provenance_mut(address(MALLEUS_FILE_NULL as i64))
}
