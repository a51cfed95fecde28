//! Arrays that a job of a C program owns.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;

use super::handle::{Handle, null, place, shared};
use super::job::malleus_job;
use super::result::{Failure, guard, malleus_result};
use crate::job::{
    Array, ConstantArray, ConstantPacked, Job, Pack, Packed, PackedElements, Registered, Untyped,
};
use crate::mpi::{Element, TypeMap};
use crate::sys::MPI_Datatype;

/// The types of elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum malleus_type {
    /// int8_t
    MALLEUS_INT8 = 1,
    /// uint8_t
    MALLEUS_UINT8 = 2,
    /// int16_t
    MALLEUS_INT16 = 3,
    /// uint16_t
    MALLEUS_UINT16 = 4,
    /// int32_t
    MALLEUS_INT32 = 5,
    /// uint32_t
    MALLEUS_UINT32 = 6,
    /// int64_t
    MALLEUS_INT64 = 7,
    /// uint64_t
    MALLEUS_UINT64 = 8,
    /// float
    MALLEUS_FLOAT = 9,
    /// double
    MALLEUS_DOUBLE = 10,
}

/// A distributed array. Borrowed from its job, and gone with it.
pub struct malleus_array(Handle<Box<dyn Data>>);

impl malleus_array {
    pub(super) fn handle(&self) -> &Handle<Box<dyn Data>> {
        &self.0
    }
}

/// A rank's block, whatever its type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    data: *mut c_void,
    length: usize,
    start: u64,
}

impl Block {
    fn new<T>(data: *mut T, length: usize, range: &Range<u64>) -> Self {
        Self {
            data: data.cast(),
            length,
            start: range.start,
        }
    }
}

/// An array without its type.
pub(super) trait Data {
    fn registered(&mut self) -> &mut dyn Registered;
    /// For reading only.
    fn read(&self) -> Block;
    /// For writing as well.
    fn write(&mut self) -> Result<Block, Failure>;
}

impl<T: Element> Data for Array<T> {
    fn registered(&mut self) -> &mut dyn Registered {
        self
    }

    fn read(&self) -> Block {
        Block::new(self.as_ptr().cast_mut(), self.len(), &self.range())
    }

    fn write(&mut self) -> Result<Block, Failure> {
        let range = self.range();
        Ok(Block::new(self.as_mut_ptr(), self.len(), &range))
    }
}

impl<T: Element> Data for ConstantArray<T> {
    fn registered(&mut self) -> &mut dyn Registered {
        self
    }

    fn read(&self) -> Block {
        Block::new(self.as_ptr().cast_mut(), self.len(), &self.range())
    }

    fn write(&mut self) -> Result<Block, Failure> {
        Ok(self.initialize(|range, elements| {
            Block::new(elements.as_mut_ptr(), elements.len(), &range)
        })?)
    }
}

impl Data for Untyped {
    fn registered(&mut self) -> &mut dyn Registered {
        self
    }

    fn read(&self) -> Block {
        Block::new(
            self.bytes().as_ptr().cast_mut(),
            count(&self.range()),
            &self.range(),
        )
    }

    fn write(&mut self) -> Result<Block, Failure> {
        let range = self.range();
        Ok(Untyped::write(self, |bytes| {
            Block::new(bytes.as_mut_ptr(), count(&range), &range)
        })?)
    }
}

/// How many elements a rank has.
fn count(range: &Range<u64>) -> usize {
    usize::try_from(range.end - range.start).expect("elements in memory")
}

macro_rules! packed_data {
    ($($packed:ident),*) => {$(
        impl Data for $packed<Callbacks> {
            fn registered(&mut self) -> &mut dyn Registered {
                self
            }

            fn read(&self) -> Block {
                let range = self.range();
                Block::new(std::ptr::null_mut::<c_void>(), count(&range), &range)
            }

            fn write(&mut self) -> Result<Block, Failure> {
                Ok(self.read())
            }
        }
    )*};
}

packed_data!(Packed, ConstantPacked);

/// Gives the bytes of one element, of which `element` counts this rank's from 0 on, and their number in `*size`. They have
/// to stay as they are until the next call. No call to Malleus with the job is allowed.
pub type malleus_pack = Option<
    unsafe extern "C" fn(context: *mut c_void, element: usize, size: *mut usize) -> *const c_void,
>;

/// The program's elements become these, in place of those that they were: `count` of them, the first with the global index
/// `start`. `bytes` has the `sizes[0]` bytes of the first, then the `sizes[1]` of the next, and so on. On a process that
/// leaves the job, `count` is 0. Something else than 0 says that it is not possible, which ends the job. No call to
/// Malleus with the job is allowed.
pub type malleus_unpack = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        start: u64,
        count: usize,
        sizes: *const usize,
        bytes: *const c_void,
    ) -> c_int,
