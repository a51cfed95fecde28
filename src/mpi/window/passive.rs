//! Passive target epochs: lock, `lock_all`, flush and sync (MPI standard, chapter 12.5.3 and 12.5.4).

use std::cell::RefCell;
use std::ffi::c_int;
use std::ops::Deref;

use super::create::Window;
use super::epoch::{Epoch, Reach};
use crate::mpi::datatype::Element;
use crate::mpi::error::{Error, Result, mpi};
use crate::sys;

/// Who else may hold the lock of a rank at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// `MPI_LOCK_SHARED`: others with a shared lock.
    Shared,
    /// `MPI_LOCK_EXCLUSIVE`: nobody.
    Exclusive,
}

/// What the caller promises about the ranks that an access epoch addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assertion {
    /// Nothing: MPI acquires the lock, or waits for the matching post.
    #[default]
    None,
    /// `MPI_MODE_NOCHECK`. For a lock: nobody holds or asks for a conflicting one, so none needs to be acquired;
    /// it removes a round in which the exposed rank takes part. For [`Window::start`]: all matching posts have
    /// been made, with [`super::PostAssertion::NO_CHECK`].
    NoCheck,
}

impl Assertion {
    pub(super) fn as_raw(self) -> c_int {
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

/// An open passive target epoch. Besides the operations of every [`Epoch`], it has those with requests, and may
/// complete operations before its end.
#[derive(Debug)]
pub struct PassiveEpoch<'scope, 'buffers, T: Element> {
    epoch: Epoch<'scope, 'buffers, T>,
}

impl<'scope, 'buffers, T: Element> Deref for PassiveEpoch<'scope, 'buffers, T> {
    type Target = Epoch<'scope, 'buffers, T>;

    fn deref(&self) -> &Self::Target {
        &self.epoch
    }
}

impl<T: Element> Window<T> {
    /// Opens an epoch to every rank, with shared locks, for the time of `body`. Blocking at its end,
    /// until all operations are complete; `MPI_Win_lock_all`, `MPI_Win_unlock_all`.
    ///
    /// # Errors
    ///
    /// [`Error::State`] while another epoch is open; the error of `body`, else the MPI error.
    pub fn lock_all<'buffers, F, R>(&self, assertion: Assertion, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope PassiveEpoch<'scope, 'buffers, T>) -> Result<R>,
    {
        let open = self.with_access("MPI_Win_lock_all")?;
        // SAFETY: the window is valid and no other epoch of this process is open on it.
        unsafe { mpi!(MPI_Win_lock_all(assertion.as_raw(), self.as_raw()))? };
        let epoch = PassiveEpoch {
            epoch: Epoch::new(self, Reach::All),
        };
        self.run(
            open,
            || body(&epoch),
            // SAFETY: the epoch was opened above and is closed once.
            || unsafe { mpi!(MPI_Win_unlock_all(self.as_raw())) },
        )
    }

    /// Opens an epoch to one rank for the time of `body`. Blocking at its end, until all operations are
    /// complete; `MPI_Win_lock`, `MPI_Win_unlock`.
    ///
    /// # Errors
    ///
    /// [`Error::State`] while another epoch is open; [`Error::Argument`] for a rank that is not in the window; the
    /// error of `body`, else the MPI error.
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
    /// [`Error::State`] while another epoch is open; the error of `body`, else the MPI error.
    pub fn locks<'buffers, F, R>(&self, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope PassiveEpoch<'scope, 'buffers, T>) -> Result<R>,
    {
        let open = self.with_access("MPI_Win_lock")?;
        let epoch = PassiveEpoch {
            epoch: Epoch::new(self, Reach::Locked(RefCell::new(Vec::new()))),
        };
        self.run(open, || body(&epoch), || epoch.unlock_each())
    }
}

impl<'scope, T: Element> PassiveEpoch<'scope, '_, T> {
    /// Locks one more rank until the scope ends. Blocks unless [`Assertion::NoCheck`]; `MPI_Win_lock`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] in an epoch of `lock_all`, or for a rank that is locked already or is not in the
    /// window; the MPI error otherwise.
    pub fn lock(&'scope self, kind: LockKind, rank: usize, assertion: Assertion) -> Result<()> {
        const CALL: &str = "MPI_Win_lock";
        let refused = |expected| Err(Error::argument(CALL, "rank", rank, expected));
        let Reach::Locked(ranks) = &self.reach else {
            return refused("no rank: lock_all holds every lock");
        };
        if self.reached(CALL, rank).is_ok() {
            return refused("one that is not locked already");
        }
        self.window.check_rank(CALL, rank)?;
        let raw = crate::mpi::datatype::int(CALL, "rank", rank)?;
        // SAFETY: the window is valid and the rank is not locked by this process.
        unsafe {
            mpi!(MPI_Win_lock(
                kind.as_raw(),
                raw,
                assertion.as_raw(),
                self.window.as_raw()
            ))?
        };
        ranks.borrow_mut().push(raw);
        Ok(())
    }

    fn unlock_each(&self) -> Result<()> {
        let Reach::Locked(ranks) = &self.reach else {
            return Ok(());
        };
        let mut first_error = Ok(());
        for rank in ranks.take() {
            // SAFETY: the rank was locked in this epoch and is unlocked once.
            let unlocked = unsafe { mpi!(MPI_Win_unlock(rank, self.window.as_raw())) };
            first_error = first_error.and(unlocked);
        }
        first_error
    }

    /// Completes all operations on a rank, here and there. Blocking; `MPI_Win_flush`. Their buffers stay
    /// borrowed until the scope ends.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a rank that is not locked; the MPI error otherwise.
    pub fn flush(&self, rank: usize) -> Result<()> {
        let rank = self.reached("MPI_Win_flush", rank)?;
        // SAFETY: the rank is locked.
        unsafe { mpi!(MPI_Win_flush(rank, self.window.as_raw())) }
    }

    /// Completes all operations, here and there. Blocking; `MPI_Win_flush_all`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn flush_all(&self) -> Result<()> {
        // SAFETY: a passive target epoch is open.
        unsafe { mpi!(MPI_Win_flush_all(self.window.as_raw())) }
    }

    /// Completes all operations on a rank here: what was put may still be on its way. Blocking;
    /// `MPI_Win_flush_local`.
    ///
    /// # Errors
    ///
    /// As for [`PassiveEpoch::flush`].
    pub fn flush_local(&self, rank: usize) -> Result<()> {
        let rank = self.reached("MPI_Win_flush_local", rank)?;
        // SAFETY: the rank is locked.
        unsafe { mpi!(MPI_Win_flush_local(rank, self.window.as_raw())) }
    }

    /// Completes all operations here. Blocking; `MPI_Win_flush_local_all`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn flush_local_all(&self) -> Result<()> {
        // SAFETY: a passive target epoch is open.
        unsafe { mpi!(MPI_Win_flush_local_all(self.window.as_raw())) }
    }

    /// Orders this process's loads and stores of exposed memory with what others do to it. Local;
    /// `MPI_Win_sync`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn sync(&self) -> Result<()> {
        // SAFETY: a passive target epoch is open.
        unsafe { mpi!(MPI_Win_sync(self.window.as_raw())) }
    }
}
