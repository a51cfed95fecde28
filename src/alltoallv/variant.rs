//! How an exchange is done.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How an exchange is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[non_exhaustive]
pub enum Variant {
    /// `MPI_Alltoallv` each time.
    Standard,
    /// `MPI_Alltoallv_init` once.
    StandardPersistent,
    /// Paper P's fence variant: a window, puts between two fences.
    Fence,
    /// Paper P's lock variant: a window with an epoch to all that stays open, puts and a flush between two barriers.
    Lock,
    /// As `Fence`, with the puts to other nodes first.
    FenceHierarchical,
    /// As `Lock`, with the puts to other nodes first.
    LockHierarchical,
    /// As `Fence`, with everything set up and freed each time: paper P's baseline.
    FenceOnce,
    /// As `Lock`, with everything set up and freed each time.
    LockOnce,
    /// A window, and epochs to exactly the ranks with data: post, start, complete, wait.
    Pscw,
    /// Memory that the ranks of a node share: they copy into it, and tell each other by counters in it; to other nodes as
    /// `Pscw`.
    NodeShared,
    /// As `NodeShared`; what goes from one node to another is gathered in shared memory, and is one message.
    Aggregated,
    /// The fastest of them for the plan's own counts on this machine, which is found out at init.
    Auto,
}

impl Variant {
    /// Every variant.
    pub const ALL: [Self; 12] = [
        Self::Standard,
        Self::StandardPersistent,
        Self::Fence,
        Self::Lock,
        Self::FenceHierarchical,
        Self::LockHierarchical,
        Self::FenceOnce,
        Self::LockOnce,
        Self::Pscw,
        Self::NodeShared,
        Self::Aggregated,
        Self::Auto,
    ];

    /// Its name on the command line and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::StandardPersistent => "standard-persistent",
            Self::Fence => "fence",
            Self::Lock => "lock",
            Self::FenceHierarchical => "fence-hierarchical",
            Self::LockHierarchical => "lock-hierarchical",
            Self::FenceOnce => "fence-once",
            Self::LockOnce => "lock-once",
            Self::Pscw => "pscw",
            Self::NodeShared => "node-shared",
            Self::Aggregated => "aggregated",
            Self::Auto => "auto",
        }
    }

    /// Whether a plan that makes its own buffers receives into memory of its window.
    pub(super) const fn has_own_memory(self) -> bool {
        matches!(
            self,
            Self::Fence
                | Self::Lock
                | Self::FenceHierarchical
                | Self::LockHierarchical
                | Self::Pscw
                | Self::NodeShared
                | Self::Aggregated
        )
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no variant has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown variant {name:?}; the variants are {}", Variant::ALL.map(Variant::name).join(", "))]
pub struct UnknownVariant {
    /// The name that was given.
    pub name: String,
}

impl FromStr for Variant {
    type Err = UnknownVariant;

    fn from_str(name: &str) -> Result<Self, UnknownVariant> {
        Self::ALL
            .into_iter()
            .find(|variant| variant.name() == name)
            .ok_or_else(|| UnknownVariant {
                name: name.to_owned(),
            })
    }
}

impl From<Variant> for String {
    fn from(variant: Variant) -> Self {
        variant.name().to_owned()
    }
}

impl TryFrom<String> for Variant {
    type Error = UnknownVariant;

    fn try_from(name: String) -> Result<Self, UnknownVariant> {
        name.parse()
    }
}
