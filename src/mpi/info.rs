//! Info objects (MPI standard, chapter 10).

use std::ffi::{CString, c_int};
use std::marker::PhantomData;
use std::sync::Arc;

use super::environment::{Environment, Inner};
use super::error::{Error, Result, mpi};
use crate::sys;

/// A set of (key, value) hints. Everything about it is local.
#[derive(Debug)]
pub struct Info {
    raw: sys::MPI_Info,
    // Keeps MPI initialized for as long as the handle lives.
    _environment: Arc<Inner>,
    on_its_thread: PhantomData<*const ()>,
}

impl Info {
    /// An empty set. `MPI_Info_create`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn new(environment: &Environment) -> Result<Self> {
        let mut raw = sys::MALLEUS_INFO_NULL;
        // SAFETY: MPI is initialized as long as the environment lives.
        unsafe { mpi!(MPI_Info_create(&raw mut raw))? };
        Ok(Self {
            raw,
            _environment: Arc::clone(&environment.inner),
            on_its_thread: PhantomData,
        })
    }

    /// Takes over an object that an MPI call has just created.
    pub(super) fn adopt(raw: sys::MPI_Info, environment: &Arc<Inner>) -> Self {
        Self {
            raw,
            _environment: Arc::clone(environment),
            on_its_thread: PhantomData,
        }
    }

    /// The raw handle, for calls through [`crate::sys`]. It stays owned by this object.
    #[must_use]
    pub fn as_raw(&self) -> sys::MPI_Info {
        self.raw
    }

    /// Sets the value of a key. `MPI_Info_set`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a text with a zero byte; the MPI error for one that is too long.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let key = c_string("MPI_Info_set", "key", key)?;
        let value = c_string("MPI_Info_set", "value", value)?;
        // SAFETY: the object is valid, both texts are C strings.
        unsafe { mpi!(MPI_Info_set(self.raw, key.as_ptr(), value.as_ptr())) }
    }

    /// The value of a key. `MPI_Info_get_string`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a key with a zero byte; the MPI error otherwise.
    pub fn get(&self, key: &str) -> Result<Option<String>> {
        let key = c_string("MPI_Info_get_string", "key", key)?;
        let mut buffer = vec![0_u8; sys::MPI_MAX_INFO_VAL as usize + 1];
        let mut length = c_int::try_from(buffer.len()).expect("MPI_MAX_INFO_VAL is an int");
        let mut found: c_int = 0;
        // SAFETY: the object is valid, the buffer has `length` bytes.
        unsafe {
            mpi!(MPI_Info_get_string(
                self.raw,
                key.as_ptr(),
                &raw mut length,
                buffer.as_mut_ptr().cast(),
                &raw mut found
            ))?;
        }
        if found == 0 {
            return Ok(None);
        }
        let end = buffer
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(buffer.len());
        buffer.truncate(end);
        Ok(Some(String::from_utf8_lossy(&buffer).into_owned()))
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: the object is valid and this is its last use; freeing it is local.
        unsafe { sys::MPI_Info_free(&raw mut self.raw) };
    }
}

/// A C string out of a text argument.
pub(super) fn c_string(
    operation: &'static str,
    argument: &'static str,
    text: &str,
) -> Result<CString> {
    CString::new(text).map_err(|_| {
        Error::argument(
            operation,
            argument,
            format!("{text:?}"),
            "a text without zero bytes",
        )
    })
}
