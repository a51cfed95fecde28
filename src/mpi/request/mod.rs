//! Requests: operations that were started and are waited for later (MPI standard, chapters 3.7 and 6.12).
//!
//! A buffer that MPI still reads or writes must not be touched, nor freed. There are two ways:
//!
//! * it is borrowed for a *scope* ([`Communicator::exchange`]), as in [`std::thread::scope`]: what was
//!   started inside is complete when the scope ends, whatever happened to the requests;
//! * the operation owns it ([`OwnedRequest`]), and gives it back when it is complete.
//!
//! [`Communicator::exchange`]: super::Communicator::exchange

mod exchange;
mod list;
mod owned;
mod pieces;
mod sets;

use std::cell::RefCell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use super::environment::{Environment, Inner};
use super::error::{Error, Result, mpi};
use super::point_to_point::Status;
use crate::sys;

pub(super) use exchange::AbortOnPanic;
pub use exchange::Exchange;
pub(in crate::mpi) use list::RequestList;
pub use owned::{Buffer, BufferMut, Nothing, OwnedRequest};
pub use pieces::OwnedPieces;
pub use sets::{TestAny, test_all, test_any, test_some, wait_all, wait_any, wait_some};

/// A started operation. Those with buffers exist inside a scope only, whose end completes them. The
/// others hold no buffer; dropping one before its end marks the environment failed.
#[must_use = "wait or test it"]
#[derive(Debug)]
pub struct Request<'scope> {
    place: Place<'scope>,
    scope: PhantomData<(&'scope (), *const ())>,
}

/// Where the handle of a request is.
#[derive(Debug)]
enum Place<'scope> {
    /// In the request, which keeps MPI initialized.
    Alone(sys::MPI_Request, Arc<Inner>),
    /// In the request; the end of the epoch completes the operation, so that nothing is lost with the
    /// handle.
    Epoch(sys::MPI_Request),
    /// In a scope, whose end waits for all that it holds.
    Slot(&'scope Slots, usize),
}

/// The requests of a scope. One that is complete is null.
#[derive(Debug, Default)]
pub(super) struct Slots(RefCell<Vec<Slot>>);

#[derive(Clone, Copy, Debug)]
struct Slot {
    raw: sys::MPI_Request,
    kind: Kind,
}

/// What MPI can cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Receive,
    Other,
}

impl Slots {
    fn add(&self, raw: sys::MPI_Request, kind: Kind) -> Request<'_> {
        let mut slots = self.0.borrow_mut();
        slots.push(Slot { raw, kind });
        Request {
            place: Place::Slot(self, slots.len() - 1),
            scope: PhantomData,
        }
    }
}

