//! Accumulate and its relatives, which are atomic per element (MPI standard, chapters 12.3.4 and 12.3.5).

use super::epoch::{Epoch, ExposedRank, transfer};
use crate::mpi::datatype::{Element, raw_of};
use crate::mpi::error::{Error, Result, mpi, mpi_count};
use crate::sys;

/// What an accumulate makes of the element that is there and the one that comes; defined for every element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccumulateOperation {
    /// `MPI_SUM`
    Sum,
    /// `MPI_PROD`
    Product,
    /// `MPI_MIN`
    Minimum,
    /// `MPI_MAX`
    Maximum,
    /// `MPI_REPLACE`: the element that comes; an atomic put.
    Replace,
    /// `MPI_NO_OP`: the element that is there; an atomic get, for the operations that fetch.
    NoOp,
}

/// Bitwise operations of an accumulate, for integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BitOperation {
    /// `MPI_BAND`
    And,
    /// `MPI_BOR`
    Or,
    /// `MPI_BXOR`
    Xor,
}

mod private {
    pub trait Sealed {}
}

/// The elements that are integers.
pub trait Integer: Element + private::Sealed {}

macro_rules! integers {
    ($($type:ty),*) => {
        $(
            impl private::Sealed for $type {}
            impl Integer for $type {}
        )*
    };
}

integers!(i8, u8, i16, u16, i32, u32, i64, u64);

/// An operation that is defined for the element type `T`.
///
/// ```compile_fail
/// use malleus::mpi::window::{BitOperation, OperationOn};
/// fn on_floats(operation: impl OperationOn<f64>) {}
/// on_floats(BitOperation::And);
/// ```
pub trait OperationOn<T: Element>: Copy + private::Sealed {
    /// The predefined MPI operation.
    fn as_raw(self) -> sys::MPI_Op;
}

impl private::Sealed for AccumulateOperation {}
impl private::Sealed for BitOperation {}

impl<T: Element> OperationOn<T> for AccumulateOperation {
    fn as_raw(self) -> sys::MPI_Op {
        match self {
            Self::Sum => sys::MALLEUS_SUM,
            Self::Product => sys::MALLEUS_PROD,
            Self::Minimum => sys::MALLEUS_MIN,
            Self::Maximum => sys::MALLEUS_MAX,
            Self::Replace => sys::MALLEUS_REPLACE,
            Self::NoOp => sys::MALLEUS_NO_OP,
        }
    }
}

impl<T: Integer> OperationOn<T> for BitOperation {
    fn as_raw(self) -> sys::MPI_Op {
        match self {
            Self::And => sys::MALLEUS_BAND,
            Self::Or => sys::MALLEUS_BOR,
            Self::Xor => sys::MALLEUS_BXOR,
        }
    }
}

impl<'scope, 'buffers, T: Element> Epoch<'scope, 'buffers, T> {
    /// Combines elements with those of a rank's memory, from `displacement` on, and leaves the results there.
    /// Atomic per element among all accumulates. `MPI_Accumulate`; starts only.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for [`AccumulateOperation::NoOp`], or a rank or range that can't be accessed; the MPI
    /// error otherwise.
    pub fn accumulate(
        &'scope self,
        source: &'buffers [T],
        rank: impl Into<ExposedRank>,
        displacement: u64,
        operation: impl OperationOn<T>,
    ) -> Result<()> {
        const CALL: &str = "MPI_Accumulate";
        let (rank, displacement) =
            self.place(CALL, rank.into(), displacement, source.len() as u64)?;
        let operation = combining(CALL, operation.as_raw())?;
        // SAFETY: the source is borrowed beyond the scope, whose end completes the operation; rank and range
        // are exposed.
        unsafe {
            transfer!(
                MPI_Accumulate | MPI_Accumulate_c,
                source.len(),
                [source.as_ptr().cast()],
                raw_of::<T>(),
                (rank, displacement),
                [operation, self.window.as_raw()]
            )
        }
    }

