//! Windows, how they are created over memory of this process, and how they end (MPI standard, chapter 12.2).

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use super::bounds::{Boundary, Bounds};
use super::epoch::Open;
use super::memory::{Memory, Owner};
use crate::mpi::communicator::Communicator;
use crate::mpi::datatype::Element;
use crate::mpi::environment::Inner;
use crate::mpi::error::{Error, Result, mpi};
use crate::mpi::info::Info;
use crate::mpi::request::AbortOnPanic;
use crate::sys;

/// Memory of each process of a communicator that the others may read and write. Sizes and displacements are
/// in elements.
///
/// A window owns its memory: that of [`Window::create`], [`Window::allocate`] and
/// [`Window::allocate_shared`] is never behind a Rust reference while the window lives, since a remote process
/// may write it at any time. [`Window::memory`] copies in and out. Memory that is only borrowed is exposed for
/// a scope, [`Window::scope`]: a window value could be forgotten, which would end the borrow, but not the
/// exposure.
///
/// Every process knows how much each other one exposes, and an operation beyond it is refused before MPI
/// sees it; MPICH itself checks nothing and would overwrite what lies behind (decision record 11).
///
/// [`Window::free`] on every rank is the normal end. Dropping a window leaves it and its memory behind and
/// marks the environment failed, since freeing is collective; the environment's end then aborts the job.
pub struct Window<T: Element> {
    pub(super) raw: sys::MPI_Win,
    pub(super) rank: usize,
    pub(super) bounds: Bounds,
    pub(super) base: NonNull<T>,
    pub(super) length: usize,
    pub(super) owner: Owner,
    pub(super) open: Cell<Open>,
    pub(super) environment: Arc<Inner>,
    pub(super) on_its_thread: PhantomData<*const ()>,
}

impl<T: Element> Window<T> {
    /// Exposes memory of this process; an empty vector exposes nothing. Collective and blocking;
    /// `MPI_Win_create`, with base `NULL` where nothing is exposed, and one `MPI_Allgather` of 8 bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] on every rank where they don't expose the same type of element; the MPI error
    /// otherwise.
    pub fn create(
        communicator: &Communicator,
        memory: Vec<T>,
        info: Option<&Info>,
    ) -> Result<Self> {
        let mut memory = std::mem::ManuallyDrop::new(memory);
        let base = NonNull::new(memory.as_mut_ptr()).expect("a vector's pointer is not null");
        let owner = Owner::Vector {
            capacity: memory.capacity(),
        };
        // SAFETY: the window owns the vector's memory: nobody else has a reference to it.
        unsafe { Self::over(communicator, base, memory.len(), owner, None, info) }
    }

    /// Exposes borrowed memory for the time of `body`, and frees the window at its end, whatever `body`
    /// returned. Collective and blocking, at the start as [`Window::create`], at the end as
    /// [`Window::free`].
    ///
    /// The job is aborted if `body` panics, or if the window can't be freed: the memory can't be given back
    /// while others may write it.
    ///
    /// ```compile_fail
    /// # use malleus::mpi::{Environment, window::Window};
    /// # let environment = Environment::init().unwrap();
    /// let mut exposed = vec![1.0; 4];
    /// Window::scope(&environment.world(), &mut exposed, None, |window| {
    ///     exposed[0] = 2.0; // others may write it at the same time
    ///     window.fence(Default::default(), Default::default(), |_| Ok(()))
    /// });
    /// ```
    ///
    /// An intercommunicator has another type, and no windows:
    ///
    /// ```compile_fail
    /// # use malleus::mpi::{Intercommunicator, Result, window::Window};
    /// fn expose(children: &Intercommunicator) -> Result<Window<f64>> {
    ///     Window::create(children, vec![1.0; 4], None)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The error of `body`; as for [`Window::create`] otherwise.
    pub fn scope<R, E: From<Error>>(
        communicator: &Communicator,
        memory: &mut [T],
        info: Option<&Info>,
        body: impl FnOnce(&Self) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let base = NonNull::from(&mut *memory).cast();
        let inner = communicator.inner();
        // SAFETY: the memory is borrowed exclusively for this whole function, which ends after the window
        // is freed, or not at all.
        let window =
            unsafe { Self::over(communicator, base, memory.len(), Owner::Borrow, None, info)? };
        let guard = AbortOnPanic(inner);
        let result = body(&window);
        std::mem::forget(guard);
        if let Err(error) = window.free() {
            inner.abort(
                &format!("borrowed memory can't be taken back from a window: {error}"),
                1,
            );
        }
        result
    }