impl<'scope> Request<'scope> {
    /// An operation without buffers.
    pub(super) fn adopt(raw: sys::MPI_Request, environment: &Arc<Inner>) -> Request<'static> {
        Request {
            place: Place::Alone(raw, Arc::clone(environment)),
            scope: PhantomData,
        }
    }

    /// An operation that the end of the epoch `'scope` completes.
    pub(super) fn in_scope(raw: sys::MPI_Request) -> Self {
        Self {
            place: Place::Epoch(raw),
            scope: PhantomData,
        }
    }

    /// The raw handle, for calls through [`crate::sys`]; null when the operation is complete. It stays
    /// owned by this request.
    #[inline]
    #[must_use]
    pub fn as_raw(&self) -> sys::MPI_Request {
        match &self.place {
            Place::Alone(raw, _) | Place::Epoch(raw) => *raw,
            Place::Slot(slots, index) => slots.0.borrow()[*index].raw,
        }
    }

    /// Keeps what an MPI call made of the handle.
    #[inline]
    fn set_raw(&mut self, new: sys::MPI_Request) {
        match &mut self.place {
            Place::Alone(raw, _) | Place::Epoch(raw) => *raw = new,
            Place::Slot(slots, index) => slots.0.borrow_mut()[*index].raw = new,
        }
    }

    /// Waits until the operation is complete. Blocking; `MPI_Wait`.
    ///
    /// # Errors
    ///
    /// The MPI error of the operation.
    #[inline]
    pub fn wait(mut self) -> Result<()> {
        let mut raw = self.as_raw();
        // SAFETY: the request is valid or null, which MPI_Wait accepts.
        let waited = unsafe { mpi!(MPI_Wait(&raw mut raw, sys::status_ignore())) };
        self.set_raw(raw);
        waited
    }

    /// As [`Request::wait`], and says what was received. Blocking; `MPI_Wait`.
    ///
    /// # Errors
    ///
    /// The MPI error of the operation.
    pub fn wait_status(mut self) -> Result<Status> {
        let (mut raw, mut status) = (self.as_raw(), Status::empty());
        // SAFETY: the request is valid or null, which MPI_Wait accepts.
        let waited = unsafe { mpi!(MPI_Wait(&raw mut raw, &raw mut status)) };
        self.set_raw(raw);
        waited.map(|()| Status::new(status))
    }

    /// Whether the operation is complete. Local; `MPI_Test`. True again for one that is complete
    /// already.
    ///
    /// # Errors
    ///
    /// The MPI error of the operation.
    #[inline]
    pub fn test(&mut self) -> Result<bool> {
        let (mut raw, mut done) = (self.as_raw(), 0);
        // SAFETY: the request is valid or null, which MPI_Test accepts.
        let tested = unsafe { mpi!(MPI_Test(&raw mut raw, &raw mut done, sys::status_ignore())) };
        self.set_raw(raw);
        tested.map(|()| done != 0)
    }

    /// As [`Request::test`], and says what was received. Local; `MPI_Test`.
    ///
    /// # Errors
    ///
    /// The MPI error of the operation.
    pub fn test_status(&mut self) -> Result<Option<Status>> {
        let (mut raw, mut done, mut status) = (self.as_raw(), 0, Status::empty());
        // SAFETY: the request is valid or null, which MPI_Test accepts.
        let tested = unsafe { mpi!(MPI_Test(&raw mut raw, &raw mut done, &raw mut status)) };
        self.set_raw(raw);
        tested?;
        Ok((done != 0).then(|| Status::new(status)))
    }

    /// Asks MPI to cancel a receive. It has to be waited for all the same; its status then tells whether
    /// it was cancelled, or received something before. Local; `MPI_Cancel`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for an operation that is no receive of a scope, or is complete; the MPI error
    /// otherwise.
    pub fn cancel(&mut self) -> Result<()> {
        let mut raw = self.as_raw();
        let is_receive = match &self.place {
            Place::Slot(slots, index) => slots.0.borrow()[*index].kind == Kind::Receive,
            Place::Alone(..) | Place::Epoch(_) => false,
        };
        if !is_receive || raw == sys::MALLEUS_REQUEST_NULL {
            return Err(Error::argument(
                "MPI_Cancel",
                "request",
                if is_receive { "complete" } else { "no receive" },
                "a receive that is going on",
            ));
        }
        // SAFETY: the request is an active receive; the scope's end completes it in any case.
        unsafe { mpi!(MPI_Cancel(&raw mut raw)) }
    }
}

impl Request<'static> {
    /// Gives the handle away, which then has to be waited for through [`crate::sys`].
    #[must_use]
    pub fn into_raw(mut self) -> sys::MPI_Request {
        let raw = self.as_raw();
        self.set_raw(sys::MALLEUS_REQUEST_NULL);
        raw
    }

    /// Takes over a request that was started through [`crate::sys`].
    ///
    /// # Safety
    ///
    /// `raw` is null or a request that is not persistent and that nobody else waits for, and its buffers
    /// stay as they are until the operation is complete, whatever becomes of the value that is
    /// returned.
    pub unsafe fn from_raw(raw: sys::MPI_Request, environment: &Environment) -> Self {
        Self::adopt(raw, &environment.inner)
    }
}

impl Drop for Request<'_> {
    #[inline]
    fn drop(&mut self) {
        let is_over = match &self.place {
            Place::Alone(raw, _) | Place::Epoch(raw) => *raw == sys::MALLEUS_REQUEST_NULL,
            Place::Slot(..) => true,
        };
        if !is_over {
            self.give_up();
        }
    }
}

impl Request<'_> {
    #[cold]
    fn give_up(&mut self) {
        let (mut raw, environment) = match &self.place {
            Place::Alone(raw, environment) => (*raw, Some(environment)),
            Place::Epoch(raw) => (*raw, None),
            Place::Slot(..) => return,
        };
        let mut done: c_int = 0;
        // SAFETY: the request is valid and this is its last use. The standard forbids to free an
        // active one of this kind; its buffers, if any, stay borrowed by the scope that completes it.
        unsafe { sys::MPI_Test(&raw mut raw, &raw mut done, sys::status_ignore()) };
        if let (0, Some(environment)) = (done, environment) {
            environment.mark_failed("a request was dropped before its end".to_owned());
        }
    }
}
