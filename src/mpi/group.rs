//! Groups of processes (MPI standard, chapter 7.3).

use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use super::datatype::{int, unsigned};
use super::environment::Inner;
use super::error::{Result, mpi};
use crate::sys;

/// An ordered set of processes. Everything about it is local.
#[derive(Debug)]
pub struct Group {
    raw: sys::MPI_Group,
    environment: Arc<Inner>,
    on_its_thread: PhantomData<*const ()>,
}

impl Group {
    pub(super) fn adopt(raw: sys::MPI_Group, environment: &Arc<Inner>) -> Self {
        Self {
            raw,
            environment: Arc::clone(environment),
            on_its_thread: PhantomData,
        }
    }

    /// The raw handle, for calls through [`crate::sys`]. It stays owned by this group.
    #[must_use]
    pub fn as_raw(&self) -> sys::MPI_Group {
        self.raw
    }

    /// Number of processes. `MPI_Group_size`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn size(&self) -> Result<usize> {
        let mut size: c_int = 0;
        // SAFETY: the group is valid as long as `self` lives.
        unsafe { mpi!(MPI_Group_size(self.raw, &raw mut size))? };
        Ok(unsigned(size))
    }

    /// The processes with these ranks, in this order. `MPI_Group_incl`.
    ///
    /// # Errors
    ///
    /// [`super::Error::Argument`] for a rank beyond `int`; the MPI error for one that is not in the group.
    pub fn include(&self, ranks: &[usize]) -> Result<Self> {
        let ranks = ranks
            .iter()
            .map(|&rank| int("MPI_Group_incl", "rank", rank))
            .collect::<Result<Vec<_>>>()?;
        let count = int("MPI_Group_incl", "ranks", ranks.len())?;
        let mut raw = sys::MALLEUS_GROUP_NULL;
        // SAFETY: the group is valid, and `ranks` holds `count` integers.
        unsafe {
            mpi!(MPI_Group_incl(
                self.raw,
                count,
                ranks.as_ptr(),
                &raw mut raw
            ))?
        };
        Ok(Self::adopt(raw, &self.environment))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: the group is valid and this is its last use; freeing it is local.
        unsafe { sys::MPI_Group_free(&raw mut self.raw) };
    }
}
