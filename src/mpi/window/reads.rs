//! Reads that go on over calls: the window, its epoch and the buffers are one value (decision record 16).

use std::ffi::c_int;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;

use super::create::Window;
use super::epoch::transfer;
use super::memory::Owner;
use crate::mpi::communicator::Communicator;
use crate::mpi::datatype::{int, raw_of};
use crate::mpi::error::{Error, Result, mpi, mpi_count};
use crate::mpi::info::Info;
use crate::mpi::request::{Buffer, BufferMut, RequestList};
use crate::sys;

/// A window whose memory the processes only read, and this process's reads into a buffer. The epochs of
/// [`Window`] are scopes; this one stays open while the application does something else between two calls, so it
/// owns all that MPI uses: what it exposes, and what it reads into.
///
/// What is exposed stays readable here where it is shared (`Arc`). Requests are polled, never flushed: in
/// MPICH a flush holds up the calls of other threads.
///
/// [`Reading::free`] on every rank is the normal end. Dropping one leaves the window and both buffers behind and
/// marks the environment failed.
pub struct Reading<S: Buffer, R: BufferMut<Element = S::Element>> {
    window: Window<S::Element>,
    /// Never dropped with a window that is left behind.
    buffers: ManuallyDrop<Box<(S, R)>>,
    // The elements of the destination, which MPI writes.
    destination: *mut S::Element,
    length: usize,
    /// Elements of the destination up to here are read into already.
    filled: usize,
    locks: Locks,
    requests: RequestList,
}

/// Who may be read from.
#[derive(Debug, PartialEq)]
enum Locks {
    Each(Vec<c_int>),
    All,
}

impl<S: Buffer, R: BufferMut<Element = S::Element>> Reading<S, R> {
    /// Exposes the elements of `exposed`, which may be none. Collective and blocking; `MPI_Win_create`, and one
    /// `MPI_Allgather` of 8 bytes.
    ///
    /// # Errors
    ///
    /// As for [`Window::create`].
    pub fn create(
        communicator: &Communicator,
        exposed: S,
        destination: R,
        info: Option<&Info>,
    ) -> Result<Self> {
        let mut buffers = ManuallyDrop::new(Box::new((exposed, destination)));
        let elements = buffers.0.elements();
        let (base, exposed_length) = (NonNull::from(elements).cast(), elements.len());
        let elements = buffers.1.elements_mut();
        let (destination, length) = (elements.as_mut_ptr(), elements.len());
        // SAFETY: the memory is that of a buffer that is not dropped before the window is freed. The processes of
        // this window only read it: it has no operation that writes, and gives its handle to nobody.
        let window = unsafe {
            Window::over(
                communicator,
                base,
                exposed_length,
                Owner::Borrow,
                None,
                info,
            )?
        };
        Ok(Self {
            window,
            buffers,
            destination,
            length,
            filled: 0,
            locks: Locks::Each(Vec::new()),
            requests: RequestList::default(),
        })
    }

    /// Opens an epoch to every rank, with shared locks and `MPI_MODE_NOCHECK`: nobody writes.
    /// `MPI_Win_lock_all`.
    ///
    /// # Errors
    ///
    /// [`Error::State`] where an epoch is open already; the MPI error otherwise.
    pub fn lock_all(&mut self) -> Result<()> {
        const CALL: &str = "MPI_Win_lock_all";
        if self.locks != Locks::Each(Vec::new()) {
            return Err(Error::state(CALL, "an epoch is already open"));
        }
        // SAFETY: the window is valid and no epoch of this process is open on it.
        unsafe {
            mpi!(MPI_Win_lock_all(
                sys::MPI_MODE_NOCHECK as c_int,
                self.window.as_raw()
            ))?;
        }
        self.locks = Locks::All;
        Ok(())
    }

    /// Opens an epoch to one more rank, with a shared lock and `MPI_MODE_NOCHECK`. `MPI_Win_lock`.
    ///
    /// # Errors
    ///
    /// [`Error::State`] where the rank is locked already; [`Error::Argument`] for a rank that is not in the window;
    /// the MPI error otherwise.
    pub fn lock(&mut self, rank: usize) -> Result<()> {
        const CALL: &str = "MPI_Win_lock";
        self.window.check_rank(CALL, rank)?;
        let raw = int(CALL, "rank", rank)?;
        let Locks::Each(ranks) = &mut self.locks else {
            return Err(Error::state(CALL, "every rank is locked already"));
        };
        if ranks.contains(&raw) {
            return Err(Error::state(CALL, "the rank is locked already"));
        }
        // SAFETY: the window is valid and the rank is not locked by this process.
        unsafe {
            mpi!(MPI_Win_lock(
                sys::MPI_LOCK_SHARED as c_int,
                raw,
                sys::MPI_MODE_NOCHECK as c_int,
                self.window.as_raw()
            ))?;
        }
        ranks.push(raw);
        Ok(())
    }

