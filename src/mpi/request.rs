//! Requests and non-blocking point-to-point communication (MPI standard, chapter 3.7).
//!
//! A buffer that MPI still reads or writes is borrowed for a *scope*, as in [`std::thread::scope`]: what
//! was started inside is complete when the scope ends, whatever happened to the requests.

use std::cell::RefCell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use super::communicator::Communicator;
use super::datatype::{Element, int, raw_of};
use super::environment::Inner;
use super::error::{Result, mpi, mpi_count};
use crate::sys;

/// A started operation. Those with buffers exist inside a scope only, whose end completes them. The
/// others hold no buffer; dropping one before its end marks the environment failed.
#[must_use = "wait or test it"]
#[derive(Debug)]
pub struct Request<'scope> {
    raw: sys::MPI_Request,
    /// Keeps MPI initialized for as long as the handle lives; `None` in a scope, which does that, and
    /// whose end completes the operation, so that nothing is lost with the handle.
    environment: Option<Arc<Inner>>,
    scope: PhantomData<(&'scope (), *const ())>,
}

impl Request<'_> {
    /// An operation without buffers.
    pub(super) fn adopt(raw: sys::MPI_Request, environment: &Arc<Inner>) -> Self {
        Self {
            raw,
            environment: Some(Arc::clone(environment)),
            scope: PhantomData,
        }
    }

    /// An operation that the end of the scope `'scope` completes.
    pub(super) fn in_scope(raw: sys::MPI_Request) -> Self {
        Self {
            raw,
            environment: None,
            scope: PhantomData,
        }
    }

    /// The raw handle, for calls through [`crate::sys`]. It stays owned by this request.
    #[must_use]
    pub fn as_raw(&self) -> sys::MPI_Request {
        self.raw
    }

    /// Waits until the operation is complete. Blocking; `MPI_Wait`.
    ///
    /// # Errors
    ///
    /// The MPI error of the operation.
    pub fn wait(mut self) -> Result<()> {
        // SAFETY: the request is valid or null, which MPI_Wait accepts.
        unsafe { mpi!(MPI_Wait(&raw mut self.raw, sys::status_ignore())) }
    }

    /// Whether the operation is complete. Local; `MPI_Test`. True again for one that is complete
    /// already.
    ///
    /// # Errors
    ///
    /// The MPI error of the operation.
    pub fn test(&mut self) -> Result<bool> {
        let mut done: c_int = 0;
        // SAFETY: the request is valid or null, which MPI_Test accepts.
        unsafe {
            mpi!(MPI_Test(
                &raw mut self.raw,
                &raw mut done,
                sys::status_ignore()
            ))?
        };
        Ok(done != 0)
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        if self.raw == sys::MALLEUS_REQUEST_NULL {
            return;
        }
        let mut done: c_int = 0;
        // SAFETY: the request is valid and this is its last use. The standard forbids to free an
        // active one of this kind; its buffers, if any, stay borrowed by the scope that completes it.
        unsafe { sys::MPI_Test(&raw mut self.raw, &raw mut done, sys::status_ignore()) };
        if let (0, Some(environment)) = (done, &self.environment) {
            environment.mark_failed("a request was dropped before its end".to_owned());
        }
    }
}

/// Sends and receives that are all complete at the end of [`Communicator::exchange`].
#[derive(Debug)]
pub struct Exchange<'scope, 'buffers> {
    communicator: &'scope Communicator,
    requests: RefCell<Vec<sys::MPI_Request>>,
    // Invariant, as in `std::thread::Scope`: neither lifetime may be shortened.
    scope: PhantomData<&'scope mut &'scope ()>,
    buffers: PhantomData<&'buffers mut &'buffers ()>,
}

impl Communicator {
    /// Starts sends and receives in `body`, and waits for all of them at its end. Blocking;
    /// `MPI_Isend`, `MPI_Irecv`, `MPI_Wait`.
    ///
    /// If `body` returns an error, the receives that were started are cancelled first; a send is waited for
    /// all the same, so for ever if nobody receives it. If `body` panics,
    /// the job is aborted, since the buffers can't be given back while MPI writes them.
    ///
    /// # Errors
    ///
    /// The error of `body`, else the MPI error of a started operation.
    pub fn exchange<'buffers, F, R>(&self, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope Exchange<'scope, 'buffers>) -> Result<R>,
    {
        let exchange = Exchange {
            communicator: self,
            requests: RefCell::new(Vec::new()),
            scope: PhantomData,
            buffers: PhantomData,
        };
        let guard = AbortOnPanic(self.inner());
        let result = body(&exchange);
        std::mem::forget(guard);
        let mut requests = exchange.requests.take();
        if result.is_err() {
            for request in &mut requests {
                // SAFETY: the request is active; a cancelled one is completed below. Cancelling a send
                // is refused by MPICH, which leaves it as it is.
                unsafe { sys::MPI_Cancel(request) };
            }
        }
        // One by one: MPI_Waitall may return at the first failure, with others still active.
        let mut waited = Ok(());
        for request in &mut requests {
            // SAFETY: the request was started in `body` and has not been completed.
            let one = unsafe { mpi!(MPI_Wait(request, sys::status_ignore())) };
            waited = waited.and(one);
        }
        let value = result?;
        waited.map(|()| value)
    }
}

impl<'scope, 'buffers> Exchange<'scope, 'buffers> {
    /// Starts a send. `MPI_Isend`.
    ///
    /// # Errors
    ///
    /// The MPI error, for example for a rank that is not in the communicator.
    pub fn send<T: Element>(
        &'scope self,
        buffer: &'buffers [T],
        destination: usize,
        tag: i32,
    ) -> Result<()> {
        let destination = int("MPI_Isend", "destination", destination)?;
        let mut request = sys::MALLEUS_REQUEST_NULL;
        // SAFETY: the buffer is borrowed beyond the scope, whose end waits for the operation.
        unsafe {
            mpi_count!(MPI_Isend | MPI_Isend_c, buffer.len(), |count| (
                buffer.as_ptr().cast(),
                count,
                raw_of::<T>(),
                destination,
                tag,
                self.communicator.as_raw(),
                &raw mut request
            ))?;
        }
        self.requests.borrow_mut().push(request);
        Ok(())
    }

    /// Starts a receive of at most the buffer's length. `MPI_Irecv`.
    ///
    /// # Errors
    ///
    /// The MPI error, for example for a rank that is not in the communicator.
    pub fn receive<T: Element>(
        &'scope self,
        buffer: &'buffers mut [T],
        source: usize,
        tag: i32,
    ) -> Result<()> {
        let source = int("MPI_Irecv", "source", source)?;
        let mut request = sys::MALLEUS_REQUEST_NULL;
        // SAFETY: the buffer is borrowed exclusively beyond the scope, whose end waits for the
        // operation; every bit pattern is a valid element.
        unsafe {
            mpi_count!(MPI_Irecv | MPI_Irecv_c, buffer.len(), |count| (
                buffer.as_mut_ptr().cast(),
                count,
                raw_of::<T>(),
                source,
                tag,
                self.communicator.as_raw(),
                &raw mut request
            ))?;
        }
        self.requests.borrow_mut().push(request);
        Ok(())
    }
}

/// Ends the job when it is dropped by a panic: a buffer can't be given back while MPI uses it.
pub(super) struct AbortOnPanic<'a>(pub(super) &'a Arc<Inner>);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        self.0
            .abort("a panic inside a scope of started operations", 101);
    }
}
