//! One buffer, in which what is received replaces what is sent.

use super::pieces::{Pieces, span};
use super::{Buffers, Plan, Result, Variant, zero};
use crate::mpi::Communicator;
use crate::mpi::collective::BlockLayout;
use crate::mpi::request::BufferMut;

/// The caller's buffer, and a copy of what is sent from it.
#[derive(Debug)]
pub struct InPlace<R: BufferMut> {
    buffer: R,
    staged: Vec<R::Element>,
}

/// Elements that a start copies to where they are sent from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staged {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) count: usize,
}

impl<R: BufferMut> Plan<R::Element, InPlace<R>> {
    /// Sets up an exchange in a buffer of the caller, which comes back from [`Plan::free`]: each rank's block goes to that
    /// rank, whose elements replace it, so that two ranks have blocks of the same length for each other. Before a start
    /// [`Plan::receive_mut`] is where to write what is sent; [`Plan::send`] is empty, or what was sent last.
    ///
    /// `Standard` and `StandardPersistent` give MPI `MPI_IN_PLACE`; the other variants copy the blocks to memory of the plan
    /// at each start. Collective and blocking; otherwise as [`Plan::allocate`].
    ///
    /// # Errors
    ///
    /// As for [`Plan::allocate`]: [`super::Error::Counts`] where the blocks of two ranks for each other differ in length.
    pub fn in_place(
        communicator: &Communicator,
        variant: Variant,
        (buffer, layout): (R, &BlockLayout),
    ) -> Result<Self> {
        let packed = BlockLayout::packed(layout.counts().to_vec());
        let is_standard = matches!(variant, Variant::Standard | Variant::StandardPersistent);
        let staged_length = if is_standard { 0 } else { span(&packed) };
        let mut kept = Box::new(InPlace {
            buffer,
            staged: vec![zero(); staged_length],
        });
        let receive = kept.buffer.elements_mut();
        let receive = (receive.as_mut_ptr(), receive.len());
        let buffers = Buffers {
            send: if is_standard {
                std::ptr::null_mut()
            } else {
                kept.staged.as_mut_ptr()
            },
            send_length: staged_length,
            receive: receive.0,
            receive_length: receive.1,
        };
        let send = (&packed, span(&packed));
        let pieces = Pieces::exchange(communicator, send, (layout, receive.1))?;
        let mut plan = Self::new(communicator, variant, pieces, buffers, kept, false)?;
        if !is_standard {
            let blocks = (0..layout.counts().len()).map(|rank| Staged {
                from: layout.block(rank).start,
                to: packed.block(rank).start,
                count: layout.counts()[rank],
            });
            plan.parts.staged = blocks.filter(|block| block.count > 0).collect();
        }
        Ok(plan)
    }

    /// Frees the windows, and gives the buffer back. Collective and blocking.
    ///
    /// # Errors
    ///
    /// The MPI error, with which the buffer is left behind.
    pub fn free(self) -> Result<R> {
        self.end().map(|kept| kept.buffer)
    }
}
