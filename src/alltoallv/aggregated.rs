//! `Aggregated`: one message for each pair of nodes and exchange.
//!
//! For each other node, one rank of a node leads: it sends what all of its node's ranks have for that node, and receives
//! what comes back. The leader's part of a shared window has a stage for each direction, with two counters. Into one that
//! goes out, ranks copy their pieces and count `filled`; when all are there, the leader sends the stage, and then counts
//! `emptied`. Into one that comes in, the leader receives and counts `filled`; ranks copy their pieces out and count
//! `emptied`, which says that the next message may come. As with the counters of [`super::node`], none is ever set back.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::node::Line;
use super::pieces::Piece;
use crate::mpi::datatype::int;
use crate::mpi::error::{mpi, mpi_count};
use crate::mpi::window::Window;
use crate::mpi::{self, Communicator, Element};
use crate::sys;

/// Who is on which node.
pub(super) struct Nodes {
    /// The communicator's ranks on each node, in order.
    ranks: Vec<Vec<usize>>,
    /// The node of each rank.
    of: Vec<usize>,
}

impl Nodes {
    /// Collective; `MPI_Allgather` of 8 bytes.
    pub(super) fn find(communicator: &Communicator, places: &[Option<usize>]) -> mpi::Result<Self> {
        let lowest = places.iter().position(Option::is_some).unwrap_or(0) as u64;
        let mut all = vec![0_u64; communicator.size()];
        communicator.all_gather(&[lowest], &mut all)?;
        let mut firsts = all.clone();
        firsts.sort_unstable();
        firsts.dedup();
        let of = all
            .iter()
            .map(|first| firsts.partition_point(|one| one < first));
        let of: Vec<usize> = of.collect();
        let mut ranks = vec![Vec::new(); firsts.len()];
        for (rank, &node) in of.iter().enumerate() {
            ranks[node].push(rank);
        }
        Ok(Self { ranks, of })
    }

    pub(super) fn count(&self) -> usize {
        self.ranks.len()
    }

    /// Which rank of a node, counted on the node, leads what it has with another node.
    fn leader(&self, node: usize, other: usize) -> usize {
        other % self.ranks[node].len()
    }
}

#[repr(C, align(128))]
struct Counters {
    filled: Line,
    emptied: Line,
}

impl Counters {
    fn filled(&self) -> &AtomicU64 {
        &self.filled.0
    }

    fn emptied(&self) -> &AtomicU64 {
        &self.emptied.0
    }
}

/// What one node has for another one: its elements, and the ranks of this node that have some of them.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    elements: usize,
    ranks: u64,
}

/// Where elements of one message are, in the stage and in a buffer of this rank.
#[derive(Clone, Copy, Debug)]
struct Part {
    staged: usize,
    buffer: usize,
    count: usize,
}

/// A stage that this rank copies into or out of.
struct Stage<T> {
    counters: NonNull<Counters>,
    elements: *mut T,
    parts: Vec<Part>,
    done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Going,
    Done,
}

/// A message that this rank sends or receives for its node.
struct Message {
    counters: NonNull<Counters>,
    request: sys::MPI_Request,
    /// Ranks that fill or empty the stage.
    ranks: u64,
    sends: bool,
    state: State,
}

pub(super) struct Messages<T: Element> {
    stages: Window<u8>,
    communicator: Communicator,
    out: Vec<Stage<T>>,
    into: Vec<Stage<T>>,
    led: Vec<Message>,
    exchange: u64,
}

/// Bytes of a stage with so many elements.
fn bytes_of<T>(load: Load) -> usize {
    let bytes = size_of::<Counters>() + load.elements * size_of::<T>();
    bytes.next_multiple_of(align_of::<Counters>())
}

