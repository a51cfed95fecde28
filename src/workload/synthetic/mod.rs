//! A synthetic application in the manner of Proteo's SAM: iterations made of stages, groups of processes that
//! follow each other, and the data that moves in between.
//!
//! A [`config::Configuration`] says what it does; [`Plan::new`] checks it against what this library can do, and
//! [`run`] does it, in a [`Job`](crate::job::Job) whose manager is a [`Requests`].

mod calibrate;
pub mod config;
mod data;
mod exchange;
mod plan;
pub mod proteo;
mod results;
mod run;
mod stage;

pub use plan::{Ignored, Plan};
pub use results::{GroupResult, PhaseResult, StageResult, median};
pub use run::{Finished, Position, Requests, Settings, run};

use crate::{job, mpi};

/// Why a synthetic application could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration asks for what does not exist here: the same on every rank.
    #[error("{0}")]
    Configuration(String),
    /// A stage can't be prepared: the same on every rank.
    #[error("phases[{phase}].stages[{stage}] ({kind}) on rank {rank}: {reason}")]
    Stage {
        /// The phase, counted from 0.
        phase: usize,
        /// The stage in it, counted from 0.
        stage: usize,
        /// What it does.
        kind: &'static str,
        /// The first rank that can't.
        rank: usize,
        /// Why.
        reason: String,
    },
    /// A resize was not done, so that the next group can't begin: the same on every rank.
    #[error("the resize from {from} to {to} processes, for group {group}, was refused: {reason}")]
    Refused {
        /// The group that was to come, counted from 0.
        group: usize,
        /// Processes before.
        from: usize,
        /// Processes that were asked for.
        to: usize,
        /// Why.
        reason: String,
    },
    /// The data is not what it was at the start: the same on every rank.
    #[error("{wrong} elements of the data have other values than at the start")]
    Data {
        /// How many, over all ranks.
        wrong: u64,
    },
    /// A file of a stage can't be read or written.
    #[error("a file of a stage: {0}")]
    File(#[from] std::io::Error),
    /// The job failed.
    #[error(transparent)]
    Job(#[from] job::Error),
    /// MPI failed.
    #[error(transparent)]
    Mpi(#[from] mpi::Error),
}

impl Error {
    /// Whether every rank has the same error, so that the job can end in an orderly way.
    #[must_use]
    pub fn is_common(&self) -> bool {
        match self {
            Self::Configuration(_)
            | Self::Stage { .. }
            | Self::Refused { .. }
            | Self::Data { .. } => true,
            Self::Job(error) => error.leaves_job_whole(),
            Self::File(_) | Self::Mpi(_) => false,
        }
    }
}
