//! Ports: how jobs that were started apart connect (MPI standard, chapter 11.9).

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::mpi::communicator::Communicator;
use crate::mpi::datatype::int;
use crate::mpi::environment::{Environment, Inner};
use crate::mpi::error::{Error, Result, mpi};
use crate::mpi::info::{Info, c_string, text_of};
use crate::mpi::intercommunicator::Intercommunicator;
use crate::sys;

/// An open port. Dropping it closes it, which is local (`MPI_Close_port`).
///
/// MPICH has ports with ofi only, and they work with the provider tcp; with ucx, opening one is an error.
pub struct Port {
    name: String,
    environment: Arc<Inner>,
    on_its_thread: PhantomData<*const ()>,
}

impl Port {
    /// Opens a port. Local; `MPI_Open_port`.
    ///
    /// # Errors
    ///
    /// The MPI error, for example where the network has no ports.
    pub fn open(environment: &Environment, info: Option<&Info>) -> Result<Self> {
        let mut buffer = vec![0_u8; sys::MPI_MAX_PORT_NAME as usize + 1];
        let info = info.map_or(sys::MALLEUS_INFO_NULL, Info::as_raw);
        environment.inner.returning_errors(|| {
            // SAFETY: MPI is initialized, and the buffer has the size that may be written.
            unsafe { mpi!(MPI_Open_port(info, buffer.as_mut_ptr().cast())) }
        })?;
        Ok(Self {
            name: text_of(buffer),
            environment: Arc::clone(&environment.inner),
            on_its_thread: PhantomData,
        })
    }

    /// The name that the other side connects to.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Closes the port. Local; `MPI_Close_port`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn close(mut self) -> Result<()> {
        self.close_once()
    }

    fn close_once(&mut self) -> Result<()> {
        let name = std::mem::take(&mut self.name);
        if name.is_empty() {
            return Ok(());
        }
        let name = c_string("MPI_Close_port", "port", &name)?;
        self.environment.returning_errors(|| {
            // SAFETY: the port is open and is closed once.
            unsafe { mpi!(MPI_Close_port(name.as_ptr())) }
        })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = self.close_once();
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Port({:?})", self.name)
    }
}

impl Communicator {
    /// Waits for another job to connect to a port of the root. Only the root needs a `port`, and only
    /// its info counts. Collective and blocking; `MPI_Comm_accept`.
    ///
    /// # Errors
    ///
    /// On every rank, [`Error::Argument`] where the root has no port, or is not in the communicator; the
    /// MPI error otherwise.
    pub fn accept(
        &self,
        port: Option<&Port>,
        info: Option<&Info>,
        root: usize,
    ) -> Result<Intercommunicator> {
        const CALL: &str = "MPI_Comm_accept";
        let (_, name) = self.agree_with_root(CALL, root, || match port {
            Some(port) => Ok((0, c_string(CALL, "port", &port.name)?)),
            None => Err(Error::argument(CALL, "port", "none", "an open port")),
        })?;
        let name = name.unwrap_or_default();
        let root = int(CALL, "root", root)?;
        let info = info.map_or(sys::MALLEUS_INFO_NULL, Info::as_raw);
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: at the root, the name is that of an open port; it does not count elsewhere.
        unsafe {
            mpi!(MPI_Comm_accept(
                name.as_ptr(),
                info,
                root,
                self.as_raw(),
                &raw mut raw
            ))?;
        }
        Intercommunicator::adopt(raw, &self.environment())
    }

    /// Connects to a port of another job. Only the root's name and info count. Collective and blocking,
    /// until the other side accepts; `MPI_Comm_connect`. MPICH reads the info key `timeout`, in
    /// seconds. It ends the job, with a message, where a name has the form of a port's and no address in it.
    ///
    /// # Errors
    ///
    /// On every rank, [`Error::Argument`] for a name that is no port's, or a root that is not in the
    /// communicator; the MPI error otherwise.
    pub fn connect(
        &self,
        port: &str,
        info: Option<&Info>,
        root: usize,
    ) -> Result<Intercommunicator> {
        const CALL: &str = "MPI_Comm_connect";
        let (_, name) = self.agree_with_root(CALL, root, || {
            check_name(CALL, port)?;
            Ok((0, c_string(CALL, "port", port)?))
        })?;
        let name = name.unwrap_or_default();
        let root = int(CALL, "root", root)?;
        let info = info.map_or(sys::MALLEUS_INFO_NULL, Info::as_raw);
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: at the root, the name is a C string of the length that MPI allows; it does not count
        // elsewhere.
        unsafe {
            mpi!(MPI_Comm_connect(
                name.as_ptr(),
                info,
                root,
                self.as_raw(),
                &raw mut raw
            ))?;
        }
        Intercommunicator::adopt(raw, &self.environment())
    }
}

/// A name that can be a port's.
pub(super) fn check_name(operation: &'static str, name: &str) -> Result<()> {
    let limit = sys::MPI_MAX_PORT_NAME as usize;
    if !name.is_empty() && name.len() < limit {
        return Ok(());
    }
    let found = format!("{} bytes", name.len());
    Err(Error::argument(
        operation,
        "port",
        found,
        format!("1 to {}", limit - 1),
    ))
}
