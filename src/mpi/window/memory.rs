//! Access to exposed memory that a remote process may write at the same time.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::mpi::datatype::Element;
use crate::mpi::error::{Error, Result};

/// Whose the memory of a window is.
#[derive(Debug)]
pub(super) enum Owner {
    /// A borrow that outlives the window.
    Borrow,
    /// A vector that was taken apart.
    Vector { capacity: usize },
    /// MPI, which frees it with the window.
    Library { shared: bool },
}

/// Exposed memory, for copies in and out. It is never behind a reference, since a remote process may write it
/// at any time.
///
/// Each element is copied by one relaxed atomic access of its size. Nothing is torn or undefined when a remote
/// process writes at the same time, but which of both values is seen is not specified: the end of an epoch, or
/// [`super::PassiveEpoch::sync`] with a message or a barrier, says when the others' values are there.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'window, T: Element> {
    base: NonNull<T>,
    length: usize,
    window: PhantomData<(&'window (), *const ())>,
}

impl<T: Element> Memory<'_, T> {
    /// # Safety
    ///
    /// `length` initialized elements from `base` on are valid for the lifetime, and no reference to them
    /// exists.
    pub(super) unsafe fn new(base: NonNull<T>, length: usize) -> Self {
        Self {
            base,
            length,
            window: PhantomData,
        }
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing is exposed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Address of the first element. Who reads or writes through it answers for races.
    #[must_use]
    pub fn as_ptr(&self) -> *mut T {
        self.base.as_ptr()
    }

    /// Copies the elements from `at` on. Local.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a range that is not inside the memory.
    pub fn read(&self, at: usize, destination: &mut [T]) -> Result<()> {
        self.check("Memory::read", at, destination.len())?;
        for (offset, element) in destination.iter_mut().enumerate() {
            // SAFETY: `at + offset` was checked, and the memory is valid for atomic reads.
            *element = unsafe { load(self.base.as_ptr().add(at + offset)) };
        }
        Ok(())
    }

    /// Overwrites the elements from `at` on. Local.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a range that is not inside the memory.
    pub fn write(&self, at: usize, source: &[T]) -> Result<()> {
        self.check("Memory::write", at, source.len())?;
        for (offset, &element) in source.iter().enumerate() {
            // SAFETY: `at + offset` was checked, and the memory is valid for atomic writes.
            unsafe { store(self.base.as_ptr().add(at + offset), element) };
        }
        Ok(())
    }

    /// A copy of all elements. Local.
    #[must_use]
    pub fn to_vec(&self) -> Vec<T> {
        (0..self.length)
            // SAFETY: the index is inside the memory, which is valid for atomic reads.
            .map(|index| unsafe { load(self.base.as_ptr().add(index)) })
            .collect()
    }

    /// Overwrites all elements with one value. Local.
    pub fn fill(&self, value: T) {
        for index in 0..self.length {
            // SAFETY: the index is inside the memory, which is valid for atomic writes.
            unsafe { store(self.base.as_ptr().add(index), value) };
        }
    }

    fn check(&self, operation: &'static str, at: usize, count: usize) -> Result<()> {
        if at.checked_add(count).is_some_and(|end| end <= self.length) {
            return Ok(());
        }
        Err(Error::argument(
            operation,
            "at",
            format!("{at}, for {count} elements"),
            format!("a range inside the {} exposed elements", self.length),
        ))
    }
}

/// # Safety
///
/// The element is valid for reads, and there is no reference to it.
unsafe fn load<T: Element>(element: *const T) -> T {
    macro_rules! by_size {
        ($($size:literal: $atomic:ty),*) => {
            match size_of::<T>() {
                $($size => {
                    // SAFETY: an element is aligned to its size and as large as the integer.
                    let value = unsafe { <$atomic>::from_ptr(element.cast_mut().cast()) }
                        .load(Ordering::Relaxed);
                    // SAFETY: every bit pattern of that size is a valid element.
                    unsafe { std::mem::transmute_copy(&value) }
                })*
                _ => unreachable!("elements have 1, 2, 4 or 8 bytes"),
            }
        };
    }
    by_size!(1: AtomicU8, 2: AtomicU16, 4: AtomicU32, 8: AtomicU64)
}

/// # Safety
///
/// The element is valid for writes, and there is no reference to it.
unsafe fn store<T: Element>(element: *mut T, value: T) {
    macro_rules! by_size {
        ($($size:literal: $atomic:ty),*) => {
            match size_of::<T>() {
                $($size => {
                    // SAFETY: an element has no padding, and is as large as the integer.
                    let value = unsafe { std::mem::transmute_copy(&value) };
                    // SAFETY: an element is aligned to its size and as large as the integer.
                    unsafe { <$atomic>::from_ptr(element.cast()) }.store(value, Ordering::Relaxed);
                })*
                _ => unreachable!("elements have 1, 2, 4 or 8 bytes"),
            }
        };
    }
    by_size!(1: AtomicU8, 2: AtomicU16, 4: AtomicU32, 8: AtomicU64)
}
