//! Persistent operations: set up once, started often (MPI standard, chapters 3.9 and 6.13).
//!
//! An operation is [`Inactive`] or [`Active`], and only what MPI allows in a state exists in its type:
//! starting twice, waiting for what was not started, and touching a buffer that MPI uses do not compile.
//!
//! An operation owns its buffers. A borrowed one would not be safe: an [`Active`] that is forgotten ends
//! the borrow, but not the operation.
//!
//! ```no_run
//! # fn main() -> malleus::mpi::Result<()> {
//! use malleus::mpi::{Environment, Operation};
//!
//! let environment = Environment::init()?;
//! let world = environment.world();
//! let mut sum = world.all_reduce_init_in_place(vec![0.0; 4], Operation::Sum, None)?;
//! for iteration in 0..10 {
//!     sum.receive_mut().fill(f64::from(iteration));
//!     let active = sum.start()?;
//!     // Work that needs neither buffer.
//!     sum = active.wait()?;
//!     println!("{}", sum.receive()[0]);
//! }
//! let (_, _buffer) = sum.free()?;
//! # Ok(())
//! # }
//! ```
//!
//! Setting up a collective is collective and may block; starting it is local, and has to happen in the
//! same order among the collectives of a communicator on every rank; freeing is local
//! (`MPI_Request_free`). An operation counts as a handle of its communicator, which can be freed after
//! it only.

mod collective;
mod point_to_point;

use std::fmt;

use super::collective::{Call, Form, Memory};
use super::communicator::Communicator;
use super::datatype::int;
use super::error::{Result, mpi};
use super::info::Info;
use super::point_to_point::Status;
use super::request::{Buffer, BufferMut, Nothing};
use crate::sys;

/// A persistent operation that is not going on: its buffers may be used, and it can be started.
#[must_use = "start or free it"]
pub struct Inactive<S: Buffer, R: Buffer = Nothing> {
    /// On the heap: a change of state moves a pointer.
    operation: Box<Parts<S, R>>,
}

/// A persistent operation that was started. Its buffers are MPI's until it is complete.
///
/// Dropping it before that is sound, and the end of an orderly job: the buffers are left to MPI for ever,
/// and the environment is marked failed.
#[must_use = "wait for it"]
pub struct Active<S: Buffer, R: Buffer = Nothing> {
    operation: Box<Parts<S, R>>,
}

struct Parts<S: Buffer, R: Buffer> {
    raw: sys::MPI_Request,
    /// On the heap, since moving a box of elements would claim that nobody else uses them.
    buffers: Option<Box<(S, R)>>,
    // The elements of the buffers. Every access goes through these pointers, which MPI has too.
    send: *mut S::Element,
    send_count: usize,
    receive: *mut R::Element,
    receive_count: usize,
    /// What a collective was set up with; `None` for a send or receive.
    call: Option<Call>,
    status: Option<Status>,
    communicator: Communicator,
}

impl<S: Buffer, R: BufferMut> Inactive<S, R> {
    /// Sets up an operation on buffers that are where they will stay.
    ///
    /// # Safety
    ///
    /// The persistent request that `initialize` returns uses no memory but the two that it is given, the
    /// first for reading, and layouts of the call that it returns.
    unsafe fn new(
        communicator: &Communicator,
        buffers: (S, R),
        initialize: impl FnOnce(Memory, Memory) -> Result<(sys::MPI_Request, Option<Call>)>,
    ) -> Result<Self> {
        let mut buffers = Box::new(buffers);
        let (send, receive) = (buffers.0.elements(), buffers.1.elements_mut());
        let (send, send_count) = (send.as_ptr().cast_mut(), send.len());
        let (receive, receive_count) = (receive.as_mut_ptr(), receive.len());
        let (raw, call) = initialize(
            Memory::at(send, send_count),
            Memory::at(receive, receive_count),
        )?;
        Ok(Self {
            operation: Box::new(Parts {
                raw,
                buffers: Some(buffers),
                send,
                send_count,
                receive,
                receive_count,
                call,
                status: None,
                communicator: communicator.clone(),
            }),
        })
    }

    /// Sets up a collective.
    pub(in crate::mpi) fn collective(
        communicator: &Communicator,
        buffers: (S, R),
        info: Option<&Info>,
        call: impl FnOnce(Memory, Memory) -> Result<Call>,
    ) -> Result<Self> {
        let form = Form::Persistent(info.map_or(sys::MALLEUS_INFO_NULL, Info::as_raw));
        // SAFETY: every caller makes the call from the two memories alone; it is kept for its layouts.
        unsafe {
            Self::new(communicator, buffers, |send, receive| {
                let call = call(send, receive)?.for_persistent(communicator);
                let raw = call.run(communicator, form)?;
                Ok((raw, Some(call)))
            })
        }
    }
}

impl<S: Buffer, R: Buffer> Inactive<S, R> {
    /// Starts the operation. Local; `MPI_Start`.
    ///
    /// # Errors
    ///
    /// The MPI error, with which the operation and its buffers are gone.
    #[inline]
    pub fn start(mut self) -> Result<Active<S, R>> {
        // SAFETY: the request is persistent and inactive. Its buffers can't be reached while `Active`
        // lives, nor after it was forgotten.
        unsafe { mpi!(MPI_Start(&raw mut self.operation.raw))? };
        Ok(Active {
            operation: self.operation,
        })
    }

