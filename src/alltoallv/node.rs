//! `NodeShared` and `Aggregated`: the ranks of a node copy into memory that they share, and tell each other by counters in it.
//!
//! A rank's part of the shared memory begins with two counters. `ready` is the number of exchanges that it has started: from
//! then on its receive buffer may be written. `arrived` counts the pieces that others have written. A sender copies a piece
//! when the receiver is ready for this exchange, then counts it; the receiver waits until all of this exchange's pieces are
//! counted. Nobody waits for a rank without data for it. The counters are never set back. Where a node has more ranks than
//! cores, one that waits sleeps until its bell is rung.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Buffers;
use super::aggregated::{Messages, Nodes};
use super::bell::Bell;
use super::engine::{place, places};
use super::pieces::{Piece, Pieces, span};
use super::puts::Pscw;
use crate::mpi::collective::BlockLayout;
use crate::mpi::request::{Nothing, OwnedRequest};
use crate::mpi::window::Window;
use crate::mpi::{self, Communicator, Element, Operation};

/// The counters, each in a cache line of its own (two, since lines are fetched in pairs).
#[repr(C, align(128))]
struct Counters {
    ready: Line,
    arrived: Line,
    bell: Bell,
}

#[repr(C, align(128))]
pub(super) struct Line(pub(super) AtomicU64);

/// Bytes before the buffer in a part.
const HEAD: usize = size_of::<Counters>();
/// Parts begin at pages.
const PAGE: usize = 4096;
/// Looks at the counters before a rank gives its core away, where there are as many cores as ranks.
const LOOKS: u32 = 2000;
/// How long a rank sleeps at most, where there are not: others may wait for it in MPI.
const NAP: Duration = Duration::from_millis(1);
/// Looks between two calls of MPI, which lets others go on that wait for this rank in it.
const LOOKS_PER_CALL: u32 = 200;

/// A rank of the node that this one sends to.
struct Peer<T> {
    counters: NonNull<Counters>,
    destination: *mut T,
    from: usize,
    count: usize,
    done: bool,
}

pub(super) struct Node<T: Element> {
    /// Where the parts lie.
    shared: Window<u8>,
    communicator: Communicator,
    counters: NonNull<Counters>,
    memory: *mut T,
    peers: Vec<Peer<T>>,
    /// What this rank keeps: from, to, count.
    own: Option<(usize, usize, usize)>,
    /// Ranks of the node that send to this one.
    sources: Vec<NonNull<Counters>>,
    exchange: u64,
    outside: Outside<T>,
    send: *const T,
    /// Where the caller wants it.
    copy_to: *mut T,
    /// What is copied there: from, to, count.
    blocks: Vec<(usize, usize, usize)>,
    /// Whether the node has more ranks than cores, by what any of its ranks knows.
    crowded: bool,
    /// A receive that stays open, to test.
    open: OwnedRequest<Nothing>,
    alone: Communicator,
}

/// What comes from other nodes and goes there.
enum Outside<T: Element> {
    Nothing,
    Each(Pscw<T>),
    Together(Messages<T>),
}

