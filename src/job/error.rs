//! What can go wrong with a job.

use std::io;

use crate::{memory, mpi, partition, redistribute};

/// An error of a malleable job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An MPI call failed.
    #[error(transparent)]
    Mpi(#[from] mpi::Error),
    /// An array could not be moved.
    #[error(transparent)]
    Redistribute(#[from] redistribute::Error),
    /// Memory for an array could not be had.
    #[error(transparent)]
    Memory(#[from] memory::Error),
    /// The cut points of an array are not in order.
    #[error(transparent)]
    Partition(#[from] partition::Error),
    /// Two arrays or values have one name, or one is registered again.
    #[error("{name:?} is registered already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// A process that joined asks for something that the others have not registered.
    #[error("{name:?} is not among what the job has registered: {known}")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A process that joined registers an array or value in another way than the others did.
    #[error("{name:?} is registered with {property} {expected}, here it is {found}")]
    Mismatch {
        /// The name.
        name: String,
        /// What differs.
        property: &'static str,
        /// What this process said.
        found: String,
        /// What the job has.
        expected: String,
    },
    /// A constant array can be written once, where the job starts.
    #[error("the constant array {name:?} is initialized already")]
    Constant {
        /// The array's name.
        name: String,
    },
    /// The application changes this array while it runs, so that it can't move meanwhile.
    #[error("{name:?} is not constant: it can't move in the background")]
    VariableInBackground {
        /// The array's name.
        name: String,
    },
    /// A clone of the communicator would outlive a resize, or the job. The job is as it was before.
    #[error(
        "the communicator is still in use by {handles} clone(s) on rank {rank}; drop them before commit()"
    )]
    CommunicatorInUse {
        /// The first rank with clones.
        rank: usize,
        /// How many there are.
        handles: String,
    },
    /// What was passed to `commit` is not what the job has registered. The job is as it was before.
    #[error("commit() on rank {rank}: {problem}")]
    Registry {
        /// The first rank where it is so.
        rank: usize,
        /// What is missing or too much.
        problem: String,
    },
    /// A resize could not be done. The job is as it was before, with its old size.
    #[error("the resize from {from} to {to} was abandoned: {reason}")]
    Abandoned {
        /// The size before, and now.
        from: usize,
        /// The size that was asked for.
        to: usize,
        /// What failed, and on which rank.
        reason: String,
    },
    /// After a resize an array is not what it was before. The job is as it was before, with its old
    /// size.
    #[error(
        "the resize from {from} to {to} was abandoned: the checksum of array {array:?} differs, first on rank {rank}"
    )]
    Verification {
        /// The size before, and now.
        from: usize,
        /// The size that was asked for.
        to: usize,
        /// The array's name.
        array: String,
        /// The first target whose block is wrong.
        rank: usize,
    },
    /// A lean resize had moved some arrays when another was found to be wrong: there is no way back, and
    /// the job can't go on.
    #[error(
        "the lean resize from {from} to {to} failed: the checksum of array {array:?} differs, first on rank {rank}; the job can't go on"
    )]
    Lost {
        /// The size before.
        from: usize,
        /// The size that was asked for.
        to: usize,
        /// The array's name.
        array: String,
        /// The first target whose block is wrong.
        rank: usize,
    },
    /// What an application keeps in a form of its own could not be made again from its packed form, after everything had
    /// moved: the job can't go on.
    #[error("{name:?} can't be unpacked: {reason}")]
    Unpack {
        /// The name.
        name: String,
        /// What [`super::Pack::unpack`] said.
        reason: String,
    },
    /// A process could not be parked or woken.
    #[error("parking: {0}")]
    Parking(#[from] io::Error),
    /// Another process sent what this library does not understand: it is of another version.
    #[error("a message of another process can't be read: {0}")]
    Message(#[from] serde_json::Error),
    /// The last switch was dropped instead of committed: the processes that were started for it wait.
    #[error("the switch of the last checkpoint was not committed")]
    NotCommitted,
    /// The variant of a resize can't change while its data moves. The job is as it was before.
    #[error("the resize to {to} is under way: what follows can be changed when it is done")]
    UnderWay {
        /// The size that the job is about to have.
        to: usize,
    },
    /// The job has ended on this process.
    #[error("the job has ended on this process")]
    Ended,
}

impl Error {
    /// Whether the job is whole, with the size that it had, so that the application can go on. It is
    /// so on every rank, or on none.
    #[must_use]
    pub fn leaves_job_whole(&self) -> bool {
        matches!(
            self,
            Self::CommunicatorInUse { .. }
                | Self::Registry { .. }
                | Self::Abandoned { .. }
                | Self::Verification { .. }
                | Self::UnderWay { .. }
        )
    }
}
