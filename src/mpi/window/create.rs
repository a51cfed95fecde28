//! Creating and freeing windows (MPI standard, chapter 12.2).

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::mpi::communicator::Communicator;
use crate::mpi::datatype::Element;
use crate::mpi::environment::Inner;
use crate::mpi::error::{Error, Result, mpi};
use crate::sys;

/// Memory of each process of a communicator that the others may read and write.
///
/// The window borrows its memory for its whole life, since a remote process may change it at any time in
/// an epoch. [`Window::free`] on every rank is the normal end, since it is collective. Dropping a window aborts the
/// job: its memory can't be given back while others may write it. Leaking one (`mem::forget`) and then
/// freeing its memory is what the borrow checker can't see: don't.
pub struct Window<'memory, T: Element> {
    raw: sys::MPI_Win,
    /// Elements that each rank exposes.
    sizes: Vec<u64>,
    environment: Arc<Inner>,
    memory: PhantomData<&'memory mut [T]>,
    on_its_thread: PhantomData<*const ()>,
}

impl<'memory, T: Element> Window<'memory, T> {
    /// Exposes memory of this process; an empty slice exposes nothing. Displacements are in elements.
    /// Collective and blocking; `MPI_Allgather` of the sizes, since MPICH does not check accesses, and
    /// `MPI_Win_create`, with base `NULL` where nothing is exposed.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a slice beyond `MPI_Aint`; the MPI error otherwise.
    pub fn create(communicator: &Communicator, memory: &'memory mut [T]) -> Result<Self> {
        const CALL: &str = "MPI_Win_create";
        let bytes = sys::MPI_Aint::try_from(size_of_val(memory))
            .map_err(|_| Error::argument(CALL, "memory", "too large", "at most MPI_Aint bytes"))?;
        let unit = i32::try_from(size_of::<T>()).expect("an element has a few bytes");
        let base = if memory.is_empty() {
            std::ptr::null_mut()
        } else {
            memory.as_mut_ptr().cast()
        };
        // MPICH does not check displacements: what is exposed has to be known, so that no access goes past it.
        let mut sizes = vec![0; communicator.size()];
        communicator.all_gather(&[memory.len() as u64], &mut sizes)?;
        let mut raw = sys::MALLEUS_WIN_NULL;
        // SAFETY: the memory is borrowed exclusively for as long as the window lives, and every bit
        // pattern that a remote process may write is a valid element.
        unsafe {
            mpi!(MPI_Win_create(
                base,
                bytes,
                unit,
                sys::MALLEUS_INFO_NULL,
                communicator.as_raw(),
                &raw mut raw
            ))?;
            mpi!(MPI_Win_set_errhandler(raw, sys::MALLEUS_ERRORS_RETURN))?;
        }
        Ok(Self {
            raw,
            sizes,
            environment: Arc::clone(communicator.inner()),
            memory: PhantomData,
            on_its_thread: PhantomData,
        })
    }

    /// The raw handle, for calls through [`crate::sys`]. It stays owned by this window.
    #[must_use]
    pub fn as_raw(&self) -> sys::MPI_Win {
        self.raw
    }

    /// Number of processes of the window.
    #[must_use]
    pub fn size(&self) -> usize {
        self.sizes.len()
    }

    /// Elements that each rank exposes.
    #[must_use]
    pub fn exposed(&self) -> &[u64] {
        &self.sizes
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.environment
    }

    /// Frees the window; the memory is the caller's again. Collective and blocking (a barrier);
    /// `MPI_Win_free`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn free(mut self) -> Result<()> {
        let mut raw = std::mem::replace(&mut self.raw, sys::MALLEUS_WIN_NULL);
        // SAFETY: `self` gave its window away, and no epoch is open outside the scopes that borrow it.
        unsafe { mpi!(MPI_Win_free(&raw mut raw)) }
    }
}

impl<T: Element> Drop for Window<'_, T> {
    fn drop(&mut self) {
        if self.raw != sys::MALLEUS_WIN_NULL {
            // The memory is about to be the caller's again, while others may still write it.
            self.environment
                .abort("a window was dropped without free()", 1);
        }
    }
}

impl<T: Element> fmt::Debug for Window<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Window({} processes, elements {})",
            self.size(),
            T::KIND.name()
        )
    }
}
