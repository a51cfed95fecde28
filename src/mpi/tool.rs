//! The tool information interface (MPI standard, chapter 15.3): control variables of the library.

use std::ffi::{CString, c_int};
use std::sync::Once;

use super::error::{Error, Result};
use crate::sys;

/// Sets an integer control variable of the MPI library, such as `MPIR_CVAR_ENABLE_HEAVY_YIELD`, on
/// this process. Local; `MPI_T_init_thread`, `MPI_T_cvar_get_index`, `MPI_T_cvar_handle_alloc`,
/// `MPI_T_cvar_write`.
///
/// # Safety
///
/// The value is one that the library's documentation allows for the variable at this time: MPICH checks none,
/// and some end the job, or hang it.
///
/// # Errors
///
/// [`Error::State`] with the code of the MPI_T call that failed, for example where the library has no
/// variable of that name or refuses to change it after its initialization.
pub unsafe fn write_integer_variable(name: &str, value: i32) -> Result<()> {
    let name = CString::new(name).map_err(|_| {
        Error::argument(
            "MPI_T_cvar_write",
            "name",
            "a text with a zero byte",
            "a name",
        )
    })?;
    let session = Session::open()?;
    let written = session.write(&name, value);
    session.close()?;
    written
}

/// Whether the MPI library has a control variable of that name. Local; `MPI_T_cvar_get_index`.
///
/// # Errors
///
/// [`Error::State`] with the code of the MPI_T call that failed for another reason.
pub fn has_variable(name: &str) -> Result<bool> {
    let name = CString::new(name).map_err(|_| {
        Error::argument(
            "MPI_T_cvar_get_index",
            "name",
            "a text with a zero byte",
            "a name",
        )
    })?;
    let session = Session::open()?;
    let mut index: c_int = 0;
    // SAFETY: the interface is initialized, the name is a C string, and the out-argument lives.
    let code = unsafe { sys::MPI_T_cvar_get_index(name.as_ptr(), &raw mut index) };
    session.close()?;
    if code == sys::MPI_T_ERR_INVALID_NAME as c_int {
        return Ok(false);
    }
    check("MPI_T_cvar_get_index", code).map(|()| true)
}

/// The MPI_T interface, initialized once more: its reference count goes down on `close`.
struct Session(());

impl Session {
    fn open() -> Result<Self> {
        // MPICH 4.0 knows no variable any more when the last session has ended: one stays open.
        static FIRST: Once = Once::new();
        let mut opened = Ok(());
        FIRST.call_once(|| opened = Self::initialize());
        opened?;
        Self::initialize().map(|()| Self(()))
    }

    fn initialize() -> Result<()> {
        let mut provided: c_int = 0;
        // SAFETY: MPI_T_init_thread may be called at any time, any number of times.
        let code =
            unsafe { sys::MPI_T_init_thread(sys::MPI_THREAD_MULTIPLE as c_int, &raw mut provided) };
        check("MPI_T_init_thread", code)
    }

    fn close(self) -> Result<()> {
        // SAFETY: it pairs with the MPI_T_init_thread of `open`.
        check("MPI_T_finalize", unsafe { sys::MPI_T_finalize() })
    }

    fn write(&self, name: &CString, value: c_int) -> Result<()> {
        let mut index: c_int = 0;
        let mut count: c_int = 0;
        let mut handle: sys::MPI_T_cvar_handle = std::ptr::null_mut();
        // SAFETY: the interface is initialized, the name is a C string, and the out-arguments live.
        unsafe {
            check(
                "MPI_T_cvar_get_index",
                sys::MPI_T_cvar_get_index(name.as_ptr(), &raw mut index),
            )?;
            check(
                "MPI_T_cvar_handle_alloc",
                sys::MPI_T_cvar_handle_alloc(
                    index,
                    std::ptr::null_mut(),
                    &raw mut handle,
                    &raw mut count,
                ),
            )?;
        }
        if count != 1 {
            return Err(Error::argument(
                "MPI_T_cvar_write",
                "name",
                format!("a variable of {count} elements"),
                "1",
            ));
        }
        // SAFETY: the handle was allocated above for a variable of one integer, and is freed once.
        unsafe {
            let written = check(
                "MPI_T_cvar_write",
                sys::MPI_T_cvar_write(handle, (&raw const value).cast()),
            );
            check(
                "MPI_T_cvar_handle_free",
                sys::MPI_T_cvar_handle_free(&raw mut handle),
            )?;
            written
        }
    }
}

fn check(operation: &'static str, code: c_int) -> Result<()> {
    if code == sys::MPI_SUCCESS as c_int {
        Ok(())
    } else {
        Err(Error::state(operation, format!("MPI_T error {code}")))
    }
}
