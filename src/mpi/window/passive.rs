//! Passive target epochs: lock, `lock_all` and what may be done inside (MPI standard, chapters 12.3 and
//! 12.5.3).

use std::cell::RefCell;
use std::ffi::c_int;
use std::marker::PhantomData;

use super::create::Window;
use crate::mpi::datatype::{Element, address, int, raw_of};
use crate::mpi::error::{Error, Result, mpi, mpi_count};
use crate::mpi::request::{AbortOnPanic, Request};
use crate::sys;

/// Who else may hold the lock of a rank at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// `MPI_LOCK_SHARED`: others with a shared lock.
    Shared,
    /// `MPI_LOCK_EXCLUSIVE`: nobody.
    Exclusive,
}

/// What the caller promises about a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assertion {
    /// Nothing: MPI acquires the lock.
    None,
    /// `MPI_MODE_NOCHECK`: nobody holds or asks for a conflicting lock, so none needs to be acquired.
    /// It removes a round in which the exposed rank takes part.
    NoCheck,
}

impl Assertion {
    fn as_raw(self) -> c_int {
        match self {
            Self::None => 0,
            Self::NoCheck => sys::MPI_MODE_NOCHECK as c_int,
        }
    }
}

impl LockKind {
    fn as_raw(self) -> c_int {
        let raw = match self {
            Self::Shared => sys::MPI_LOCK_SHARED,
            Self::Exclusive => sys::MPI_LOCK_EXCLUSIVE,
        };
        raw as c_int
    }
}

/// An open passive target epoch. Its operations are complete when its scope has ended.
#[derive(Debug)]
pub struct PassiveEpoch<'scope, 'buffers, T: Element> {
    window: sys::MPI_Win,
    /// Elements that each rank exposes.
    exposed: &'scope [u64],
    held: Held,
    // Invariant, as in `std::thread::Scope`: neither lifetime may be shortened.
    scope: PhantomData<&'scope mut &'scope ()>,
    buffers: PhantomData<&'buffers mut &'buffers ()>,
    element: PhantomData<T>,
}

/// Which locks an epoch holds.
#[derive(Debug)]
enum Held {
    All,
    Ranks(RefCell<Vec<c_int>>),
}

impl<T: Element> Window<'_, T> {
    /// Opens an epoch to every rank, with shared locks, for the time of `body`. Blocking at its end,
    /// until all operations are complete; `MPI_Win_lock_all`, `MPI_Win_unlock_all`.
    ///
    /// # Errors
    ///
    /// The error of `body`, else the MPI error.
    pub fn lock_all<'buffers, F, R>(&self, assertion: Assertion, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope PassiveEpoch<'scope, 'buffers, T>) -> Result<R>,
    {
        // SAFETY: the window is valid and no other epoch of this process is open on it: MPI reports
        // one that is.
        unsafe { mpi!(MPI_Win_lock_all(assertion.as_raw(), self.as_raw()))? };
        self.run(Held::All, body)
    }

    /// Opens an epoch to one rank for the time of `body`. Blocking at its end, until all operations are
    /// complete; `MPI_Win_lock`, `MPI_Win_unlock`.
    ///
    /// # Errors
    ///
    /// The error of `body`, else the MPI error, for example for a rank that is not in the window.
    pub fn lock<'buffers, F, R>(
        &self,
        kind: LockKind,
        rank: usize,
        assertion: Assertion,
        body: F,
    ) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope PassiveEpoch<'scope, 'buffers, T>) -> Result<R>,
    {
        self.locks(|epoch| {
            epoch.lock(kind, rank, assertion)?;
            body(epoch)
        })
    }

    /// A scope in which ranks are locked one by one with [`PassiveEpoch::lock`], and stay locked until
    /// its end, which unlocks them in the same order: paper R's algorithm 2. `MPI_Win_lock`,
    /// `MPI_Win_unlock`.
    ///
    /// # Errors
    ///
    /// The error of `body`, else the MPI error.
    pub fn locks<'buffers, F, R>(&self, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope PassiveEpoch<'scope, 'buffers, T>) -> Result<R>,
    {
        self.run(Held::Ranks(RefCell::new(Vec::new())), body)
    }

    fn run<'buffers, F, R>(&self, held: Held, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope PassiveEpoch<'scope, 'buffers, T>) -> Result<R>,
    {
        let epoch = PassiveEpoch {
            window: self.as_raw(),
            exposed: self.exposed(),
            held,
            scope: PhantomData,
            buffers: PhantomData,
            element: PhantomData,
        };
        let guard = AbortOnPanic(self.inner());
        let result = body(&epoch);
        std::mem::forget(guard);
        let closed = close(self, &epoch.held);
        if let Err(error) = &closed {
            // An operation may still be going on: the buffers can't be trusted, nor the window freed.
            self.inner()
                .mark_failed(format!("an epoch could not be closed: {error}"));
        }
        let value = result?;
        closed.map(|()| value)
    }
}

