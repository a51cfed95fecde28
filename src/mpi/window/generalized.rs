//! Epochs between groups of processes: start and complete, post and wait (MPI standard, chapter 12.5.2).

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ops::{BitOr, Deref};

use super::bounds::Bounds;
use super::create::Window;
use super::epoch::{Epoch, Reach};
use super::passive::Assertion;
use crate::mpi::datatype::{Element, int};
use crate::mpi::error::{Error, Result, mpi};
use crate::mpi::group::Group;
use crate::sys;

/// What a process promises when it exposes its memory; combined with `|`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PostAssertion(c_int);

impl PostAssertion {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// `MPI_MODE_NOCHECK`: no matching start has been made yet, and all are made with
    /// [`Assertion::NoCheck`].
    pub const NO_CHECK: Self = Self(sys::MPI_MODE_NOCHECK as c_int);
    /// `MPI_MODE_NOSTORE`: this process did not write its exposed memory since the last synchronization.
    pub const NO_STORE: Self = Self(sys::MPI_MODE_NOSTORE as c_int);
    /// `MPI_MODE_NOPUT`: nobody puts to or accumulates in this process's memory in the epoch.
    pub const NO_PUT: Self = Self(sys::MPI_MODE_NOPUT as c_int);
}

impl BitOr for PostAssertion {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// An access epoch to the ranks of a group.
#[derive(Debug)]
pub struct StartedEpoch<'scope, 'buffers, T: Element> {
    epoch: Epoch<'scope, 'buffers, T>,
}

impl<'scope, 'buffers, T: Element> Deref for StartedEpoch<'scope, 'buffers, T> {
    type Target = Epoch<'scope, 'buffers, T>;

    fn deref(&self) -> &Self::Target {
        &self.epoch
    }
}

/// An epoch in which the ranks of a group may access this process's memory.
#[derive(Debug)]
pub struct ExposureEpoch<'scope> {
    window: sys::MPI_Win,
    over: Cell<bool>,
    scope: PhantomData<(&'scope mut &'scope (), *const ())>,
}

impl<T: Element> Window<T> {
    /// Opens an access epoch to the ranks of a group for the time of `body`. It may stand inside the scope of
    /// [`Window::post`]: a process can be origin and exposed at once. Blocking at either end until the ranks have
    /// made their matching posts, and until all operations are complete here; `MPI_Win_start`,
    /// `MPI_Win_complete`, unless the group is empty.
    ///
    /// MPICH 4.2.3 counts the posts that arrive without a look at who they come from. So a process must not post
    /// for a later epoch of this one while another post is awaited: between rounds with other groups, put a
    /// barrier. An empty group would wait for ever if such a post came early, which is why it makes no call.
    ///
    /// # Errors
    ///
    /// [`Error::State`] while another access epoch is open; [`Error::Argument`] for a group with processes that
    /// are not in the window, or for [`Assertion::NoCheck`] on a dynamic window, where a promise that is broken
    /// could reach memory that was detached; the error of `body`, else the MPI error.
    pub fn start<'buffers, F, R>(&self, group: &Group, assertion: Assertion, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope StartedEpoch<'scope, 'buffers, T>) -> Result<R>,
    {
        const CALL: &str = "MPI_Win_start";
        let open = self.with_started_access(CALL)?;
        if matches!(self.bounds, Bounds::Regions(_)) && assertion == Assertion::NoCheck {
            return Err(Error::argument(
                CALL,
                "assertion",
                "NoCheck on a dynamic window",
                "None",
            ));
        }
        let ranks = self.ranks_of(CALL, group)?;
        let nobody = ranks.is_empty();
        if !nobody {
            // SAFETY: the window is valid, no access epoch of this process is open on it, and the group is a
            // part of the window's.
            unsafe {
                mpi!(MPI_Win_start(
                    group.as_raw(),
                    assertion.as_raw(),
                    self.as_raw()
                ))?;
            }
        }
        let epoch = StartedEpoch {
            epoch: Epoch::new(self, Reach::Group(ranks)),
        };
        self.run(
            open,
            || body(&epoch),
            || {
                if nobody {
                    return Ok(());
                }
                // SAFETY: the epoch was opened above and is closed once.
                unsafe { mpi!(MPI_Win_complete(self.as_raw())) }
            },
        )
    }

    /// Exposes this process's memory to the ranks of a group for the time of `body`. Blocking at its end until
    /// they have closed their matching epochs, and all their operations are complete; `MPI_Win_post`,
    /// `MPI_Win_wait`.
    ///
    /// # Errors
    ///
    /// [`Error::State`] while another epoch is open: post goes around start, not inside; [`Error::Argument`] for
    /// a group with processes that are not in the window; the error of `body`, else the MPI error.
    pub fn post<F, R>(&self, group: &Group, assertion: PostAssertion, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope ExposureEpoch<'scope>) -> Result<R>,
    {
        const CALL: &str = "MPI_Win_post";
        let open = self.with_exposure(CALL)?;
        self.ranks_of(CALL, group)?;
        // SAFETY: the window is valid, no epoch of this process is open on it, and the group is a part of the
        // window's.
        unsafe { mpi!(MPI_Win_post(group.as_raw(), assertion.0, self.as_raw()))? };
        let exposure = ExposureEpoch {
            window: self.as_raw(),
            over: Cell::new(false),
            scope: PhantomData,
        };
        self.run(
            open,
            || body(&exposure),
            || {
                if exposure.over.get() {
                    return Ok(());
                }
                // SAFETY: the exposure epoch was opened above and has not ended.
                unsafe { mpi!(MPI_Win_wait(self.as_raw())) }
            },
        )
    }

    /// The ranks in the window of a group's processes.
    fn ranks_of(&self, operation: &'static str, group: &Group) -> Result<Vec<c_int>> {
        let all = self.group()?;
        let count = int(operation, "group", group.size()?)?;
        let own: Vec<c_int> = (0..count).collect();
        let mut ranks = vec![0; own.len()];
        // SAFETY: both groups are valid, and both lists hold one integer for each process of the group.
        unsafe {
            mpi!(MPI_Group_translate_ranks(
                group.as_raw(),
                count,
                own.as_ptr(),
                all.as_raw(),
                ranks.as_mut_ptr()
            ))?;
        }
        if ranks.contains(&(sys::MPI_UNDEFINED as c_int)) {
            return Err(Error::argument(
                operation,
                "group",
                "one with processes that are not in the window",
                "a part of the window's",
            ));
        }
        Ok(ranks)
    }
}

impl ExposureEpoch<'_> {
    /// Whether the ranks of the group have closed their epochs, and all their operations are complete. Local;
    /// `MPI_Win_test`. True again once it was.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn test(&self) -> Result<bool> {
        if self.over.get() {
            return Ok(true);
        }
        let mut flag: c_int = 0;
        // SAFETY: the exposure epoch is open.
        unsafe { mpi!(MPI_Win_test(self.window, &raw mut flag))? };
        self.over.set(flag != 0);
        Ok(flag != 0)
    }
}
