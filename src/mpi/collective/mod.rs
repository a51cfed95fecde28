//! Collective communication (MPI standard, chapter 6). Every method of [`Communicator`] here is
//! collective and blocking; counts and displacements are in elements.
//!
//! The forms *in place* read this rank's input from the buffer that they write. What is checked before
//! MPI is called is checked on this rank alone: where one rank gets [`Error::Argument`], the others wait
//! for it.
//!
//! The same collectives without waiting: in the scope of [`Communicator::exchange`], or with buffers that
//! the operation owns ([`super::request::OwnedRequest`]); set up once and started often:
//! [`super::persistent`].

mod call;
mod layout;
mod reduce;
mod run;

use super::communicator::Communicator;
use super::datatype::{Element, Operation};
use super::error::{Error, Result};
use super::request::Request;

pub(super) use call::{Call, Memory};
pub use layout::{BlockLayout, StridedLayout, Strides};
pub(super) use run::Form;

impl Communicator {
    /// Runs a checked collective to its end.
    pub(super) fn run(&self, call: &Call) -> Result<()> {
        // SAFETY: the call was made for this communicator from slices that the caller borrows until
        // this returns, which is when the operation is complete.
        unsafe { call.run(self, Form::Blocking) }.map(drop)
    }

    /// Returns when every process has called it. `MPI_Barrier`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn barrier(&self) -> Result<()> {
        self.run(&Call::barrier())
    }

    /// Starts a barrier; its request completes when every process has started it. Not blocking;
    /// `MPI_Ibarrier`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn ibarrier(&self) -> Result<Request<'static>> {
        // SAFETY: no memory is involved, and no layout.
        let raw = unsafe { Call::barrier().run(self, Form::NonBlocking) }?;
        Ok(Request::adopt(raw, self.inner()))
    }

    /// Copies the root's buffer into everybody's. `MPI_Bcast`.
    ///
    /// # Errors
    ///
    /// The MPI error, among others where the lengths differ between ranks.
    pub fn broadcast<T: Element>(&self, buffer: &mut [T], root: usize) -> Result<()> {
        self.run(&Call::broadcast(Memory::write(buffer), root)?)
    }

    /// Broadcasts bytes whose number only the root knows; the others' content is replaced.
    /// `MPI_Bcast`, twice.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn broadcast_bytes(&self, bytes: &mut Vec<u8>, root: usize) -> Result<()> {
        let mut length = [bytes.len() as u64];
        self.broadcast(&mut length, root)?;
        bytes.resize(length_in_memory("MPI_Bcast", length[0])?, 0);
        self.broadcast(bytes, root)
    }

    /// Every process's `send`, in rank order, at the root. `receive` counts at the root only. `MPI_Gather`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless the root's `receive` holds `send.len()` elements per rank; the MPI error
    /// otherwise.
    pub fn gather<T: Element>(&self, send: &[T], receive: &mut [T], root: usize) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::gather(self, Some(send), receive, root)?)
    }

    /// [`Communicator::gather`] where the root's block is in its place already; the buffer of every
    /// other rank is its block. `MPI_Gather`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::gather`].
    pub fn gather_in_place<T: Element>(&self, buffer: &mut [T], root: usize) -> Result<()> {
        self.run(&Call::gather(self, None, Memory::write(buffer), root)?)
    }

    /// As [`Communicator::gather`], with blocks of any length. `receive` and `layout` count at the root
    /// only. `MPI_Gatherv`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless the root's layout has one block per rank inside `receive`, apart from
    /// each other, its own as long as `send`; the MPI error otherwise.
    pub fn gather_v<T: Element>(
        &self,
        send: &[T],
        receive: &mut [T],
        layout: &BlockLayout,
        root: usize,
    ) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::gather_v(self, Some(send), receive, layout, root)?)
    }

    /// The `i`-th block of the root's `send` goes to rank `i`. `send` counts at the root only.
    /// `MPI_Scatter`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless the root's `send` holds `receive.len()` elements per rank; the MPI error
    /// otherwise.
    pub fn scatter<T: Element>(&self, send: &[T], receive: &mut [T], root: usize) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::scatter(self, send, Some(receive), root)?)
    }

    /// [`Communicator::scatter`] where the root's block stays in its buffer; the buffer of every other
    /// rank becomes its block. `MPI_Scatter`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::scatter`].
    pub fn scatter_in_place<T: Element>(&self, buffer: &mut [T], root: usize) -> Result<()> {
        self.run(&Call::scatter(self, Memory::write(buffer), None, root)?)
    }

    /// As [`Communicator::scatter`], with blocks of any length. `send` and `layout` count at the root
    /// only. `MPI_Scatterv`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless the root's layout has one block per rank inside `send`, its own as long
    /// as `receive`; the MPI error otherwise.
    pub fn scatter_v<T: Element>(
        &self,
        send: &[T],
        layout: &BlockLayout,
        receive: &mut [T],
        root: usize,
    ) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::scatter_v(self, send, layout, Some(receive), root)?)
    }

    /// Every process's `send`, in rank order, at everybody. `MPI_Allgather`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless `receive` holds `send.len()` elements per rank; the MPI error otherwise.
    pub fn all_gather<T: Element>(&self, send: &[T], receive: &mut [T]) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::all_gather(self, Some(send), receive)?)
    }

    /// [`Communicator::all_gather`] where this rank's block is in its place already. `MPI_Allgather`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless the buffer's length is a multiple of the number of ranks; the MPI error
    /// otherwise.
    pub fn all_gather_in_place<T: Element>(&self, buffer: &mut [T]) -> Result<()> {
        self.run(&Call::all_gather(self, None, Memory::write(buffer))?)
    }

    /// As [`Communicator::all_gather`], with blocks of any length. `MPI_Allgatherv`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless the layout has one block per rank inside `receive`, apart from each
    /// other, this rank's as long as `send`; the MPI error otherwise.
    pub fn all_gather_v<T: Element>(
        &self,
        send: &[T],
        receive: &mut [T],
        layout: &BlockLayout,
    ) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::all_gather_v(self, Some(send), receive, layout)?)
    }

    /// [`Communicator::all_gather_v`] where this rank's block is in its place already.
    /// `MPI_Allgatherv`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_gather_v`].
    pub fn all_gather_v_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        layout: &BlockLayout,
    ) -> Result<()> {
        self.run(&Call::all_gather_v(
            self,
            None,
            Memory::write(buffer),
            layout,
        )?)
    }

    /// Every process's bytes, of any length, in rank order, at everybody. `MPI_Allgather` of the
    /// lengths, `MPI_Allgatherv` of the bytes.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn all_gather_bytes(&self, send: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut lengths = vec![0_u64; self.size()];
        self.all_gather(&[send.len() as u64], &mut lengths)?;
        let counts = lengths
            .into_iter()
            .map(|length| length_in_memory("MPI_Allgatherv", length))
            .collect::<Result<Vec<_>>>()?;
        let layout = BlockLayout::packed(counts);
        let mut all = vec![0_u8; layout.total()];
        self.all_gather_v(send, &mut all, &layout)?;
        let part = |rank| all[layout.block(rank)].to_vec();
        Ok((0..self.size()).map(part).collect())
    }

    /// The `i`-th block of `send` goes to rank `i`, whose block of it comes from here. `MPI_Alltoall`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless both buffers hold the same number of elements, a multiple of the
    /// number of ranks; the MPI error otherwise.
    pub fn all_to_all<T: Element>(&self, send: &[T], receive: &mut [T]) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::all_to_all(self, Some(send), receive)?)
    }

    /// [`Communicator::all_to_all`] with one buffer, in which what is received replaces what is sent.
    /// `MPI_Alltoall`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_to_all`].
    pub fn all_to_all_in_place<T: Element>(&self, buffer: &mut [T]) -> Result<()> {
        self.run(&Call::all_to_all(self, None, Memory::write(buffer))?)
    }

    /// Blocks of any length from everybody to everybody. `MPI_Alltoallv`, or `MPI_Alltoallv_c` where a
    /// count or displacement exceeds `int`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if a layout does not have one block per rank or does not fit into its
    /// buffer, or if blocks that are received overlap; the MPI error otherwise.
    pub fn all_to_all_v<T: Element>(
        &self,
        send: &[T],
        send_layout: &BlockLayout,
        receive: &mut [T],
        receive_layout: &BlockLayout,
    ) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        let send = Some((send, send_layout));
        self.run(&Call::all_to_all_v(self, send, receive, receive_layout)?)
    }

    /// [`Communicator::all_to_all_v`] with one buffer, in which what is received replaces what is sent: two
    /// ranks exchange blocks of the same length. `MPI_Alltoallv`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_to_all_v`].
    pub fn all_to_all_v_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        layout: &BlockLayout,
    ) -> Result<()> {
        self.run(&Call::all_to_all_v(
            self,
            None,
            Memory::write(buffer),
            layout,
        )?)
    }

    /// Strided blocks from everybody to everybody. `MPI_Alltoallw`, or `MPI_Alltoallw_c` where a displacement
    /// exceeds `int`; the datatypes are `MPI_Type_vector`.
    ///
    /// Elements that two ranks' parts of `receive_layout` share have either value, or a mixture.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if a layout does not have one part per rank, does not fit into its buffer, or has
    /// blocks of a part that overlap; the MPI error otherwise.
    pub fn all_to_all_w<T: Element>(
        &self,
        send: &[T],
        send_layout: &StridedLayout,
        receive: &mut [T],
        receive_layout: &StridedLayout,
    ) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        let send = Some((send, send_layout));
        self.run(&Call::all_to_all_w(self, send, receive, receive_layout)?)
    }

    /// [`Communicator::all_to_all_w`] with one buffer, in which what is received replaces what is sent: two
    /// ranks exchange parts of the same size. `MPI_Alltoallw`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::all_to_all_w`].
    pub fn all_to_all_w_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        layout: &StridedLayout,
    ) -> Result<()> {
        let buffer = Memory::write(buffer);
        self.run(&Call::all_to_all_w(self, None, buffer, layout)?)
    }

    /// Tells everybody about a problem that some ranks have: the first such rank, and its text; `None`
    /// where no rank has one. So a failure on one rank becomes the same result on all. `MPI_Allreduce`,
    /// and `MPI_Bcast` where there is a problem.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn agree(&self, problem: Option<String>) -> Result<Option<(usize, String)>> {
        // One that is no rank, and not above i64::MAX: MPICH 4.0 compares unsigned numbers as signed ones.
        let nobody = self.size() as u64;
        let mut first = [problem.as_ref().map_or(nobody, |_| self.rank() as u64)];
        self.all_reduce(&mut first, Operation::Minimum)?;
        if first[0] == nobody {
            return Ok(None);
        }
        let rank = usize::try_from(first[0]).expect("a rank");
        let mut text = if rank == self.rank() {
            problem.unwrap_or_default().into_bytes()
        } else {
            Vec::new()
        };
        self.broadcast_bytes(&mut text, rank)?;
        Ok(Some((rank, String::from_utf8_lossy(&text).into_owned())))
    }
}

fn length_in_memory(operation: &'static str, length: u64) -> Result<usize> {
    usize::try_from(length)
        .map_err(|_| Error::argument(operation, "count", length, "what fits into this process"))
}
