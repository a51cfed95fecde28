//! Result codes, the text of the last error, and the boundary for panics.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use malleus_result as R;

use crate::{job, mpi};

/// What a function came to. The numbers never change; new ones may come.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum malleus_result {
    /// It was done.
    MALLEUS_OK = 0,
    /// A pointer is NULL.
    MALLEUS_ERROR_NULL = 1,
    /// Another argument is not what it may be.
    MALLEUS_ERROR_ARGUMENT = 2,
    /// Something in Malleus is broken: a panic. From malleus_job_start on, a panic ends the whole MPI job
    /// instead.
    MALLEUS_ERROR_PANIC = 3,
    /// The handle belongs to another thread: the one that started the job.
    MALLEUS_ERROR_THREAD = 4,
    /// The handle is in use by the call that has called back.
    MALLEUS_ERROR_BUSY = 5,
    /// MPI is not initialized, or finalized already, or another library than the one built for.
    MALLEUS_ERROR_STATE = 6,
    /// The job has ended on this process.
    MALLEUS_ERROR_ENDED = 7,
    /// An MPI call failed.
    MALLEUS_ERROR_MPI = 20,
    /// There is no memory for an array.
    MALLEUS_ERROR_MEMORY = 21,
    /// An array could not be moved.
    MALLEUS_ERROR_REDISTRIBUTE = 22,
    /// The name is registered already.
    MALLEUS_ERROR_NAME_TAKEN = 23,
    /// A process that joined asks for something that the job has not registered.
    MALLEUS_ERROR_UNKNOWN_NAME = 24,
    /// A process that joined registers an array in another way than the others did.
    MALLEUS_ERROR_MISMATCH = 25,
    /// A constant array has its contents already.
    MALLEUS_ERROR_CONSTANT = 26,
    /// The resize was not done; the job is as it was before, and goes on.
    MALLEUS_ERROR_ABANDONED = 27,
    /// The resize was not done, since a checksum differs; the job is as it was before, and goes on.
    MALLEUS_ERROR_VERIFICATION = 28,
    /// A lean resize failed halfway; the job can't go on.
    MALLEUS_ERROR_LOST = 29,
    /// A process could not be parked or woken.
    MALLEUS_ERROR_PARKING = 30,
    /// Anything else; malleus_last_error says what.
    MALLEUS_ERROR_OTHER = 99,
}

/// Every result and its name.
const NAMES: [(malleus_result, &CStr); 20] = [
    (R::MALLEUS_OK, c"MALLEUS_OK"),
    (R::MALLEUS_ERROR_NULL, c"MALLEUS_ERROR_NULL"),
    (R::MALLEUS_ERROR_ARGUMENT, c"MALLEUS_ERROR_ARGUMENT"),
    (R::MALLEUS_ERROR_PANIC, c"MALLEUS_ERROR_PANIC"),
    (R::MALLEUS_ERROR_THREAD, c"MALLEUS_ERROR_THREAD"),
    (R::MALLEUS_ERROR_BUSY, c"MALLEUS_ERROR_BUSY"),
    (R::MALLEUS_ERROR_STATE, c"MALLEUS_ERROR_STATE"),
    (R::MALLEUS_ERROR_ENDED, c"MALLEUS_ERROR_ENDED"),
    (R::MALLEUS_ERROR_MPI, c"MALLEUS_ERROR_MPI"),
    (R::MALLEUS_ERROR_MEMORY, c"MALLEUS_ERROR_MEMORY"),
    (R::MALLEUS_ERROR_REDISTRIBUTE, c"MALLEUS_ERROR_REDISTRIBUTE"),
    (R::MALLEUS_ERROR_NAME_TAKEN, c"MALLEUS_ERROR_NAME_TAKEN"),
    (R::MALLEUS_ERROR_UNKNOWN_NAME, c"MALLEUS_ERROR_UNKNOWN_NAME"),
    (R::MALLEUS_ERROR_MISMATCH, c"MALLEUS_ERROR_MISMATCH"),
    (R::MALLEUS_ERROR_CONSTANT, c"MALLEUS_ERROR_CONSTANT"),
    (R::MALLEUS_ERROR_ABANDONED, c"MALLEUS_ERROR_ABANDONED"),
    (R::MALLEUS_ERROR_VERIFICATION, c"MALLEUS_ERROR_VERIFICATION"),
    (R::MALLEUS_ERROR_LOST, c"MALLEUS_ERROR_LOST"),
    (R::MALLEUS_ERROR_PARKING, c"MALLEUS_ERROR_PARKING"),
    (R::MALLEUS_ERROR_OTHER, c"MALLEUS_ERROR_OTHER"),
];

/// The name of a result, such as "MALLEUS_ERROR_NULL"; "unknown" for another number. Lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn malleus_result_name(result: c_int) -> *const c_char {
    NAMES
        .iter()
        .find(|(known, _)| *known as c_int == result)
        .map_or(c"unknown", |(_, name)| name)
        .as_ptr()
}

/// Whether the job goes on with its old size after a malleus_job_checkpoint with this result. It is the
/// same on every rank.
#[unsafe(no_mangle)]
pub extern "C" fn malleus_result_leaves_job_whole(result: c_int) -> bool {
    [
        R::MALLEUS_OK,
        R::MALLEUS_ERROR_ABANDONED,
        R::MALLEUS_ERROR_VERIFICATION,
    ]
    .into_iter()
    .any(|whole| whole as c_int == result)
}