fn close<T: Element>(window: &Window<'_, T>, held: &Held) -> Result<()> {
    match held {
        // SAFETY: the epoch was opened by `lock_all` and is closed once.
        Held::All => unsafe { mpi!(MPI_Win_unlock_all(window.as_raw())) },
        Held::Ranks(ranks) => {
            let mut first_error = Ok(());
            for &rank in &*ranks.borrow() {
                // SAFETY: the rank was locked in this epoch and is unlocked once.
                let unlocked = unsafe { mpi!(MPI_Win_unlock(rank, window.as_raw())) };
                first_error = first_error.and(unlocked);
            }
            first_error
        }
    }
}

impl<'scope, 'buffers, T: Element> PassiveEpoch<'scope, 'buffers, T> {
    /// Locks one more rank until the scope ends. Blocks unless [`Assertion::NoCheck`]; `MPI_Win_lock`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] in an epoch of `lock_all`, or for a rank that is locked already; the MPI
    /// error otherwise.
    pub fn lock(&'scope self, kind: LockKind, rank: usize, assertion: Assertion) -> Result<()> {
        const CALL: &str = "MPI_Win_lock";
        let raw = int(CALL, "rank", rank)?;
        let Held::Ranks(ranks) = &self.held else {
            return Err(Error::argument(
                CALL,
                "rank",
                rank,
                "no rank: lock_all holds every lock",
            ));
        };
        if ranks.borrow().contains(&raw) {
            return Err(Error::argument(
                CALL,
                "rank",
                rank,
                "one that is not locked already",
            ));
        }
        // SAFETY: the window is valid and the rank is not locked by this process.
        unsafe {
            mpi!(MPI_Win_lock(
                kind.as_raw(),
                raw,
                assertion.as_raw(),
                self.window
            ))?
        };
        ranks.borrow_mut().push(raw);
        Ok(())
    }

    /// Reads `destination.len()` elements at `displacement` (in elements) of a rank's memory. The data
    /// is there when the scope has ended. `MPI_Get`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a rank that is not locked; the MPI error otherwise.
    pub fn get(
        &'scope self,
        destination: &'buffers mut [T],
        rank: usize,
        displacement: u64,
    ) -> Result<()> {
        let (rank, displacement) = self.place("MPI_Get", rank, displacement, destination.len())?;
        // SAFETY: the destination is borrowed exclusively beyond the scope, whose end completes the
        // operation; rank and range were checked against what is exposed.
        unsafe {
            mpi_count!(MPI_Get | MPI_Get_c, destination.len(), |count| (
                destination.as_mut_ptr().cast(),
                count,
                raw_of::<T>(),
                rank,
                displacement,
                count,
                raw_of::<T>(),
                self.window
            ))
        }
    }

    /// As [`PassiveEpoch::get`], with a request that tells when the data is there. `MPI_Rget`.
    ///
    /// # Errors
    ///
    /// As for [`PassiveEpoch::get`].
    pub fn rget(
        &'scope self,
        destination: &'buffers mut [T],
        rank: usize,
        displacement: u64,
    ) -> Result<Request<'scope>> {
        let (rank, displacement) = self.place("MPI_Rget", rank, displacement, destination.len())?;
        let mut request = sys::MALLEUS_REQUEST_NULL;
        // SAFETY: as for `get`; a request that is forgotten completes at the scope's end all the same.
        unsafe {
            mpi_count!(MPI_Rget | MPI_Rget_c, destination.len(), |count| (
                destination.as_mut_ptr().cast(),
                count,
                raw_of::<T>(),
                rank,
                displacement,
                count,
                raw_of::<T>(),
                self.window,
                &raw mut request
            ))?;
        }
        Ok(Request::in_scope(request))
    }

    fn place(
        &self,
        operation: &'static str,
        rank: usize,
        displacement: u64,
        count: usize,
    ) -> Result<(c_int, sys::MPI_Aint)> {
        let raw = int(operation, "rank", rank)?;
        let Some(&exposed) = self.exposed.get(rank) else {
            let ranks = self.exposed.len();
            return Err(Error::argument(
                operation,
                "rank",
                rank,
                format!("less than {ranks}"),
            ));
        };
        let end = displacement.checked_add(count as u64);
        if count > 0 && end.is_none_or(|end| end > exposed) {
            let found = format!("{displacement}, for {count} elements");
            let expected = format!("inside the {exposed} that rank {rank} exposes");
            return Err(Error::argument(operation, "displacement", found, expected));
        }
        if let Held::Ranks(ranks) = &self.held
            && !ranks.borrow().contains(&raw)
        {
            return Err(Error::argument(
                operation,
                "rank",
                rank,
                "a rank that is locked in this epoch",
            ));
        }
        Ok((raw, address(operation, "displacement", displacement)?))
    }
}
