//! Started operations that own their buffers.

use std::fmt;
use std::sync::Arc;

use crate::memory::Block;
use crate::mpi::collective::{BlockLayout, Call, Form, Memory};
use crate::mpi::communicator::Communicator;
use crate::mpi::datatype::{Element, Operation};
use crate::mpi::error::{Result, mpi};
use crate::mpi::point_to_point::{Destination, Source, Status, Tag, start_receive, start_send};
use crate::sys;

/// Storage that an operation can own while MPI reads it.
///
/// # Safety
///
/// [`Buffer::elements`] always returns the same memory, however the value is moved, until the value is
/// dropped or borrowed mutably; nobody writes it during that time other than through the value.
pub unsafe trait Buffer: 'static {
    /// What it holds.
    type Element: Element;
    /// Its elements.
    fn elements(&self) -> &[Self::Element];
}

/// Storage that an operation can own while MPI writes it.
///
/// # Safety
///
/// As for [`Buffer`]; nobody else reads the memory either, and [`BufferMut::elements_mut`] returns the
/// same memory as [`Buffer::elements`], every time.
pub unsafe trait BufferMut: Buffer {
    /// Its elements.
    fn elements_mut(&mut self) -> &mut [Self::Element];
}

/// No buffer: for an operation that does not send, or does not receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nothing;

macro_rules! buffers {
    ($(<$item:ident> $type:ty $(, $mutable:ident)?);* $(;)?) => {
        $(
            // SAFETY: the elements lie behind the value, on the heap or for ever, and it is their only
            // owner, or they are shared and so can't be written.
            unsafe impl<$item: Element> Buffer for $type {
                type Element = $item;
                fn elements(&self) -> &[$item] {
                    self.as_ref()
                }
            }
            $(
                // SAFETY: as above, and it is their only owner.
                unsafe impl<$mutable: Element> BufferMut for $type {
                    fn elements_mut(&mut self) -> &mut [$mutable] {
                        self.as_mut()
                    }
                }
            )?
        )*
    };
}

buffers! {
    <T> Vec<T>, T;
    <T> Box<[T]>, T;
    <T> &'static mut [T], T;
    <T> &'static [T];
    <T> Arc<[T]>;
}

// SAFETY: a vector that is shared can't be written.
unsafe impl<T: Element> Buffer for Arc<Vec<T>> {
    type Element = T;
    fn elements(&self) -> &[T] {
        self
    }
}

// SAFETY: a block's mapping stays where it is, and is the only way to its bytes in this process.
unsafe impl Buffer for Block {
    type Element = u8;
    fn elements(&self) -> &[u8] {
        self.as_bytes()
    }
}

// SAFETY: as above.
unsafe impl BufferMut for Block {
    fn elements_mut(&mut self) -> &mut [u8] {
        self.as_bytes_mut()
    }
}

// SAFETY: as above; a block that is shared can't be written.
unsafe impl Buffer for Arc<Block> {
    type Element = u8;
    fn elements(&self) -> &[u8] {
        self.as_bytes()
    }
}

// SAFETY: there are no elements.
unsafe impl Buffer for Nothing {
    type Element = u8;
    fn elements(&self) -> &[u8] {
        &[]
    }
}

// SAFETY: there are no elements.
unsafe impl BufferMut for Nothing {
    fn elements_mut(&mut self) -> &mut [u8] {
        &mut []
    }
}

/// A started operation that owns its buffers `B`, and gives them back when it is complete.
///
/// Dropping it before that is sound, and the end of an orderly job: the buffers are left to MPI for ever,
/// and the environment is marked failed.
#[must_use = "wait for it"]
pub struct OwnedRequest<B> {
    raw: sys::MPI_Request,
    /// On the heap, since moving a box of elements would claim that nobody else uses them.
    buffers: Option<Box<B>>,
    call: Option<Call>,
    communicator: Communicator,
}

impl<B> OwnedRequest<B> {
    /// Starts an operation on buffers that are where they will stay.
    ///
    /// # Safety
    ///
    /// The request that `start` returns uses no memory but that of `buffers`, and layouts of the call
    /// that it returns.
    unsafe fn start(
        communicator: &Communicator,
        buffers: B,
        start: impl FnOnce(&mut B) -> Result<(sys::MPI_Request, Option<Call>)>,
    ) -> Result<Self> {
        let mut buffers = Box::new(buffers);
        let (raw, call) = start(&mut buffers)?;
        Ok(Self {
            raw,
            buffers: Some(buffers),
            call,
            communicator: communicator.clone(),
        })
    }

    /// Starts a collective.
    fn collective(
        communicator: &Communicator,
        buffers: B,
        call: impl FnOnce(&mut B) -> Result<Call>,
    ) -> Result<Self> {
        // SAFETY: every caller makes the call from the buffers alone; it is kept for its layouts.
        unsafe {
            Self::start(communicator, buffers, |buffers| {
                let call = call(buffers)?;
                let raw = call.run(communicator, Form::NonBlocking)?;
                Ok((raw, Some(call)))
            })
        }
    }

    /// The raw handle, for calls through [`crate::sys`]; null when the operation is complete. It stays
    /// owned by this request.
    #[must_use]
    pub fn as_raw(&self) -> sys::MPI_Request {
        self.raw
    }

    /// Whether the operation is complete, so that [`OwnedRequest::wait`] returns at once. Local;
    /// `MPI_Test`.
    ///
    /// # Errors
    ///
    /// The MPI error of the operation.
    pub fn test(&mut self) -> Result<bool> {
        let mut done = 0;
        // SAFETY: the request is valid or null, which MPI_Test accepts.
        unsafe {
            mpi!(MPI_Test(
                &raw mut self.raw,
                &raw mut done,
                sys::status_ignore()
            ))?;
        }
        Ok(done != 0)
    }

