//! Errors of MPI calls (MPI standard, chapter 9).

use std::ffi::c_int;
use std::fmt;

use crate::sys;

/// What can go wrong in the safe MPI layer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An MPI call returned something else than `MPI_SUCCESS`.
    #[error("{operation} failed with {class}: {text}")]
    Call {
        /// Name of the MPI function.
        operation: &'static str,
        /// The error class of the code (`MPI_Error_class`).
        class: ErrorClass,
        /// The raw error code, which may carry more than its class.
        code: i32,
        /// MPI's own text for the code (`MPI_Error_string`).
        text: String,
    },
    /// An argument was refused before MPI was called.
    #[error("{operation}: {argument} is {found}, expected {expected}")]
    Argument {
        /// The operation that was asked for.
        operation: &'static str,
        /// Name of the bad argument.
        argument: &'static str,
        /// What it was.
        found: String,
        /// What would have been accepted.
        expected: String,
    },
    /// A handle can't be freed, because it is still in use elsewhere.
    #[error(
        "{operation}: the {object} is still in use by {users} other handle(s); drop them first"
    )]
    InUse {
        /// The operation that was asked for.
        operation: &'static str,
        /// What kind of object it is.
        object: &'static str,
        /// How many other handles exist.
        users: usize,
    },
    /// MPI is not in the state that the call needs.
    #[error("{operation}: {reason}")]
    State {
        /// The operation that was asked for.
        operation: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// Result of an operation of the safe MPI layer.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The error class, where MPI itself reported the error.
    #[must_use]
    pub fn class(&self) -> Option<ErrorClass> {
        match self {
            Self::Call { class, .. } => Some(*class),
            _ => None,
        }
    }

    #[cold]
    pub(crate) fn argument(
        operation: &'static str,
        argument: &'static str,
        found: impl fmt::Display,
        expected: impl fmt::Display,
    ) -> Self {
        Self::Argument {
            operation,
            argument,
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }

    #[cold]
    pub(crate) fn state(operation: &'static str, reason: impl fmt::Display) -> Self {
        Self::State {
            operation,
            reason: reason.to_string(),
        }
    }

    #[cold]
    pub(super) fn from_code(operation: &'static str, code: c_int) -> Self {
        let mut class = sys::MPI_ERR_UNKNOWN as c_int;
        let mut buffer = vec![0_u8; sys::MPI_MAX_ERROR_STRING as usize];
        let mut length: c_int = 0;
        // SAFETY: both calls may be made at any time (MPI 4.1, 11.4.1); the buffer has the
        // MPI_MAX_ERROR_STRING bytes that MPI_Error_string may write. Their own failure leaves
        // the defaults, since there is nobody left to report it to.
        unsafe {
            sys::MPI_Error_class(code, &raw mut class);
            sys::MPI_Error_string(code, buffer.as_mut_ptr().cast(), &raw mut length);
        }
        buffer.truncate(usize::try_from(length).unwrap_or(0));
        let text = String::from_utf8_lossy(&buffer);
        Self::Call {
            operation,
            class: ErrorClass(class),
            code,
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }
}

/// An MPI error class, such as `MPI_ERR_RANK`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct ErrorClass(c_int);

macro_rules! classes {
    ($($name:ident = $constant:ident),* $(,)?) => {
        impl ErrorClass {
            $(
                #[doc = concat!("`", stringify!($constant), "`")]
                pub const $name: Self = Self(sys::$constant as c_int);
            )*

            /// The standard's name of the class, if it is one that is known here.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                $(if self == Self::$name { return Some(stringify!($constant)); })*
                None
            }
        }
    };
}

classes! {
    BUFFER = MPI_ERR_BUFFER, COUNT = MPI_ERR_COUNT, TYPE = MPI_ERR_TYPE, TAG = MPI_ERR_TAG,
    COMM = MPI_ERR_COMM, RANK = MPI_ERR_RANK, ROOT = MPI_ERR_ROOT, GROUP = MPI_ERR_GROUP,
    OP = MPI_ERR_OP, TOPOLOGY = MPI_ERR_TOPOLOGY, DIMS = MPI_ERR_DIMS, ARG = MPI_ERR_ARG,
    UNKNOWN = MPI_ERR_UNKNOWN, TRUNCATE = MPI_ERR_TRUNCATE, OTHER = MPI_ERR_OTHER,
    INTERN = MPI_ERR_INTERN, IN_STATUS = MPI_ERR_IN_STATUS, PENDING = MPI_ERR_PENDING,
    REQUEST = MPI_ERR_REQUEST, INFO_KEY = MPI_ERR_INFO_KEY, INFO_VALUE = MPI_ERR_INFO_VALUE,
    INFO_NOKEY = MPI_ERR_INFO_NOKEY, SPAWN = MPI_ERR_SPAWN, PORT = MPI_ERR_PORT,
    SERVICE = MPI_ERR_SERVICE, NAME = MPI_ERR_NAME, WIN = MPI_ERR_WIN, SIZE = MPI_ERR_SIZE,
    DISP = MPI_ERR_DISP, INFO = MPI_ERR_INFO, LOCKTYPE = MPI_ERR_LOCKTYPE,
    ASSERT = MPI_ERR_ASSERT, RMA_CONFLICT = MPI_ERR_RMA_CONFLICT, RMA_SYNC = MPI_ERR_RMA_SYNC,
    RMA_RANGE = MPI_ERR_RMA_RANGE, RMA_ATTACH = MPI_ERR_RMA_ATTACH,
    RMA_SHARED = MPI_ERR_RMA_SHARED, RMA_FLAVOR = MPI_ERR_RMA_FLAVOR, NO_MEM = MPI_ERR_NO_MEM,
    KEYVAL = MPI_ERR_KEYVAL,
}

impl ErrorClass {
    /// The integer that MPI uses for the class.
    #[must_use]
    pub fn as_raw(self) -> i32 {
        self.0
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error class {}", self.0),
        }
    }
}