>;

/// Elements that a C program packs.
struct Callbacks {
    pack: unsafe extern "C" fn(*mut c_void, usize, *mut usize) -> *const c_void,
    unpack: unsafe extern "C" fn(*mut c_void, u64, usize, *const usize, *const c_void) -> c_int,
    context: *mut c_void,
}

impl Pack for Callbacks {
    fn pack(&self, local: usize, bytes: &mut Vec<u8>) {
        let mut size = 0;
        // SAFETY: C gave the function together with its context.
        let data = unsafe { (self.pack)(self.context, local, &raw mut size) };
        if !data.is_null() && size > 0 {
            // SAFETY: C promises that there are so many bytes.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(data.cast(), size) });
        }
    }

    fn unpack(&mut self, elements: PackedElements<'_>) -> Result<(), String> {
        let sizes: Vec<usize> = elements.iter().map(<[u8]>::len).collect();
        let (start, bytes) = (elements.range().start, elements.bytes());
        // SAFETY: C gave the function together with its context; the sizes add up to the bytes.
        let code = unsafe {
            (self.unpack)(
                self.context,
                start,
                sizes.len(),
                sizes.as_ptr(),
                bytes.as_ptr().cast(),
            )
        };
        match code {
            0 => Ok(()),
            code => Err(format!("the program's function returned {code}")),
        }
    }
}

fn build<T: Element>(
    job: &mut Job,
    name: &str,
    length: u64,
    constant: bool,
) -> Result<Box<dyn Data>, Failure> {
    let array = job.array::<T>(name);
    Ok(if constant {
        Box::new(array.constant().block(length)?)
    } else {
        Box::new(array.block(length)?)
    })
}

fn build_typed(
    job: &mut Job,
    name: &str,
    kind: c_int,
    length: u64,
    constant: bool,
) -> Result<Box<dyn Data>, Failure> {
    use malleus_type as T;
    macro_rules! types {
        ($($name:ident = $type:ty),*) => {
            match kind {
                $(kind if kind == T::$name as c_int => build::<$type>(job, name, length, constant),)*
                _ => Err(Failure::argument(format!("type {kind} is not one of malleus_type"))),
            }
        };
    }
    types!(
        MALLEUS_INT8 = i8,
        MALLEUS_UINT8 = u8,
        MALLEUS_INT16 = i16,
        MALLEUS_UINT16 = u16,
        MALLEUS_INT32 = i32,
        MALLEUS_UINT32 = u32,
        MALLEUS_INT64 = i64,
        MALLEUS_UINT64 = u64,
        MALLEUS_FLOAT = f32,
        MALLEUS_DOUBLE = f64
    )
}

/// Registers an array of `length` elements in all, in equal blocks, the remainder to the first ranks. Every
/// rank registers the same, in any order, before its first malleus_job_checkpoint.
///
/// New elements are zero; on a process that joined, the array has its contents. An array that is `constant`
/// is written once, where the job starts, and only read afterwards.
///
/// `type` is one of malleus_type. `*array` is borrowed from the job: malleus_job_end frees it.
///
/// # Safety
///
/// `job` comes from malleus_job_start; `name` is a C string; `array` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malleus_array_block(
    job: *mut malleus_job,
    name: *const c_char,
    r#type: c_int,
    length: u64,
    constant: bool,
    array: *mut *mut malleus_array,
) -> malleus_result {
    // SAFETY: C's promises, as the documentation asks for them.
    unsafe {
        register(job, name, array, |job, name| {
            check_length(length, 8)?;
            build_typed(job, name, r#type, length, constant)
        })
    }
}

/// Registers an array whose elements are of an MPI datatype, such as one of MPI_Type_create_struct; otherwise as
/// malleus_array_block. An element takes the datatype's extent in memory, and moves with the gaps that it may have; its
/// data has to lie inside the extent, which begins at 0. The datatype may be freed afterwards.
///
/// # Safety
///
/// `job` comes from malleus_job_start; `name` is a C string; `datatype` is a datatype; `array` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malleus_array_block_of(
    job: *mut malleus_job,
    name: *const c_char,
    datatype: MPI_Datatype,
    length: u64,
    constant: bool,
    array: *mut *mut malleus_array,
) -> malleus_result {
    // SAFETY: C's promises, as the documentation asks for them. MPI is initialized as long as there is a job.
    unsafe {
        register(job, name, array, |job, name| {
            let type_map = TypeMap::of_datatype(datatype)?;
            check_length(length, type_map.extent() as u64)?;
            Ok(Box::new(Untyped::block(
                job, name, type_map, constant, length,
            )?))
        })
    }
}

