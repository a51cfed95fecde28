//! Persistent Alltoallv over one-sided communication (paper P): counts, displacements and windows are set up once, and
//! used each time.
//!
//! ```no_run
//! use malleus::alltoallv::{Plan, Variant};
//! use malleus::mpi::Environment;
//! use malleus::mpi::collective::BlockLayout;
//!
//! # fn main() -> Result<(), malleus::alltoallv::Error> {
//! let environment = Environment::init()?;
//! let world = environment.world();
//! let layout = BlockLayout::packed(vec![1000; world.size()]);
//! let mut plan = Plan::<f64, _>::allocate(&world, Variant::NodeShared, &layout, &layout)?;
//! for iteration in 0..100 {
//!     plan.send_mut().fill(f64::from(iteration));
//!     let started = plan.start()?;
//!     // Work that needs neither buffer.
//!     plan = started.wait()?;
//!     assert_eq!(plan.receive()[0], f64::from(iteration));
//! }
//! plan.free()?;
//! # Ok(())
//! # }
//! ```
//!
//! A plan is a [`Plan`] or a [`Started`]: what does not exist in a state does not compile. As with
//! [`crate::mpi::persistent`], a plan owns its buffers, those of the caller or ones that it has made itself, since one that is
//! forgotten ends a borrow, but not what others write.
#![allow(unsafe_code)]

mod aggregated;
mod auto;
mod bell;
mod engine;
mod in_place;
mod lanes;
mod node;
mod pieces;
mod puts;
mod standard;
mod table;
mod variant;

use std::fmt;
use std::mem::ManuallyDrop;

use crate::mpi::collective::BlockLayout;
use crate::mpi::request::{Buffer, BufferMut};
use crate::mpi::{self, Communicator, Element};

pub use auto::measure;
use engine::Engine;
pub use in_place::InPlace;
use in_place::Staged;
use pieces::Pieces;
pub use table::{Entry, Shape, Table};
pub use variant::{UnknownVariant, Variant};

/// Why a plan could not be made or used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An MPI call failed.
    #[error(transparent)]
    Mpi(#[from] mpi::Error),
    /// A rank sends another number of elements than the other expects. The same on every rank.
    #[error("rank {from} sends {sent} elements to rank {to}, which expects {expected}")]
    Counts {
        /// The first sender for which it is so.
        from: usize,
        /// The receiver.
        to: usize,
        /// What it sends.
        sent: u64,
        /// What is expected.
        expected: u64,
    },
    /// A layout does not fit its buffer or the communicator, on some rank. The same on every rank.
    #[error("rank {rank}: {problem}")]
    Layout {
        /// The first rank for which it is so.
        rank: usize,
        /// What does not fit.
        problem: String,
    },
}

/// Result of an operation of a plan.
pub type Result<T> = std::result::Result<T, Error>;

/// Buffers that a plan has made: what is sent is in a vector, what is received where the variant is fastest.
#[derive(Debug)]
pub struct Own<T: Element> {
    send: Vec<T>,
    /// Where the variant has no better place.
    receive: Vec<T>,
}

/// An Alltoallv that is set up, and not going on: its buffers may be used.
///
/// [`Plan::free`] on every rank is the normal end. Dropping one leaves windows and buffers behind, and marks the
/// environment failed.
#[must_use = "start or free it"]
#[derive(Debug)]
pub struct Plan<T: Element, K> {
    parts: Box<Parts<T, K>>,
}

/// An Alltoallv that was started. Its buffers are not the application's until [`Started::wait`].
///
/// Dropping it is sound: windows and buffers are left behind, and the environment is marked failed. The other ranks may wait
/// for this one then.
#[must_use = "wait for it"]
#[derive(Debug)]
pub struct Started<T: Element, K> {
    parts: Box<Parts<T, K>>,
}

struct Parts<T: Element, K> {
    /// Given back by `free`, and left behind otherwise: others may write it.
    kept: ManuallyDrop<Box<K>>,
    engine: Engine<T>,
    buffers: Buffers<T>,
    /// Where the application finds what was received.
    received: *mut T,
    /// What a start copies from there to the send buffer.
    staged: Vec<Staged>,
    /// What was asked for, and what is at work.
    variant: Variant,
    chosen: Variant,
}

/// Where a plan's buffers are.
#[derive(Clone, Copy, Debug)]
struct Buffers<T> {
    /// Null where MPI takes what is sent from the receive buffer.
    send: *mut T,
    send_length: usize,
    /// Null where the engine has it.
    receive: *mut T,
    receive_length: usize,
}

