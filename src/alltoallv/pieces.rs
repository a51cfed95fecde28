//! What goes where: the counts and displacements of all ranks, as far as they concern one.

use super::{Error, Result};
use std::cell::OnceCell;

use crate::mpi::collective::BlockLayout;
use crate::mpi::window::Window;
use crate::mpi::{self, Communicator, Operation};

/// Elements that go to another rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) peer: usize,
    /// In this rank's send buffer.
    pub(super) from: usize,
    pub(super) count: usize,
    /// In the peer's receive buffer.
    pub(super) to: u64,
}

/// What one rank sends and receives.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    /// What goes to others, beginning with the next rank; none of them is empty.
    pub(super) sends: Vec<Piece>,
    /// What stays here.
    pub(super) own: Option<Piece>,
    /// The other ranks that send something to this one.
    pub(super) sources: Vec<usize>,
    pub(super) send: BlockLayout,
    pub(super) receive: BlockLayout,
    /// The rank on this rank's node of each rank, once it was asked for: of those that share memory with it.
    places: OnceCell<Vec<Option<usize>>>,
}

/// Elements that a buffer must have for a layout.
pub(super) fn span(layout: &BlockLayout) -> usize {
    let ends = (0..layout.counts().len()).map(|rank| {
        let block = layout.block(rank);
        if block.is_empty() { 0 } else { block.end }
    });
    ends.max().unwrap_or(0)
}

/// Two ranks whose blocks overlap, if there are any.
fn overlapping(layout: &BlockLayout) -> Option<(usize, usize)> {
    let ranks = 0..layout.counts().len();
    let mut blocks: Vec<_> = ranks
        .map(|rank| (layout.block(rank), rank))
        .filter(|(block, _)| !block.is_empty())
        .collect();
    blocks.sort_by_key(|(block, _)| block.start);
    let pairs = blocks.windows(2);
    let mut overlaps = pairs.filter(|pair| pair[1].0.start < pair[0].0.end);
    overlaps.next().map(|pair| (pair[0].1, pair[1].1))
}

impl Pieces {
    /// Tells every rank where its elements go, and checks that both sides mean the same. Collective; `MPI_Alltoall` of 16
    /// bytes per rank, and the agreement.
    pub(super) fn exchange(
        communicator: &Communicator,
        send: (&BlockLayout, usize),
        receive: (&BlockLayout, usize),
    ) -> Result<Self> {
        let (rank, size) = (communicator.rank(), communicator.size());
        let sides = [("send", send), ("receive", receive)];
        let problem = sides.into_iter().find_map(|(side, (layout, length))| {
            let blocks = layout.counts().len();
            if blocks != size {
                return Some(format!("{blocks} blocks to {side} for {size} ranks"));
            }
            let needed = span(layout);
            if needed > length {
                let problem =
                    format!("a {side} buffer of {length} elements, its layout needs {needed}");
                return Some(problem);
            }
            // What two ranks write at once is anybody's guess.
            let overlap = overlapping(layout).filter(|_| side == "receive")?;
            Some(format!(
                "the blocks of ranks {} and {} overlap in the receive buffer",
                overlap.0, overlap.1
            ))
        });
        if let Some((rank, problem)) = communicator.agree(problem)? {
            return Err(Error::Layout { rank, problem });
        }
        let ((send, _), (receive, _)) = (send, receive);
        // Each rank hears how much is expected from it, and where that goes.
        let expected: Vec<u64> = (0..size)
            .flat_map(|peer| {
                [
                    receive.counts()[peer] as u64,
                    receive.block(peer).start as u64,
                ]
            })
            .collect();
        let mut asked = vec![0; 2 * size];
        communicator.all_to_all(&expected, &mut asked)?;
        let asked = |peer: usize| (asked[2 * peer], asked[2 * peer + 1]);
        let wrong = (0..size).find(|&peer| asked(peer).0 != send.counts()[peer] as u64);
        let told = wrong.map(|peer| format!("{peer} {} {}", send.counts()[peer], asked(peer).0));
        if let Some((from, told)) = communicator.agree(told)? {
            let mut numbers = told
                .split(' ')
                .map_while(|number| number.parse::<u64>().ok());
            let mut next = || numbers.next().unwrap_or(0);
            let (to, sent, expected) = (next(), next(), next());
            return Err(Error::Counts {
                from,
                to: usize::try_from(to).unwrap_or(usize::MAX),
                sent,
                expected,
            });
        }
        let piece = |peer: usize| Piece {
            peer,
            from: send.block(peer).start,
            count: send.counts()[peer],
            to: asked(peer).1,
        };
        let others = (1..size).map(|step| (rank + step) % size);
        let sends = others.clone().map(piece).filter(|piece| piece.count > 0);
        let sources = others.filter(|&peer| receive.counts()[peer] > 0);
        Ok(Self {
            sends: sends.collect(),
            own: Some(piece(rank)).filter(|piece| piece.count > 0),
            sources: sources.collect(),
            send: send.clone(),
            receive: receive.clone(),
            places: OnceCell::new(),
        })
    }

    /// The rank on this rank's node of each rank of the communicator; nothing for those elsewhere. Collective the first time.
    pub(super) fn places(&self, communicator: &Communicator) -> mpi::Result<&[Option<usize>]> {
        if self.places.get().is_none() {
            let node = sharing(communicator)?;
            let found = places(communicator, &node)?;
            node.free()?;
            // It is empty, and nobody else fills it.
            let _ = self.places.set(found);
        }
        Ok(self.places.get().map_or(&[], Vec::as_slice))
    }
}

/// The ranks of this rank's node that share memory: all of them; where MPI refuses it to processes that were started
/// separately, as ucx does, those that were started together. Collective.
fn sharing(communicator: &Communicator) -> mpi::Result<Communicator> {
    let node = communicator.split_shared()?;
    let world = communicator.environment().world();
    let together = places(&node, &world)?;
    let mut any = [u8::from(together.contains(&None))];
    communicator.all_reduce(&mut any, Operation::Maximum)?;
    if any[0] == 0 {
        return Ok(node);
    }
    let tried = Window::<u8>::allocate_shared(&node, 1, None);
    any[0] = u8::from(tried.is_err());
    if let Ok(window) = tried {
        window.free()?;
    }
    communicator.all_reduce(&mut any, Operation::Maximum)?;
    if any[0] == 0 {
        return Ok(node);
    }
    let first = together.iter().position(Option::is_some);
    let part = node.split(first, node.rank())?;
    node.free()?;
    part.ok_or_else(|| mpi::Error::state("MPI_Comm_split", "no start has this process"))
}

/// The rank in `other` of each rank of the communicator. Local.
pub(super) fn places(
    communicator: &Communicator,
    other: &Communicator,
) -> mpi::Result<Vec<Option<usize>>> {
    let all: Vec<usize> = (0..communicator.size()).collect();
    communicator.group()?.translate(&all, &other.group()?)
}
