//! Blocking point-to-point communication (MPI standard, chapters 3.2, 3.4, 3.8 and 3.10).
//!
//! Messages travel as bytes, since MPICH ends the process where one does not hold a whole number of the
//! elements that are expected; [`Status::count`] tells. A call that waits for a message that nobody sends waits for ever, as in MPI: that is safe, if useless.

use std::ffi::c_int;

use super::collective::{Form, Memory};
use super::communicator::Communicator;
use super::datatype::{Element, bytes_of, bytes_of_mut, int};
use super::error::{Result, mpi, mpi_count};
use crate::sys;

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// A rank of the communicator.
    Rank(usize),
    /// `MPI_PROC_NULL`: nowhere. The operation succeeds at once.
    Null,
}

/// Where a message may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A rank of the communicator.
    Rank(usize),
    /// `MPI_ANY_SOURCE`: any rank.
    Any,
    /// `MPI_PROC_NULL`: nowhere. The operation succeeds at once, with no data.
    Null,
}

/// Which tag a message that is received may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tag {
    /// This tag.
    Value(i32),
    /// `MPI_ANY_TAG`: any.
    Any,
}

impl From<usize> for Destination {
    fn from(rank: usize) -> Self {
        Self::Rank(rank)
    }
}

/// `None`, as of a neighbour beyond the edge of a grid, is `MPI_PROC_NULL`.
impl From<Option<usize>> for Destination {
    fn from(rank: Option<usize>) -> Self {
        rank.map_or(Self::Null, Self::Rank)
    }
}

impl From<usize> for Source {
    fn from(rank: usize) -> Self {
        Self::Rank(rank)
    }
}

/// `None`, as of a neighbour beyond the edge of a grid, is `MPI_PROC_NULL`.
impl From<Option<usize>> for Source {
    fn from(rank: Option<usize>) -> Self {
        rank.map_or(Self::Null, Self::Rank)
    }
}

impl From<i32> for Tag {
    fn from(tag: i32) -> Self {
        Self::Value(tag)
    }
}

impl Destination {
    pub(super) fn as_raw(self, operation: &'static str) -> Result<c_int> {
        match self {
            Self::Rank(rank) => int(operation, "destination", rank),
            Self::Null => Ok(sys::MPI_PROC_NULL as c_int),
        }
    }
}

impl Source {
    pub(super) fn as_raw(self, operation: &'static str) -> Result<c_int> {
        match self {
            Self::Rank(rank) => int(operation, "source", rank),
            Self::Any => Ok(sys::MPI_ANY_SOURCE as c_int),
            Self::Null => Ok(sys::MPI_PROC_NULL as c_int),
        }
    }
}

impl Tag {
    pub(super) fn as_raw(self) -> c_int {
        match self {
            Self::Value(tag) => tag,
            Self::Any => sys::MPI_ANY_TAG as c_int,
        }
    }
}

/// What became of an operation: `MPI_Status`.
#[derive(Clone, Copy)]
pub struct Status(sys::MPI_Status);

impl Status {
    /// One for MPI to fill in.
    pub(super) fn empty() -> sys::MPI_Status {
        // SAFETY: the structure holds integers only.
        unsafe { std::mem::zeroed() }
    }

    pub(super) fn new(raw: sys::MPI_Status) -> Self {
        Self(raw)
    }

    /// The rank that sent the message; `None` if there was none: `MPI_PROC_NULL`, or an operation that
    /// receives nothing.
    #[must_use]
    pub fn source(&self) -> Option<usize> {
        usize::try_from(self.0.MPI_SOURCE).ok()
    }

    /// The tag of the message; `None` if there was none.
    #[must_use]
    pub fn tag(&self) -> Option<i32> {
        (self.0.MPI_TAG >= 0).then_some(self.0.MPI_TAG)
    }

    /// How many elements of `T` the message has; `None` if it is no whole number of them. As
    /// `MPI_Get_count`, without a call: a status may outlive MPI, whose functions end the process then.
    #[must_use]
    pub fn count<T: Element>(&self) -> Option<usize> {
        // Messages are counted in bytes, in MPICH's 63 bits; the lowest bit of the upper part says whether the
        // operation was cancelled.
        let low = u64::from(self.0.count_lo.cast_unsigned());
        let high = u64::from(self.0.count_hi_and_cancelled.cast_unsigned() >> 1);
        let bytes = usize::try_from(high << 32 | low).ok()?;
        bytes
            .is_multiple_of(size_of::<T>())
            .then_some(bytes / size_of::<T>())
    }