    /// Starts to read elements of a rank, from `displacement` on, into a range of the destination. `MPI_Rget`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a rank that is not locked, a range that it does not expose, or a range of the
    /// destination that does not lie behind those that are read into already; the MPI error otherwise.
    pub fn read(&mut self, rank: usize, displacement: u64, into: Range<usize>) -> Result<()> {
        let (rank, displacement) = self.place("MPI_Rget", rank, displacement, &into)?;
        let mut request = sys::MALLEUS_REQUEST_NULL;
        // SAFETY: the range lies inside the destination, which is not used by anybody else until the window is freed;
        // no other read goes into it. Rank and range are exposed, and every bit pattern is a valid element.
        unsafe {
            let part = std::slice::from_raw_parts_mut(self.destination.add(into.start), into.len());
            transfer!(
                MPI_Rget | MPI_Rget_c,
                part.len(),
                [part.as_mut_ptr().cast()],
                raw_of::<S::Element>(),
                (rank, displacement),
                [self.window.as_raw(), &raw mut request]
            )?;
        }
        self.filled = into.end;
        self.requests.push(request);
        Ok(())
    }

    /// As [`Reading::read`], but only [`Reading::unlock`] completes it: [`Reading::test`] does not tell. `MPI_Get`.
    ///
    /// # Errors
    ///
    /// As for [`Reading::read`].
    pub fn get(&mut self, rank: usize, displacement: u64, into: Range<usize>) -> Result<()> {
        let (rank, displacement) = self.place("MPI_Get", rank, displacement, &into)?;
        // SAFETY: as for `read`.
        unsafe {
            let part = std::slice::from_raw_parts_mut(self.destination.add(into.start), into.len());
            transfer!(
                MPI_Get | MPI_Get_c,
                part.len(),
                [part.as_mut_ptr().cast()],
                raw_of::<S::Element>(),
                (rank, displacement),
                [self.window.as_raw()]
            )?;
        }
        self.filled = into.end;
        Ok(())
    }

    fn place(
        &self,
        operation: &'static str,
        rank: usize,
        displacement: u64,
        into: &Range<usize>,
    ) -> Result<(c_int, sys::MPI_Aint)> {
        self.window.check_rank(operation, rank)?;
        let raw = int(operation, "rank", rank)?;
        let is_locked = match &self.locks {
            Locks::All => true,
            Locks::Each(ranks) => ranks.contains(&raw),
        };
        if !is_locked {
            return Err(Error::argument(
                operation,
                "rank",
                rank,
                "one that is locked",
            ));
        }
        if into.start < self.filled || into.end < into.start || into.end > self.length {
            let expected = format!("a range inside {}..{}", self.filled, self.length);
            let found = format!("{into:?}");
            return Err(Error::argument(operation, "destination", found, expected));
        }
        let (bounds, count) = (&self.window.bounds, into.len() as u64);
        let displacement = bounds.check::<S::Element>(operation, rank, displacement, count)?;
        Ok((raw, displacement))
    }

    /// Whether all reads are complete. Local; `MPI_Testall`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn test(&mut self) -> Result<bool> {
        self.requests.test()
    }

    /// Waits until all reads are complete. Blocking; `MPI_Waitall`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn wait(&mut self) -> Result<()> {
        self.requests.wait()
    }

    /// Ends the epochs, which completes the reads. Blocking where they are not complete; `MPI_Win_unlock`,
    /// `MPI_Win_unlock_all`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn unlock(&mut self) -> Result<()> {
        if self.requests.len() > 0 {
            // A request has to be given back, complete or not.
            self.wait()?;
        }
        match std::mem::replace(&mut self.locks, Locks::Each(Vec::new())) {
            // SAFETY: the epoch is open, and is closed once.
            Locks::All => unsafe { mpi!(MPI_Win_unlock_all(self.window.as_raw())) },
            Locks::Each(ranks) => ranks.into_iter().try_for_each(|rank| {
                // SAFETY: the rank is locked, and is unlocked once.
                unsafe { mpi!(MPI_Win_unlock(rank, self.window.as_raw())) }
            }),
        }
    }

    /// Frees the window, and gives back what was exposed and what was read. Collective and blocking;
    /// `MPI_Win_free`, after [`Reading::unlock`].
    ///
    /// # Errors
    ///
    /// The MPI error; the buffers are left behind then.
    pub fn free(mut self) -> Result<(S, R)> {
        self.unlock()?;
        self.window.release()?;
        // SAFETY: nobody uses the buffers any more, and `self` is not used again.
        let buffers = unsafe { ManuallyDrop::take(&mut self.buffers) };
        Ok(*buffers)
    }
}

impl<S: Buffer, R: BufferMut<Element = S::Element>> fmt::Debug for Reading<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("window", &self.window)
            .field("locks", &self.locks)
            .field("reads", &self.requests.len())
            .finish_non_exhaustive()
    }
}
