//! How a subcommand ends early.

use std::process::ExitCode;

use super::launch;
use crate::mpi::Environment;
use crate::workload::{cg, synthetic};

/// How a subcommand ends early, as one rank sees it.
#[derive(Debug)]
pub(super) enum Failure {
    /// Every rank has it, so MPI can be finalized.
    Common(String),
    /// Only this rank may have it: the job is ended by force.
    Fatal(String),
}

impl Failure {
    fn of(error: &impl ToString, is_common: bool) -> Self {
        let message = error.to_string();
        if is_common {
            Self::Common(message)
        } else {
            Self::Fatal(message)
        }
    }

    /// Says what it is, and gives the exit code.
    pub(super) fn end(self, environment: &Environment) -> ExitCode {
        match self {
            Self::Common(message) => launch::fail(&message, 1),
            Self::Fatal(message) => environment.abort(&format!("error: {message}"), 1),
        }
    }
}

macro_rules! failures {
    ($($error:ty, $is_common:expr;)*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let is_common: fn(&$error) -> bool = $is_common;
                Self::of(&error, is_common(&error))
            }
        }
    )*};
}

failures! {
    crate::mpi::Error, |_| false;
    crate::redistribute::Error, |_| false;
    crate::alltoallv::Error, |error| !matches!(error, crate::alltoallv::Error::Mpi(_));
    crate::job::Error, crate::job::Error::leaves_job_whole;
    cg::Error, cg::Error::is_common;
    synthetic::Error, synthetic::Error::is_common;
}