impl<T: Element> Plan<T, Own<T>> {
    /// Sets up an exchange between buffers of the plan's own: what is received is in window memory where the variant has
    /// some. Both are zero at first. Collective and blocking; `MPI_Alltoall` of 16 bytes per rank, and what the variant's
    /// window needs.
    ///
    /// Window memory is filled with zeros, gaps of the receive layout as well, but for that which the ranks of a node share;
    /// with [`Plan::over`] a gap is not touched.
    ///
    /// Every rank makes its plan by the same function and with the same variant: windows that MPI allocates and windows over
    /// a caller's memory do not fit together.
    ///
    /// The layouts are in elements, with a block for each rank of the communicator. [`Variant::Auto`] exchanges what is in the
    /// buffers a few times, unless the machine's [`Table`] decides; the variants that it tries have their windows at once.
    ///
    /// # Errors
    ///
    /// [`Error::Counts`] and [`Error::Layout`], on every rank; the MPI error otherwise.
    pub fn allocate(
        communicator: &Communicator,
        variant: Variant,
        send: &BlockLayout,
        receive: &BlockLayout,
    ) -> Result<Self> {
        let (send_length, receive_length) = (pieces::span(send), pieces::span(receive));
        let pieces =
            Pieces::exchange(communicator, (send, send_length), (receive, receive_length))?;
        let inside = variant.has_own_memory();
        let mut own = Box::new(Own {
            send: buffer(send),
            receive: if inside { Vec::new() } else { buffer(receive) },
        });
        let buffers = Buffers {
            send: own.send.as_mut_ptr(),
            send_length,
            receive: if inside {
                std::ptr::null_mut()
            } else {
                own.receive.as_mut_ptr()
            },
            receive_length,
        };
        let mut plan = Self::new(communicator, variant, pieces, buffers, own, true)?;
        if plan.parts.buffers.receive.is_null() {
            plan.parts.kept.receive = Vec::new();
        }
        Ok(plan)
    }

    /// Frees windows and buffers. Collective and blocking.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn free(self) -> Result<()> {
        self.end().map(drop)
    }

    /// What is sent, for writing.
    #[must_use]
    pub fn send_mut(&mut self) -> &mut [T] {
        self.parts.send_mut()
    }
}

impl<S: Buffer, R: BufferMut<Element = S::Element>> Plan<S::Element, (S, R)> {
    /// Sets up an exchange between buffers of the caller, which come back from [`Plan::free`]. Collective and blocking;
    /// otherwise as [`Plan::allocate`].
    ///
    /// # Errors
    ///
    /// As for [`Plan::allocate`].
    pub fn over(
        communicator: &Communicator,
        variant: Variant,
        (send, send_layout): (S, &BlockLayout),
        (receive, receive_layout): (R, &BlockLayout),
    ) -> Result<Self> {
        let mut kept = Box::new((send, receive));
        let (send, receive) = (kept.0.elements(), kept.1.elements_mut());
        let buffers = Buffers {
            send: send.as_ptr().cast_mut(),
            send_length: send.len(),
            receive: receive.as_mut_ptr(),
            receive_length: receive.len(),
        };
        let pieces = Pieces::exchange(
            communicator,
            (send_layout, buffers.send_length),
            (receive_layout, buffers.receive_length),
        )?;
        Self::new(communicator, variant, pieces, buffers, kept, false)
    }

    /// Frees the windows, and gives the buffers back. Collective and blocking.
    ///
    /// # Errors
    ///
    /// The MPI error, with which the buffers are left behind.
    pub fn free(self) -> Result<(S, R)> {
        self.end()
    }

    /// What is sent, for writing.
    #[must_use]
    pub fn send_mut(&mut self) -> &mut [S::Element]
    where
        S: BufferMut,
    {
        self.parts.send_mut()
    }
}

impl<T: Element, K> Plan<T, K> {
    fn new(
        communicator: &Communicator,
        variant: Variant,
        pieces: Pieces,
        mut buffers: Buffers<T>,
        kept: Box<K>,
        own: bool,
    ) -> Result<Self> {
        // From here on others may write.
        let kept = ManuallyDrop::new(kept);
        // SAFETY: the buffers are left where they are until the engine has ended, or for ever.
        let (chosen, engine) = unsafe {
            if variant == Variant::Auto {
                auto::choose(communicator, &pieces, buffers, own)?
            } else {
                let engine = Engine::new(communicator, variant, pieces, buffers)?;
                (variant, engine)
            }
        };
        if own && chosen.has_own_memory() {
            buffers.receive = std::ptr::null_mut();
        }
        let received = if buffers.receive.is_null() {
            engine.memory()
        } else {
            buffers.receive
        };
        Ok(Self {
            parts: Box::new(Parts {
                kept,
                engine,
                buffers,
                received,
                staged: Vec::new(),
                variant,
                chosen,
            }),
        })
    }

