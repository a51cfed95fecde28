//! Communicators of two groups (MPI standard, chapter 7.6).

use std::ffi::c_int;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::communicator::Communicator;
use super::datatype::{int, unsigned};
use super::environment::{Environment, Inner};
use super::error::{Error, Result, mpi};
use super::group::Group;
use crate::sys;

/// A communicator of two groups: that of this process, and the remote one. It ends by
/// [`Intercommunicator::disconnect`] or [`Intercommunicator::free`]; dropping it marks the environment
/// failed, as for [`Communicator`].
pub struct Intercommunicator {
    raw: sys::MPI_Comm,
    environment: Arc<Inner>,
    on_its_thread: PhantomData<*const ()>,
}

impl Communicator {
    /// Connects this communicator's processes with another group's, whose leader is `remote_leader` in
    /// `bridge`, a communicator that both leaders are in; only the leaders' `bridge` and `remote_leader`
    /// count. Collective over both groups; `MPI_Intercomm_create`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a leader that is not in its communicator; the MPI error otherwise.
    pub fn create_intercommunicator(
        &self,
        leader: usize,
        bridge: &Self,
        remote_leader: usize,
        tag: i32,
    ) -> Result<Intercommunicator> {
        const CALL: &str = "MPI_Intercomm_create";
        check_rank(CALL, "leader", leader, self.size())?;
        let is_leader = self.rank() == leader;
        if is_leader {
            check_rank(CALL, "remote_leader", remote_leader, bridge.size())?;
        }
        let leader = int(CALL, "leader", leader)?;
        let remote_leader = int(CALL, "remote_leader", remote_leader)?;
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: both communicators are valid.
        unsafe {
            mpi!(MPI_Intercomm_create(
                self.as_raw(),
                leader,
                bridge.as_raw(),
                remote_leader,
                tag,
                &raw mut raw
            ))?;
        }
        Intercommunicator::adopt(raw, &self.environment())
    }
}

impl Intercommunicator {
    /// Takes over an intercommunicator that an MPI call has just created.
    pub(super) fn adopt(raw: sys::MPI_Comm, environment: &Environment) -> Result<Self> {
        // SAFETY: `raw` is a communicator that the caller owns.
        unsafe { mpi!(MPI_Comm_set_errhandler(raw, sys::MALLEUS_ERRORS_RETURN))? };
        Ok(Self::with_its_handler(raw, environment))
    }

    /// Takes over an intercommunicator and leaves its error handler alone.
    pub(super) fn with_its_handler(raw: sys::MPI_Comm, environment: &Environment) -> Self {
        Self {
            raw,
            environment: Arc::clone(&environment.inner),
            on_its_thread: PhantomData,
        }
    }

    /// The raw handle, for calls through [`crate::sys`]. It stays owned by this communicator.
    #[must_use]
    pub fn as_raw(&self) -> sys::MPI_Comm {
        self.raw
    }

    /// Gives the handle away, which then has to be freed through [`crate::sys`], before the environment
    /// ends.
    #[must_use]
    pub fn into_raw(mut self) -> sys::MPI_Comm {
        self.take()
    }

    /// Takes over an intercommunicator that was created through [`crate::sys`]; its errors are returned
    /// from now on (`MPI_ERRORS_RETURN`).
    ///
    /// # Errors
    ///
    /// The MPI error.
    ///
    /// # Safety
    ///
    /// `raw` is an intercommunicator of MPI's present initialization that nobody else frees.
    pub unsafe fn from_raw(raw: sys::MPI_Comm, environment: &Environment) -> Result<Self> {
        Self::adopt(raw, environment)
    }

    /// Rank of this process in its group. Local; `MPI_Comm_rank`.
    #[must_use]
    pub fn rank(&self) -> usize {
        let mut rank: c_int = 0;
        // SAFETY: the communicator is valid as long as `self` lives. The call can't fail then.
        unsafe { mpi!(MPI_Comm_rank(self.raw, &raw mut rank)) }.expect("a valid communicator");
        unsigned(rank)
    }

    /// Number of processes in the group of this one. Local; `MPI_Comm_size`.
    #[must_use]
    pub fn size(&self) -> usize {
        let mut size: c_int = 0;
        // SAFETY: the communicator is valid as long as `self` lives. The call can't fail then.
        unsafe { mpi!(MPI_Comm_size(self.raw, &raw mut size)) }.expect("a valid communicator");
        unsigned(size)
    }

    /// Number of processes in the other group. Local; `MPI_Comm_remote_size`.
    #[must_use]
    pub fn remote_size(&self) -> usize {
        let mut size: c_int = 0;
        // SAFETY: the communicator is valid as long as `self` lives. The call can't fail then.
        unsafe { mpi!(MPI_Comm_remote_size(self.raw, &raw mut size)) }
            .expect("a valid communicator");
        unsigned(size)
    }

