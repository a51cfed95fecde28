//! What an element of an array is made of: MPI's type maps (MPI 4.1, section 5.1).

use std::ffi::c_int;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::datatype::{Element, ElementKind, address, int};
use super::environment::{Environment, Inner};
use super::error::{Error, Result, mpi};
use crate::sys;

/// The type map of an element: the predefined types that it is made of, each at its displacement, and its extent, the
/// distance between two elements of an array.
///
/// Two processes have the same type of element where their type maps are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TypeMap {
    entries: Vec<Entry>,
    size: usize,
    extent: usize,
}

/// Elements of a predefined type, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Entry {
    displacement: usize,
    kind: ElementKind,
    count: usize,
}

impl TypeMap {
    /// That of a predefined type.
    #[must_use]
    pub fn of_kind(kind: ElementKind) -> Self {
        Self {
            entries: vec![Entry {
                displacement: 0,
                kind,
                count: 1,
            }],
            size: kind.size(),
            extent: kind.size(),
        }
    }

    /// That of so many elements, one behind the other: `MPI_Type_contiguous`.
    #[must_use]
    pub fn repeated(&self, count: usize) -> Self {
        let parts = (0..count).map(|index| (index * self.extent, self.clone()));
        Self::record(parts, count * self.extent)
    }

    /// That of a record with a part at each of these displacements: `MPI_Type_create_struct`,
    /// `MPI_Type_create_resized`.
    #[must_use]
    pub fn record(parts: impl IntoIterator<Item = (usize, Self)>, extent: usize) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        let mut size = 0;
        for (displacement, part) in parts {
            size += part.size;
            for entry in part.entries {
                let displacement = displacement + entry.displacement;
                match entries.last_mut() {
                    Some(last)
                        if last.kind == entry.kind
                            && last.displacement + last.count * last.kind.size()
                                == displacement =>
                    {
                        last.count += entry.count;
                    }
                    _ => entries.push(Entry {
                        displacement,
                        ..entry
                    }),
                }
            }
        }
        Self {
            entries,
            size,
            extent,
        }
    }

    /// What is known of a datatype that was made elsewhere: its size and its extent. `MPI_Type_size_x`,
    /// `MPI_Type_get_extent_x`, `MPI_Type_get_true_extent_x`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a datatype without data, and for one whose elements do not lie one behind the other in an
    /// array: its data begins elsewhere than at displacement 0, or reaches beyond its extent. The MPI error otherwise.
    ///
    /// # Safety
    ///
    /// MPI is initialized and not finalized, and the handle is that of a datatype.
    pub(crate) unsafe fn of_datatype(datatype: sys::MPI_Datatype) -> Result<Self> {
        const CALL: &str = "MPI_Type_get_extent_x";
        let (mut size, mut bound, mut extent, mut true_bound, mut true_extent) = (0, 0, 0, 0, 0);
        // SAFETY: the caller's promises; the results are written into live variables.
        unsafe {
            mpi!(MPI_Type_size_x(datatype, &raw mut size))?;
            mpi!(MPI_Type_get_extent_x(
                datatype,
                &raw mut bound,
                &raw mut extent
            ))?;
            mpi!(MPI_Type_get_true_extent_x(
                datatype,
                &raw mut true_bound,
                &raw mut true_extent
            ))?;
        }
        let refused =
            |found: String, expected: &str| Err(Error::argument(CALL, "datatype", found, expected));
        let (Ok(bytes), Ok(stride)) = (usize::try_from(size), usize::try_from(extent)) else {
            return refused(format!("{size} bytes, extent {extent}"), "sizes from 0 on");
        };
        if bytes == 0 {
            return refused("one of 0 bytes".to_owned(), "one with data");
        }
        if bound != 0 || true_bound < 0 || true_bound + true_extent > extent {
            let found = format!(
                "lower bound {bound}, extent {extent}, data from {true_bound} to {}",
                true_bound + true_extent
            );
            return refused(found, "data inside its extent, which begins at 0");
        }
        Ok(Self {
            entries: Vec::new(),
            size: bytes,
            extent: stride,
        })
    }

    /// Bytes of data in an element.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes from an element of an array to the next.
    #[must_use]
    pub fn extent(&self) -> usize {
        self.extent
    }
}

