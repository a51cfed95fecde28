//! What the threads of a process may do with MPI (MPI standard, chapter 11.6).
//!
//! Handles stay on their thread: none is `Send`. The one way to use MPI on another thread is a
//! [`ThreadCommunicator`], and the one way to get it is the [`Multiple`] token, which exists where MPI
//! granted `MPI_THREAD_MULTIPLE`.
//!
//! ```no_run
//! # fn main() -> malleus::mpi::Result<()> {
//! use malleus::mpi::{Environment, Operation};
//!
//! let environment = Environment::init()?;
//! if let Some(multiple) = environment.multiple() {
//!     let background = environment.world().for_thread(&multiple)?;
//!     let helper = std::thread::spawn(move || {
//!         let sum = background.communicator().all_reduce(&mut [1_u64], Operation::Sum);
//!         (background, sum)
//!     });
//!     // MPI calls on other communicators go on here.
//!     let (background, sum) = helper.join().expect("the helper does not panic");
//!     sum?;
//!     background.free()?;
//! }
//! environment.finalize()
//! # }
//! ```

use std::ffi::c_int;
use std::marker::PhantomData;

use super::communicator::Communicator;
use super::environment::Environment;
use super::error::Result;
use crate::sys;

/// What the threads of a process may do with MPI (`MPI_THREAD_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    /// `MPI_THREAD_SINGLE`: there is only one thread.
    Single,
    /// `MPI_THREAD_FUNNELED`: only the thread that initialized MPI calls it.
    Funneled,
    /// `MPI_THREAD_SERIALIZED`: one thread at a time.
    Serialized,
    /// `MPI_THREAD_MULTIPLE`: any thread at any time.
    Multiple,
}

impl ThreadLevel {
    const ALL: [Self; 4] = [
        Self::Single,
        Self::Funneled,
        Self::Serialized,
        Self::Multiple,
    ];

    pub(super) fn as_raw(self) -> c_int {
        let raw = match self {
            Self::Single => sys::MPI_THREAD_SINGLE,
            Self::Funneled => sys::MPI_THREAD_FUNNELED,
            Self::Serialized => sys::MPI_THREAD_SERIALIZED,
            Self::Multiple => sys::MPI_THREAD_MULTIPLE,
        };
        raw as c_int
    }

    pub(super) fn from_raw(raw: c_int) -> Self {
        Self::ALL
            .into_iter()
            .find(|level| level.as_raw() == raw)
            .unwrap_or(Self::Single)
    }

    /// The standard's name of the level.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "MPI_THREAD_SINGLE",
            Self::Funneled => "MPI_THREAD_FUNNELED",
            Self::Serialized => "MPI_THREAD_SERIALIZED",
            Self::Multiple => "MPI_THREAD_MULTIPLE",
        }
    }
}

/// The proof that MPI granted `MPI_THREAD_MULTIPLE`: [`Environment::multiple`] gives it.
#[derive(Clone, Copy, Debug)]
pub struct Multiple<'environment> {
    environment: PhantomData<(&'environment Environment, *const ())>,
}

impl Environment {
    /// The token for what needs `MPI_THREAD_MULTIPLE`; `None` where MPI granted less.
    #[must_use]
    pub fn multiple(&self) -> Option<Multiple<'_>> {
        (self.thread_level() == ThreadLevel::Multiple).then_some(Multiple {
            environment: PhantomData,
        })
    }
}

/// A communicator that may move to another thread, and what is made from it there stays there.
///
/// It has to be freed, on any thread, before the environment ends on the thread that initialized MPI:
/// until then [`Environment::finalize`] returns an error. Dropping it marks the environment failed, as for
/// [`Communicator`].
#[derive(Debug)]
pub struct ThreadCommunicator(Communicator);

// SAFETY: MPI's thread level is MPI_THREAD_MULTIPLE, under which any thread may make any call. The
// handle that is moved is counted atomically, and what it shares with other handles is never written.
unsafe impl Send for ThreadCommunicator {}

impl Communicator {
    /// A duplicate that may move to another thread. Collective; `MPI_Comm_dup`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn for_thread(&self, _multiple: &Multiple<'_>) -> Result<ThreadCommunicator> {
        self.duplicate().map(ThreadCommunicator)
    }
}

impl ThreadCommunicator {
    /// The communicator, for calls on the thread where it is now.
    #[must_use]
    pub fn communicator(&self) -> &Communicator {
        &self.0
    }

    /// Keeps the communicator on the thread where it is now.
    #[must_use]
    pub fn into_communicator(self) -> Communicator {
        self.0
    }

    /// Frees the communicator. Collective; `MPI_Comm_free`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::free`].
    pub fn free(self) -> Result<()> {
        self.0.free()
    }
}