    /// The group of this process. Local; `MPI_Comm_group`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn group(&self) -> Result<Group> {
        let mut raw = sys::MALLEUS_GROUP_NULL;
        // SAFETY: the communicator is valid.
        unsafe { mpi!(MPI_Comm_group(self.raw, &raw mut raw))? };
        Ok(Group::adopt(raw, &self.environment))
    }

    /// The other group. Local; `MPI_Comm_remote_group`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn remote_group(&self) -> Result<Group> {
        let mut raw = sys::MALLEUS_GROUP_NULL;
        // SAFETY: the communicator is valid.
        unsafe { mpi!(MPI_Comm_remote_group(self.raw, &raw mut raw))? };
        Ok(Group::adopt(raw, &self.environment))
    }

    /// Returns when every process of the other group has called it. Collective over both groups,
    /// blocking; `MPI_Barrier`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn barrier(&self) -> Result<()> {
        // SAFETY: the communicator is valid.
        unsafe { mpi!(MPI_Barrier(self.raw)) }
    }

    /// A byte from each process of one group to each of the other: afterwards every pair is connected.
    /// Collective over both groups, of which one sends; blocking; `MPI_Send`, `MPI_Recv`.
    ///
    /// Without it, the first collective of parents and children was seen to hang (4.2.3, ofi, tcp) in about
    /// one of 40 growing jobs; both sides then reach for each other at the same time.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn meet(&self, sends: bool) -> Result<()> {
        let mut byte = 0_u8;
        for peer in 0..self.remote_size() {
            let peer = int("MPI_Send", "rank", peer)?;
            // SAFETY: the communicator is valid, the byte lives until the blocking call returns.
            unsafe {
                if sends {
                    mpi!(MPI_Send(
                        (&raw const byte).cast(),
                        1,
                        sys::MALLEUS_BYTE,
                        peer,
                        0,
                        self.raw
                    ))?;
                } else {
                    mpi!(MPI_Recv(
                        (&raw mut byte).cast(),
                        1,
                        sys::MALLEUS_BYTE,
                        peer,
                        0,
                        self.raw,
                        sys::status_ignore()
                    ))?;
                }
            }
        }
        Ok(())
    }

    /// One communicator of both groups, in place of this one: they meet, merge, the parents' ranks first, and
    /// disconnect. Collective over both groups and blocking; `MPI_Send`, `MPI_Recv`, `MPI_Intercomm_merge`,
    /// `MPI_Comm_disconnect`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn join(self, as_parent: bool) -> Result<Communicator> {
        self.meet(as_parent)?;
        let merged = self.merge(!as_parent)?;
        self.disconnect()?;
        Ok(merged)
    }

    /// One communicator of both groups; the group that says `high` gets the high ranks. Collective over
    /// both groups; `MPI_Intercomm_merge`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn merge(&self, high: bool) -> Result<Communicator> {
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: the communicator is valid.
        unsafe {
            mpi!(MPI_Intercomm_merge(
                self.raw,
                c_int::from(high),
                &raw mut raw
            ))?
        };
        Communicator::adopt(raw, &self.environment)
    }

    /// Frees the communicator. Collective over both groups; `MPI_Comm_free`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn free(mut self) -> Result<()> {
        let mut raw = self.take();
        // SAFETY: `self` gave its communicator away: nothing uses it any more.
        unsafe { mpi!(MPI_Comm_free(&raw mut raw)) }
    }

    /// Waits for all communication and frees the communicator. Collective over both groups;
    /// `MPI_Comm_disconnect`, after an `MPI_Barrier`, since MPICH's disconnect does not wait.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn disconnect(mut self) -> Result<()> {
        let mut raw = self.take();
        // SAFETY: `self` gave its communicator away: nothing uses it any more.
        unsafe {
            mpi!(MPI_Barrier(raw))?;
            mpi!(MPI_Comm_disconnect(&raw mut raw))
        }
    }

    fn take(&mut self) -> sys::MPI_Comm {
        std::mem::replace(&mut self.raw, sys::MALLEUS_COMM_NULL)
    }
}

impl Drop for Intercommunicator {
    fn drop(&mut self) {
        if self.raw != sys::MALLEUS_COMM_NULL {
            self.environment
                .mark_failed("an intercommunicator was dropped without disconnect()".to_owned());
        }
    }
}

impl fmt::Debug for Intercommunicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Intercommunicator(to {})", self.remote_size())
    }
}

/// A rank that a call would wait for, or read arguments of.
pub(super) fn check_rank(
    operation: &'static str,
    argument: &'static str,
    rank: usize,
    size: usize,
) -> Result<()> {
    if rank < size {
        return Ok(());
    }
    Err(Error::argument(
        operation,
        argument,
        rank,
        format!("a rank below {size}"),
    ))
}
