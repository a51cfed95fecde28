//! Arrays that a job of a C program owns.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;

use super::handle::{Handle, place, shared};
use super::job::malleus_job;
use super::result::{Failure, guard, malleus_result};
use crate::job::{Array, ConstantArray, Job, Registered};
use crate::mpi::Element;

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
    guard(|| {
        // SAFETY: C's promises, as the documentation asks for them.
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
        if length
            .checked_mul(8)
            .is_none_or(|bytes| i64::try_from(bytes).is_err())
        {
            return Err(Failure::argument(format!("length {length} is too large")));
        }
        let data = build_typed(&mut job.job, name, r#type, length, constant)?;
        array.set(job.keep(malleus_array(Handle::new(data))));
        Ok(())
    })
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