impl fmt::Debug for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Turns the return code of an MPI call into a `Result`.
#[inline]
pub(crate) fn check(operation: &'static str, code: c_int) -> Result<()> {
    if code == sys::MPI_SUCCESS as c_int {
        Ok(())
    } else {
        Err(Error::from_code(operation, code))
    }
}

/// Calls one MPI function and turns its return code into a `Result`. It stands inside an `unsafe`
/// block, whose `SAFETY` comment names the rule of MPI that the call relies on. Its latency is recorded
/// where the thread records ([`crate::latency`]), in the class of `bytes` where the call names some.
macro_rules! mpi {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        static PROBE: $crate::latency::Probe = $crate::latency::Probe::new(stringify!($function));
        let begun = PROBE.begin();
        let code = $crate::sys::$function($($argument),*);
        PROBE.end(begun);
        $crate::mpi::error::check(stringify!($function), code)
    }};
    ($function:ident($($argument:expr),* $(,)?), $bytes:expr) => {{
        static PROBE: $crate::latency::Probe = $crate::latency::Probe::new(stringify!($function));
        let begun = PROBE.begin();
        let code = $crate::sys::$function($($argument),*);
        PROBE.end_sized(begun, $bytes);
        $crate::mpi::error::check(stringify!($function), code)
    }};
}

/// Calls the `int` form of an MPI function where the count fits in an `int`, else the `_c` form. Where the
/// count is written as the length of a slice, `slice.len()`, latencies are recorded by its size in bytes.
macro_rules! mpi_count {
    ($small:ident | $large:ident, $slice:ident.len(), |$n:ident| ($($argument:expr),* $(,)?)) => {{
        let bytes = size_of_val(&$slice[..]);
        match std::ffi::c_int::try_from($slice.len()) {
            Ok($n) => mpi!($small($($argument),*), bytes),
            Err(_) => {
                let $n = $crate::mpi::datatype::large_count($slice.len());
                mpi!($large($($argument),*), bytes)
            }
        }
    }};
    ($small:ident | $large:ident, $count:expr, |$n:ident| ($($argument:expr),* $(,)?)) => {
        match std::ffi::c_int::try_from($count) {
            Ok($n) => mpi!($small($($argument),*)),
            Err(_) => {
                let $n = $crate::mpi::datatype::large_count($count);
                mpi!($large($($argument),*))
            }
        }
    };
}

pub(crate) use {mpi, mpi_count};