impl<T: Element> Messages<T> {
    /// Collective; `node` has the ranks of this one, `sends` and `receives` are what this rank has with ranks elsewhere.
    pub(super) fn new(
        communicator: &Communicator,
        node: &Communicator,
        nodes: &Nodes,
        sends: &[Piece],
        receives: &[(usize, std::ops::Range<usize>)],
    ) -> mpi::Result<Self> {
        let here = nodes.of[communicator.rank()];
        let count = nodes.ranks.len();
        // What each rank of this node has with each other node: elements out, elements in.
        let mut mine = vec![0_u64; 2 * count];
        for piece in sends {
            mine[2 * nodes.of[piece.peer]] += piece.count as u64;
        }
        for (peer, block) in receives {
            mine[2 * nodes.of[*peer] + 1] += block.len() as u64;
        }
        let mut all = vec![0; 2 * count * node.size()];
        node.all_gather(&mine, &mut all)?;
        let elements = |rank: usize, other: usize, inward: usize| {
            super::engine::place(all[2 * (rank * count + other) + inward])
        };
        let load = |other: usize, inward: usize| {
            (0..node.size()).fold(Load::default(), |load, rank| {
                let elements = elements(rank, other, inward);
                Load {
                    elements: load.elements + elements,
                    ranks: load.ranks + u64::from(elements > 0),
                }
            })
        };
        let loads: Vec<[Load; 2]> = (0..count)
            .map(|other| [load(other, 0), load(other, 1)])
            .collect();

        // Receivers hear where in the message their piece is.
        let mut begins = vec![0_u64; communicator.size()];
        let mut out_parts = vec![Vec::new(); count];
        let mut ends: Vec<usize> = (0..count)
            .map(|other| (0..node.rank()).map(|rank| elements(rank, other, 0)).sum())
            .collect();
        for piece in sends {
            let other = nodes.of[piece.peer];
            begins[piece.peer] = ends[other] as u64;
            out_parts[other].push(Part {
                staged: ends[other],
                buffer: piece.from,
                count: piece.count,
            });
            ends[other] += piece.count;
        }
        let mut found = vec![0; communicator.size()];
        communicator.all_to_all(&begins, &mut found)?;
        let mut into_parts = vec![Vec::new(); count];
        for (peer, block) in receives {
            into_parts[nodes.of[*peer]].push(Part {
                staged: super::engine::place(found[*peer]),
                buffer: block.start,
                count: block.len(),
            });
        }

        // Where in its leader's memory each stage is.
        let mut lengths = vec![0; node.size()];
        let mut places = vec![[0; 2]; count];
        for other in (0..count).filter(|&other| other != here) {
            let leader = nodes.leader(here, other);
            for (place, load) in places[other].iter_mut().zip(loads[other]) {
                *place = lengths[leader];
                lengths[leader] += bytes_of::<T>(load);
            }
        }
        // The memory may begin anywhere.
        let length = lengths[node.rank()] + align_of::<Counters>();
        let stages = Window::<u8>::allocate_shared(node, length, None)?;
        let communicator = communicator.duplicate()?;
        let mut messages = Self {
            stages,
            communicator,
            out: Vec::new(),
            into: Vec::new(),
            led: Vec::new(),
            exchange: 0,
        };
        for other in (0..count).filter(|&other| other != here) {
            let leader = nodes.leader(here, other);
            let theirs = nodes.ranks[other][nodes.leader(other, here)];
            let parts = [&mut out_parts, &mut into_parts].map(|of| std::mem::take(&mut of[other]));
            for (inward, parts) in parts.into_iter().enumerate() {
                let load = loads[other][inward];
                if load.elements == 0 {
                    continue;
                }
                let (counters, elements) = messages.stage(leader, places[other][inward])?;
                if !parts.is_empty() {
                    let stage = Stage {
                        counters,
                        elements,
                        parts,
                        done: true,
                    };
                    [&mut messages.out, &mut messages.into][inward].push(stage);
                }
                if leader == node.rank() {
                    let sends = inward == 0;
                    let message = (counters, elements);
                    messages.lead(message, load, theirs, sends)?;
                }
            }
        }
        Ok(messages)
    }

    fn stage(&self, leader: usize, at: usize) -> mpi::Result<(NonNull<Counters>, *mut T)> {
        let memory = self.stages.shared(leader)?.as_ptr();
        let stage = memory.wrapping_add(memory.align_offset(align_of::<Counters>()) + at);
        match NonNull::new(stage.cast::<Counters>()) {
            Some(counters) => {
                let elements = stage.wrapping_add(size_of::<Counters>());
                Ok((counters, elements.cast()))
            }
            None => Err(mpi::Error::state(
                "MPI_Win_shared_query",
                "MPI gave no memory",
            )),
        }
    }

