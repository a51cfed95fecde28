//! Raw requests that are completed together, by the owner of their buffers.

use std::ffi::c_int;

use crate::mpi::datatype::int;
use crate::mpi::error::{Result, mpi};
use crate::sys;

/// Requests of operations whose buffers the owner of this list keeps until it is empty.
#[derive(Debug, Default)]
pub(in crate::mpi) struct RequestList(Vec<sys::MPI_Request>);

impl RequestList {
    pub(in crate::mpi) fn push(&mut self, request: sys::MPI_Request) {
        self.0.push(request);
    }

    pub(in crate::mpi) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether all are complete; the list is empty then. `MPI_Testall`.
    pub(in crate::mpi) fn test(&mut self) -> Result<bool> {
        if self.0.is_empty() {
            return Ok(true);
        }
        let count = int("MPI_Testall", "count", self.0.len())?;
        let mut done: c_int = 0;
        // SAFETY: the list holds `count` requests, null where one is complete.
        unsafe {
            mpi!(MPI_Testall(
                count,
                self.0.as_mut_ptr(),
                &raw mut done,
                sys::statuses_ignore()
            ))?;
        }
        if done != 0 {
            self.0.clear();
        }
        Ok(done != 0)
    }

    /// Waits until all are complete. `MPI_Waitall`.
    pub(in crate::mpi) fn wait(&mut self) -> Result<()> {
        let count = int("MPI_Waitall", "count", self.0.len())?;
        // SAFETY: as for `test`.
        unsafe {
            mpi!(MPI_Waitall(
                count,
                self.0.as_mut_ptr(),
                sys::statuses_ignore()
            ))?;
        }
        self.0.clear();
        Ok(())
    }
}
