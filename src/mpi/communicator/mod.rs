//! Communicators (MPI standard, chapter 7).

mod create;

use std::ffi::c_int;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::datatype::unsigned;
use super::environment::{Environment, Inner};
use super::error::{Error, Result, mpi};
use super::group::{Comparison, Group};
use super::info::{Info, c_string};
use crate::sys;

pub use create::SplitType;

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

    /// The end of the environment says so, and fails.
    pub(crate) fn mark_failed(&self, reason: &str) {
        self.inner().mark_failed(reason.to_owned());
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

    /// How the processes of two communicators compare. Local; `MPI_Comm_compare`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn compare(&self, other: &Self) -> Result<Comparison> {
        let mut result = 0;
        // SAFETY: both communicators are valid.
        unsafe {
            mpi!(MPI_Comm_compare(
                self.as_raw(),
                other.as_raw(),
                &raw mut result
            ))?;
        }
        Ok(Comparison::from_raw(result))
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

    /// The name that tools show. Local; `MPI_Comm_get_name`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn name(&self) -> Result<String> {
        let mut buffer = vec![0_u8; sys::MPI_MAX_OBJECT_NAME as usize + 1];
        let mut length: c_int = 0;
        // SAFETY: the communicator is valid; the buffer has the size that may be written.
        unsafe {
            mpi!(MPI_Comm_get_name(
                self.as_raw(),
                buffer.as_mut_ptr().cast(),
                &raw mut length
            ))?;
        }
        buffer.truncate(unsigned(length));
        Ok(String::from_utf8_lossy(&buffer).into_owned())
    }

    /// Names the communicator for tools, on this process. Local; `MPI_Comm_set_name`, which cuts a name
    /// beyond `MPI_MAX_OBJECT_NAME`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a text with a zero byte; the MPI error otherwise.
    pub fn set_name(&self, name: &str) -> Result<()> {
        let name = c_string("MPI_Comm_set_name", "name", name)?;
        // SAFETY: the communicator is valid, the name is a C string.
        unsafe { mpi!(MPI_Comm_set_name(self.as_raw(), name.as_ptr())) }
    }

    /// The hints that MPI uses for this communicator. Local; `MPI_Comm_get_info`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn info(&self) -> Result<Info> {
        let mut raw = sys::MALLEUS_INFO_NULL;
        // SAFETY: the communicator is valid.
        unsafe { mpi!(MPI_Comm_get_info(self.as_raw(), &raw mut raw))? };
        Ok(Info::adopt(raw, self.inner()))
    }

    /// Gives hints for this communicator. Collective; `MPI_Comm_set_info`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn set_info(&self, info: &Info) -> Result<()> {
        // SAFETY: communicator and info are valid.
        unsafe { mpi!(MPI_Comm_set_info(self.as_raw(), info.as_raw())) }
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
        let mut raw = self.take("MPI_Comm_free")?;
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
        let mut raw = self.take("MPI_Comm_disconnect")?;
        // SAFETY: the last handle gave its communicator away: nothing uses it any more.
        unsafe {
            mpi!(MPI_Barrier(raw))?;
            mpi!(MPI_Comm_disconnect(&raw mut raw))
        }
    }

    /// Gives the handle away, which then has to be freed through [`crate::sys`], before the environment
    /// ends.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`] while another handle to it lives; [`Error::Argument`] for a predefined one.
    pub fn into_raw(self) -> Result<sys::MPI_Comm> {
        self.take("into_raw")
    }

    /// Takes over a communicator that was created through [`crate::sys`]; its errors are returned from now
    /// on (`MPI_ERRORS_RETURN`).
    ///
    /// # Errors
    ///
    /// The MPI error.
    ///
    /// # Safety
    ///
    /// `raw` is an intracommunicator of MPI's present initialization, not a predefined one, that nobody
    /// else frees.
    pub unsafe fn from_raw(raw: sys::MPI_Comm, environment: &Environment) -> Result<Self> {
        Self::adopt(raw, &environment.inner)
    }

    fn take(self, operation: &'static str) -> Result<sys::MPI_Comm> {
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

    pub(super) fn adopt_unless_null(&self, raw: sys::MPI_Comm) -> Result<Option<Self>> {
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