    fn lead(
        &mut self,
        (counters, elements): (NonNull<Counters>, *mut T),
        load: Load,
        peer: usize,
        sends: bool,
    ) -> mpi::Result<()> {
        const TAG: c_int = 0;
        let peer = int("MPI_Send_init", "rank", peer)?;
        let (comm, kind) = (self.communicator.as_raw(), T::KIND.as_raw());
        let mut request = sys::MALLEUS_REQUEST_NULL;
        let place = &raw mut request;
        let buffer = elements.cast();
        // SAFETY: the stage has so many elements, and lives until the request is freed.
        unsafe {
            if sends {
                mpi_count!(MPI_Send_init | MPI_Send_init_c, load.elements, |n| (
                    buffer, n, kind, peer, TAG, comm, place
                ))?;
            } else {
                mpi_count!(MPI_Recv_init | MPI_Recv_init_c, load.elements, |n| (
                    buffer, n, kind, peer, TAG, comm, place
                ))?;
            }
        }
        self.led.push(Message {
            counters,
            request,
            ranks: load.ranks,
            sends,
            state: State::Done,
        });
        Ok(())
    }

    pub(super) fn start(&mut self) {
        self.exchange += 1;
        for stage in self.out.iter_mut().chain(&mut self.into) {
            stage.done = false;
        }
        for message in &mut self.led {
            message.state = State::Waiting;
        }
    }

    /// Does what can be done. Whether the exchange is complete for this rank, and for those that it leads for.
    ///
    /// # Safety
    ///
    /// The elements from `send` and `receive` on are as the layouts say, and nobody else's.
    pub(super) unsafe fn advance(&mut self, send: *const T, receive: *mut T) -> mpi::Result<bool> {
        let exchange = self.exchange;
        let mut all = true;
        for stage in self.out.iter_mut().filter(|stage| !stage.done) {
            // SAFETY: the stages live as long as this value.
            let counters = unsafe { stage.counters.as_ref() };
            // The message before this one has left.
            stage.done = counters.emptied().load(Ordering::Acquire) >= exchange - 1;
            if stage.done {
                for part in &stage.parts {
                    // SAFETY: the caller's promise; this part of the stage is this rank's until it is counted.
                    unsafe {
                        let to = stage.elements.add(part.staged);
                        std::ptr::copy_nonoverlapping(send.add(part.buffer), to, part.count);
                    }
                }
                counters.filled().fetch_add(1, Ordering::Release);
            }
            all &= stage.done;
        }
        for message in &mut self.led {
            // SAFETY: the stages live as long as this value.
            all &= unsafe { message.advance(exchange)? };
        }
        for stage in self.into.iter_mut().filter(|stage| !stage.done) {
            // SAFETY: the same.
            let counters = unsafe { stage.counters.as_ref() };
            stage.done = counters.filled().load(Ordering::Acquire) >= exchange;
            if stage.done {
                for part in &stage.parts {
                    // SAFETY: the caller's promise; the stage stays as it is until all of its readers are counted.
                    unsafe {
                        let from = stage.elements.add(part.staged);
                        std::ptr::copy_nonoverlapping(from, receive.add(part.buffer), part.count);
                    }
                }
                counters.emptied().fetch_add(1, Ordering::Release);
            }
            all &= stage.done;
        }
        Ok(all)
    }

    /// Collective and blocking.
    pub(super) fn free(self) -> mpi::Result<()> {
        for mut message in self.led {
            // SAFETY: the request is inactive, and this is its last use.
            unsafe { mpi!(MPI_Request_free(&raw mut message.request))? };
        }
        self.stages.free()?;
        self.communicator.free()
    }
}

impl Message {
    /// # Safety
    ///
    /// The stage is there.
    unsafe fn advance(&mut self, exchange: u64) -> mpi::Result<bool> {
        // SAFETY: the caller's promise.
        let counters = unsafe { self.counters.as_ref() };
        if self.state == State::Waiting {
            let (counter, needed) = if self.sends {
                (counters.filled(), exchange * self.ranks)
            } else {
                (counters.emptied(), (exchange - 1) * self.ranks)
            };
            if counter.load(Ordering::Acquire) >= needed {
                // SAFETY: the request is inactive, and the stage MPI's until it ends.
                unsafe { mpi!(MPI_Start(&raw mut self.request))? };
                self.state = State::Going;
            }
        }
        if self.state == State::Going {
            let mut done = 0;
            // SAFETY: the request is persistent, and stays valid.
            unsafe {
                mpi!(MPI_Test(
                    &raw mut self.request,
                    &raw mut done,
                    sys::status_ignore()
                ))?;
            }
            if done != 0 {
                let counter = if self.sends {
                    counters.emptied()
                } else {
                    counters.filled()
                };
                counter.store(exchange, Ordering::Release);
                self.state = State::Done;
            }
        }
        Ok(self.state == State::Done)
    }
}
