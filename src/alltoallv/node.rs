//! `NodeShared` and `Aggregated`: the ranks of a node copy into memory that they share, and tell each other by counters in it.
//!
//! A rank's part of the shared memory begins with two counters. `ready` is the number of exchanges that it has started: from
//! then on its receive buffer may be written. `arrived` counts the pieces that others have written. A sender copies a piece
//! when the receiver is ready for this exchange, then counts it; the receiver waits until all of this exchange's pieces are
//! counted. Nobody waits for a rank without data for it. The counters are never set back. What goes to a caller's buffer
//! comes through [`super::lanes`] instead. Where a node has more ranks than cores, one that waits sleeps until its bell is
//! rung.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Buffers;
use super::aggregated::{Messages, Nodes};
use super::bell::Bell;
use super::engine::place;
use super::lanes::{self, Lane, Lanes};
use super::pieces::{Piece, Pieces};
use super::puts::{Pscw, unconfirmed};
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

/// Bytes of the counters at the begin of a part.
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
    /// Where what is received goes: part of the shared memory, or the caller's buffer.
    received: *mut T,
    peers: Vec<Peer<T>>,
    /// What this rank keeps: from, to, count.
    own: Option<(usize, usize, usize)>,
    /// Ranks of the node that send to this one.
    sources: Vec<NonNull<Counters>>,
    exchange: u64,
    outside: Outside<T>,
    send: *const T,
    /// Instead of peers and sources, where what is received goes to a caller's buffer.
    lanes: Lanes<T>,
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
        let places = pieces.places(communicator)?;
        let first = places.iter().position(Option::is_some);
        let node = communicator.split(first, communicator.rank())?;
        let node =
            node.ok_or_else(|| mpi::Error::state("MPI_Comm_split", "no node has this process"))?;
        let near = |rank: &usize| places[*rank].is_some();
        let (near_sources, far_sources): (Vec<usize>, Vec<usize>) =
            pieces.sources.iter().partition(|&rank| near(rank));
        let (near_sends, far_sends): (Vec<Piece>, Vec<Piece>) =
            pieces.sends.iter().partition(|piece| near(&piece.peer));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let callers = !buffers.receive.is_null();
        let mut any = [
            u64::from(!far_sends.is_empty() || !far_sources.is_empty()),
            u64::from(node.size() > cores),
        ];
        communicator.all_reduce(&mut any, Operation::Maximum)?;
        let [any_far, crowded] = any.map(|any| any != 0);

        // A part: counters, those of lanes, their slots, and the memory for what is received. It may begin anywhere.
        let mut lanes_at = vec![0_u64; 2 * communicator.size()];
        let mut end = HEAD;
        if callers {
            for &rank in &near_sources {
                lanes_at[2 * rank] = end as u64;
                end += lanes::HEAD;
            }
        }
        let heads = end;
        if callers {
            for &rank in &near_sources {
                lanes_at[2 * rank + 1] = end as u64;
                end += lanes::bytes_of::<T>(pieces.receive.counts()[rank]);
            }
        }
        let length = if callers { 0 } else { buffers.receive_length };
        let bytes = end + length * size_of::<T>() + align_of::<Counters>();
        let bytes = bytes.next_multiple_of(PAGE);
        // The counters are written, and where they may lie; the first exchange touches the rest.
        let zeroed = heads + align_of::<Counters>();
        let shared = Window::<u8>::allocate_shared_with(&node, bytes, None, zeroed)?;
        let memory = head_of(shared.memory().as_ptr())
            .wrapping_add(end)
            .cast::<T>();
        let counters = counters_of(shared.memory().as_ptr())?;
        let part = |rank: usize| -> mpi::Result<*mut u8> {
            let rank = places[rank].unwrap_or(0);
            Ok(shared.shared(rank)?.as_ptr())
        };
        let received = if callers { buffers.receive } else { memory };

        let mut peers = Vec::new();
        let mut sources = Vec::new();
        let mut lanes = Lanes {
            out: Vec::new(),
            into: Vec::new(),
        };
        if callers {
            let mut lanes_there = vec![0; 2 * communicator.size()];
            communicator.all_to_all(&lanes_at, &mut lanes_there)?;
            // The other end's bell; the lane lies in the receiver's part.
            let lane = |peer: usize, receiver: *mut u8, at: &[u64], buffer: usize, count: usize| {
                let head = head_of(receiver);
                let at = |word: usize| head.wrapping_add(place(at[2 * peer + word]));
                let bell = counters_of(part(peer)?)?;
                // SAFETY: the counters live as long as this value, as what is shared does.
                let bell = NonNull::from(unsafe { &bell.as_ref().bell });
                let counters = NonNull::new(at(0).cast()).ok_or_else(no_memory)?;
                let slots = NonNull::new(at(1).cast()).ok_or_else(no_memory)?;
                // SAFETY: the receiver has laid the lane out for the count, which both sides were found to agree on, and has
                // written zeros to its counters.
                Ok::<_, mpi::Error>(unsafe { Lane::new((counters, slots), bell, buffer, count) })
            };
            for piece in &near_sends {
                let (peer, from, count) = (piece.peer, piece.from, piece.count);
                lanes
                    .out
                    .push(lane(peer, part(peer)?, &lanes_there, from, count)?);
            }
            for &peer in &near_sources {
                let block = pieces.receive.block(peer);
                let mine = shared.memory().as_ptr();
                lanes
                    .into
                    .push(lane(peer, mine, &lanes_at, block.start, block.len())?);
            }
        } else {
            for piece in &near_sends {
                let part = part(piece.peer)?;
                let memory = head_of(part).wrapping_add(HEAD).cast::<T>();
                peers.push(Peer {
                    counters: counters_of(part)?,
                    // The receiver's layout was checked against its own buffer.
                    destination: memory.wrapping_add(place(piece.to)),
                    from: piece.from,
                    count: piece.count,
                    done: true,
                });
            }
            for &rank in &near_sources {
                sources.push(counters_of(part(rank)?)?);
            }
        }
        let outside = if !any_far {
            Outside::Nothing
        } else if aggregate {
            let nodes = Nodes::find(communicator, places)?;
            let receives = far_sources.into_iter();
            let receives = receives.map(|rank| (rank, pieces.receive.block(rank)));
            let receives: Vec<_> = receives.collect();
            let messages = Messages::new(communicator, &node, &nodes, &far_sends, &receives)?;
            Outside::Together(messages)
        } else {
            let base = NonNull::new(received).unwrap_or(NonNull::dangling());
            let length = buffers.receive_length;
            // SAFETY: the memory is the caller's, or part of the shared window, which is freed after this one.
            let window = unsafe { Window::create_raw(communicator, base, length, None, None)? };
            let (sends, sources) = (&far_sends[..], &far_sources[..]);
            let unconfirmed = unconfirmed(communicator, pieces)?;
            Outside::Each(Pscw::new(
                communicator,
                window,
                (sends, sources),
                &unconfirmed,
            )?)
        };
        let alone = communicator.environment().self_communicator().duplicate()?;
        Ok(Self {
            open: alone.ireceive(Nothing, 0, 0)?,
            alone,
            counters,
            peers,
            own: pieces.own.map(|own| (own.from, place(own.to), own.count)),
            sources,
            lanes,
            exchange: 0,
            outside,
            send: buffers.send.cast_const(),
            received,
            crowded,
            shared,
            communicator: node,
        })
    }

    pub(super) fn memory(&self) -> *mut T {
        self.received
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
        self.lanes.start();
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
            unsafe { std::ptr::copy_nonoverlapping(send.add(from), self.received.add(to), count) };
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
        // SAFETY: the layouts were checked against the buffers, which are not lent now.
        complete &= unsafe { self.lanes.advance(self.send, self.received, self.crowded) };
        if let Outside::Together(messages) = &mut self.outside {
            // SAFETY: the layouts were checked against the buffers, which are not lent now.
            complete &= unsafe { messages.advance(self.send, self.received)? };
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

/// Where a part's counters begin. MPI may give any alignment, but the same in every process: it maps whole pages.
fn head_of(part: *mut u8) -> *mut u8 {
    part.wrapping_add(part.align_offset(align_of::<Counters>()))
}

fn counters_of(part: *mut u8) -> mpi::Result<NonNull<Counters>> {
    NonNull::new(head_of(part).cast()).ok_or_else(no_memory)
}

fn no_memory() -> mpi::Error {
    mpi::Error::state("MPI_Win_shared_query", "MPI gave no memory")
}