impl<T: Element> Node<T> {
    /// Collective and blocking. What goes to other nodes is one message each, if `aggregate`.
    ///
    /// # Safety
    ///
    /// As for [`super::engine::Engine::new`].
    pub(super) unsafe fn new(
        communicator: &Communicator,
        pieces: &Pieces,
        buffers: Buffers<T>,
        aggregate: bool,
    ) -> mpi::Result<Self> {
        let node = communicator.split_shared()?;
        // What is copied to the caller lies packed: no gap of the caller's layout takes shared memory.
        let held = if buffers.receive.is_null() {
            pieces.receive.clone()
        } else {
            BlockLayout::packed(pieces.receive.counts().to_vec())
        };
        let length = span(&held);
        let starts = (0..communicator.size()).map(|rank| held.block(rank).start as u64);
        let mut places_there = vec![0; communicator.size()];
        communicator.all_to_all(&starts.collect::<Vec<_>>(), &mut places_there)?;
        let bytes = HEAD + length * size_of::<T>() + align_of::<Counters>();
        let bytes = bytes.next_multiple_of(PAGE);
        // The counters are written, and where they may lie; the first exchange touches the rest.
        let shared = Window::<u8>::allocate_shared_with(&node, bytes, None, 2 * HEAD)?;
        let base = shared.memory().as_ptr();
        let places = places(communicator, &node)?;
        let part = |rank: usize| -> mpi::Result<(NonNull<Counters>, *mut T)> {
            let part = shared.shared(rank)?.as_ptr();
            parts_of(part)
        };
        let (counters, memory) = parts_of(base)?;
        let mut peers = Vec::new();
        let mut far = Vec::new();
        for piece in &pieces.sends {
            let piece = &Piece {
                to: places_there[piece.peer],
                ..*piece
            };
            let Some(rank) = places[piece.peer] else {
                far.push(*piece);
                continue;
            };
            let (counters, memory) = part(rank)?;
            peers.push(Peer {
                counters,
                // The receiver's layout was checked against its own buffer.
                destination: memory.wrapping_add(place(piece.to)),
                from: piece.from,
                count: piece.count,
                done: true,
            });
        }
        let (near, far_sources): (Vec<usize>, Vec<usize>) = pieces
            .sources
            .iter()
            .partition(|&&rank| places[rank].is_some());
        let sources = near.into_iter().filter_map(|rank| places[rank]);
        let sources = sources.map(|rank| Ok(part(rank)?.0));
        let sources = sources.collect::<mpi::Result<_>>()?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut any = [
            u64::from(!far.is_empty() || !far_sources.is_empty()),
            u64::from(node.size() > cores),
        ];
        communicator.all_reduce(&mut any, Operation::Maximum)?;
        let outside = if any[0] == 0 {
            Outside::Nothing
        } else if aggregate {
            let nodes = Nodes::find(communicator, &places)?;
            let receives = far_sources.into_iter().map(|rank| (rank, held.block(rank)));
            let receives: Vec<_> = receives.collect();
            let messages = Messages::new(communicator, &node, &nodes, &far, &receives)?;
            Outside::Together(messages)
        } else {
            let base = NonNull::new(memory).unwrap_or(NonNull::dangling());
            // SAFETY: the memory is part of the shared window, which is freed after this one.
            let window = unsafe { Window::create_raw(communicator, base, length, None, None)? };
            Outside::Each(Pscw::new(communicator, window, &far, &far_sources)?)
        };
        let blocks = (0..communicator.size()).map(|rank| {
            let to = pieces.receive.block(rank);
            (held.block(rank).start, to.start, to.len())
        });
        let alone = communicator.environment().self_communicator().duplicate()?;
        Ok(Self {
            open: alone.ireceive(Nothing, 0, 0)?,
            alone,
            counters,
            memory,
            peers,
            own: pieces
                .own
                .map(|own| (own.from, held.block(communicator.rank()).start, own.count)),
            sources,
            exchange: 0,
            outside,
            send: buffers.send.cast_const(),
            copy_to: buffers.receive,
            blocks: blocks.filter(|&(_, _, count)| count > 0).collect(),
            crowded: any[1] != 0,
            shared,
            communicator: node,
        })
    }

    pub(super) fn memory(&self) -> *mut T {
        self.memory
    }

    fn counters(&self) -> &Counters {
        // SAFETY: the shared memory lives as long as this value, and begins with the counters, zero at first.
        unsafe { self.counters.as_ref() }
    }

    /// # Safety
    ///
    /// The plan lends neither buffer until [`Node::wait`] has returned.
    pub(super) unsafe fn start(&mut self, send: *const T) -> mpi::Result<()> {
        self.exchange += 1;
        self.send = send;
        for peer in &mut self.peers {
            peer.done = false;
        }
        self.counters()
            .ready
            .0
            .store(self.exchange, Ordering::Release);
        if self.crowded {
            for source in &self.sources {
                // SAFETY: the shared memory lives as long as this value.
                unsafe { source.as_ref() }.bell.ring();
            }
        }
        match &mut self.outside {
            Outside::Nothing => {}
            // SAFETY: the caller's promise.
            Outside::Each(epochs) => unsafe { epochs.start(send)? },
            Outside::Together(messages) => messages.start(),
        }
        if let Some((from, to, count)) = self.own {
            // SAFETY: the layouts were checked against the buffers. Others write other blocks.
            unsafe { std::ptr::copy_nonoverlapping(send.add(from), self.memory.add(to), count) };
        }
        self.is_complete()?;
        Ok(())
    }

