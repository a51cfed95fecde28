//! Names under which ports are found (MPI standard, chapter 11.9.4).

use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::port::Port;
use crate::mpi::environment::{Environment, Inner};
use crate::mpi::error::{Error, Result, mpi};
use crate::mpi::info::{Info, c_string, text_of};
use crate::sys;

/// A name that was published. Dropping it takes it back, which is local (`MPI_Unpublish_name`).
pub struct PublishedName {
    service: CString,
    port: Option<CString>,
    environment: Arc<Inner>,
    on_its_thread: PhantomData<*const ()>,
}

impl PublishedName {
    /// Publishes the name of a port under that of a service. Local; `MPI_Publish_name`.
    ///
    /// Other starts of `mpiexec` find it where all have the same name server (`hydra_nameserver`, and
    /// `mpiexec -nameserver HOST`).
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a name that is empty, too long, or holds zero bytes, line ends or spaces;
    /// the MPI error otherwise.
    pub fn publish(
        environment: &Environment,
        service: &str,
        port: &Port,
        info: Option<&Info>,
    ) -> Result<Self> {
        const CALL: &str = "MPI_Publish_name";
        let service = service_name(CALL, service)?;
        let port = c_string(CALL, "port", port.name())?;
        let info = info.map_or(sys::MALLEUS_INFO_NULL, Info::as_raw);
        environment.inner.returning_errors(|| {
            // SAFETY: both names are C strings. MPI only reads them.
            unsafe { mpi!(MPI_Publish_name(service.as_ptr(), info, port.as_ptr())) }
        })?;
        Ok(Self {
            service,
            port: Some(port),
            environment: Arc::clone(&environment.inner),
            on_its_thread: PhantomData,
        })
    }

    /// The name of the port that was published under that of a service, for
    /// [`Communicator::connect`](crate::mpi::Communicator::connect). Local; `MPI_Lookup_name`.
    ///
    /// # Errors
    ///
    /// As for [`PublishedName::publish`]; the MPI error where there is no such name.
    pub fn look_up(
        environment: &Environment,
        service: &str,
        info: Option<&Info>,
    ) -> Result<String> {
        const CALL: &str = "MPI_Lookup_name";
        let service = service_name(CALL, service)?;
        let info = info.map_or(sys::MALLEUS_INFO_NULL, Info::as_raw);
        let mut buffer = vec![0_u8; sys::MPI_MAX_PORT_NAME as usize + 1];
        environment.inner.returning_errors(|| {
            // SAFETY: the name is a C string, and the buffer has the size that may be written.
            unsafe {
                mpi!(MPI_Lookup_name(
                    service.as_ptr(),
                    info,
                    buffer.as_mut_ptr().cast()
                ))
            }
        })?;
        Ok(text_of(buffer))
    }

    /// Takes the name back. Local; `MPI_Unpublish_name`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn unpublish(mut self) -> Result<()> {
        self.unpublish_once()
    }

    fn unpublish_once(&mut self) -> Result<()> {
        let Some(port) = self.port.take() else {
            return Ok(());
        };
        self.environment.returning_errors(|| {
            // SAFETY: both names are C strings. MPI only reads them.
            unsafe {
                mpi!(MPI_Unpublish_name(
                    self.service.as_ptr(),
                    sys::MALLEUS_INFO_NULL,
                    port.as_ptr()
                ))
            }
        })
    }
}

impl Drop for PublishedName {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = self.unpublish_once();
    }
}

impl fmt::Debug for PublishedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublishedName({:?})", self.service)
    }
}

/// A name that MPICH's process manager takes: it sends it in a line of words.
fn service_name(operation: &'static str, name: &str) -> Result<CString> {
    let limit = sys::MPI_MAX_PORT_NAME as usize;
    let is_word = !name.contains(|character: char| character.is_whitespace());
    if name.is_empty() || name.len() >= limit || !is_word {
        let found = format!("{name:?}");
        let expected = format!("1 to {} bytes without spaces", limit - 1);
        return Err(Error::argument(operation, "service", found, expected));
    }
    c_string(operation, "service", name)
}
