//! Windows as MPI makes them, without what the safe layer adds, so that a measurement tells what MPI costs.
//! Nobody accesses them: they are created, get memory attached, and are freed.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use serde::Serialize;

use super::communicator::Communicator;
use super::datatype::address;
use super::environment::Inner;
use super::error::{Result, mpi};
use crate::sys;

/// How a window comes to its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Flavour {
    /// `MPI_Win_create` over memory of the caller.
    Create,
    /// `MPI_Win_allocate`.
    Allocate,
    /// `MPI_Win_allocate_shared`.
    Shared,
    /// `MPI_Win_create_dynamic`; memory is attached later.
    Dynamic,
}

impl Flavour {
    pub(crate) const ALL: [Self; 4] = [Self::Create, Self::Allocate, Self::Shared, Self::Dynamic];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Allocate => "allocate",
            Self::Shared => "shared",
            Self::Dynamic => "dynamic",
        }
    }
}

/// A window that nobody accesses, with the memory that was brought along for it.
#[derive(Debug)]
pub(crate) struct BareWindow {
    raw: sys::MPI_Win,
    /// Not dropped with a window that is left behind.
    memory: ManuallyDrop<Vec<u8>>,
    environment: Arc<Inner>,
}

impl BareWindow {
    /// A window of that flavour and of as many bytes as `memory` has, which [`Flavour::Create`] exposes.
    /// Collective and blocking.
    pub(crate) fn create(
        communicator: &Communicator,
        flavour: Flavour,
        memory: Vec<u8>,
    ) -> Result<Self> {
        let mut window = Self::unmade(communicator, memory);
        let bytes = address("MPI_Win_create", "bytes", window.memory.len() as u64)?;
        let (info, comm) = (sys::MALLEUS_INFO_NULL, communicator.as_raw());
        let mut base: *mut c_void = std::ptr::null_mut();
        let raw = &raw mut window.raw;
        // SAFETY: the memory belongs to the window until it is freed, and nobody accesses it meanwhile;
        // the calls write a handle, and two of them a pointer that is not used.
        unsafe {
            match flavour {
                Flavour::Create => {
                    let own = window.memory.as_mut_ptr().cast();
                    mpi!(MPI_Win_create(own, bytes, 1, info, comm, raw))?;
                }
                Flavour::Allocate => {
                    let base = (&raw mut base).cast();
                    mpi!(MPI_Win_allocate(bytes, 1, info, comm, base, raw))?;
                }
                Flavour::Shared => {
                    let base = (&raw mut base).cast();
                    mpi!(MPI_Win_allocate_shared(bytes, 1, info, comm, base, raw))?;
                }
                Flavour::Dynamic => mpi!(MPI_Win_create_dynamic(info, comm, raw))?,
            }
        }
        Ok(window)
    }

    /// A place for a window that is still to be made.
    pub(super) fn unmade(communicator: &Communicator, memory: Vec<u8>) -> Self {
        Self {
            raw: sys::MALLEUS_WIN_NULL,
            memory: ManuallyDrop::new(memory),
            environment: Arc::clone(communicator.inner()),
        }
    }

    /// Where the handle is, and the memory: for the same calls from C.
    pub(super) fn parts(&mut self) -> (*mut sys::MPI_Win, *mut c_void, usize) {
        let bytes = self.memory.len();
        (&raw mut self.raw, self.memory.as_mut_ptr().cast(), bytes)
    }

    /// Attaches a part of the memory to a window of [`Flavour::Dynamic`]: the `index`-th of so many equal
    /// ones. Local.
    pub(crate) fn attach(&mut self, index: usize, parts: usize) -> Result<()> {
        let length = self.memory.len() / parts;
        let bytes = address("MPI_Win_attach", "bytes", length as u64)?;
        let part = self.memory[index * length..][..length].as_mut_ptr().cast();
        // SAFETY: the memory belongs to the window until it is freed, and its parts do not overlap.
        unsafe { mpi!(MPI_Win_attach(self.raw, part, bytes)) }
    }

    /// Frees the window. Collective and blocking.
    pub(crate) fn free(mut self) -> Result<Vec<u8>> {
        let mut raw = std::mem::replace(&mut self.raw, sys::MALLEUS_WIN_NULL);
        // SAFETY: the window is not used any more.
        unsafe { mpi!(MPI_Win_free(&raw mut raw))? };
        Ok(self.into_memory())
    }

    /// The memory of a window that is freed.
    pub(super) fn into_memory(mut self) -> Vec<u8> {
        std::mem::take(&mut *self.memory)
    }
}

impl Drop for BareWindow {
    fn drop(&mut self) {
        if self.raw != sys::MALLEUS_WIN_NULL {
            self.environment
                .mark_failed("a window was dropped without free()".to_owned());
        }
    }
}
