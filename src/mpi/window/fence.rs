//! Fence epochs, in which every process of the window takes part (MPI standard, chapter 12.5.1).

use std::ffi::c_int;
use std::ops::{BitOr, Deref};

use super::create::Window;
use super::epoch::{Epoch, Reach};
use crate::mpi::datatype::Element;
use crate::mpi::error::{Result, mpi};
use crate::sys;

/// What a process promises at a fence; combined with `|`. That nothing precedes the first fence of a scope and
/// nothing succeeds the last is known, and told to MPI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FenceAssertion(c_int);

impl FenceAssertion {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// `MPI_MODE_NOSTORE`: this process did not write its exposed memory since the last synchronization.
    pub const NO_STORE: Self = Self(sys::MPI_MODE_NOSTORE as c_int);
    /// `MPI_MODE_NOPUT`: nobody puts to or accumulates in this process's memory until the next fence.
    pub const NO_PUT: Self = Self(sys::MPI_MODE_NOPUT as c_int);
}

impl BitOr for FenceAssertion {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// An epoch between two fences.
#[derive(Debug)]
pub struct FenceEpoch<'scope, 'buffers, T: Element> {
    epoch: Epoch<'scope, 'buffers, T>,
}

impl<'scope, 'buffers, T: Element> Deref for FenceEpoch<'scope, 'buffers, T> {
    type Target = Epoch<'scope, 'buffers, T>;

    fn deref(&self) -> &Self::Target {
        &self.epoch
    }
}

impl<T: Element> Window<T> {
    /// Opens an epoch in which everybody may access everybody, for the time of `body`. Collective and blocking
    /// at both ends, where all operations are complete, here and at the others; `MPI_Win_fence` twice.
    ///
    /// # Errors
    ///
    /// [`crate::mpi::Error::State`] while another epoch is open; the error of `body`, else the MPI error. A `body`
    /// that makes fences of its own has to make them on every rank, before it returns an error, too.
    pub fn fence<'buffers, F, R>(
        &self,
        opening: FenceAssertion,
        closing: FenceAssertion,
        body: F,
    ) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope FenceEpoch<'scope, 'buffers, T>) -> Result<R>,
    {
        let open = self.with_access("MPI_Win_fence")?;
        // SAFETY: the window is valid and no epoch of this process is open. That nothing precedes holds on
        // every rank: epochs are scopes, and all of them are closed.
        unsafe {
            mpi!(MPI_Win_fence(
                opening.0 | sys::MPI_MODE_NOPRECEDE as c_int,
                self.as_raw()
            ))?;
        }
        let epoch = FenceEpoch {
            epoch: Epoch::new(self, Reach::All),
        };
        self.run(
            open,
            || body(&epoch),
            // SAFETY: a fence epoch is open, and the next operation is in another scope.
            || unsafe {
                mpi!(MPI_Win_fence(
                    closing.0 | sys::MPI_MODE_NOSUCCEED as c_int,
                    self.as_raw()
                ))
            },
        )
    }
}

impl<T: Element> FenceEpoch<'_, '_, T> {
    /// Completes all operations, here and at the others, and goes on. Collective and blocking;
    /// `MPI_Win_fence`. Buffers stay borrowed until the scope ends.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn fence(&self, assertion: FenceAssertion) -> Result<()> {
        // SAFETY: a fence epoch is open, and stays open.
        unsafe { mpi!(MPI_Win_fence(assertion.0, self.window.as_raw())) }
    }
}
