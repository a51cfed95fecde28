//! Blocks at regular distances, as a datatype (MPI standard, chapter 5.1.2).

use std::marker::PhantomData;
use std::sync::Arc;

use crate::mpi::datatype::{Element, raw_of};
use crate::mpi::environment::{Environment, Inner};
use crate::mpi::error::{Error, Result, mpi};
use crate::sys;

/// `count` blocks of `block` elements, whose starts are `stride` elements apart: a column of a matrix, for
/// example. A committed `MPI_Type_vector`, freed with the value.
#[derive(Debug)]
pub struct Strided<T: Element> {
    raw: sys::MPI_Datatype,
    packed: usize,
    extent: u64,
    // Keeps MPI initialized for as long as the datatype lives.
    _environment: Arc<Inner>,
    element: PhantomData<(T, *const ())>,
}

impl<T: Element> Strided<T> {
    /// Describes the blocks. Local; `MPI_Type_vector`, `MPI_Type_commit`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a stride below the block, where blocks would overlap, or for blocks that no memory
    /// can hold; the MPI error otherwise.
    pub fn new(
        environment: &Environment,
        block: usize,
        stride: usize,
        count: usize,
    ) -> Result<Self> {
        const CALL: &str = "MPI_Type_vector";
        if stride < block || isize::try_from(stride.saturating_mul(size_of::<T>())).is_err() {
            return Err(Error::argument(
                CALL,
                "stride",
                stride,
                format!("at least the block of {block}, and a distance inside a memory"),
            ));
        }
        let extent = match count.checked_sub(1) {
            Some(steps) if block > 0 => steps
                .checked_mul(stride)
                .and_then(|start| start.checked_add(block)),
            _ => Some(0),
        };
        let extent = extent
            .filter(|extent| isize::try_from(extent.saturating_mul(size_of::<T>())).is_ok())
            .ok_or_else(|| Error::argument(CALL, "count", count, "blocks that memory can hold"))?;
        let large = |number: usize| {
            sys::MPI_Count::try_from(number)
                .map_err(|_| Error::argument(CALL, "stride", number, "at most MPI_Count"))
        };
        let (block_, stride_, count_) = (large(block)?, large(stride)?, large(count)?);
        let mut raw = sys::MALLEUS_DATATYPE_NULL;
        // SAFETY: the element's datatype is predefined; the new one is freed when this value is dropped.
        unsafe {
            mpi!(MPI_Type_vector_c(
                count_,
                block_,
                stride_,
                raw_of::<T>(),
                &raw mut raw
            ))?;
        }
        let strided = Self {
            raw,
            // Not above the extent, since blocks don't overlap.
            packed: block.saturating_mul(count),
            extent: extent as u64,
            _environment: Arc::clone(&environment.inner),
            element: PhantomData,
        };
        // SAFETY: the datatype was just created.
        unsafe { mpi!(MPI_Type_commit(&raw mut raw))? };
        Ok(strided)
    }

    /// The raw handle, for calls through [`crate::sys`]. It stays owned by this value.
    #[must_use]
    pub fn as_raw(&self) -> sys::MPI_Datatype {
        self.raw
    }

    /// How many elements the blocks hold.
    #[must_use]
    pub fn packed(&self) -> usize {
        self.packed
    }

    /// How many elements lie between the start of the first block and the end of the last.
    #[must_use]
    pub fn extent(&self) -> u64 {
        self.extent
    }

    pub(super) fn check_packed(
        &self,
        operation: &'static str,
        argument: &'static str,
        length: usize,
    ) -> Result<()> {
        if length == self.packed {
            return Ok(());
        }
        Err(Error::argument(
            operation,
            argument,
            format!("{length} elements"),
            format!("the {} of the blocks", self.packed),
        ))
    }
}

impl<T: Element> Drop for Strided<T> {
    fn drop(&mut self) {
        // SAFETY: the datatype is valid and this is its last use; freeing it is local, and waits for no
        // operation.
        unsafe { sys::MPI_Type_free(&raw mut self.raw) };
    }
}