    /// Waits until the operation is complete, and keeps the buffers: [`OwnedRequest::wait`] returns at once then.
    /// Blocking; `MPI_Wait`.
    ///
    /// # Errors
    ///
    /// The MPI error of the operation.
    pub fn complete(&mut self) -> Result<()> {
        // SAFETY: the request is valid or null, which MPI_Wait accepts.
        unsafe { mpi!(MPI_Wait(&raw mut self.raw, sys::status_ignore())) }
    }

    /// Waits until the operation is complete and gives the buffers back. Blocking; `MPI_Wait`.
    ///
    /// # Errors
    ///
    /// The MPI error of the operation, with which the buffers are gone.
    pub fn wait(self) -> Result<B> {
        self.wait_status().map(|(buffers, _)| buffers)
    }

    /// As [`OwnedRequest::wait`], and says what was received. Blocking; `MPI_Wait`.
    ///
    /// # Errors
    ///
    /// As for [`OwnedRequest::wait`].
    pub fn wait_status(mut self) -> Result<(B, Status)> {
        let mut status = Status::empty();
        // SAFETY: the request is valid or null, which MPI_Wait accepts.
        unsafe { mpi!(MPI_Wait(&raw mut self.raw, &raw mut status))? };
        let buffers = self.buffers.take().expect("nobody else takes them");
        Ok((*buffers, Status::new(status)))
    }
}

impl<B> Drop for OwnedRequest<B> {
    fn drop(&mut self) {
        if self.raw == sys::MALLEUS_REQUEST_NULL || matches!(self.test(), Ok(true)) {
            return;
        }
        std::mem::forget((self.buffers.take(), self.call.take()));
        self.communicator
            .inner()
            .mark_failed("an operation was dropped before its end".to_owned());
    }
}

impl<B> fmt::Debug for OwnedRequest<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedRequest")
            .field("on", &self.communicator)
            .finish_non_exhaustive()
    }
}

impl Communicator {
    /// Starts a send of a buffer that the operation owns. Not blocking; `MPI_Isend`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::send`].
    pub fn isend<B: Buffer>(
        &self,
        buffer: B,
        destination: impl Into<Destination>,
        tag: i32,
    ) -> Result<OwnedRequest<B>> {
        let destination = destination.into();
        // SAFETY: the operation uses the buffer alone.
        unsafe {
            OwnedRequest::start(self, buffer, |buffer| {
                let memory = Memory::read(buffer.elements());
                let raw = start_send(self, memory, destination, tag, Form::NonBlocking)?;
                Ok((raw, None))
            })
        }
    }

    /// Starts a receive into a buffer that the operation owns. Not blocking; `MPI_Irecv`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::receive`].
    pub fn ireceive<B: BufferMut>(
        &self,
        buffer: B,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<OwnedRequest<B>> {
        let (source, tag) = (source.into(), tag.into());
        // SAFETY: the operation uses the buffer alone.
        unsafe {
            OwnedRequest::start(self, buffer, |buffer| {
                let memory = Memory::write(buffer.elements_mut());
                let raw = start_receive(self, memory, source, tag, Form::NonBlocking)?;
                Ok((raw, None))
            })
        }
    }

    /// Starts a broadcast of a buffer that the operation owns. Collective, not blocking; `MPI_Ibcast`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::broadcast`].
    pub fn ibroadcast<B: BufferMut>(&self, buffer: B, root: usize) -> Result<OwnedRequest<B>> {
        OwnedRequest::collective(self, buffer, |buffer| {
            Call::broadcast(Memory::write(buffer.elements_mut()), root)
        })
    }

    /// Starts a reduction, in place in a buffer that the operation owns, with the result everywhere.
    /// Collective, not blocking; `MPI_Iallreduce`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_reduce`].
    pub fn iall_reduce<B: BufferMut>(
        &self,
        buffer: B,
        operation: Operation,
    ) -> Result<OwnedRequest<B>> {
        OwnedRequest::collective(self, buffer, |buffer| {
            Call::all_reduce(None, Memory::write(buffer.elements_mut()), operation)
        })
    }

    /// Starts to gather every process's `send` at everybody, with buffers that the operation owns.
    /// Collective, not blocking; `MPI_Iallgather`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_gather`].
    pub fn iall_gather<S, R>(&self, send: S, receive: R) -> Result<OwnedRequest<(S, R)>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        OwnedRequest::collective(self, (send, receive), |(send, receive)| {
            let (send, receive) = memory(send, receive);
            Call::all_gather(self, Some(send), receive)
        })
    }

    /// Starts an exchange of blocks of any length between buffers that the operation owns. Collective,
    /// not blocking; `MPI_Ialltoallv`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_to_all_v`].
    pub fn iall_to_all_v<S, R>(
        &self,
        send: S,
        send_layout: &BlockLayout,
        receive: R,
        receive_layout: &BlockLayout,
    ) -> Result<OwnedRequest<(S, R)>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        OwnedRequest::collective(self, (send, receive), |(send, receive)| {
            let (send, receive) = memory(send, receive);
            Call::all_to_all_v(self, Some((send, send_layout)), receive, receive_layout)
        })
    }
}

/// The memory of two buffers.
pub(in crate::mpi) fn memory<S: Buffer, R: BufferMut>(
    send: &S,
    receive: &mut R,
) -> (Memory, Memory) {
    (
        Memory::read(send.elements()),
        Memory::write(receive.elements_mut()),
    )
}