    /// What is sent.
    #[must_use]
    pub fn send(&self) -> &[S::Element] {
        let Parts {
            send, send_count, ..
        } = *self.operation;
        // SAFETY: the pointer and the count are those of a slice of the buffer that `self` owns, which
        // MPI does not use while the operation is inactive.
        unsafe { std::slice::from_raw_parts(send, send_count) }
    }

    /// What is sent, for writing.
    #[must_use]
    pub fn send_mut(&mut self) -> &mut [S::Element]
    where
        S: BufferMut,
    {
        let Parts {
            send, send_count, ..
        } = *self.operation;
        // SAFETY: as for `send`; the buffer may be written by its owner, which is borrowed
        // exclusively.
        unsafe { std::slice::from_raw_parts_mut(send, send_count) }
    }

    /// What was received; of an operation in place, its buffer.
    #[must_use]
    pub fn receive(&self) -> &[R::Element] {
        let Parts {
            receive,
            receive_count,
            ..
        } = *self.operation;
        // SAFETY: as for `send`.
        unsafe { std::slice::from_raw_parts(receive, receive_count) }
    }

    /// What was received, for writing; of an operation in place, its buffer.
    #[must_use]
    pub fn receive_mut(&mut self) -> &mut [R::Element]
    where
        R: BufferMut,
    {
        let Parts {
            receive,
            receive_count,
            ..
        } = *self.operation;
        // SAFETY: as for `send_mut`.
        unsafe { std::slice::from_raw_parts_mut(receive, receive_count) }
    }

    /// What became of the send or receive the last time; `None` if it was never started, and for a
    /// collective.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.operation.status
    }

    /// Frees the operation and gives the buffers back. Local; `MPI_Request_free`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn free(mut self) -> Result<(S, R)> {
        // SAFETY: the request is inactive, and this is its last use.
        unsafe { mpi!(MPI_Request_free(&raw mut self.operation.raw))? };
        let buffers = self.operation.buffers.take();
        Ok(*buffers.expect("nobody else takes them"))
    }
}

impl<S: Buffer, R: Buffer> Active<S, R> {
    /// Whether the operation is complete, so that [`Active::wait`] returns at once. Local;
    /// `MPI_Request_get_status`.
    ///
    /// # Errors
    ///
    /// The MPI error of the operation.
    pub fn test(&mut self) -> Result<bool> {
        self.operation.is_complete()
    }

    /// Waits until the operation is complete. Blocking; `MPI_Wait`.
    ///
    /// # Errors
    ///
    /// The MPI error of the operation, with which it and its buffers are gone.
    #[inline]
    pub fn wait(mut self) -> Result<Inactive<S, R>> {
        let raw = &raw mut self.operation.raw;
        if self.operation.call.is_some() {
            // SAFETY: the request is valid.
            unsafe { mpi!(MPI_Wait(raw, sys::status_ignore()))? };
        } else {
            let mut status = Status::empty();
            // SAFETY: the request is valid.
            unsafe { mpi!(MPI_Wait(raw, &raw mut status))? };
            self.operation.status = Some(Status::new(status));
        }
        Ok(Inactive {
            operation: self.operation,
        })
    }
}

/// Starts several operations. Local; `MPI_Startall`.
///
/// # Errors
///
/// The MPI error, with which the operations and their buffers are gone.
pub fn start_all<S: Buffer, R: Buffer>(
    operations: Vec<Inactive<S, R>>,
) -> Result<Vec<Active<S, R>>> {
    let count = int("MPI_Startall", "count", operations.len())?;
    let mut raw: Vec<_> = operations
        .iter()
        .map(|operation| operation.operation.raw)
        .collect();
    // SAFETY: as for `Inactive::start`; `raw` holds `count` requests, whose handles MPI_Startall leaves
    // as they are.
    unsafe { mpi!(MPI_Startall(count, raw.as_mut_ptr()))? };
    Ok(operations
        .into_iter()
        .map(|Inactive { operation }| Active { operation })
        .collect())
}

impl<S: Buffer, R: Buffer> Parts<S, R> {
    /// A request that is inactive counts as complete.
    fn is_complete(&self) -> Result<bool> {
        let mut done = 0;
        // SAFETY: the request is valid; the call leaves it as it is.
        unsafe {
            mpi!(MPI_Request_get_status(
                self.raw,
                &raw mut done,
                sys::status_ignore()
            ))?;
        }
        Ok(done != 0)
    }
}

impl<S: Buffer, R: Buffer> Drop for Parts<S, R> {
    fn drop(&mut self) {
        if self.raw == sys::MALLEUS_REQUEST_NULL {
            return;
        }
        if matches!(self.is_complete(), Ok(true)) {
            // SAFETY: MPI_Wait returns at once for an operation that is complete, or inactive; then
            // the request is inactive, and this is its last use. Freeing is local.
            unsafe {
                sys::MPI_Wait(&raw mut self.raw, sys::status_ignore());
                sys::MPI_Request_free(&raw mut self.raw);
            }
            return;
        }
        std::mem::forget((self.buffers.take(), self.call.take()));
        self.communicator
            .inner()
            .mark_failed("a persistent operation was dropped before its end".to_owned());
    }
}

impl<S: Buffer, R: Buffer> fmt::Debug for Inactive<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inactive")
            .field("on", &self.operation.communicator)
            .finish_non_exhaustive()
    }
}

impl<S: Buffer, R: Buffer> fmt::Debug for Active<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Active")
            .field("on", &self.operation.communicator)
            .finish_non_exhaustive()
    }
}
