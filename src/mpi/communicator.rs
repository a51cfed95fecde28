//! Communicators (MPI standard, chapter 7).

use std::ffi::c_int;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::datatype::{int, unsigned};
use super::environment::{Environment, Inner};
use super::error::{Error, Result, mpi};
use super::group::Group;
use crate::sys;

/// A communicator. Clones are counted handles to the same one, as the standard's handles are.
///
/// [`Communicator::free`] on every rank is the normal end. Dropping the last handle of a communicator
/// that was created frees nothing, since the others may not join: it leaves the communicator behind and
/// marks the environment failed, whose end then aborts the job.
#[derive(Clone)]
pub struct Communicator {
    handle: Arc<Handle>,
    on_its_thread: PhantomData<*const ()>,
}

struct Handle {
    raw: sys::MPI_Comm,
    predefined: bool,
    environment: Arc<Inner>,
}

impl Communicator {
    pub(super) fn predefined(raw: sys::MPI_Comm, environment: &Environment) -> Self {
        Self::new(raw, true, &environment.inner)
    }

    fn new(raw: sys::MPI_Comm, predefined: bool, environment: &Arc<Inner>) -> Self {
        Self {
            handle: Arc::new(Handle {
                raw,
                predefined,
                environment: Arc::clone(environment),
            }),
            on_its_thread: PhantomData,
        }
    }

    /// Takes over a communicator that an MPI call has just created.
    pub(super) fn adopt(raw: sys::MPI_Comm, environment: &Arc<Inner>) -> Result<Self> {
        // SAFETY: `raw` is a communicator that the caller owns.
        unsafe { mpi!(MPI_Comm_set_errhandler(raw, sys::MALLEUS_ERRORS_RETURN))? };
        Ok(Self::new(raw, false, environment))
    }

    /// The environment that the communicator belongs to.
    #[must_use]
    pub fn environment(&self) -> Environment {
        Environment::from_inner(Arc::clone(&self.handle.environment))
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.handle.environment
    }

    /// The raw handle, for calls through [`crate::sys`]. It stays owned by this communicator.
    #[must_use]
    pub fn as_raw(&self) -> sys::MPI_Comm {
        self.handle.raw
    }

