//! The scope of started operations that borrow their buffers.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::sets::first_error;
use super::{Kind, Request, Slots};
use crate::mpi::collective::{BlockLayout, Call, Form, Memory, StridedLayout};
use crate::mpi::communicator::Communicator;
use crate::mpi::datatype::{Element, Operation, int};
use crate::mpi::environment::Inner;
use crate::mpi::error::{Error, Result, mpi};
use crate::mpi::point_to_point::{Destination, Source, Status, Tag, start_receive, start_send};
use crate::sys;

/// How long what was started in a scope that failed may take to complete.
const PATIENCE: Duration = Duration::from_secs(10);

/// Operations that are all complete at the end of [`Communicator::exchange`]. Those whose names start
/// with `i`, as in MPI, return a request that can be waited for inside.
#[derive(Debug)]
pub struct Exchange<'scope, 'buffers> {
    communicator: &'scope Communicator,
    slots: Slots,
    /// Counts and displacements that MPI may read until the end.
    calls: RefCell<Vec<Call>>,
    // Invariant, as in `std::thread::Scope`: neither lifetime may be shortened.
    scope: PhantomData<&'scope mut &'scope ()>,
    buffers: PhantomData<&'buffers mut &'buffers ()>,
}

impl Communicator {
    /// Starts operations in `body`, and waits for all of them at its end. Blocking; `MPI_Waitall`.
    ///
    /// If `body` returns an error, the receives that were started are cancelled first, and sends and
    /// collectives, which MPI does not cancel, get 10 seconds to complete; the job is aborted where they
    /// do not, since their buffers can't be given back while MPI uses them. So it is, at once, if `body`
    /// panics.
    ///
    /// # Errors
    ///
    /// The error of `body`, else the MPI error of the first operation that failed.
    pub fn exchange<'buffers, F, R>(&self, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope Exchange<'scope, 'buffers>) -> Result<R>,
    {
        let exchange = Exchange {
            communicator: self,
            slots: Slots::default(),
            calls: RefCell::new(Vec::new()),
            scope: PhantomData,
            buffers: PhantomData,
        };
        let guard = AbortOnPanic(self.inner());
        let result = body(&exchange);
        let completed = match &result {
            Ok(_) => complete(&exchange.slots, self.inner()),
            Err(error) => {
                give_up(&exchange.slots, self.inner(), error);
                Ok(())
            }
        };
        std::mem::forget(guard);
        let value = result?;
        completed.map(|()| value)
    }
}

/// Waits for all operations of a scope.
fn complete(slots: &Slots, environment: &Arc<Inner>) -> Result<()> {
    let mut active = slots.take_active();
    let mut statuses = vec![Status::empty(); active.len()];
    let waited = int("MPI_Waitall", "count", active.len()).and_then(|count| {
        let (requests, results) = (active.as_mut_ptr(), statuses.as_mut_ptr());
        // SAFETY: every request was started in the scope and has not been completed; there is a status
        // for each.
        unsafe { mpi!(MPI_Waitall(count, requests, results)) }
    });
    let waited = first_error(waited, &statuses);
    if let Err(error) = &waited {
        drain(&mut active, environment, error);
    }
    waited
}

/// Ends the operations of a scope that failed.
fn give_up(slots: &Slots, environment: &Arc<Inner>, error: &Error) {
    slots.cancel_receives();
    drain(&mut slots.take_active(), environment, error);
}

/// Completes what is left of a scope, whose result does not count any more.
fn drain(active: &mut [sys::MPI_Request], environment: &Arc<Inner>, error: &Error) {
    let started = Instant::now();
    loop {
        for raw in active.iter_mut() {
            let mut done = 0;
            // SAFETY: the request is active or null. An error of it does not count: there is one.
            unsafe { sys::MPI_Test(raw, &raw mut done, sys::status_ignore()) };
        }
        if active.iter().all(|&raw| raw == sys::MALLEUS_REQUEST_NULL) {
            return;
        }
        if started.elapsed() > PATIENCE {
            environment.abort(
                &format!("{error}; what was started before did not complete, and its buffers can't be given back"),
                1,
            );
        }
    }
}

impl Slots {
    fn take_active(&self) -> Vec<sys::MPI_Request> {
        let slots = self.0.take();
        let raw = slots.into_iter().map(|slot| slot.raw);
        raw.filter(|&raw| raw != sys::MALLEUS_REQUEST_NULL)
            .collect()
    }

    fn cancel_receives(&self) {
        for slot in &mut *self.0.borrow_mut() {
            if slot.kind == Kind::Receive && slot.raw != sys::MALLEUS_REQUEST_NULL {
                // SAFETY: the request is an active receive. One that can't be cancelled is complete.
                unsafe { sys::MPI_Cancel(&raw mut slot.raw) };
            }
        }
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
        destination: impl Into<Destination>,
        tag: i32,
    ) -> Result<()> {
        self.isend(buffer, destination, tag).map(drop)
    }

