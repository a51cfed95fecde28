//! What all epochs have in common: one at a time, closed whatever happens inside, and a place to check whom an
//! operation may address (MPI standard, chapter 12.5).

use std::cell::RefCell;
use std::ffi::c_int;
use std::marker::PhantomData;

use super::create::Window;
use crate::mpi::datatype::{Element, int};
use crate::mpi::error::{Error, Result};
use crate::mpi::request::AbortOnPanic;
use crate::sys;

/// Calls an operation on as many elements at the exposed rank as there are here, in each of its local buffers:
/// the `int` function where the count fits, else the `_c` one.
macro_rules! transfer {
    ($small:ident | $large:ident, $slice:ident.len(), [$($pointer:expr),+], $datatype:expr,
        ($rank:expr, $displacement:expr), [$($rest:expr),+ $(,)?] $(,)?) => {
        mpi_count!($small | $large, $slice.len(), |count| (
            $($pointer, count, $datatype,)+ $rank, $displacement, count, $datatype, $($rest),+
        ))
    };
}

pub(super) use transfer;

/// Whom an operation addresses: a rank of the window, or nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExposedRank {
    /// A rank of the window.
    Rank(usize),
    /// `MPI_PROC_NULL`: the operation moves nothing.
    Null,
}

/// `MPI_PROC_NULL`: an operation that addresses it moves nothing.
pub const PROC_NULL: ExposedRank = ExposedRank::Null;

impl From<usize> for ExposedRank {
    fn from(rank: usize) -> Self {
        Self::Rank(rank)
    }
}

/// `None`, as of a neighbour beyond the edge of a grid, is `MPI_PROC_NULL`.
impl From<Option<usize>> for ExposedRank {
    fn from(rank: Option<usize>) -> Self {
        rank.map_or(Self::Null, Self::Rank)
    }
}

/// Which epochs this process has open on a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    Nothing,
    /// An epoch in which it accesses others, or both sides of a fence.
    Access,
    /// An epoch in which the ranks of a group access it.
    Exposure,
    /// An access epoch of start and complete inside an exposure epoch.
    ExposureAndAccess,
}

/// Which ranks may be addressed.
#[derive(Debug)]
pub(super) enum Reach {
    All,
    /// Those that are locked.
    Locked(RefCell<Vec<c_int>>),
    /// Those of the group that the epoch was started for.
    Group(Vec<c_int>),
}

/// An open access epoch, of whatever kind. Its operations are complete when its scope has ended; buffers are
/// borrowed until then. Displacements are in elements; in a dynamic window they are addresses
/// ([`super::Region::displacement`]).
///
/// Every operation refuses, before MPI is called, a rank that is not in the window or that the epoch does not
/// reach, and a range that the rank does not expose ([`Error::Argument`]). One on [`PROC_NULL`] moves nothing.
#[derive(Debug)]
pub struct Epoch<'scope, 'buffers, T: Element> {
    pub(super) window: &'scope Window<T>,
    pub(super) reach: Reach,
    // Invariant, as in `std::thread::Scope`: neither lifetime may be shortened.
    scope: PhantomData<&'scope mut &'scope ()>,
    buffers: PhantomData<&'buffers mut &'buffers ()>,
}

impl<'scope, T: Element> Epoch<'scope, '_, T> {
    pub(super) fn new(window: &'scope Window<T>, reach: Reach) -> Self {
        Self {
            window,
            reach,
            scope: PhantomData,
            buffers: PhantomData,
        }
    }

    /// The rank as MPI wants it, if it is in the window and the epoch reaches it.
    #[inline]
    pub(super) fn reached(&self, operation: &'static str, rank: usize) -> Result<c_int> {
        self.window.check_rank(operation, rank)?;
        let raw = int(operation, "rank", rank)?;
        let expected = match &self.reach {
            Reach::Locked(ranks) if !ranks.borrow().contains(&raw) => {
                "a rank that is locked in this epoch"
            }
            Reach::Group(ranks) if !ranks.contains(&raw) => {
                "a rank of the group that the epoch was started for"
            }
            _ => return Ok(raw),
        };
        Err(Error::argument(operation, "rank", rank, expected))
    }

    /// Checks that an operation on `extent` elements may go ahead: rank and displacement as MPI wants them.
    #[inline]
    pub(super) fn place(
        &self,
        operation: &'static str,
        rank: ExposedRank,
        displacement: u64,
        extent: u64,
    ) -> Result<(c_int, sys::MPI_Aint)> {
        let ExposedRank::Rank(rank) = rank else {
            return Ok((sys::MPI_PROC_NULL as c_int, 0));
        };
        let raw = self.reached(operation, rank)?;
        let displacement = self
            .window
            .bounds
            .check::<T>(operation, rank, displacement, extent)?;
        Ok((raw, displacement))
    }
}

impl<T: Element> Window<T> {
    #[inline]
    pub(super) fn check_rank(&self, operation: &'static str, rank: usize) -> Result<()> {
        if rank < self.size() {
            Ok(())
        } else {
            Err(self.no_rank(operation, rank))
        }
    }

    #[cold]
    fn no_rank(&self, operation: &'static str, rank: usize) -> Error {
        let expected = format!("a rank of the window, below {}", self.size());
        Error::argument(operation, "rank", rank, expected)
    }

    /// What will be open with one more access epoch, unless another one is open.
    pub(super) fn with_access(&self, operation: &'static str) -> Result<Open> {
        match self.open.get() {
            Open::Nothing => Ok(Open::Access),
            open => Err(refused(operation, open)),
        }
    }

    /// The same for an access epoch that an exposure epoch may surround.
    pub(super) fn with_started_access(&self, operation: &'static str) -> Result<Open> {
        match self.open.get() {
            Open::Exposure => Ok(Open::ExposureAndAccess),
            _ => self.with_access(operation),
        }
    }

    /// What will be open with an exposure epoch, unless another epoch is open.
    pub(super) fn with_exposure(&self, operation: &'static str) -> Result<Open> {
        match self.open.get() {
            Open::Nothing => Ok(Open::Exposure),
            open => Err(refused(operation, open)),
        }
    }

    /// Runs `body` in an epoch that is open, and closes it.
    ///
    /// The job is aborted if `body` panics or if the epoch can't be closed: the buffers can't be given back
    /// while MPI may use them.
    pub(super) fn run<R>(
        &self,
        open: Open,
        body: impl FnOnce() -> Result<R>,
        close: impl FnOnce() -> Result<()>,
    ) -> Result<R> {
        let before = self.open.replace(open);
        let guard = AbortOnPanic(self.inner());
        let result = body();
        if let Err(error) = close() {
            self.left_open(&error);
        }
        std::mem::forget(guard);
        self.open.set(before);
        result
    }

    #[cold]
    fn left_open(&self, error: &Error) -> ! {
        self.inner()
            .abort(&format!("an epoch can't be closed: {error}"), 1)
    }
}

#[cold]
fn refused(operation: &'static str, open: Open) -> Error {
    let reason = match open {
        Open::Exposure => "the window is exposed by post: inside, only start can open an epoch",
        _ => "an epoch is already open on the window in this process",
    };
    Error::state(operation, reason)
}