    /// How many handles to this communicator exist in this process.
    #[must_use]
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.handle)
    }

    /// Rank of this process. Local; `MPI_Comm_rank`.
    #[must_use]
    pub fn rank(&self) -> usize {
        let mut rank: c_int = 0;
        // SAFETY: the communicator is valid as long as its handle lives. The call can't fail then.
        unsafe { mpi!(MPI_Comm_rank(self.as_raw(), &raw mut rank)) }.expect("a valid communicator");
        unsigned(rank)
    }

    /// Number of processes. Local; `MPI_Comm_size`.
    #[must_use]
    pub fn size(&self) -> usize {
        let mut size: c_int = 0;
        // SAFETY: the communicator is valid as long as its handle lives. The call can't fail then.
        unsafe { mpi!(MPI_Comm_size(self.as_raw(), &raw mut size)) }.expect("a valid communicator");
        unsigned(size)
    }

    /// A new communicator of the same processes. Collective; `MPI_Comm_dup`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn duplicate(&self) -> Result<Self> {
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: the communicator is valid.
        unsafe { mpi!(MPI_Comm_dup(self.as_raw(), &raw mut raw))? };
        Self::adopt(raw, self.inner())
    }

    /// One new communicator per colour; ranks ordered by key, then by old rank. `None` as colour takes
    /// part in none. Collective; `MPI_Comm_split`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a colour beyond `int`; the MPI error otherwise.
    pub fn split(&self, color: Option<usize>, key: usize) -> Result<Option<Self>> {
        let color = match color {
            Some(color) => int("MPI_Comm_split", "color", color)?,
            None => sys::MPI_UNDEFINED as c_int,
        };
        let key = int("MPI_Comm_split", "key", key)?;
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: the communicator is valid.
        unsafe { mpi!(MPI_Comm_split(self.as_raw(), color, key, &raw mut raw))? };
        self.adopt_unless_null(raw)
    }

    /// The processes that can share memory with this one. Collective; `MPI_Comm_split_type` with
    /// `MPI_COMM_TYPE_SHARED`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn split_shared(&self) -> Result<Self> {
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: the communicator is valid, MPI_INFO_NULL is allowed.
        unsafe {
            mpi!(MPI_Comm_split_type(
                self.as_raw(),
                sys::MPI_COMM_TYPE_SHARED as c_int,
                0,
                sys::MALLEUS_INFO_NULL,
                &raw mut raw
            ))?;
        }
        Self::adopt(raw, self.inner())
    }

    /// A communicator of a part of these processes, made by that part alone. Collective over the
    /// group; `MPI_Comm_create_group`.
    ///
    /// # Errors
    ///
    /// The MPI error, among others where this process is not in the group.
    pub fn create_group(&self, group: &Group, tag: i32) -> Result<Self> {
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: communicator and group are valid.
        unsafe {
            mpi!(MPI_Comm_create_group(
                self.as_raw(),
                group.as_raw(),
                tag,
                &raw mut raw
            ))?
        };
        self.adopt_unless_null(raw)?.ok_or_else(|| {
            Error::argument(
                "MPI_Comm_create_group",
                "group",
                "a group without this process",
                "one with it",
            )
        })
    }

    /// The processes of this communicator. Local; `MPI_Comm_group`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn group(&self) -> Result<Group> {
        let mut raw = sys::MALLEUS_GROUP_NULL;
        // SAFETY: the communicator is valid.
        unsafe { mpi!(MPI_Comm_group(self.as_raw(), &raw mut raw))? };
        Ok(Group::adopt(raw, self.inner()))
    }

    /// Lets MPI move on, for a process that waits for something else while others still wait for what it has
    /// sent: providers such as sockets deliver only inside MPI calls. Local; `MPI_Iprobe`.
    pub(crate) fn progress(&self) -> Result<()> {
        let mut found: c_int = 0;
        // SAFETY: the communicator is valid; a message that is found stays where it is.
        unsafe {
            mpi!(MPI_Iprobe(
                sys::MPI_ANY_SOURCE as c_int,
                sys::MPI_ANY_TAG as c_int,
                self.as_raw(),
                &raw mut found,
                sys::status_ignore()
            ))
        }
    }

    /// Frees the communicator. Collective; `MPI_Comm_free`.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`] while another handle to it lives; [`Error::Argument`] for a predefined one; the
    /// MPI error otherwise.
    pub fn free(self) -> Result<()> {
        let mut raw = self.into_raw("MPI_Comm_free")?;
        // SAFETY: the last handle gave its communicator away: nothing uses it any more.
        unsafe { mpi!(MPI_Comm_free(&raw mut raw)) }
    }

    /// Waits for all communication on the communicator and frees it, so that its processes may be
    /// unconnected afterwards. Collective; `MPI_Barrier`, since MPICH's disconnect does not wait, and
    /// `MPI_Comm_disconnect`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::free`].
    pub fn disconnect(self) -> Result<()> {
        let mut raw = self.into_raw("MPI_Comm_disconnect")?;
        // SAFETY: the last handle gave its communicator away: nothing uses it any more.
        unsafe {
            mpi!(MPI_Barrier(raw))?;
            mpi!(MPI_Comm_disconnect(&raw mut raw))
        }
    }

    fn into_raw(self, operation: &'static str) -> Result<sys::MPI_Comm> {
        if self.handle.predefined {
            return Err(Error::argument(
                operation,
                "communicator",
                "a predefined one",
                "one that was created",
            ));
        }
        let mut handle = self.handle;
        match Arc::get_mut(&mut handle) {
            Some(handle) => Ok(std::mem::replace(&mut handle.raw, sys::MALLEUS_COMM_NULL)),
            None => Err(Error::InUse {
                operation,
                object: "communicator",
                users: Arc::strong_count(&handle) - 1,
            }),
        }
    }

    fn adopt_unless_null(&self, raw: sys::MPI_Comm) -> Result<Option<Self>> {
        if raw == sys::MALLEUS_COMM_NULL {
            return Ok(None);
        }
        Self::adopt(raw, self.inner()).map(Some)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.predefined && self.raw != sys::MALLEUS_COMM_NULL {
            self.environment
                .mark_failed("a communicator was dropped without free()".to_owned());
        }
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator({}/{})", self.rank(), self.size())
    }
}