    /// Whether the operation was cancelled. As `MPI_Test_cancelled`, without a call.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.count_hi_and_cancelled & 1 != 0
    }
}

impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Status")
            .field("source", &self.source())
            .field("tag", &self.tag())
            .field("bytes", &self.count::<u8>())
            .field("cancelled", &self.is_cancelled())
            .finish()
    }
}

impl Communicator {
    /// Sends elements. Blocking until the buffer may be used again, which may be before anybody receives
    /// them; `MPI_Send`.
    ///
    /// # Errors
    ///
    /// The MPI error, for example for a rank that is not in the communicator, or a negative tag.
    pub fn send<T: Element>(
        &self,
        buffer: &[T],
        destination: impl Into<Destination>,
        tag: i32,
    ) -> Result<()> {
        let destination = destination.into().as_raw("MPI_Send")?;
        let buffer = bytes_of(buffer);
        // SAFETY: the buffer holds as many bytes, and the call blocks.
        unsafe {
            mpi_count!(MPI_Send | MPI_Send_c, buffer.len(), |count| (
                buffer.as_ptr().cast(),
                count,
                sys::MALLEUS_BYTE,
                destination,
                tag,
                self.as_raw()
            ))
        }
    }

    /// Sends elements. Blocking until their receive has started; `MPI_Ssend`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::send`].
    pub fn synchronous_send<T: Element>(
        &self,
        buffer: &[T],
        destination: impl Into<Destination>,
        tag: i32,
    ) -> Result<()> {
        let destination = destination.into().as_raw("MPI_Ssend")?;
        let buffer = bytes_of(buffer);
        // SAFETY: as for `send`.
        unsafe {
            mpi_count!(MPI_Ssend | MPI_Ssend_c, buffer.len(), |count| (
                buffer.as_ptr().cast(),
                count,
                sys::MALLEUS_BYTE,
                destination,
                tag,
                self.as_raw()
            ))
        }
    }

    /// Receives at most `buffer.len()` elements. Blocking; `MPI_Recv`.
    ///
    /// # Errors
    ///
    /// The MPI error, for example `MPI_ERR_TRUNCATE` for a message that is longer.
    pub fn receive<T: Element>(
        &self,
        buffer: &mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        let source = source.into().as_raw("MPI_Recv")?;
        let tag = tag.into().as_raw();
        let mut status = Status::empty();
        let buffer = bytes_of_mut(buffer);
        // SAFETY: the buffer holds as many bytes, and the call blocks.
        unsafe {
            mpi_count!(MPI_Recv | MPI_Recv_c, buffer.len(), |count| (
                buffer.as_mut_ptr().cast(),
                count,
                sys::MALLEUS_BYTE,
                source,
                tag,
                self.as_raw(),
                &raw mut status
            ))?;
        }
        Ok(Status(status))
    }

    /// Sends one buffer and receives into another at the same time. Blocking; `MPI_Sendrecv`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::send`] and [`Communicator::receive`].
    pub fn send_receive<T: Element>(
        &self,
        (send, destination, send_tag): (&[T], impl Into<Destination>, i32),
        (receive, source, receive_tag): (&mut [T], impl Into<Source>, impl Into<Tag>),
    ) -> Result<Status> {
        const CALL: &str = "MPI_Sendrecv";
        let destination = destination.into().as_raw(CALL)?;
        let source = source.into().as_raw(CALL)?;
        let receive_tag = receive_tag.into().as_raw();
        let mut status = Status::empty();
        let (send, receive) = (bytes_of(send), bytes_of_mut(receive));
        let (from, to) = (send.as_ptr().cast(), receive.as_mut_ptr().cast());
        let datatype = sys::MALLEUS_BYTE;
        let pair = (c_int::try_from(send.len()), c_int::try_from(receive.len()));
        // SAFETY: both buffers hold as many bytes, and the call blocks.
        unsafe {
            if let (Ok(sends), Ok(receives)) = pair {
                mpi!(MPI_Sendrecv(
                    from,
                    sends,
                    datatype,
                    destination,
                    send_tag,
                    to,
                    receives,
                    datatype,
                    source,
                    receive_tag,
                    self.as_raw(),
                    &raw mut status
                ))?;
            } else {
                let sends = super::datatype::large_count(send.len());
                let receives = super::datatype::large_count(receive.len());
                mpi!(MPI_Sendrecv_c(
                    from,
                    sends,
                    datatype,
                    destination,
                    send_tag,
                    to,
                    receives,
                    datatype,
                    source,
                    receive_tag,
                    self.as_raw(),
                    &raw mut status
                ))?;
            }
        }
        Ok(Status(status))
    }