    /// Copies to those that are ready. Whether everything has left.
    fn copy(&mut self) -> bool {
        let mut all = true;
        for peer in self.peers.iter_mut().filter(|peer| !peer.done) {
            // SAFETY: the shared memory lives as long as this value.
            let counters = unsafe { peer.counters.as_ref() };
            if counters.ready.0.load(Ordering::Acquire) < self.exchange {
                all = false;
                continue;
            }
            // SAFETY: the receiver has left this block to this rank until it is counted; both layouts were checked.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.send.add(peer.from),
                    peer.destination,
                    peer.count,
                );
            }
            counters.arrived.0.fetch_add(1, Ordering::Release);
            if self.crowded {
                counters.bell.ring();
            }
            peer.done = true;
        }
        all
    }

    /// Does what can be done. Whether the exchange is complete, but for epochs with other nodes.
    fn is_complete(&mut self) -> mpi::Result<bool> {
        let expected = self.exchange * self.sources.len() as u64;
        let mut complete =
            self.copy() && self.counters().arrived.0.load(Ordering::Acquire) >= expected;
        if let Outside::Together(messages) = &mut self.outside {
            // SAFETY: the layouts were checked against the buffers, which are not lent now.
            complete &= unsafe { messages.advance(self.send, self.memory)? };
        }
        Ok(complete)
    }

    pub(super) fn test(&mut self) -> mpi::Result<bool> {
        let complete = self.is_complete()?;
        self.open.test()?;
        match &mut self.outside {
            Outside::Each(epochs) => Ok(complete && epochs.test()?),
            _ => Ok(complete),
        }
    }

    pub(super) fn wait(&mut self) -> mpi::Result<()> {
        // A message between nodes rings no bell.
        let sleeps = self.crowded && !matches!(self.outside, Outside::Together(_));
        let mut looks = 0_u32;
        while !self.is_complete()? {
            looks = looks.wrapping_add(1);
            if sleeps {
                let counters = self.counters;
                // SAFETY: the shared memory lives as long as this value.
                let bell = unsafe { &counters.as_ref().bell };
                if bell.sleep(NAP, || self.is_complete())? {
                    break;
                }
                self.open.test()?;
                continue;
            }
            if looks.is_multiple_of(LOOKS_PER_CALL) {
                self.open.test()?;
            }
            if self.crowded || looks > LOOKS {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        if let Outside::Each(epochs) = &mut self.outside {
            epochs.wait()?;
        }
        if !self.copy_to.is_null() {
            for &(from, to, count) in &self.blocks {
                // SAFETY: the caller's buffer is as long as its layout needs; nobody writes the shared one now.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        self.memory.add(from),
                        self.copy_to.add(to),
                        count,
                    );
                }
            }
        }
        Ok(())
    }

    /// Collective and blocking.
    pub(super) fn free(self) -> mpi::Result<()> {
        match self.outside {
            Outside::Nothing => {}
            Outside::Each(epochs) => epochs.free()?,
            Outside::Together(messages) => messages.free()?,
        }
        // Nobody copies any more: each rank has waited for its last exchange, and for all of its pieces.
        self.shared.free()?;
        self.communicator.free()?;
        self.alone.send::<u8>(&[], 0, 0)?;
        self.open.wait()?;
        self.alone.free()
    }
}

/// The counters and the buffer in a part. MPI may give any alignment, but the same in every process: it maps whole pages.
fn parts_of<T>(part: *mut u8) -> mpi::Result<(NonNull<Counters>, *mut T)> {
    let head = part.wrapping_add(part.align_offset(align_of::<Counters>()));
    match NonNull::new(head.cast::<Counters>()) {
        Some(counters) => Ok((counters, head.wrapping_add(HEAD).cast())),
        None => Err(mpi::Error::state(
            "MPI_Win_shared_query",
            "MPI gave no memory",
        )),
    }
}
