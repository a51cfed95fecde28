//! Sends and receives of parts of buffers that the operations own.

use std::fmt;
use std::ops::Range;

use super::list::RequestList;
use super::owned::{Buffer, BufferMut, memory};
use crate::mpi::collective::{Form, Memory};
use crate::mpi::communicator::Communicator;
use crate::mpi::error::{Error, Result};
use crate::mpi::point_to_point::{Destination, Source, Tag, start_receive, start_send};

/// Sends from one buffer and receives into another, part by part, that go on over calls: it owns both buffers.
/// What is sent stays readable where it is shared (`Arc`).
///
/// [`OwnedPieces::finish`] is the normal end. Dropping one whose operations are not complete leaves both buffers behind and
/// marks the environment failed.
pub struct OwnedPieces<S: Buffer, R: BufferMut<Element = S::Element>> {
    communicator: Communicator,
    /// Left behind where they are dropped while an operation uses them.
    buffers: Option<Box<(S, R)>>,
    sent: *mut S::Element,
    received: *mut S::Element,
    lengths: (usize, usize),
    /// Elements of the second buffer up to here are received into already.
    filled: usize,
    requests: RequestList,
}

impl<S: Buffer, R: BufferMut<Element = S::Element>> OwnedPieces<S, R> {
    /// Nothing started yet.
    pub fn new(communicator: &Communicator, sent: S, received: R) -> Self {
        let mut buffers = Box::new((sent, received));
        let (sent, received) = &mut *buffers;
        let lengths = (sent.elements().len(), received.elements().len());
        let (sent, received) = memory(sent, received);
        Self {
            communicator: communicator.clone(),
            sent: sent.pointer().cast(),
            received: received.pointer().cast(),
            buffers: Some(buffers),
            lengths,
            filled: 0,
            requests: RequestList::default(),
        }
    }

    /// Starts to send a part. `MPI_Isend`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a range outside of the buffer; otherwise as for [`Communicator::send`].
    pub fn isend(
        &mut self,
        part: Range<usize>,
        destination: impl Into<Destination>,
        tag: i32,
    ) -> Result<()> {
        check("MPI_Isend", &part, 0..self.lengths.0)?;
        // SAFETY: the range lies inside the buffer, which nobody writes until the operations are complete.
        let request = unsafe {
            let memory = Memory::at(self.sent.add(part.start), part.len());
            let destination = destination.into();
            start_send(
                &self.communicator,
                memory,
                destination,
                tag,
                Form::NonBlocking,
            )?
        };
        self.requests.push(request);
        Ok(())
    }

    /// Starts to receive into a part, which lies behind those that are received into already. `MPI_Irecv`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a range outside of the buffer, or that is received into already; otherwise as for
    /// [`Communicator::receive`].
    pub fn ireceive(
        &mut self,
        part: Range<usize>,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<()> {
        check("MPI_Irecv", &part, self.filled..self.lengths.1)?;
        // SAFETY: the range lies inside the buffer, which is not used by anybody else until the operations are complete; no
        // other operation goes into it.
        let request = unsafe {
            let memory = Memory::at(self.received.add(part.start), part.len());
            let (source, tag) = (source.into(), tag.into());
            start_receive(&self.communicator, memory, source, tag, Form::NonBlocking)?
        };
        self.filled = part.end;
        self.requests.push(request);
        Ok(())
    }

    /// Copies a part to one of the same length, as [`OwnedPieces::ireceive`] would receive it. Local.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a range outside of its buffer, or that is received into already.
    pub fn copy(&mut self, from: Range<usize>, to: usize) -> Result<()> {
        let length = from.len();
        let into = to..to.saturating_add(length);
        check("copy", &from, 0..self.lengths.0)?;
        check("copy", &into, self.filled..self.lengths.1)?;
        // SAFETY: both ranges lie inside their buffers, which are different memory; nobody else uses the second one.
        unsafe {
            self.sent
                .add(from.start)
                .copy_to_nonoverlapping(self.received.add(to), length);
        }
        self.filled = into.end;
        Ok(())
    }

    /// Whether all operations are complete. Local; `MPI_Testall`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn test(&mut self) -> Result<bool> {
        self.requests.test()
    }

    /// Waits until all operations are complete. Blocking; `MPI_Waitall`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn wait(&mut self) -> Result<()> {
        self.requests.wait()
    }

    /// Waits until all operations are complete, and gives the buffers back. Blocking; `MPI_Waitall`.
    ///
    /// # Errors
    ///
    /// The MPI error; the buffers are left behind then.
    pub fn finish(mut self) -> Result<(S, R)> {
        self.wait()?;
        let buffers = self.buffers.take().expect("nobody else takes them");
        Ok(*buffers)
    }
}

/// Whether a range of elements lies inside of those that may be used.
fn check(operation: &'static str, part: &Range<usize>, allowed: Range<usize>) -> Result<()> {
    if part.start <= part.end && part.start >= allowed.start && part.end <= allowed.end {
        return Ok(());
    }
    let expected = format!("inside {}..{}", allowed.start, allowed.end);
    let found = format!("{part:?}");
    Err(Error::argument(operation, "range", found, expected))
}

impl<S: Buffer, R: BufferMut<Element = S::Element>> Drop for OwnedPieces<S, R> {
    fn drop(&mut self) {
        if matches!(self.test(), Ok(true)) {
            return;
        }
        std::mem::forget(self.buffers.take());
        self.communicator
            .inner()
            .mark_failed("sends and receives were dropped before their end".to_owned());
    }
}

impl<S: Buffer, R: BufferMut<Element = S::Element>> fmt::Debug for OwnedPieces<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPieces")
            .field("on", &self.communicator)
            .field("operations", &self.requests.len())
            .finish_non_exhaustive()
    }
}
