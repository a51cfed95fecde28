//! Moving the blocks of arrays from the sources of a resize to its targets.
//!
//! The communicator of a redistribution holds both groups: sources are its first NS ranks, targets its
//! first NT ranks, and a rank can be both. What goes where is a [`plan`]; each method of paper R is a file
//! of its own, and [`array()`] runs the one that is asked for.

pub mod adoption;
mod background;
mod collective;
mod one_sided;
mod pace;
pub mod placement;
pub mod plan;
mod point_to_point;
mod variant;
mod wait_targets;

use std::fmt;
use std::ops::{Add, AddAssign};
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::mpi::{self, Communicator};
use crate::partition::Partition;
use plan::Plan;

pub use background::{Background, Move};
use collective::layouts;
pub use variant::{Completion, Strategy, UnknownVariant, Variant};

/// How the data of a resize moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Method {
    /// Paper R's COL: one `MPI_Alltoallv` per array.
    #[serde(rename = "col")]
    Collective,
    /// Paper R's RMA1 (algorithm 2): a window per array, a lock per source.
    #[serde(rename = "rma1")]
    RmaLock,
    /// Paper R's RMA2 (algorithm 3): a window per array, one `lock_all`.
    #[serde(rename = "rma2")]
    RmaLockAll,
    /// MaM's P2P: an `MPI_Isend` and an `MPI_Irecv` for each piece of an array.
    #[serde(rename = "p2p")]
    PointToPoint,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 4] = [
        Self::Collective,
        Self::RmaLock,
        Self::RmaLockAll,
        Self::PointToPoint,
    ];

    /// Its name on the command line and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Collective => "col",
            Self::RmaLock => "rma1",
            Self::RmaLockAll => "rma2",
            Self::PointToPoint => "p2p",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no method has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown method {name:?}; the methods are col, rma1, rma2, p2p")]
pub struct UnknownMethod {
    /// The name that was given.
    pub name: String,
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, UnknownMethod> {
        Self::ALL
            .into_iter()
            .find(|method| method.name() == name)
            .ok_or_else(|| UnknownMethod {
                name: name.to_owned(),
            })
    }
}

/// Why an array could not be moved.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An MPI call failed.
    #[error(transparent)]
    Mpi(#[from] mpi::Error),
    /// The partitions before and after do not fit together.
    #[error(transparent)]
    Plan(#[from] plan::Error),
    /// A block is not as long as its partition says.
    #[error("the {side} block has {found} bytes, its partition says {expected}")]
    Length {
        /// `source` or `target`.
        side: &'static str,
        /// Its bytes.
        found: usize,
        /// The bytes that it should have.
        expected: u64,
    },
    /// A blocking variant was to go on in the background.
    #[error("{variant} is blocking: it does not go on in the background")]
    NotInBackground {
        /// The variant.
        variant: Variant,
    },
    /// A threaded variant needs more of MPI.
    #[error("threaded variants need MPI_THREAD_MULTIPLE, which MPI does not give here")]
    ThreadLevel,
    /// A helper thread panicked.
    #[error("the helper thread of a redistribution panicked")]
    Helper,
}

/// Which groups of a resize a process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leaves.
    SourceOnly,
    /// It is new.
    TargetOnly,
    /// It stays.
    Both,
}

impl Role {
    /// That of a rank of the communicator of a redistribution: sources are its first ranks, and so are targets.
    #[must_use]
    pub fn of(rank: usize, from: &Partition, to: &Partition) -> Self {
        match (rank < from.ranks(), rank < to.ranks()) {
            (true, true) => Self::Both,
            (false, true) => Self::TargetOnly,
            (_, false) => Self::SourceOnly,
        }
    }
}

/// How long the stages of a redistribution took on a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Creating windows.
    pub expose: Duration,
    /// Moving the data, epochs included.
    pub transfer: Duration,
    /// Freeing windows.
    pub release: Duration,
}

impl AddAssign for Times {
    fn add_assign(&mut self, other: Self) {
        self.expose += other.expose;
        self.transfer += other.transfer;
        self.release += other.release;
    }
}

