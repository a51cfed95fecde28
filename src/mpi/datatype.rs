//! Element types and their MPI datatypes (MPI standard, chapter 3.2.2).

use std::ffi::c_int;
use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::type_map::Record;
use crate::sys;

mod private {
    pub trait Sealed {}
}

/// A plain number type that has a predefined MPI datatype.
///
/// # Safety
///
/// Every bit pattern of the type is a valid value, it has no padding, and [`Element::KIND`] names the
/// MPI datatype of exactly its layout. The trait is sealed.
#[allow(unsafe_code)]
pub unsafe trait Element:
    private::Sealed + Copy + PartialEq + std::fmt::Debug + Send + Sync + 'static
{
    /// Which of the predefined types it is.
    const KIND: ElementKind;
}

macro_rules! elements {
    ($($variant:ident: $type:ty = $constant:ident),* $(,)?) => {
        /// The predefined element types, as a value: what travels in a registry of arrays.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        #[non_exhaustive]
        pub enum ElementKind {
            $(
                #[doc = concat!("`", stringify!($type), "`")]
                $variant,
            )*
        }

        impl ElementKind {
            /// Size of one element in bytes.
            #[must_use]
            pub const fn size(self) -> usize {
                match self { $(Self::$variant => size_of::<$type>(),)* }
            }

            /// The predefined MPI datatype.
            #[must_use]
            pub const fn as_raw(self) -> sys::MPI_Datatype {
                match self { $(Self::$variant => sys::$constant,)* }
            }

            /// Rust's name of the type.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($type),)* }
            }
        }

        $(
            impl private::Sealed for $type {}
            // SAFETY: a primitive number has no padding and no invalid bit pattern, and the
            // constant is the datatype of that C type of the same size.
            #[allow(unsafe_code)]
            unsafe impl Element for $type {
                const KIND: ElementKind = ElementKind::$variant;
            }
        )*
    };
}

elements! {
    I8: i8 = MALLEUS_INT8_T, U8: u8 = MALLEUS_UINT8_T,
    I16: i16 = MALLEUS_INT16_T, U16: u16 = MALLEUS_UINT16_T,
    I32: i32 = MALLEUS_INT32_T, U32: u32 = MALLEUS_UINT32_T,
    I64: i64 = MALLEUS_INT64_T, U64: u64 = MALLEUS_UINT64_T,
    F32: f32 = MALLEUS_FLOAT, F64: f64 = MALLEUS_DOUBLE,
}

/// The datatype of `T`.
pub(crate) const fn raw_of<T: Element>() -> sys::MPI_Datatype {
    T::KIND.as_raw()
}

/// A count for an `MPI_*_c` call. Rust's allocations never exceed `isize::MAX` bytes, so a slice's
/// length always fits.
#[inline]
pub(crate) fn large_count(count: usize) -> sys::MPI_Count {
    sys::MPI_Count::try_from(count).expect("a slice has at most isize::MAX elements")
}

/// A byte offset as MPI wants it.
#[inline]
pub(crate) fn address(
    operation: &'static str,
    argument: &'static str,
    value: u64,
) -> Result<sys::MPI_Aint> {
    match sys::MPI_Aint::try_from(value) {
        Ok(value) => Ok(value),
        Err(_) => Err(too_large(operation, argument, value, sys::MPI_Aint::MAX)),
    }
}

/// An `int` argument of MPI, such as a rank.
#[inline]
pub(crate) fn int(operation: &'static str, argument: &'static str, value: usize) -> Result<c_int> {
    match c_int::try_from(value) {
        Ok(value) => Ok(value),
        Err(_) => Err(too_large(operation, argument, value, c_int::MAX)),
    }
}

#[cold]
fn too_large(
    operation: &'static str,
    argument: &'static str,
    value: impl Display,
    limit: impl Display,
) -> Error {
    Error::argument(operation, argument, value, format!("at most {limit}"))
}

/// The `usize` in an `int` that MPI promises to be non-negative.
pub(crate) fn unsigned(value: c_int) -> usize {
    usize::try_from(value).expect("MPI returned a negative size or rank")
}

/// The reduction operations of MPI that are defined for every [`Element`].
///
/// MPICH 4.0.2 compares unsigned elements as signed ones in minimum and maximum: they are wrong where a value is
/// in the upper half of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// `MPI_SUM`
    Sum,
    /// `MPI_PROD`
    Product,
    /// `MPI_MIN`
    Minimum,
    /// `MPI_MAX`
    Maximum,
}

impl Operation {
    /// The predefined MPI operation.
    #[must_use]
    pub const fn as_raw(self) -> sys::MPI_Op {
        match self {
            Self::Sum => sys::MALLEUS_SUM,
            Self::Product => sys::MALLEUS_PROD,
            Self::Minimum => sys::MALLEUS_MIN,
            Self::Maximum => sys::MALLEUS_MAX,
        }
    }
}

/// The bytes of some elements.
#[must_use]
pub fn bytes_of<T: Record>(elements: &[T]) -> &[u8] {
    // SAFETY: an element has no padding: its bytes are initialized.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// The bytes of some elements, for writing.
#[must_use]
pub fn bytes_of_mut<T: Record>(elements: &mut [T]) -> &mut [u8] {
    // SAFETY: an element has no padding, and every bit pattern that is written is a valid one.
    unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
}

/// Bytes as elements; `None` unless they are aligned for `T` and hold whole elements.
#[must_use]
pub fn elements_of<T: Record>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: every bit pattern is a valid element.
    let (before, elements, after) = unsafe { bytes.align_to::<T>() };
    (before.is_empty() && after.is_empty()).then_some(elements)
}

/// Bytes as elements, for writing; `None` unless they are aligned for `T` and hold whole elements.
#[must_use]
pub fn elements_of_mut<T: Record>(bytes: &mut [u8]) -> Option<&mut [T]> {
    // SAFETY: every bit pattern is a valid element, and an element has no padding.
    let (before, elements, after) = unsafe { bytes.align_to_mut::<T>() };
    (before.is_empty() && after.is_empty()).then_some(elements)
}
