//! Process creation (MPI standard, chapter 11.8 to 11.10).

use std::ffi::{CString, c_int};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::communicator::Communicator;
use super::datatype::{int, unsigned};
use super::environment::{Environment, Inner};
use super::error::{Result, mpi};
use super::info::{Info, c_string};
use crate::sys;

/// What [`Communicator::spawn`] starts.
#[derive(Debug)]
pub struct SpawnCommand<'a> {
    /// The program. MPICH takes it as it is or looks for it in `PATH`.
    pub program: &'a str,
    /// Its arguments, without the program's name.
    pub arguments: &'a [String],
    /// How many processes.
    pub processes: usize,
    /// Hints. MPICH's hydra reads `path`, `wdir`, `host`/`hosts` and `hostfile`.
    pub info: Option<&'a Info>,
}

impl Communicator {
    /// Starts processes, which find the intercommunicator to these ones in [`Environment::parent`].
    /// Collective; the root's command counts. `MPI_Comm_spawn`.
    ///
    /// MPICH never returns where the program can't be started or ends before it initializes MPI.
    ///
    /// # Errors
    ///
    /// [`super::Error::Argument`] for texts with zero bytes or a number beyond `int`; the MPI error otherwise.
    pub fn spawn(&self, command: &SpawnCommand<'_>, root: usize) -> Result<Intercommunicator> {
        const CALL: &str = "MPI_Comm_spawn";
        let program = c_string(CALL, "program", command.program)?;
        let arguments = command
            .arguments
            .iter()
            .map(|argument| c_string(CALL, "arguments", argument))
            .collect::<Result<Vec<CString>>>()?;
        let mut argv: Vec<_> = arguments
            .iter()
            .map(|argument| argument.as_ptr().cast_mut())
            .collect();
        argv.push(std::ptr::null_mut());
        let processes = int(CALL, "processes", command.processes)?;
        let root = int(CALL, "root", root)?;
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: program and arguments are C strings, and the list of arguments ends with a null. MPI
        // only reads them. It would write as many error codes as the *root* starts processes, on every
        // rank: none are asked for.
        unsafe {
            mpi!(MPI_Comm_spawn(
                program.as_ptr(),
                argv.as_mut_ptr(),
                processes,
                command.info.map_or(sys::MALLEUS_INFO_NULL, Info::as_raw),
                root,
                self.as_raw(),
                &raw mut raw,
                sys::errcodes_ignore()
            ))?;
        }
        Intercommunicator::adopt(raw, &self.environment())
    }
}

/// A communicator of two groups. It ends by [`Intercommunicator::disconnect`] or
/// [`Intercommunicator::free`]; dropping it marks the environment failed, as for [`Communicator`].
pub struct Intercommunicator {
    raw: sys::MPI_Comm,
    environment: Arc<Inner>,
    on_its_thread: PhantomData<*const ()>,
}

impl Intercommunicator {
    pub(super) fn adopt(raw: sys::MPI_Comm, environment: &Environment) -> Result<Self> {
        // SAFETY: `raw` is a communicator that the caller owns.
        unsafe { mpi!(MPI_Comm_set_errhandler(raw, sys::MALLEUS_ERRORS_RETURN))? };
        Ok(Self {
            raw,
            environment: Arc::clone(&environment.inner),
            on_its_thread: PhantomData,
        })
    }

    /// The raw handle, for calls through [`crate::sys`]. It stays owned by this communicator.
    #[must_use]
    pub fn as_raw(&self) -> sys::MPI_Comm {
        self.raw
    }

    /// Number of processes in the other group. Local; `MPI_Comm_remote_size`.
    #[must_use]
    pub fn remote_size(&self) -> usize {
        let mut size: c_int = 0;
        // SAFETY: the communicator is valid as long as `self` lives. The call can't fail then.
        unsafe { mpi!(MPI_Comm_remote_size(self.raw, &raw mut size)) }
            .expect("a valid communicator");
        unsigned(size)
    }

    /// A byte from each process of one group to each of the other: afterwards every pair is connected.
    /// Collective over both groups, of which one sends; `MPI_Send`, `MPI_Recv`.
    ///
    /// Without it, the first collective of parents and children was seen to hang (4.2.3, ofi, tcp) in about
    /// one of 40 growing jobs; both sides then reach for each other at the same time.
    pub(crate) fn meet(&self, sends: bool) -> Result<()> {
        let mut byte = 0_u8;
        for peer in 0..self.remote_size() {
            let peer = int("MPI_Send", "rank", peer)?;
            // SAFETY: the communicator is valid, the byte lives until the blocking call returns.
            unsafe {
                if sends {
                    mpi!(MPI_Send(
                        (&raw const byte).cast(),
                        1,
                        sys::MALLEUS_UINT8_T,
                        peer,
                        0,
                        self.raw
                    ))?;
                } else {
                    mpi!(MPI_Recv(
                        (&raw mut byte).cast(),
                        1,
                        sys::MALLEUS_UINT8_T,
                        peer,
                        0,
                        self.raw,
                        sys::status_ignore()
                    ))?;
                }
            }
        }
        Ok(())
    }

    /// One communicator of both groups; the group that says `high` gets the high ranks. Collective over
    /// both groups; `MPI_Intercomm_merge`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn merge(&self, high: bool) -> Result<Communicator> {
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: the communicator is valid.
        unsafe {
            mpi!(MPI_Intercomm_merge(
                self.raw,
                c_int::from(high),
                &raw mut raw
            ))?
        };
        Communicator::adopt(raw, &self.environment)
    }

    /// Frees the communicator. Collective over both groups; `MPI_Comm_free`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn free(mut self) -> Result<()> {
        let mut raw = std::mem::replace(&mut self.raw, sys::MALLEUS_COMM_NULL);
        // SAFETY: `self` gave its communicator away: nothing uses it any more.
        unsafe { mpi!(MPI_Comm_free(&raw mut raw)) }
    }

    /// Waits for all communication and frees the communicator. Collective over both groups;
    /// `MPI_Comm_disconnect`, after an `MPI_Barrier`, since MPICH's disconnect does not wait.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn disconnect(mut self) -> Result<()> {
        let mut raw = std::mem::replace(&mut self.raw, sys::MALLEUS_COMM_NULL);
        // SAFETY: `self` gave its communicator away: nothing uses it any more.
        unsafe {
            mpi!(MPI_Barrier(raw))?;
            mpi!(MPI_Comm_disconnect(&raw mut raw))
        }
    }
}

impl Drop for Intercommunicator {
    fn drop(&mut self) {
        if self.raw != sys::MALLEUS_COMM_NULL {
            self.environment
                .mark_failed("an intercommunicator was dropped without disconnect()".to_owned());
        }
    }
}

impl fmt::Debug for Intercommunicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Intercommunicator(to {})", self.remote_size())
    }
}
