//! Handles as C holds them.

use std::cell::{RefCell, RefMut};
use std::thread::{self, ThreadId};

use malleus_result as R;

use super::result::{Failure, malleus_result};

/// What a pointer that C holds points to. It knows its thread, and whether it is in use.
#[derive(Debug)]
pub(super) struct Handle<T> {
    thread: ThreadId,
    value: RefCell<T>,
}

impl<T> Handle<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            thread: thread::current().id(),
            value: RefCell::new(value),
        }
    }

    /// The value, unless this is another thread, or a callback of a call that uses it.
    pub(super) fn borrow(&self) -> Result<RefMut<'_, T>, Failure> {
        if thread::current().id() != self.thread {
            return Err(Failure::new(
                R::MALLEUS_ERROR_THREAD,
                "a job and its arrays are used by the thread that started the job only",
            ));
        }
        self.value.try_borrow_mut().map_err(|_| {
            Failure::new(
                R::MALLEUS_ERROR_BUSY,
                "the call that has called back uses this job or array",
            )
        })
    }

    pub(super) fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

pub(super) fn null(name: &str) -> Failure {
    Failure::new(R::MALLEUS_ERROR_NULL, format!("{name} is NULL"))
}

/// What a pointer points to.
///
/// # Safety
///
/// It is NULL, or points to a `T` that lives, and that nobody has a `&mut` to, until `'a` ends.
pub(super) unsafe fn shared<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// Where a result goes.
///
/// # Safety
///
/// It is NULL, or points to memory for a `T` that nobody else uses during the call.
pub(super) unsafe fn place<T>(pointer: *mut T, name: &str) -> Result<Place<T>, Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    Ok(Place(pointer))
}

/// A pointer that is known to lead to memory for a `T`, initialized or not.
#[derive(Debug)]
pub(super) struct Place<T>(*mut T);

impl<T> Place<T> {
    pub(super) fn set(self, value: T) {
        // SAFETY: `place` was promised that it may be written.
        unsafe { self.0.write(value) }
    }
}