/// Registers `elements` elements in all that the program keeps in a form of its own, in equal blocks, the remainder to
/// the first ranks: lists of different lengths, trees, and others that an array can't hold. `pack` is called for each of
/// this rank's elements before they move, and `unpack` afterwards, inside of malleus_job_checkpoint.
///
/// `constant` elements have to be there already, where the job starts: they are packed once, in here. On a process that
/// joined, `unpack` is called in here. `context` is for both functions.
///
/// `*array` is borrowed from the job: malleus_job_end frees it. malleus_array_read tells which elements this rank has;
/// its data is NULL.
///
/// # Safety
///
/// `job` comes from malleus_job_start; `name` is a C string; the functions and their context can be used until
/// malleus_job_end; `array` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malleus_array_packed(
    job: *mut malleus_job,
    name: *const c_char,
    elements: u64,
    constant: bool,
    pack: malleus_pack,
    unpack: malleus_unpack,
    context: *mut c_void,
    array: *mut *mut malleus_array,
) -> malleus_result {
    // SAFETY: C's promises, as the documentation asks for them.
    unsafe {
        register(job, name, array, |job, name| {
            let pack = pack.ok_or_else(|| null("pack"))?;
            let unpack = unpack.ok_or_else(|| null("unpack"))?;
            check_length(elements, 8)?;
            let callbacks = Callbacks {
                pack,
                unpack,
                context,
            };
            let packed = job.packed(name);
            Ok(if constant {
                Box::new(packed.constant_block(elements, callbacks)?)
            } else {
                Box::new(packed.block(elements, callbacks)?)
            })
        })
    }
}

/// Registers what `build` makes, and keeps it for C.
///
/// # Safety
///
/// `job` comes from malleus_job_start; `name` is a C string; `array` may be written.
unsafe fn register(
    job: *mut malleus_job,
    name: *const c_char,
    array: *mut *mut malleus_array,
    build: impl FnOnce(&mut Job, &str) -> Result<Box<dyn Data>, Failure>,
) -> malleus_result {
    guard(|| {
        // SAFETY: the caller's promises.
        let (job, name, array) = unsafe {
            (
                shared(job, "job")?,
                shared(name, "name").map(|name| CStr::from_ptr(name))?,
                place(array, "array")?,
            )
        };
        let mut job = job.member()?;
        let name = name
            .to_str()
            .map_err(|_| Failure::argument("name is not UTF-8"))?;
        let data = build(&mut job.job, name)?;
        array.set(job.keep(malleus_array(Handle::new(data))));
        Ok(())
    })
}

fn check_length(length: u64, size: u64) -> Result<(), Failure> {
    let bytes = length.checked_mul(size).map(i64::try_from);
    if matches!(bytes, Some(Ok(_))) {
        return Ok(());
    }
    Err(Failure::argument(format!("length {length} is too large")))
}

/// This rank's block of an array, for reading and writing: `*length` elements, the first of which has the
/// global index `*start`. `*data` is borrowed; it is invalid after a malleus_job_checkpoint that gives
/// something else than MALLEUS_CONTINUE.
///
/// A constant array is lent like this once, where the job starts, and filled then; after that, and on a
/// process that joined, this is MALLEUS_ERROR_CONSTANT: use malleus_array_read.
///
/// # Safety
///
/// `array` comes from malleus_array_block, and its job has not ended; the others may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malleus_array_data(
    array: *mut malleus_array,
    data: *mut *mut c_void,
    length: *mut usize,
    start: *mut u64,
) -> malleus_result {
    guard(|| {
        // SAFETY: C's promises, as the documentation asks for them.
        let (array, data, length, start) = unsafe {
            (
                shared(array, "array")?,
                place(data, "data")?,
                place(length, "length")?,
                place(start, "start")?,
            )
        };
        let block = array.0.borrow()?.write()?;
        data.set(block.data);
        length.set(block.length);
        start.set(block.start);
        Ok(())
    })
}

/// This rank's block of an array, for reading; otherwise as malleus_array_data.
///
/// # Safety
///
/// `array` comes from malleus_array_block, and its job has not ended; the others may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malleus_array_read(
    array: *const malleus_array,
    data: *mut *const c_void,
    length: *mut usize,
    start: *mut u64,
) -> malleus_result {
    guard(|| {
        // SAFETY: C's promises, as the documentation asks for them.
        let (array, data, length, start) = unsafe {
            (
                shared(array, "array")?,
                place(data, "data")?,
                place(length, "length")?,
                place(start, "start")?,
            )
        };
        let block = array.0.borrow()?.read();
        data.set(block.data);
        length.set(block.length);
        start.set(block.start);
        Ok(())
    })
}
