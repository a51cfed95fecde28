//! Windows over memory that MPI allocates, which it can share between the processes of a node (MPI standard,
//! chapters 12.2.2 and 12.2.3).

use std::ffi::c_void;
use std::ptr::NonNull;

use super::bounds::Boundary;
use super::create::{Window, bytes, unit};
use super::memory::{Memory, Owner};
use crate::mpi::communicator::Communicator;
use crate::mpi::datatype::{Element, int};
use crate::mpi::error::{Error, Result, mpi};
use crate::mpi::info::Info;
use crate::sys;

/// Sizes that are tried before MPI is asked for them.
const LARGE: sys::MPI_Aint = 1 << 30;

/// Refuses memory that this process can't have: MPICH ends the job there.
fn check_available(operation: &'static str, bytes: sys::MPI_Aint) -> Result<()> {
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    if bytes < LARGE {
        return Ok(());
    }
    match memmap2::MmapMut::map_anon(size) {
        Ok(_) => Ok(()),
        Err(error) => {
            let expected = format!("memory that can be had: {error}");
            Err(Error::argument(
                operation,
                "length",
                format!("{size} bytes"),
                expected,
            ))
        }
    }
}

impl<T: Element> Window<T> {
    /// Exposes `length` elements, zero at first, that MPI allocates where access is fastest. Collective and
    /// blocking; `MPI_Win_allocate`, and one `MPI_Allgather` of 8 bytes.
    ///
    /// # Errors
    ///
    /// As for [`Window::create`]; [`Error::Argument`] for memory that this process can't have.
    pub fn allocate(
        communicator: &Communicator,
        length: usize,
        info: Option<&Info>,
    ) -> Result<Self> {
        let info = info.map_or(sys::MALLEUS_INFO_NULL, Info::as_raw);
        let held = Boundary::round_up::<T>(length);
        // SAFETY: the call writes a pointer to where the first address leads, and the handle to the second.
        let allocate = |bytes, base, raw| unsafe {
            let comm = communicator.as_raw();
            mpi!(MPI_Win_allocate(bytes, unit::<T>(), info, comm, base, raw))
        };
        Self::allocate_by(
            "MPI_Win_allocate",
            communicator,
            (length, held),
            (false, length),
            allocate,
        )
    }

    /// As [`Window::allocate`], in memory that every process of the window can load from and store to; see
    /// [`Window::shared`]. The communicator's processes have to be on one node ([`Communicator::split_shared`]).
    /// Collective and blocking; `MPI_Win_allocate_shared`, and one `MPI_Allgather` of 8 bytes.
    ///
    /// Parents and spawned children share memory with MPICH's ofi from 4.2 on; ucx refuses it.
    ///
    /// # Errors
    ///
    /// As for [`Window::allocate`]; the MPI error where memory can't be shared.
    pub fn allocate_shared(
        communicator: &Communicator,
        length: usize,
        info: Option<&Info>,
    ) -> Result<Self> {
        Self::allocate_shared_with(communicator, length, info, length)
    }

    /// As [`Window::allocate_shared`], but only the first `zeroed` elements are written. The others are pages that the
    /// system has given afresh: MPICH maps a new file for each window of several processes. They take no memory before they
    /// are used. A process alone gets memory from the heap, which is written as a whole.
    pub(crate) fn allocate_shared_with(
        communicator: &Communicator,
        length: usize,
        info: Option<&Info>,
        zeroed: usize,
    ) -> Result<Self> {
        let zeroed = if communicator.size() == 1 {
            length
        } else {
            zeroed
        };
        let info = info.map_or(sys::MALLEUS_INFO_NULL, Info::as_raw);
        // SAFETY: the call writes a pointer to where the first address leads, and the handle to the second.
        let allocate = |bytes, base, raw| unsafe {
            let comm = communicator.as_raw();
            mpi!(MPI_Win_allocate_shared(
                bytes,
                unit::<T>(),
                info,
                comm,
                base,
                raw
            ))
        };
        Self::allocate_by(
            "MPI_Win_allocate_shared",
            communicator,
            (length, length),
            (true, zeroed),
            allocate,
        )
    }