    /// Starts a receive of at most the buffer's length. `MPI_Irecv`.
    ///
    /// # Errors
    ///
    /// The MPI error, for example for a rank that is not in the communicator.
    pub fn receive<T: Element>(
        &'scope self,
        buffer: &'buffers mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<()> {
        self.ireceive(buffer, source, tag).map(drop)
    }

    /// Starts a send. `MPI_Isend`.
    ///
    /// # Errors
    ///
    /// As for [`Exchange::send`].
    pub fn isend<T: Element>(
        &'scope self,
        buffer: &'buffers [T],
        destination: impl Into<Destination>,
        tag: i32,
    ) -> Result<Request<'scope>> {
        let (memory, destination) = (Memory::read(buffer), destination.into());
        // SAFETY: the buffer is borrowed beyond the scope, whose end waits for the operation.
        let raw = unsafe {
            start_send(
                self.communicator,
                memory,
                destination,
                tag,
                Form::NonBlocking,
            )
        }?;
        Ok(self.slots.add(raw, Kind::Other))
    }

    /// Starts a receive of at most the buffer's length. `MPI_Irecv`.
    ///
    /// # Errors
    ///
    /// As for [`Exchange::receive`].
    pub fn ireceive<T: Element>(
        &'scope self,
        buffer: &'buffers mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Request<'scope>> {
        let (memory, source, tag) = (Memory::write(buffer), source.into(), tag.into());
        // SAFETY: the buffer is borrowed exclusively beyond the scope, whose end waits for the
        // operation.
        let raw =
            unsafe { start_receive(self.communicator, memory, source, tag, Form::NonBlocking) }?;
        Ok(self.slots.add(raw, Kind::Receive))
    }

    /// Starts a broadcast. Collective; `MPI_Ibcast`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::broadcast`].
    pub fn ibroadcast<T: Element>(
        &'scope self,
        buffer: &'buffers mut [T],
        root: usize,
    ) -> Result<Request<'scope>> {
        self.start(Call::broadcast(Memory::write(buffer), root)?)
    }

    /// Starts a reduction in place, with the result everywhere. Collective; `MPI_Iallreduce`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_reduce`].
    pub fn iall_reduce<T: Element>(
        &'scope self,
        buffer: &'buffers mut [T],
        operation: Operation,
    ) -> Result<Request<'scope>> {
        self.start(Call::all_reduce(None, Memory::write(buffer), operation)?)
    }

    /// Starts to gather every process's `send` at everybody. Collective; `MPI_Iallgather`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_gather`].
    pub fn iall_gather<T: Element>(
        &'scope self,
        send: &'buffers [T],
        receive: &'buffers mut [T],
    ) -> Result<Request<'scope>> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.start(Call::all_gather(self.communicator, Some(send), receive)?)
    }

    /// Starts an exchange of blocks of any length. Collective; `MPI_Ialltoallv`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_to_all_v`].
    pub fn iall_to_all_v<T: Element>(
        &'scope self,
        send: &'buffers [T],
        send_layout: &BlockLayout,
        receive: &'buffers mut [T],
        receive_layout: &BlockLayout,
    ) -> Result<Request<'scope>> {
        let send = Some((Memory::read(send), send_layout));
        let receive = Memory::write(receive);
        self.start(Call::all_to_all_v(
            self.communicator,
            send,
            receive,
            receive_layout,
        )?)
    }

    /// Starts an exchange of strided blocks. Collective; `MPI_Ialltoallw`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_to_all_w`].
    pub fn iall_to_all_w<T: Element>(
        &'scope self,
        send: &'buffers [T],
        send_layout: &StridedLayout,
        receive: &'buffers mut [T],
        receive_layout: &StridedLayout,
    ) -> Result<Request<'scope>> {
        let send = Some((Memory::read(send), send_layout));
        let receive = Memory::write(receive);
        self.start(Call::all_to_all_w(
            self.communicator,
            send,
            receive,
            receive_layout,
        )?)
    }

    fn start(&'scope self, call: Call) -> Result<Request<'scope>> {
        // SAFETY: the buffers are borrowed beyond the scope, whose end waits for the operation, and
        // drops the layouts only then.
        let raw = unsafe { call.run(self.communicator, Form::NonBlocking) }?;
        self.calls.borrow_mut().push(call);
        Ok(self.slots.add(raw, Kind::Other))
    }
}

/// Ends the job when it is dropped by a panic: a buffer can't be given back while MPI uses it.
pub(in crate::mpi) struct AbortOnPanic<'a>(pub(in crate::mpi) &'a Arc<Inner>);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        self.0
            .abort("a panic inside a scope of started operations", 101);
    }
}