    /// As [`Epoch::accumulate`], and fetches what was there before. `MPI_Get_accumulate`; starts only.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless `result` is as long as `source`, or for a rank or range that can't be
    /// accessed; the MPI error otherwise.
    pub fn get_accumulate(
        &'scope self,
        source: &'buffers [T],
        result: &'buffers mut [T],
        rank: impl Into<ExposedRank>,
        displacement: u64,
        operation: impl OperationOn<T>,
    ) -> Result<()> {
        const CALL: &str = "MPI_Get_accumulate";
        same_length(CALL, source, result)?;
        let (rank, displacement) =
            self.place(CALL, rank.into(), displacement, source.len() as u64)?;
        // SAFETY: both buffers are borrowed beyond the scope, the result exclusively; the scope's end completes
        // the operation. Rank and range are exposed.
        unsafe {
            transfer!(
                MPI_Get_accumulate | MPI_Get_accumulate_c,
                source.len(),
                [source.as_ptr().cast(), result.as_mut_ptr().cast()],
                raw_of::<T>(),
                (rank, displacement),
                [operation.as_raw(), self.window.as_raw()]
            )
        }
    }

    /// [`Epoch::get_accumulate`] for one element, which can be faster. `MPI_Fetch_and_op`; starts only.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a rank or range that can't be accessed; the MPI error otherwise.
    pub fn fetch_and_op(
        &'scope self,
        value: &'buffers T,
        result: &'buffers mut T,
        rank: impl Into<ExposedRank>,
        displacement: u64,
        operation: impl OperationOn<T>,
    ) -> Result<()> {
        // SAFETY: both are borrowed beyond the scope, whose end completes the operation.
        unsafe {
            self.fetch_and_op_raw(value, result, rank.into(), displacement, operation.as_raw())
        }
    }

    /// # Safety
    ///
    /// `value` and `result` live, and `result` is not used, until the operation is complete.
    pub(super) unsafe fn fetch_and_op_raw(
        &self,
        value: &T,
        result: &mut T,
        rank: ExposedRank,
        displacement: u64,
        operation: sys::MPI_Op,
    ) -> Result<()> {
        let (rank, displacement) = self.place("MPI_Fetch_and_op", rank, displacement, 1)?;
        // SAFETY: the caller's promise; rank and element are exposed.
        unsafe {
            mpi!(MPI_Fetch_and_op(
                std::ptr::from_ref(value).cast(),
                std::ptr::from_mut(result).cast(),
                raw_of::<T>(),
                rank,
                displacement,
                operation,
                self.window.as_raw()
            ))
        }
    }

    /// Writes `value` if the element that is there equals `compare`; fetches what was there before. Atomic.
    /// `MPI_Compare_and_swap`; starts only.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a rank or range that can't be accessed; the MPI error otherwise.
    pub fn compare_and_swap(
        &'scope self,
        value: &'buffers T,
        compare: &'buffers T,
        result: &'buffers mut T,
        rank: impl Into<ExposedRank>,
        displacement: u64,
    ) -> Result<()>
    where
        T: Integer,
    {
        // SAFETY: all three are borrowed beyond the scope, whose end completes the operation.
        unsafe { self.compare_and_swap_raw(value, compare, result, rank.into(), displacement) }
    }

    /// # Safety
    ///
    /// All three live, and `result` is not used, until the operation is complete.
    pub(super) unsafe fn compare_and_swap_raw(
        &self,
        value: &T,
        compare: &T,
        result: &mut T,
        rank: ExposedRank,
        displacement: u64,
    ) -> Result<()>
    where
        T: Integer,
    {
        let (rank, displacement) = self.place("MPI_Compare_and_swap", rank, displacement, 1)?;
        // SAFETY: the caller's promise; rank and element are exposed, and the datatype is an integer's.
        unsafe {
            mpi!(MPI_Compare_and_swap(
                std::ptr::from_ref(value).cast(),
                std::ptr::from_ref(compare).cast(),
                std::ptr::from_mut(result).cast(),
                raw_of::<T>(),
                rank,
                displacement,
                self.window.as_raw()
            ))
        }
    }
}

/// An operation that accumulates; `MPI_NO_OP` is for those that fetch (MPI 4.1, 12.3.4).
pub(super) fn combining(call: &'static str, operation: sys::MPI_Op) -> Result<sys::MPI_Op> {
    if operation == sys::MALLEUS_NO_OP {
        return Err(Error::argument(
            call,
            "operation",
            "NoOp",
            "one that changes the memory",
        ));
    }
    Ok(operation)
}

pub(super) fn same_length<T>(call: &'static str, source: &[T], result: &[T]) -> Result<()> {
    if source.len() == result.len() {
        return Ok(());
    }
    Err(Error::argument(
        call,
        "result",
        format!("{} elements", result.len()),
        format!("as many as the source's {}", source.len()),
    ))
}