impl Add for Times {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

/// One array's move, as one rank sees it.
#[derive(Debug)]
pub struct Transfer<'a> {
    /// Who owns what before.
    pub from: &'a Partition,
    /// Who owns what after.
    pub to: &'a Partition,
    /// Bytes of an element.
    pub element_size: usize,
    /// This rank's block before; empty on a rank that is no source. One-sided methods expose it.
    pub source: &'a mut [u8],
    /// This rank's block after; empty on a rank that is no target.
    pub target: &'a mut [u8],
}

/// Moves one array from its sources to its targets, and tells how long it took. Collective over the communicator and
/// blocking.
///
/// # Errors
///
/// [`Error::Plan`] and [`Error::Length`] for arguments that do not fit together, on this rank before any
/// communication; the MPI error otherwise.
pub fn array(
    communicator: &Communicator,
    method: Method,
    transfer: Transfer<'_>,
) -> Result<Times, Error> {
    let rank = communicator.rank();
    check_length(
        "source",
        transfer.source.len(),
        transfer.from,
        rank,
        transfer.element_size,
    )?;
    check_length(
        "target",
        transfer.target.len(),
        transfer.to,
        rank,
        transfer.element_size,
    )?;
    let receives = bytes(
        &Plan::for_target(transfer.from, transfer.to, rank)?,
        transfer.element_size,
    );
    let times = match method {
        Method::Collective | Method::PointToPoint => {
            let sends = bytes(
                &Plan::for_source(transfer.from, transfer.to, rank)?,
                transfer.element_size,
            );
            let exchange = match method {
                Method::PointToPoint => point_to_point::exchange,
                _ => collective::all_to_all_v,
            };
            let begun = Instant::now();
            exchange(
                communicator,
                &sends,
                transfer.source,
                &receives,
                transfer.target,
            )?;
            Times {
                transfer: begun.elapsed(),
                ..Times::default()
            }
        }
        Method::RmaLock => {
            one_sided::lock_each(communicator, &receives, transfer.source, transfer.target)?
        }
        Method::RmaLockAll => {
            one_sided::lock_all(communicator, &receives, transfer.source, transfer.target)?
        }
    };
    Ok(times)
}

/// A contiguous run of bytes that goes from one source to one target, with offsets in their blocks.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    peer: usize,
    source_offset: usize,
    target_offset: usize,
    len: usize,
}

/// The pieces of a plan in bytes. They lie inside blocks of memory, or are offsets into another rank's,
/// which is as large on every machine of a job: both fit in `usize`.
fn bytes(plan: &Plan, element_size: usize) -> Vec<Bytes> {
    let bytes = |elements: u64| {
        usize::try_from(elements).expect("part of a block in memory") * element_size
    };
    plan.pieces()
        .map(|piece| Bytes {
            peer: piece.peer,
            source_offset: bytes(piece.source_offset),
            target_offset: bytes(piece.target_offset),
            len: bytes(piece.len),
        })
        .collect()
}

/// Hands out the destination of each piece. They lie one behind the other, in the order of the plan.
fn each_destination<'buffers>(
    receives: &[Bytes],
    target: &'buffers mut [u8],
    mut receive: impl FnMut(&Bytes, &'buffers mut [u8]) -> mpi::Result<()>,
) -> mpi::Result<()> {
    let mut rest = target;
    let mut position = 0;
    for piece in receives {
        let (destination, tail) = rest[piece.target_offset - position..].split_at_mut(piece.len);
        position = piece.target_offset + piece.len;
        rest = tail;
        receive(piece, destination)?;
    }
    Ok(())
}

fn check_length(
    side: &'static str,
    found: usize,
    partition: &Partition,
    rank: usize,
    element_size: usize,
) -> Result<(), Error> {
    let range = partition.range(rank);
    let expected = (range.end - range.start) * element_size as u64;
    if found as u64 == expected {
        return Ok(());
    }
    Err(Error::Length {
        side,
        found,
        expected,
    })
}
