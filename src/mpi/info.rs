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
    environment: Arc<Inner>,
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
        Ok(Self::adopt(raw, &environment.inner))
    }

    /// A set with the same pairs. `MPI_Info_dup`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn duplicate(&self) -> Result<Self> {
        let mut raw = sys::MALLEUS_INFO_NULL;
        // SAFETY: the object is valid.
        unsafe { mpi!(MPI_Info_dup(self.raw, &raw mut raw))? };
        Ok(Self::adopt(raw, &self.environment))
    }

    /// Gives the handle away, which then has to be freed through [`crate::sys`].
    #[must_use]
    pub fn into_raw(mut self) -> sys::MPI_Info {
        std::mem::replace(&mut self.raw, sys::MALLEUS_INFO_NULL)
    }

    /// Takes over an info object that was made through [`crate::sys`].
    ///
    /// # Safety
    ///
    /// `raw` is an info object of MPI's present initialization, not a predefined one, that nobody else
    /// frees.
    #[must_use]
    pub unsafe fn from_raw(raw: sys::MPI_Info, environment: &Environment) -> Self {
        Self::adopt(raw, &environment.inner)
    }

    /// Takes over an object that an MPI call has just created.
    pub(super) fn adopt(raw: sys::MPI_Info, environment: &Arc<Inner>) -> Self {
        Self {
            raw,
            environment: Arc::clone(environment),
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
    /// [`Error::Argument`] for a text with a zero byte, an empty key, or one that is too long
    /// (`MPI_MAX_INFO_KEY`, `MPI_MAX_INFO_VAL`); the MPI error otherwise.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        const CALL: &str = "MPI_Info_set";
        let key = key_string(CALL, key)?;
        let limit = sys::MPI_MAX_INFO_VAL as usize;
        if value.len() >= limit {
            let found = format!("{} bytes", value.len());
            return Err(Error::argument(
                CALL,
                "value",
                found,
                format!("fewer than {limit}"),
            ));
        }
        let value = c_string(CALL, "value", value)?;
        // SAFETY: the object is valid, both texts are C strings.
        unsafe { mpi!(MPI_Info_set(self.raw, key.as_ptr(), value.as_ptr())) }
    }

    /// Removes a key; whether there was one. `MPI_Info_delete`.
    ///
    /// # Errors
    ///
    /// As for [`Info::get`].
    pub fn remove(&mut self, key: &str) -> Result<bool> {
        if self.get(key)?.is_none() {
            return Ok(false);
        }
        let key = key_string("MPI_Info_delete", key)?;
        // SAFETY: the object is valid and has the key.
        unsafe { mpi!(MPI_Info_delete(self.raw, key.as_ptr()))? };
        Ok(true)
    }

    /// All keys. `MPI_Info_get_nkeys`, `MPI_Info_get_nthkey`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn keys(&self) -> Result<Vec<String>> {
        let mut count: c_int = 0;
        // SAFETY: the object is valid.
        unsafe { mpi!(MPI_Info_get_nkeys(self.raw, &raw mut count))? };
        let key = |index| {
            let mut buffer = vec![0_u8; sys::MPI_MAX_INFO_KEY as usize + 1];
            // SAFETY: the object has a key of that index, and the buffer the size of the longest.
            unsafe {
                mpi!(MPI_Info_get_nthkey(
                    self.raw,
                    index,
                    buffer.as_mut_ptr().cast()
                ))?;
            }
            Ok(text_of(buffer))
        };
        (0..count).map(key).collect()
    }

    /// The value of a key. `MPI_Info_get_string`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a key with a zero byte, an empty one or one that is too long; the MPI error
    /// otherwise.
    pub fn get(&self, key: &str) -> Result<Option<String>> {
        let key = key_string("MPI_Info_get_string", key)?;
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
        Ok(Some(text_of(buffer)))
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        if self.raw != sys::MALLEUS_INFO_NULL {
            // SAFETY: the object is valid and this is its last use; freeing it is local.
            unsafe { sys::MPI_Info_free(&raw mut self.raw) };
        }
    }
}

/// A key as MPI takes it. Its errors would be no communicator's, and their handler may be the application's.
fn key_string(operation: &'static str, key: &str) -> Result<CString> {
    let limit = sys::MPI_MAX_INFO_KEY as usize;
    // MPI ignores spaces around a key.
    if key.trim().is_empty() || key.len() >= limit {
        let found = format!("{} bytes", key.len());
        return Err(Error::argument(
            operation,
            "key",
            found,
            format!("1 to {}", limit - 1),
        ));
    }
    c_string(operation, "key", key)
}

/// The text up to its zero byte.
pub(super) fn text_of(mut buffer: Vec<u8>) -> String {
    let end = buffer.iter().position(|&byte| byte == 0);
    buffer.truncate(end.unwrap_or(buffer.len()));
    String::from_utf8_lossy(&buffer).into_owned()
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