/// The version of Malleus, such as "0.1.0". Lives for ever.
#[unsafe(no_mangle)]
pub extern "C" fn malleus_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// What went wrong in the last call of this thread that failed; never NULL, empty if none did. Borrowed:
/// it lives until the next call that fails on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn malleus_last_error() -> *const c_char {
    LAST.with_borrow(|text| text.as_ptr())
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// A result other than `MALLEUS_OK`, and its text.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) result: malleus_result,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn new(result: malleus_result, text: impl Into<String>) -> Self {
        Self {
            result,
            text: text.into(),
        }
    }

    pub(super) fn argument(text: impl Into<String>) -> Self {
        Self::new(R::MALLEUS_ERROR_ARGUMENT, text)
    }
}

impl From<mpi::Error> for Failure {
    fn from(error: mpi::Error) -> Self {
        Self::new(of_mpi(&error), error.to_string())
    }
}

fn of_mpi(error: &mpi::Error) -> malleus_result {
    match error {
        mpi::Error::State { .. } => R::MALLEUS_ERROR_STATE,
        mpi::Error::Argument { .. } => R::MALLEUS_ERROR_ARGUMENT,
        _ => R::MALLEUS_ERROR_MPI,
    }
}

impl From<job::Error> for Failure {
    fn from(error: job::Error) -> Self {
        use job::Error as E;
        let result = match &error {
            E::Mpi(error) => of_mpi(error),
            E::Redistribute(_) => R::MALLEUS_ERROR_REDISTRIBUTE,
            E::Memory(_) => R::MALLEUS_ERROR_MEMORY,
            E::NameTaken { .. } => R::MALLEUS_ERROR_NAME_TAKEN,
            E::Unknown { .. } => R::MALLEUS_ERROR_UNKNOWN_NAME,
            E::Mismatch { .. } => R::MALLEUS_ERROR_MISMATCH,
            E::Constant { .. } => R::MALLEUS_ERROR_CONSTANT,
            E::Verification { .. } => R::MALLEUS_ERROR_VERIFICATION,
            error if error.leaves_job_whole() => R::MALLEUS_ERROR_ABANDONED,
            E::Lost { .. } => R::MALLEUS_ERROR_LOST,
            E::Parking(_) => R::MALLEUS_ERROR_PARKING,
            E::Ended => R::MALLEUS_ERROR_ENDED,
            _ => R::MALLEUS_ERROR_OTHER,
        };
        Self::new(result, error.to_string())
    }
}

/// The body of a function that C calls: its failure becomes a code and the thread's last error, and so
/// does a panic.
pub(super) fn guard(body: impl FnOnce() -> Result<(), Failure>) -> malleus_result {
    // What a panic leaves half done is behind a handle, which the application can only end.
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return R::MALLEUS_OK,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(R::MALLEUS_ERROR_PANIC, panic_text(&*panic)),
    };
    let text = failure.text.replace('\0', " ");
    // A text without a zero always becomes a C string.
    LAST.set(CString::new(text).unwrap_or_default());
    failure.result
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a text")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pointer: *const c_char) -> &'static str {
        // SAFETY: the pointers here come from functions that return C strings, which are not replaced
        // while they are read.
        unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
    }

    #[test]
    fn every_result_has_its_name() {
        for (result, name) in NAMES {
            assert_eq!(format!("{result:?}"), name.to_str().unwrap());
            assert_eq!(
                text(malleus_result_name(result as c_int)),
                name.to_str().unwrap()
            );
        }
        assert_eq!(text(malleus_result_name(-1)), "unknown");
        assert_eq!(text(malleus_version()), env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn a_panic_and_an_error_stop_at_the_boundary() {
        assert_eq!(text(malleus_last_error()), "");
        assert_eq!(
            guard(|| panic!("a {} panic", "test")),
            R::MALLEUS_ERROR_PANIC
        );
        assert_eq!(text(malleus_last_error()), "a test panic");
        let failure = || Err(Failure::argument("zero \0 inside"));
        assert_eq!(guard(failure), R::MALLEUS_ERROR_ARGUMENT);
        assert_eq!(text(malleus_last_error()), "zero   inside");
        assert_eq!(guard(|| Ok(())), R::MALLEUS_OK);
        assert_eq!(text(malleus_last_error()), "zero   inside");
    }

    #[test]
    fn the_job_is_whole_where_the_error_says_so() {
        let name = "x".to_owned();
        for error in [
            job::Error::Ended,
            job::Error::NotCommitted,
            job::Error::Constant { name: name.clone() },
            job::Error::Abandoned {
                from: 1,
                to: 2,
                reason: name.clone(),
            },
            job::Error::Verification {
                from: 1,
                to: 2,
                array: name.clone(),
                rank: 0,
            },
            job::Error::Lost {
                from: 1,
                to: 2,
                array: name.clone(),
                rank: 0,
            },
            job::Error::Registry {
                rank: 0,
                problem: name.clone(),
            },
            job::Error::CommunicatorInUse {
                rank: 0,
                handles: name,
            },
        ] {
            let whole = error.leaves_job_whole();
            let failure = Failure::from(error);
            assert_eq!(
                malleus_result_leaves_job_whole(failure.result as c_int),
                whole,
                "{failure:?}"
            );
        }
    }
}