impl fmt::Display for TypeMap {
    /// Such as `f64`, or `record of 32 bytes (3 f64 at 0, u64 at 24)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entries.as_slice() {
            [] => {
                return write!(
                    f,
                    "datatype of {} bytes with extent {}",
                    self.size, self.extent
                );
            }
            [
                Entry {
                    displacement: 0,
                    kind,
                    count,
                },
            ] if self.size == self.extent => {
                return match count {
                    1 => f.write_str(kind.name()),
                    count => write!(f, "{count} {}", kind.name()),
                };
            }
            _ => {}
        }
        write!(f, "record of {} bytes (", self.extent)?;
        for (index, entry) in self.entries.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            f.write_str(comma)?;
            if entry.count > 1 {
                write!(f, "{} ", entry.count)?;
            }
            write!(f, "{} at {}", entry.kind.name(), entry.displacement)?;
        }
        f.write_str(")")
    }
}

/// A datatype of MPI that is made of others: committed, and freed with this value.
#[derive(Debug)]
pub struct Datatype {
    raw: sys::MPI_Datatype,
    // Keeps MPI initialized for as long as the datatype lives.
    _environment: Arc<Inner>,
}

impl Datatype {
    /// The datatype with this type map. Local; `MPI_Type_create_struct`, `MPI_Type_create_resized`, `MPI_Type_commit`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a type map of which only size and extent are known; the MPI error otherwise.
    pub fn new(environment: &Environment, map: &TypeMap) -> Result<Self> {
        const CALL: &str = "MPI_Type_create_struct";
        if map.entries.is_empty() {
            let expected = "one whose parts are known";
            return Err(Error::argument(CALL, "type map", map, expected));
        }
        let mut counts: Vec<c_int> = Vec::with_capacity(map.entries.len());
        let mut displacements: Vec<sys::MPI_Aint> = Vec::with_capacity(map.entries.len());
        let mut kinds = Vec::with_capacity(map.entries.len());
        for entry in &map.entries {
            counts.push(int(CALL, "count", entry.count)?);
            let displacement = entry.displacement as u64;
            displacements.push(address(CALL, "displacement", displacement)?);
            kinds.push(entry.kind.as_raw());
        }
        let extent = address(CALL, "extent", map.extent as u64)?;
        let length = int(CALL, "parts", map.entries.len())?;
        let mut parts = sys::MALLEUS_DATATYPE_NULL;
        let mut raw = sys::MALLEUS_DATATYPE_NULL;
        // SAFETY: MPI is initialized as long as the environment lives; the arrays have `length` elements each, and MPI
        // copies them. What is made is freed, or owned by the result.
        unsafe {
            mpi!(MPI_Type_create_struct(
                length,
                counts.as_ptr(),
                displacements.as_ptr(),
                kinds.as_ptr(),
                &raw mut parts
            ))?;
            let resized = mpi!(MPI_Type_create_resized(parts, 0, extent, &raw mut raw));
            sys::MPI_Type_free(&raw mut parts);
            resized?;
        }
        let mut datatype = Self {
            raw,
            _environment: Arc::clone(&environment.inner),
        };
        // SAFETY: the datatype was just made.
        unsafe { mpi!(MPI_Type_commit(&raw mut datatype.raw))? };
        Ok(datatype)
    }

    /// MPI's handle, for calls that this library does not make. It is valid as long as this value.
    #[must_use]
    pub fn as_raw(&self) -> sys::MPI_Datatype {
        self.raw
    }

    /// What MPI tells of it: its size and extent.
    ///
    /// # Errors
    ///
    /// As for datatypes that are made elsewhere.
    pub fn type_map(&self) -> Result<TypeMap> {
        // SAFETY: the datatype lives, and so does its environment.
        unsafe { TypeMap::of_datatype(self.raw) }
    }
}

