//! When the data of a resize moves, and the combinations that exist.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Method;
use crate::mpi::Effort;

/// When the data of a resize moves (paper R, sections II.B and III.B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Strategy {
    /// At once: everybody waits.
    Blocking,
    /// T: a helper thread on each source runs the whole algorithm, and ends its epoch as this says.
    Threading(Completion),
    /// NB: requests, which the sources test; of collectives and messages only.
    NonBlocking,
    /// WT: as NB, and a barrier tells everybody that all targets have their data.
    WaitTargets,
    /// WT of one-sided methods, where a source that reads as well starts so many reads between two tests that the
    /// application's iterations get a third longer, and not all at once. None of paper R's.
    Paced,
}

/// How a helper thread completes its reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Completion {
    /// As the paper: get, then unlock, inside of which MPICH holds up the other threads' calls.
    AtUnlock,
    /// Requests are tested, with a sleep in between, and the epoch is closed when all are complete.
    Polled,
}

/// A method with a strategy: one of paper R's ten variants, or the other completion of a threaded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Variant {
    method: Method,
    strategy: Strategy,
}

impl Variant {
    /// Every variant: those of paper R, then the threaded ones that complete at unlock, then MaM's P2P, then the paced
    /// ones.
    pub const ALL: [Self; 17] = {
        use Completion::{AtUnlock, Polled};
        use Method::{Collective, PointToPoint, RmaLock, RmaLockAll};
        use Strategy::{Blocking, NonBlocking, Paced, Threading, WaitTargets};
        const fn of(method: Method, strategy: Strategy) -> Variant {
            Variant { method, strategy }
        }
        [
            of(Collective, Blocking),
            of(Collective, Threading(Polled)),
            of(Collective, NonBlocking),
            of(Collective, WaitTargets),
            of(RmaLock, Blocking),
            of(RmaLock, Threading(Polled)),
            of(RmaLock, WaitTargets),
            of(RmaLockAll, Blocking),
            of(RmaLockAll, Threading(Polled)),
            of(RmaLockAll, WaitTargets),
            of(RmaLock, Threading(AtUnlock)),
            of(RmaLockAll, Threading(AtUnlock)),
            of(PointToPoint, Blocking),
            of(PointToPoint, NonBlocking),
            of(PointToPoint, WaitTargets),
            of(RmaLock, Paced),
            of(RmaLockAll, Paced),
        ]
    };

    /// The blocking variant of a method.
    #[must_use]
    pub const fn blocking(method: Method) -> Self {
        Self {
            method,
            strategy: Strategy::Blocking,
        }
    }

    /// The variant of a method and a strategy; `None` for one that does not exist: one-sided methods have no
    /// NB, and only they complete at unlock or are paced; P2P has no T.
    #[must_use]
    pub fn new(method: Method, strategy: Strategy) -> Option<Self> {
        let variant = Self { method, strategy };
        Self::ALL.contains(&variant).then_some(variant)
    }

    /// How the data moves.
    #[must_use]
    pub const fn method(self) -> Method {
        self.method
    }

    /// When it moves.
    #[must_use]
    pub const fn strategy(self) -> Strategy {
        self.strategy
    }

    /// How much of a core a progress thread may take for it: more where data needs many of
    /// its calls, and no other thread makes them.
    #[must_use]
    pub const fn effort(self) -> Effort {
        match (self.strategy, self.method) {
            (Strategy::Threading(_), _) | (_, Method::RmaLock | Method::RmaLockAll) => Effort::Low,
            (_, Method::Collective | Method::PointToPoint) => Effort::High,
        }
    }

    /// Whether the application goes on meanwhile.
    #[must_use]
    pub fn is_background(self) -> bool {
        self.strategy != Strategy::Blocking
    }
}

impl fmt::Display for Variant {
    /// Such as `rma1-wt`; `rma1-t-unlock` for the threaded one that completes at unlock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method.name())?;
        f.write_str(match self.strategy {
            Strategy::Blocking => "",
            Strategy::Threading(Completion::Polled) => "-t",
            Strategy::Threading(Completion::AtUnlock) => "-t-unlock",
            Strategy::NonBlocking => "-nb",
            Strategy::WaitTargets => "-wt",
            Strategy::Paced => "-paced",
        })
    }
}

/// A name that no variant has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown variant {name:?}; the variants are {}", all_names())]
pub struct UnknownVariant {
    /// The name that was given.
    pub name: String,
}

fn all_names() -> String {
    Variant::ALL.map(|variant| variant.to_string()).join(", ")
}

impl From<Variant> for String {
    fn from(variant: Variant) -> Self {
        variant.to_string()
    }
}

impl TryFrom<String> for Variant {
    type Error = UnknownVariant;

    fn try_from(name: String) -> Result<Self, UnknownVariant> {
        name.parse()
    }
}

impl FromStr for Variant {
    type Err = UnknownVariant;

    fn from_str(name: &str) -> Result<Self, UnknownVariant> {
        Self::ALL
            .into_iter()
            .find(|variant| variant.to_string() == name)
            .ok_or_else(|| UnknownVariant {
                name: name.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_variants() {
        let names = Variant::ALL.map(|variant| variant.to_string());
        assert_eq!(
            names[..10].join(" "),
            "col col-t col-nb col-wt rma1 rma1-t rma1-wt rma2 rma2-t rma2-wt"
        );
        for (name, variant) in names.iter().zip(Variant::ALL) {
            assert_eq!(name.parse(), Ok(variant));
            assert_eq!(
                Variant::new(variant.method(), variant.strategy()),
                Some(variant)
            );
        }
        assert_eq!(Variant::new(Method::RmaLock, Strategy::NonBlocking), None);
        let error = "rma3".parse::<Variant>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown variant \"rma3\"; the variants are col, col-t,"),
            "{error}"
        );
    }
}
