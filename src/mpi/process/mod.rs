//! Process creation and management (MPI standard, chapter 11): spawned processes, and ports through which
//! jobs that were started apart find each other.

mod check;
mod port;
mod publish;
mod spawn;

pub use check::cannot_spawn;
pub use port::Port;
pub use publish::PublishedName;
pub use spawn::{SpawnCommand, Spawned};

use super::communicator::Communicator;
use super::error::{Error, Result};
use super::intercommunicator::check_rank;

impl Communicator {
    /// Makes an error of the root's arguments an error of every rank. Gives everybody the root's `value`.
    /// `MPI_Bcast`, twice where there is an error.
    fn agree_with_root<R>(
        &self,
        operation: &'static str,
        root: usize,
        prepare: impl FnOnce() -> Result<(u64, R)>,
    ) -> Result<(u64, Option<R>)> {
        check_rank(operation, "root", root, self.size())?;
        let at_root = self.rank() == root;
        let prepared = at_root.then(prepare).transpose();
        let mut message = match &prepared {
            Ok(Some((value, _))) => [1, *value],
            _ => [0, 0],
        };
        self.broadcast(&mut message, root)?;
        let [is_fine, value] = message;
        if is_fine == 1 {
            return Ok((value, prepared?.map(|(_, prepared)| prepared)));
        }
        let mut report = prepared.as_ref().err().map(Report::of).unwrap_or_default();
        let mut bytes = serde_json::to_vec(&report).unwrap_or_default();
        self.broadcast_bytes(&mut bytes, root)?;
        prepared?;
        report = serde_json::from_slice(&bytes).unwrap_or_default();
        Err(report.into_error(operation, root))
    }
}

/// The root's error, as the other ranks get it.
#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Report {
    argument: String,
    found: String,
    expected: String,
}

/// The arguments of the calls here. An error names one of them, with a name that lives for ever.
const ARGUMENTS: [&str; 8] = [
    "program",
    "arguments",
    "processes",
    "commands",
    "wdir",
    "port",
    "info",
    "root",
];

impl Report {
    fn of(error: &Error) -> Self {
        match error {
            Error::Argument {
                argument,
                found,
                expected,
                ..
            } => Self {
                argument: (*argument).to_owned(),
                found: found.clone(),
                expected: expected.clone(),
            },
            error => Self {
                argument: "root".to_owned(),
                found: error.to_string(),
                expected: "no error".to_owned(),
            },
        }
    }

    fn into_error(self, operation: &'static str, root: usize) -> Error {
        let known = ARGUMENTS.iter().find(|name| **name == self.argument);
        Error::argument(
            operation,
            known.unwrap_or(&"root"),
            format!("{} on rank {root}", self.found),
            self.expected,
        )
    }
}