    /// Exposes any memory, and takes the caller's word for what the others expose: `lengths` holds the number
    /// of elements of each rank, where they are known. Collective and blocking; `MPI_Win_create` alone, which
    /// is what C pays for a window. Without `lengths` as [`Window::create`].
    ///
    /// # Safety
    ///
    /// Until the window is freed, `length` elements from `base` on are initialized and valid for reads and
    /// writes, and there is no reference to them. `lengths` is the same on every rank, and true for each.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for lengths that are not one per rank, or wrong for this one; as for
    /// [`Window::create`] otherwise.
    pub unsafe fn create_raw(
        communicator: &Communicator,
        base: NonNull<T>,
        length: usize,
        lengths: Option<Arc<[u64]>>,
        info: Option<&Info>,
    ) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::over(communicator, base, length, Owner::Borrow, lengths, info) }
    }

    /// # Safety
    ///
    /// As for [`Window::create_raw`]; `owner` owns the memory.
    pub(super) unsafe fn over(
        communicator: &Communicator,
        base: NonNull<T>,
        length: usize,
        owner: Owner,
        lengths: Option<Arc<[u64]>>,
        info: Option<&Info>,
    ) -> Result<Self> {
        const CALL: &str = "MPI_Win_create";
        let known = match lengths {
            Some(lengths) => Bounds::given(CALL, lengths, communicator, length)?,
            None => None,
        };
        let before = if length == 0 {
            0
        } else {
            Boundary::elements_before(base)
        };
        let address = if length == 0 {
            std::ptr::null_mut()
        } else {
            // Only MPI's address of what is never accessed: displacements begin behind it.
            base.as_ptr().wrapping_sub(before).cast()
        };
        let bytes = bytes::<T>(CALL, length.saturating_add(before))?;
        let raw = Self::new_window(communicator, |raw| {
            // SAFETY: the memory is valid, and every bit pattern that a remote process may write is a
            // valid element. The window is given to MPI_Win_free before its owner goes.
            unsafe {
                mpi!(MPI_Win_create(
                    address,
                    bytes,
                    unit::<T>(),
                    info.map_or(sys::MALLEUS_INFO_NULL, Info::as_raw),
                    communicator.as_raw(),
                    raw
                ))
            }
        })?;
        let mut window = Self::adopt(raw, communicator, base, length, owner);
        match known {
            Some(bounds) => window.bounds = bounds,
            None => window.gather_bounds(CALL, communicator, before)?,
        }
        Ok(window)
    }

    /// Takes over a window that was made through [`crate::sys`]. Collective; one `MPI_Allgather` of 8 bytes. Its
    /// errors are returned from then on. What it exposes stays the caller's to free, after the window.
    ///
    /// # Safety
    ///
    /// `raw` is a window of the communicator's processes in the same order, with a displacement unit of
    /// `size_of::<T>()`, on which no epoch is open; nobody else frees it. It exposes `length` elements from `base`
    /// on, as [`Window::create_raw`] asks for; with MPICH 4.0, `base` is a multiple of 16, since that accesses
    /// other memory otherwise.
    ///
    /// # Errors
    ///
    /// As for [`Window::create`].
    pub unsafe fn from_raw(
        raw: sys::MPI_Win,
        communicator: &Communicator,
        base: NonNull<T>,
        length: usize,
    ) -> Result<Self> {
        // SAFETY: the window is valid. Only its own error handler is changed.
        unsafe { mpi!(MPI_Win_set_errhandler(raw, sys::MALLEUS_ERRORS_RETURN))? };
        let mut window = Self::adopt(raw, communicator, base, length, Owner::Borrow);
        window.gather_bounds("MPI_Win_create", communicator, 0)?;
        Ok(window)
    }

    /// Gives the window away, which then has to be freed through [`crate::sys`]: its handle, and the elements
    /// that it exposes from a base on. The memory of a vector is left behind with it, and is never deallocated;
    /// that of MPI goes with the window.
    #[must_use]
    pub fn into_raw(mut self) -> (sys::MPI_Win, NonNull<T>, usize) {
        self.owner = Owner::Borrow;
        let raw = std::mem::replace(&mut self.raw, sys::MALLEUS_WIN_NULL);
        (raw, self.base, self.length)
    }

    /// Calls what creates a window, and lets its errors come back.
    pub(super) fn new_window(
        communicator: &Communicator,
        create: impl FnOnce(*mut sys::MPI_Win) -> Result<()>,
    ) -> Result<sys::MPI_Win> {
        let mut raw = sys::MALLEUS_WIN_NULL;
        create(&raw mut raw)?;
        // SAFETY: the window was just created. Only its own error handler is changed.
        if let Err(error) = unsafe { mpi!(MPI_Win_set_errhandler(raw, sys::MALLEUS_ERRORS_RETURN)) }
        {
            communicator.inner().abort(
                &format!("a window is exposed, but can't be used: {error}"),
                1,
            );
        }
        Ok(raw)
    }

    pub(super) fn adopt(
        raw: sys::MPI_Win,
        communicator: &Communicator,
        base: NonNull<T>,
        length: usize,
        owner: Owner,
    ) -> Self {
        Self {
            raw,
            rank: communicator.rank(),
            bounds: Bounds::unknown(),
            base,
            length,
            owner,
            open: Cell::new(Open::Nothing),
            environment: Arc::clone(communicator.inner()),
            on_its_thread: PhantomData,
        }
    }

    /// Learns what the others expose. No operation can come before it, so that what this process wrote to its
    /// memory until now is there when the first one arrives.
    pub(super) fn gather_bounds(
        &mut self,
        operation: &'static str,
        communicator: &Communicator,
        before: usize,
    ) -> Result<()> {
        let borrowed = matches!(self.owner, Owner::Borrow);
        let found = match Bounds::gather::<T>(operation, communicator, self.length, before) {
            Ok(Ok(bounds)) => {
                self.bounds = bounds;
                return Ok(());
            }
            // Every rank found the same mismatch: all of them free the window.
            Ok(Err(mismatch)) => self.release().map(|()| mismatch),
            Err(error) => Err(error),
        };
        if let (Err(error), true) = (&found, borrowed) {
            self.environment.abort(
                &format!("borrowed memory can't be taken back from a window: {error}"),
                1,
            );
        }
        Err(found.unwrap_or_else(|error| error))
    }

    /// The raw handle, for calls through [`crate::sys`]. It stays owned by this window.
    #[inline]
    #[must_use]
    pub fn as_raw(&self) -> sys::MPI_Win {
        self.raw
    }

    /// Where MPI finds elements of a rank's memory, which has to have them.
    pub(crate) fn displacement(
        &self,
        operation: &'static str,
        rank: usize,
        displacement: u64,
        count: u64,
    ) -> Result<sys::MPI_Aint> {
        self.check_rank(operation, rank)?;
        self.bounds.check::<T>(operation, rank, displacement, count)
    }

    /// Rank of this process in the window.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of processes of the window.
    #[inline]
    #[must_use]
    pub fn size(&self) -> usize {
        self.bounds.processes()
    }

    /// The memory that this process exposes, for copies in and out; empty in a dynamic window.
    #[must_use]
    pub fn memory(&self) -> Memory<'_, T> {
        // SAFETY: the owner keeps the memory alive for as long as the window lives.
        unsafe { Memory::new(self.base, self.length) }
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.environment
    }

    /// Frees the window and its memory. Collective and blocking (a barrier); `MPI_Win_free`.
    ///
    /// # Errors
    ///
    /// The MPI error; the memory is left behind then.
    pub fn free(mut self) -> Result<()> {
        self.release()
    }

    /// As [`Window::free`], and gives the memory of [`Window::create`] back. Memory that belongs to others is
    /// not the window's to give: an empty vector.
    ///
    /// # Errors
    ///
    /// The MPI error; the memory is left behind then.
    pub fn into_memory(mut self) -> Result<Vec<T>> {
        self.release()?;
        Ok(self.take_vector().unwrap_or_default())
    }

    pub(super) fn release(&mut self) -> Result<()> {
        let mut raw = std::mem::replace(&mut self.raw, sys::MALLEUS_WIN_NULL);
        // SAFETY: the window is not used any more, and no epoch is open: each borrows it for its scope.
        let freed = unsafe { mpi!(MPI_Win_free(&raw mut raw)) };
        if freed.is_err() {
            self.owner = Owner::Borrow;
        }
        freed
    }

    /// The vector of a window that was freed.
    fn take_vector(&mut self) -> Option<Vec<T>> {
        match std::mem::replace(&mut self.owner, Owner::Borrow) {
            Owner::Vector { capacity } => {
                // SAFETY: the parts are those of the vector that the window was created from; the window is
                // freed, and the owner gave them away.
                Some(unsafe { Vec::from_raw_parts(self.base.as_ptr(), self.length, capacity) })
            }
            Owner::Borrow | Owner::Library { .. } => None,
        }
    }
}

/// The displacement unit of a window.
pub(super) fn unit<T>() -> i32 {
    i32::try_from(size_of::<T>()).expect("an element has a few bytes")
}

/// Size of some elements as MPI wants it.
pub(super) fn bytes<T>(operation: &'static str, length: usize) -> Result<sys::MPI_Aint> {
    length
        .checked_mul(size_of::<T>())
        .and_then(|bytes| sys::MPI_Aint::try_from(bytes).ok())
        .ok_or_else(|| Error::argument(operation, "length", length, "at most MPI_Aint bytes"))
}

impl<T: Element> Drop for Window<T> {
    fn drop(&mut self) {
        if self.raw == sys::MALLEUS_WIN_NULL {
            drop(self.take_vector());
        } else {
            self.environment
                .mark_failed("a window was dropped without free()".to_owned());
        }
    }
}

impl<T: Element> fmt::Debug for Window<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Window({}/{}, {} of {})",
            self.rank,
            self.size(),
            self.length,
            T::KIND.name()
        )
    }
}