    /// Waits for a message and says what it is, without receiving it. Blocking; `MPI_Probe`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn probe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Status> {
        let source = source.into().as_raw("MPI_Probe")?;
        let mut status = Status::empty();
        // SAFETY: the communicator is valid.
        unsafe {
            mpi!(MPI_Probe(
                source,
                tag.into().as_raw(),
                self.as_raw(),
                &raw mut status
            ))?;
        }
        Ok(Status(status))
    }

    /// Says what message could be received now, if any. Local; `MPI_Iprobe`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn iprobe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Option<Status>> {
        let source = source.into().as_raw("MPI_Iprobe")?;
        let (mut found, mut status) = (0, Status::empty());
        // SAFETY: the communicator is valid.
        unsafe {
            mpi!(MPI_Iprobe(
                source,
                tag.into().as_raw(),
                self.as_raw(),
                &raw mut found,
                &raw mut status
            ))?;
        }
        Ok((found != 0).then_some(Status(status)))
    }
}

/// Calls what starts or sets up a send or receive of the bytes of a memory.
macro_rules! start {
    ($small:ident | $large:ident, $communicator:ident, $memory:ident, ($peer:ident, $tag:ident), $request:ident) => {
        mpi_count!($small | $large, $memory.bytes(), |count| (
            $memory.pointer(),
            count,
            sys::MALLEUS_BYTE,
            $peer,
            $tag,
            $communicator.as_raw(),
            &raw mut $request
        ))
    };
}

/// Starts a send, or sets up a persistent one.
///
/// # Safety
///
/// The memory lives, and is not written, until the operation is complete, or freed where it is
/// persistent.
pub(super) unsafe fn start_send(
    communicator: &Communicator,
    memory: Memory,
    destination: Destination,
    tag: i32,
    form: Form,
) -> Result<sys::MPI_Request> {
    let destination = destination.as_raw("MPI_Isend")?;
    let mut request = sys::MALLEUS_REQUEST_NULL;
    // SAFETY: the memory holds as many bytes; the caller keeps it.
    unsafe {
        if let Form::Persistent(_) = form {
            start!(
                MPI_Send_init | MPI_Send_init_c,
                communicator,
                memory,
                (destination, tag),
                request
            )
        } else {
            start!(
                MPI_Isend | MPI_Isend_c,
                communicator,
                memory,
                (destination, tag),
                request
            )
        }?;
    }
    Ok(request)
}

/// Starts a receive, or sets up a persistent one.
///
/// # Safety
///
/// The memory lives, and nobody else touches it, until the operation is complete, or freed where it is
/// persistent.
pub(super) unsafe fn start_receive(
    communicator: &Communicator,
    memory: Memory,
    source: Source,
    tag: Tag,
    form: Form,
) -> Result<sys::MPI_Request> {
    let source = source.as_raw("MPI_Irecv")?;
    let tag = tag.as_raw();
    let mut request = sys::MALLEUS_REQUEST_NULL;
    // SAFETY: the memory holds as many bytes, every pattern of which makes valid elements; the caller
    // keeps it.
    unsafe {
        if let Form::Persistent(_) = form {
            start!(
                MPI_Recv_init | MPI_Recv_init_c,
                communicator,
                memory,
                (source, tag),
                request
            )
        } else {
            start!(
                MPI_Irecv | MPI_Irecv_c,
                communicator,
                memory,
                (source, tag),
                request
            )
        }?;
    }
    Ok(request)
}
