//! The calls of [`super::bare`], made from C in this process: what a program without this library pays. The C
//! source is compiled with the site's `mpicc` when a measurement begins.

use std::ffi::{c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use libloading::{Library, Symbol};

use super::bare::{BareWindow, Flavour};
use super::communicator::Communicator;
use super::datatype::{address, int};
use super::error::{Result, check};
use crate::sys;

const SOURCE: &str = include_str!("../../benches/c/reference.c");

/// The C functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    create: unsafe extern "C" fn(
        c_int,
        *mut c_void,
        sys::MPI_Aint,
        sys::MPI_Comm,
        *mut sys::MPI_Win,
    ) -> i64,
    attach: unsafe extern "C" fn(*mut sys::MPI_Win, *mut c_void, sys::MPI_Aint) -> i64,
    free: unsafe extern "C" fn(*mut sys::MPI_Win) -> i64,
    barrier: unsafe extern "C" fn(sys::MPI_Comm) -> i64,
    dup: unsafe extern "C" fn(sys::MPI_Comm, *mut sys::MPI_Comm) -> i64,
    allgather: unsafe extern "C" fn(*const c_void, *mut c_void, c_int, sys::MPI_Comm) -> i64,
}

impl Reference {
    /// Compiles the functions on rank 0 and loads them everywhere; `None` where that is not possible on some
    /// rank: no compiler, another node, an MPI that is linked statically. Collective and blocking.
    pub(crate) fn load(communicator: &Communicator) -> Result<Option<Self>> {
        let mut library = Vec::new();
        if communicator.rank() == 0
            && let Some(compiled) = compile()
        {
            library = compiled.as_os_str().as_bytes().to_vec();
        }
        communicator.broadcast_bytes(&mut library, 0)?;
        let path = Path::new(std::ffi::OsStr::from_bytes(&library));
        let loaded = if library.is_empty() { None } else { open(path) };
        let missing = loaded.is_none().then(String::new);
        let missing = communicator.agree(missing)?.is_some();
        if communicator.rank() == 0
            && let Some(folder) = path.parent()
            && !library.is_empty()
        {
            // What can't be removed is left in the folder for temporary files.
            let _ = std::fs::remove_dir_all(folder);
        }
        Ok(loaded.filter(|_| !missing))
    }

    /// As [`BareWindow::create`], with its time.
    pub(crate) fn create(
        &self,
        communicator: &Communicator,
        flavour: Flavour,
        memory: Vec<u8>,
    ) -> Result<(BareWindow, Duration)> {
        let flavour = match flavour {
            Flavour::Create => 0,
            Flavour::Allocate => 1,
            Flavour::Shared => 2,
            Flavour::Dynamic => 3,
        };
        let mut window = BareWindow::unmade(communicator, memory);
        let (raw, base, bytes) = window.parts();
        let bytes = address("MPI_Win_create", "bytes", bytes as u64)?;
        // SAFETY: as in `BareWindow::create`; the C function makes the same call.
        let time = unsafe { (self.create)(flavour, base, bytes, communicator.as_raw(), raw) };
        let time = elapsed("MPI_Win_create", time)?;
        Ok((window, time))
    }

    /// As [`BareWindow::attach`] of everything, with its time.
    pub(crate) fn attach(&self, window: &mut BareWindow) -> Result<Duration> {
        let (raw, base, bytes) = window.parts();
        let bytes = address("MPI_Win_attach", "bytes", bytes as u64)?;
        // SAFETY: as in `BareWindow::attach`.
        elapsed("MPI_Win_attach", unsafe { (self.attach)(raw, base, bytes) })
    }

    /// As [`BareWindow::free`], with its time.
    pub(crate) fn free(&self, mut window: BareWindow) -> Result<(Vec<u8>, Duration)> {
        let (raw, ..) = window.parts();
        // SAFETY: as in `BareWindow::free`; the call makes the handle null.
        let time = elapsed("MPI_Win_free", unsafe { (self.free)(raw) })?;
        Ok((window.into_memory(), time))
    }

    /// The time of a barrier.
    pub(crate) fn barrier(&self, communicator: &Communicator) -> Result<Duration> {
        // SAFETY: the communicator is valid.
        elapsed("MPI_Barrier", unsafe {
            (self.barrier)(communicator.as_raw())
        })
    }

    /// The time of a duplication.
    pub(crate) fn duplicate(&self, communicator: &Communicator) -> Result<Duration> {
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: the communicator is valid; the call writes the new handle.
        let time = unsafe { (self.dup)(communicator.as_raw(), &raw mut raw) };
        let time = elapsed("MPI_Comm_dup", time)?;
        Communicator::adopt(raw, communicator.inner())?.free()?;
        Ok(time)
    }

    /// The time of an allgather of these bytes.
    pub(crate) fn all_gather(
        &self,
        communicator: &Communicator,
        send: &[u8],
        receive: &mut [u8],
    ) -> Result<Duration> {
        assert!(receive.len() >= send.len() * communicator.size());
        let count = int("MPI_Allgather", "count", send.len())?;
        // SAFETY: the buffer has room for every rank's bytes, and the call blocks.
        let time = unsafe {
            (self.allgather)(
                send.as_ptr().cast(),
                receive.as_mut_ptr().cast(),
                count,
                communicator.as_raw(),
            )
        };
        elapsed("MPI_Allgather", time)
    }
}

/// The time that a C function returned; a code, negated, where its call failed.
fn elapsed(operation: &'static str, returned: i64) -> Result<Duration> {
    match u64::try_from(returned) {
        Ok(time) => Ok(Duration::from_nanos(time)),
        Err(_) => {
            let code = c_int::try_from(-returned).unwrap_or(c_int::MAX);
            check(operation, code)?;
            unreachable!("a code below zero names an error")
        }
    }
}

/// The compiled library, in a folder of its own.
fn compile() -> Option<PathBuf> {
    let name = format!("malleus-reference-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).ok()?;
    let compiled = compile_in(&folder);
    if compiled.is_none() {
        let _ = std::fs::remove_dir_all(&folder);
    }
    compiled
}

fn compile_in(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("reference.c"), folder.join("reference.so"));
    std::fs::write(&source, SOURCE).ok()?;
    let status = Command::new(crate::MPICC)
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status
        .is_ok_and(|status| status.success())
        .then_some(library)
}

/// Loads the library, which stays loaded.
fn open(path: &Path) -> Option<Reference> {
    // SAFETY: the library runs no code when it is loaded. Each function's type stands once, at the field that takes it,
    // and is that of the C source, with MPI's types as bindgen found them in the same `mpi.h`.
    unsafe {
        let library = Library::new(path).ok()?;
        let initialized: Symbol<unsafe extern "C" fn() -> c_int> =
            library.get(b"reference_initialized\0").ok()?;
        if initialized() == 0 {
            return None;
        }
        let reference = Reference {
            create: *library.get(b"reference_create\0").ok()?,
            attach: *library.get(b"reference_attach\0").ok()?,
            free: *library.get(b"reference_free\0").ok()?,
            barrier: *library.get(b"reference_barrier\0").ok()?,
            dup: *library.get(b"reference_dup\0").ok()?,
            allgather: *library.get(b"reference_allgather\0").ok()?,
        };
        std::mem::forget(library);
        Some(reference)
    }
}