impl Drop for Datatype {
    fn drop(&mut self) {
        // SAFETY: the datatype is this value's own. Operations that use it go on without it.
        unsafe { sys::MPI_Type_free(&raw mut self.raw) };
    }
}

/// What an array of a job can hold: every [`Element`], arrays of them, and plain structures that [`crate::record!`]
/// declares.
///
/// # Safety
///
/// Every bit pattern of the type is a valid value, it has no padding, and its type map is that of its layout.
pub unsafe trait Record: Copy + Send + Sync + 'static {
    /// What it is made of.
    fn type_map() -> TypeMap;
}

// SAFETY: an element is what its kind says.
unsafe impl<T: Element> Record for T {
    fn type_map() -> TypeMap {
        TypeMap::of_kind(T::KIND)
    }
}

// SAFETY: the elements of an array lie one behind the other, and it has no padding of its own.
unsafe impl<T: Record, const N: usize> Record for [T; N] {
    fn type_map() -> TypeMap {
        T::type_map().repeated(N)
    }
}

/// Declares structures that arrays of a job can hold: `#[repr(C)]`, with fields of types that are [`Record`]s
/// themselves, and without padding, which does not compile.
///
/// [`Record`]: crate::mpi::Record
///
/// ```
/// malleus::record! {
///     /// A particle.
///     #[derive(Debug, PartialEq)]
///     pub struct Particle {
///         pub position: [f64; 3],
///         pub id: u64,
///     }
/// }
///
/// use malleus::mpi::Record;
/// assert_eq!(Particle::type_map().to_string(), "record of 32 bytes (3 f64 at 0, u64 at 24)");
/// ```
#[macro_export]
macro_rules! record {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $type:ty),+ $(,)?
        }
    )+) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $type,)+
        }

        const _: () = assert!(
            0 $(+ ::core::mem::size_of::<$type>())+ == ::core::mem::size_of::<$name>(),
            "the structure has padding: add fields in its place"
        );

        // SAFETY: the fields are records, and there is nothing between and behind them.
        #[allow(unsafe_code)]
        unsafe impl $crate::mpi::Record for $name {
            fn type_map() -> $crate::mpi::TypeMap {
                $crate::mpi::TypeMap::record(
                    [$((
                        ::core::mem::offset_of!($name, $field),
                        <$type as $crate::mpi::Record>::type_map(),
                    )),+],
                    ::core::mem::size_of::<$name>(),
                )
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use super::*;

    record! {
        struct Inner {
            a: u16,
            b: [u8; 2],
            c: u8,
            d: u8,
            e: i16,
        }
        struct Outer {
            x: [f64; 3],
            inner: [Inner; 2],
            y: [[f32; 2]; 2],
            z: f32,
            w: f32,
        }
    }

    #[test]
    fn parts_of_one_type_that_touch_are_one_entry() {
        assert_eq!(
            Inner::type_map().to_string(),
            "record of 8 bytes (u16 at 0, 4 u8 at 2, i16 at 6)"
        );
        let outer = Outer::type_map();
        assert_eq!(
            outer.to_string(),
            "record of 64 bytes (3 f64 at 0, u16 at 24, 4 u8 at 26, i16 at 30, u16 at 32, 4 u8 at 34, i16 at 38, \
             6 f32 at 40)"
        );
        assert_eq!((outer.size(), outer.extent()), (64, size_of::<Outer>()));
        assert_eq!(<[[f64; 2]; 5]>::type_map().to_string(), "10 f64");
        assert_eq!(u8::type_map(), TypeMap::of_kind(ElementKind::U8));
        assert_ne!(<[u8; 8]>::type_map(), u64::type_map());
    }

    #[test]
    fn gaps_are_told() {
        let map = TypeMap::record([(4, u32::type_map())], 12);
        assert_eq!((map.size(), map.extent()), (4, 12));
        assert_eq!(map.to_string(), "record of 12 bytes (u32 at 4)");
        let text = serde_json::to_string(&map).unwrap();
        assert_eq!(serde_json::from_str::<TypeMap>(&text).unwrap(), map);
    }
}
