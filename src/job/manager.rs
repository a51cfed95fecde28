//! Stage 1: who decides that the job changes its size.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Decides at each checkpoint whether the job changes its size.
///
/// Every active rank asks its own manager, with the same arguments, and all have to give the same answer:
/// a checkpoint without a resize then costs no communication. A process that joins later asks from its
/// first iteration on.
pub trait Manager: fmt::Debug {
    /// The number of processes that the job shall have from this iteration on, if it is to change.
    fn decide(&mut self, iteration: u64, size: usize) -> Option<usize>;
}

/// One entry of a [`Script`]: at which iteration the job gets which size. Written `ITERATION:PROCS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptEntry {
    /// After this many iterations.
    pub iteration: u64,
    /// The number of processes.
    pub processes: usize,
}

/// Why a script of resizes is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// It is not of the form `ITERATION:PROCS`.
    #[error("{text:?} is no resize: write ITERATION:PROCS, for example 100:4")]
    Form {
        /// What was given.
        text: String,
    },
    /// A job needs a process.
    #[error("{text:?} asks for no process: PROCS is at least 1")]
    NoProcess {
        /// What was given.
        text: String,
    },
    /// MPI counts processes with an `int`.
    #[error("{text:?} asks for too many processes: PROCS is at most {}", i32::MAX)]
    TooMany {
        /// What was given.
        text: String,
    },
    /// The first checkpoint comes after the first iteration.
    #[error("{text:?} comes before the first checkpoint: ITERATION is at least 1")]
    TooEarly {
        /// What was given.
        text: String,
    },
    /// Two sizes for one iteration.
    #[error("two resizes at iteration {iteration}: to {first} and to {second}")]
    Twice {
        /// The iteration.
        iteration: u64,
        /// The size that was given first.
        first: usize,
        /// The other one.
        second: usize,
    },
}

impl FromStr for ScriptEntry {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let form = || ScriptError::Form {
            text: text.to_owned(),
        };
        let is_number =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let (iteration, processes) = text.split_once(':').ok_or_else(form)?;
        if !is_number(iteration) || !is_number(processes) {
            return Err(form());
        }
        let iteration = iteration.parse().map_err(|_| form())?;
        let too_many = || ScriptError::TooMany {
            text: text.to_owned(),
        };
        let processes: usize = processes.parse().map_err(|_| too_many())?;
        match (iteration, processes) {
            (0, _) => Err(ScriptError::TooEarly {
                text: text.to_owned(),
            }),
            (_, 0) => Err(ScriptError::NoProcess {
                text: text.to_owned(),
            }),
            _ if i32::try_from(processes).is_err() => Err(too_many()),
            _ => Ok(Self {
                iteration,
                processes,
            }),
        }
    }
}

/// A manager that follows a list of resizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script(BTreeMap<u64, usize>);

impl Script {
    /// A script out of entries in any order.
    ///
    /// # Errors
    ///
    /// [`ScriptError::Twice`] for two entries of the same iteration.
    pub fn new(entries: impl IntoIterator<Item = ScriptEntry>) -> Result<Self, ScriptError> {
        let mut sizes = BTreeMap::new();
        for ScriptEntry {
            iteration,
            processes,
        } in entries
        {
            if let Some(first) = sizes.insert(iteration, processes) {
                return Err(ScriptError::Twice {
                    iteration,
                    first,
                    second: processes,
                });
            }
        }
        Ok(Self(sizes))
    }

    /// The entries that come after an iteration, in order.
    pub fn after(&self, iteration: u64) -> impl Iterator<Item = ScriptEntry> + '_ {
        self.0
            .range(iteration + 1..)
            .map(|(&iteration, &processes)| ScriptEntry {
                iteration,
                processes,
            })
    }
}

impl Manager for Script {
    fn decide(&mut self, iteration: u64, _size: usize) -> Option<usize> {
        self.0.get(&iteration).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_or_refused() {
        assert_eq!(
            "100:4".parse(),
            Ok(ScriptEntry {
                iteration: 100,
                processes: 4
            })
        );
        let error = |text: &str| text.parse::<ScriptEntry>().unwrap_err();
        for text in [
            "x", "", ":", "5", "5:", ":2", "a:2", "5:b", "5:2:3", "-5:2", "5:-2", "+5:2", "5 :2",
            "5.0:2",
        ] {
            assert!(matches!(error(text), ScriptError::Form { .. }), "{text}");
        }
        assert!(matches!(error("5:0"), ScriptError::NoProcess { .. }));
        assert!(matches!(error("0:2"), ScriptError::TooEarly { .. }));
        assert!(matches!(error("5:2147483648"), ScriptError::TooMany { .. }));
        assert!(matches!(
            error("5:99999999999999999999999"),
            ScriptError::TooMany { .. }
        ));
    }

    #[test]
    fn a_script_decides_at_its_iterations_only() {
        let entry = |iteration, processes| ScriptEntry {
            iteration,
            processes,
        };
        let mut script = Script::new([entry(20, 1), entry(10, 3)]).unwrap();
        assert_eq!(
            (9..22)
                .filter_map(|iteration| script.decide(iteration, 2))
                .collect::<Vec<_>>(),
            [3, 1]
        );
        assert_eq!(script.after(10).collect::<Vec<_>>(), [entry(20, 1)]);
        assert_eq!(
            Script::new([entry(10, 3), entry(10, 4)]),
            Err(ScriptError::Twice {
                iteration: 10,
                first: 3,
                second: 4
            })
        );
    }
}