    /// The variant that was asked for.
    #[must_use]
    pub fn variant(&self) -> Variant {
        self.parts.variant
    }

    /// The variant at work: another one than [`Plan::variant`] where that is [`Variant::Auto`].
    #[must_use]
    pub fn chosen(&self) -> Variant {
        self.parts.chosen
    }

    /// What is sent.
    #[must_use]
    pub fn send(&self) -> &[T] {
        let Buffers {
            send, send_length, ..
        } = self.parts.buffers;
        // SAFETY: the buffer lives as long as the plan, and is only read by an exchange, of which none is going on.
        unsafe { slice(send, send_length) }
    }

    /// What was received the last time. What no rank sends to is what it was.
    #[must_use]
    pub fn receive(&self) -> &[T] {
        // SAFETY: the memory lives as long as the plan. Nobody writes it before this rank starts the next exchange.
        unsafe { slice(self.parts.received, self.parts.buffers.receive_length) }
    }

    /// The memory for what is received, for writing: it is this rank's until the next start.
    #[must_use]
    pub fn receive_mut(&mut self) -> &mut [T] {
        let length = self.parts.buffers.receive_length;
        // SAFETY: as for `receive`; the plan is borrowed exclusively.
        unsafe { slice_mut(self.parts.received, length) }
    }

    /// Starts an exchange. Every rank starts its plans in the same order, and waits for them in the same order. It may wait
    /// for the others: with the fence variants until they have started as well.
    ///
    /// # Errors
    ///
    /// The MPI error, with which the plan is gone.
    #[inline]
    pub fn start(mut self) -> Result<Started<T, K>> {
        self.parts.stage();
        self.parts.engine.start()?;
        Ok(Started { parts: self.parts })
    }

    fn end(self) -> Result<K> {
        let Parts { kept, engine, .. } = *self.parts;
        engine.free()?;
        Ok(*ManuallyDrop::into_inner(kept))
    }
}

/// Without the buffers, which others may write.
impl<T: Element, K> fmt::Debug for Parts<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("variant", &self.variant)
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}

impl<T: Element, K> Parts<T, K> {
    #[inline]
    fn stage(&mut self) {
        for block in &self.staged {
            // SAFETY: the blocks lie inside of both buffers, which do not overlap, and no exchange is going on.
            unsafe {
                let (from, to) = (
                    self.received.add(block.from),
                    self.buffers.send.add(block.to),
                );
                std::ptr::copy_nonoverlapping(from, to, block.count);
            }
        }
    }

    fn send_mut(&mut self) -> &mut [T] {
        // SAFETY: the plan is borrowed exclusively, its buffer may be written, and no exchange is going on.
        unsafe { slice_mut(self.buffers.send, self.buffers.send_length) }
    }
}

impl<T: Element, K> Started<T, K> {
    /// Whether [`Started::wait`] returns at once; it never says so for a variant that can't tell. Local.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn test(&mut self) -> Result<bool> {
        Ok(self.parts.engine.test()?)
    }

    /// Waits until everything that this rank receives is there, and what it sends may be written again. Blocking.
    ///
    /// # Errors
    ///
    /// The MPI error, with which the plan is gone.
    #[inline]
    pub fn wait(mut self) -> Result<Plan<T, K>> {
        self.parts.engine.wait()?;
        Ok(Plan { parts: self.parts })
    }
}

/// A buffer for a layout, which takes no memory before it is written.
fn buffer<T: Element>(layout: &BlockLayout) -> Vec<T> {
    vec![zero(); pieces::span(layout)]
}

fn zero<T: Element>() -> T {
    // SAFETY: every bit pattern is a valid element.
    unsafe { std::mem::zeroed() }
}

/// # Safety
///
/// `length` elements from `base` on are valid for reads for the lifetime, unless there are none.
unsafe fn slice<'a, T>(base: *const T, length: usize) -> &'a [T] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(base, length) }
}

/// # Safety
///
/// As for [`slice`], for writes, and nobody else uses them.
unsafe fn slice_mut<'a, T>(base: *mut T, length: usize) -> &'a mut [T] {
    if length == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(base, length) }
}