    /// A window of so many elements, in memory for as many as `held` says, which `allocate` makes, of which so many are
    /// written.
    fn allocate_by(
        operation: &'static str,
        communicator: &Communicator,
        (length, held): (usize, usize),
        (shared, zeroed): (bool, usize),
        allocate: impl FnOnce(sys::MPI_Aint, *mut c_void, *mut sys::MPI_Win) -> Result<()>,
    ) -> Result<Self> {
        let bytes = bytes::<T>(operation, held)?;
        check_available(operation, bytes)?;
        let mut base: *mut T = std::ptr::null_mut();
        let raw = Self::new_window(communicator, |raw| {
            allocate(bytes, (&raw mut base).cast(), raw)
        })?;
        // Where ranks ask for elements of different types, a shared memory may begin unaligned. This rank then exposes
        // nothing, but takes part in the gather all the same, which finds the mismatch on every rank. It must not leave
        // the gather out: the next one of the caller's would be taken for it, with a length of the caller's choice.
        let usable = NonNull::new(base).filter(|base| base.is_aligned());
        let is_unusable = length > 0 && usable.is_none();
        let (base, length) = match usable {
            Some(base) if length > 0 => (base, length),
            _ => (NonNull::dangling(), 0),
        };
        // SAFETY: MPI has allocated so many bytes for this process, which nobody else knows of yet. The
        // pages may hold anything, and reading what was never written is undefined.
        unsafe { base.as_ptr().write_bytes(0, length.min(zeroed)) };
        let mut window = Self::adopt(raw, communicator, base, length, Owner::Library { shared });
        // Also what keeps the others from writing before the memory is zero.
        window.gather_bounds(operation, communicator, 0)?;
        if is_unusable {
            // Dropping the window marks the environment failed.
            return Err(Error::state(operation, "MPI gave no aligned memory"));
        }
        Ok(window)
    }

    /// The memory that another process of the node exposes, for loads and stores. Local;
    /// `MPI_Win_shared_query`.
    ///
    /// # Errors
    ///
    /// [`Error::State`] unless the window is one of [`Window::allocate_shared`]; [`Error::Argument`] for a rank
    /// that is not in the window; the MPI error otherwise.
    pub fn shared(&self, rank: usize) -> Result<Memory<'_, T>> {
        const CALL: &str = "MPI_Win_shared_query";
        if !matches!(self.owner, Owner::Library { shared: true }) {
            return Err(Error::state(
                CALL,
                "the window is not one of allocate_shared",
            ));
        }
        self.check_rank(CALL, rank)?;
        let raw_rank = int(CALL, "rank", rank)?;
        let mut size: sys::MPI_Aint = 0;
        let mut unit = 0;
        let mut base: *mut T = std::ptr::null_mut();
        // SAFETY: the window is valid and its memory shared; the call writes to the three places.
        unsafe {
            mpi!(MPI_Win_shared_query(
                self.as_raw(),
                raw_rank,
                &raw mut size,
                &raw mut unit,
                (&raw mut base).cast()
            ))?;
        }
        let length = usize::try_from(size).unwrap_or(0) / size_of::<T>();
        match NonNull::new(base) {
            // SAFETY: MPI maps so many bytes of the rank's memory for as long as the window lives; the rank
            // has written all of it before the window's creation returned here.
            Some(base) if base.is_aligned() => Ok(unsafe { Memory::new(base, length) }),
            // SAFETY: an empty memory needs no valid pointer.
            None if length == 0 => Ok(unsafe { Memory::new(NonNull::dangling(), 0) }),
            _ => Err(Error::state(CALL, "MPI gave no aligned memory")),
        }
    }
}
