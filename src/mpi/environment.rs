//! Start and end of MPI (MPI standard, chapter 11).

use std::ffi::c_int;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use super::communicator::Communicator;
use super::datatype::unsigned;
use super::error::{Error, Result, mpi};
use super::intercommunicator::Intercommunicator;
use super::thread::ThreadLevel;
use super::{runtime_check, tool};
use crate::sys;

/// The token for an initialized MPI. Every handle keeps it alive: MPI is finalized when the last one is
/// gone. It stays on the thread that initialized MPI.
#[derive(Clone, Debug)]
pub struct Environment {
    pub(super) inner: Arc<Inner>,
    on_its_thread: PhantomData<*const ()>,
}

/// What all handles share.
#[derive(Debug)]
pub(super) struct Inner {
    /// Whether this library initialized MPI, and so finalizes it.
    owned: bool,
    thread_level: ThreadLevel,
    /// Why the environment can't end in an orderly way any more.
    failed: Mutex<Option<String>>,
    parent_taken: AtomicBool,
    /// `MPI_COMM_WORLD` and `MPI_COMM_SELF`, or our duplicates where the application initialized MPI.
    world: sys::MPI_Comm,
    alone: sys::MPI_Comm,
    /// The thread on which MPI has to end.
    thread: ThreadId,
}

impl Environment {
    /// Initializes MPI with `MPI_THREAD_MULTIPLE`, which a job that changes its size needs. Collective
    /// over the processes of one start; `MPI_Init_thread`.
    ///
    /// Unless the user did, it chooses the libfabric provider first (`FI_PROVIDER=tcp` where the node
    /// has no fabric device), lets that provider keep more messages that nobody has asked for yet (`FI_TCP_MAX_SAVED`),
    /// and, where this node's ranks exceed its cores, MPICH's heavy yield. It does so in
    /// the process's environment, and leaves it alone where the process has other threads already.
    ///
    /// # Errors
    ///
    /// [`Error::State`] if MPI is or was initialized in this process, or where the MPI library is not one
    /// that serves what this program was built for; the MPI error otherwise.
    pub fn init() -> Result<Self> {
        Self::init_thread(ThreadLevel::Multiple)
    }

    /// Initializes MPI and asks for a thread level; [`Environment::thread_level`] tells which was
    /// granted. Collective over the processes of one start; `MPI_Init_thread`.
    ///
    /// # Errors
    ///
    /// As for [`Environment::init`].
    pub fn init_thread(level: ThreadLevel) -> Result<Self> {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if initialized()? {
            return Err(Error::state(
                "MPI_Init_thread",
                "MPI is initialized already: use Environment::attach",
            ));
        }
        runtime_check::check()?;
        set_defaults();
        let mut provided: c_int = 0;
        // SAFETY: MPI has not been initialized; null arguments are allowed (MPI 4.1, 11.2.1).
        unsafe {
            mpi!(MPI_Init_thread(
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                level.as_raw(),
                &raw mut provided
            ))?;
            // Errors of the predefined communicators come back as codes.
            for world in [sys::MALLEUS_COMM_WORLD, sys::MALLEUS_COMM_SELF] {
                mpi!(MPI_Comm_set_errhandler(world, sys::MALLEUS_ERRORS_RETURN))?;
            }
        }
        OWNED.store(true, Ordering::Relaxed);
        Ok(Self::new(
            true,
            ThreadLevel::from_raw(provided),
            [sys::MALLEUS_COMM_WORLD, sys::MALLEUS_COMM_SELF],
        ))
    }

    /// Sets the variables that [`Environment::init`] sets before it initializes MPI, for a program that does
    /// so itself and then comes to [`Environment::attach`]: libfabric provider and its limit, netmod, heavy yield. What the
    /// user set stays. To be called before MPI is initialized; does nothing where there are other threads.
    pub fn prepare() {
        set_defaults();
    }

    /// Uses an MPI that the application initialized. Its error handlers are left alone: the world and the
    /// communicator of this process alone are duplicates, and that to the parent keeps its handler. MPI is
    /// not finalized at the end. Collective over `MPI_COMM_WORLD`; `MPI_Comm_dup`, twice.
    ///
    /// # Errors
    ///
    /// [`Error::State`] if MPI is not initialized, or finalized already, or initialized by
    /// [`Environment::init`], or by another thread with less than `MPI_THREAD_MULTIPLE`, or where the MPI
    /// library is not one that serves what this program was built for; the MPI error otherwise.
    pub fn attach() -> Result<Self> {
        // MPI counts as initialized before `init_thread` can say by whom.
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if !initialized()? {
            return Err(Error::state(
                "MPI_Comm_dup",
                "MPI is not initialized: use Environment::init",
            ));
        }
        runtime_check::check()?;
        if OWNED.load(Ordering::Relaxed) {
            // Its end would finalize MPI under the handles of this one.
            return Err(Error::state(
                "MPI_Comm_dup",
                "MPI was initialized by Environment::init: use that environment",
            ));
        }
        let (mut level, mut is_main) = (0, 0);
        // SAFETY: MPI is initialized; both calls may be made on any thread.
        unsafe {
            mpi!(MPI_Query_thread(&raw mut level))?;
            mpi!(MPI_Is_thread_main(&raw mut is_main))?;
        }
        let level = ThreadLevel::from_raw(level);
        if is_main == 0 && level < ThreadLevel::Multiple {
            return Err(Error::state(
                "MPI_Is_thread_main",
                "below MPI_THREAD_MULTIPLE only the thread that initialized MPI can attach",
            ));
        }
        let predefined = [sys::MALLEUS_COMM_WORLD, sys::MALLEUS_COMM_SELF];
        let mut duplicates = [sys::MALLEUS_COMM_NULL; 2];
        for (communicator, duplicate) in predefined.into_iter().zip(&mut duplicates) {
            // SAFETY: MPI is initialized, and this thread may call it.
            unsafe {
                mpi!(MPI_Comm_dup(communicator, duplicate))?;
                mpi!(MPI_Comm_set_errhandler(
                    *duplicate,
                    sys::MALLEUS_ERRORS_RETURN
                ))?;
            }
        }
        Ok(Self::new(false, level, duplicates))
    }

    fn new(owned: bool, thread_level: ThreadLevel, [world, alone]: [sys::MPI_Comm; 2]) -> Self {
        Self::from_inner(Arc::new(Inner {
            owned,
            thread_level,
            failed: Mutex::new(None),
            parent_taken: AtomicBool::new(false),
            world,
            alone,
            thread: std::thread::current().id(),
        }))
    }

    pub(super) fn from_inner(inner: Arc<Inner>) -> Self {
        Self {
            inner,
            on_its_thread: PhantomData,
        }
    }

    /// The thread level that MPI granted.
    #[must_use]
    pub fn thread_level(&self) -> ThreadLevel {
        self.inner.thread_level
    }

    /// All processes of this start: `MPI_COMM_WORLD`, or a duplicate of it after
    /// [`Environment::attach`].
    #[must_use]
    pub fn world(&self) -> Communicator {
        Communicator::predefined(self.inner.world, self)
    }

    /// This process alone: `MPI_COMM_SELF`, or a duplicate of it after [`Environment::attach`].
    #[must_use]
    pub fn self_communicator(&self) -> Communicator {
        Communicator::predefined(self.inner.alone, self)
    }

    /// The intercommunicator to the processes that spawned this one; `None` if it was not spawned, or
    /// the second time. Local; `MPI_Comm_get_parent`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn parent(&self) -> Result<Option<Intercommunicator>> {
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: MPI is initialized as long as `self` lives.
        unsafe { mpi!(MPI_Comm_get_parent(&raw mut raw))? };
        if raw == sys::MALLEUS_COMM_NULL || self.inner.parent_taken.swap(true, Ordering::Relaxed) {
            return Ok(None);
        }
        if self.inner.owned {
            return Intercommunicator::adopt(raw, self).map(Some);
        }
        Ok(Some(Intercommunicator::with_its_handler(raw, self)))
    }

    /// The text that the MPI library says of itself. Local; `MPI_Get_library_version`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn library_version() -> Result<String> {
        let mut buffer = vec![0_u8; sys::MPI_MAX_LIBRARY_VERSION_STRING as usize];
        let mut length: c_int = 0;
        // SAFETY: the call may be made at any time; the buffer has the size it may write.
        unsafe {
            mpi!(MPI_Get_library_version(
                buffer.as_mut_ptr().cast(),
                &raw mut length
            ))?
        };
        buffer.truncate(unsigned(length));
        Ok(String::from_utf8_lossy(&buffer).into_owned())
    }

    /// Name of this processor. Local; `MPI_Get_processor_name`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn processor_name(&self) -> Result<String> {
        let mut buffer = vec![0_u8; sys::MPI_MAX_PROCESSOR_NAME as usize + 1];
        let mut length: c_int = 0;
        // SAFETY: MPI is initialized; the buffer has the size it may write.
        unsafe {
            mpi!(MPI_Get_processor_name(
                buffer.as_mut_ptr().cast(),
                &raw mut length
            ))?
        };
        buffer.truncate(unsigned(length));
        Ok(String::from_utf8_lossy(&buffer).into_owned())
    }

    /// Whether processes may be reached through libfabric's tcp provider: it was chosen, or nothing was and the node has no
    /// device for another one, as where an application has initialized MPI itself.
    pub(crate) fn may_use_tcp() -> bool {
        match Self::provider() {
            Some(provider) => provider.starts_with("tcp"),
            None => crate::MPICH_DEVICE.contains("ofi") && !has_fabric_device(),
        }
    }

    /// The libfabric provider that was chosen through `FI_PROVIDER`, if any was.
    #[must_use]
    pub fn provider() -> Option<String> {
        std::env::var("FI_PROVIDER")
            .ok()
            .filter(|name| !name.is_empty())
    }

    /// Switches MPICH's heavy yield, without which processes that share a core hand it over only at
    /// scheduler ticks; with it, processes that have a core of their own are slower. It has an effect
    /// under [`ThreadLevel::Multiple`] only. Local; `MPI_T_cvar_write`.
    ///
    /// Where the user set `MPIR_CVAR_ENABLE_HEAVY_YIELD` for this process before it started, nothing is
    /// changed.
    ///
    /// # Errors
    ///
    /// [`Error::State`] where the MPI library refuses; nothing happens where it has no such variable.
    pub fn set_heavy_yield(&self, on: bool) -> Result<()> {
        if self.thread_level() < ThreadLevel::Multiple || user_chose_yield() {
            return Ok(());
        }
        // MPICH 4.0 has none.
        if !tool::has_variable(HEAVY_YIELD)? {
            return Ok(());
        }
        // SAFETY: the variable is a switch, which MPICH reads whenever it polls.
        unsafe { tool::write_integer_variable(HEAVY_YIELD, i32::from(on)) }
    }

    /// Ends the whole job at once, all its processes, with a message on standard error. `MPI_Abort`.
    pub fn abort(&self, message: &str, exit_code: i32) -> ! {
        self.inner.abort(message, exit_code)
    }

    /// Finalizes MPI. Collective over all connected processes; `MPI_Finalize`.
    ///
    /// # Errors
    ///
    /// [`Error::InUse`] while other handles of this environment live, which are left as they are; the
    /// MPI error otherwise.
    pub fn finalize(self) -> Result<()> {
        let mut inner = self.inner;
        match Arc::get_mut(&mut inner) {
            Some(_) => {
                drop(inner);
                Ok(())
            }
            None => Err(Error::InUse {
                operation: "MPI_Finalize",
                object: "environment",
                users: Arc::strong_count(&inner) - 1,
            }),
        }
    }

    /// A function that ends the whole job without a call of MPI. For other threads, where the one that
    /// is inside MPI may hold its lock, and so for ever.
    pub(crate) fn end_job_without_mpi(&self) -> fn(i32) -> ! {
        end_job
    }

    /// Finalizes MPI while handles still exist, and ends this process before anybody can use them.
    /// Collective over all connected processes; `MPI_Finalize`.
    pub(crate) fn finalize_and_exit(&self, code: i32) -> ! {
        // SAFETY: MPI is initialized, and no code that could use it runs after this.
        unsafe { sys::MPI_Finalize() };
        std::process::exit(code)
    }

    /// From now on, a panic on any thread ends the whole job, after its message: the other processes
    /// would wait for this one.
    pub(crate) fn abort_on_panic(&self) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let previous = std::panic::take_hook();
            let this_thread = std::thread::current().id();
            std::panic::set_hook(Box::new(move |information| {
                previous(information);
                if initialized().is_ok_and(|initialized| initialized) {
                    if std::thread::current().id() != this_thread {
                        // The job's own thread may be inside MPI and hold its lock.
                        end_job(101);
                    }
                    // SAFETY: MPI is initialized and not finalized.
                    unsafe { sys::MPI_Abort(sys::MALLEUS_COMM_WORLD, 101) };
                }
            }));
        });
    }

    /// The cores that this process may run on, one bit each.
    pub(crate) fn core_mask() -> Vec<u64> {
        // SAFETY: the set is plain data, written by the call up to the size that is given.
        let set = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
                return Vec::new();
            }
            set
        };
        let mut mask = Vec::new();
        for core in 0..8 * size_of::<libc::cpu_set_t>() {
            // SAFETY: the index lies inside the set.
            if unsafe { libc::CPU_ISSET(core, &set) } {
                mask.resize(mask.len().max(core / 64 + 1), 0);
                mask[core / 64] |= 1 << (core % 64);
            }
        }
        mask
    }
}

impl Inner {
    /// Remembers that a collective object was left behind: ending in an orderly way would hang.
    pub(super) fn mark_failed(&self, reason: String) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert(reason);
    }

    /// Makes a call whose errors belong to no communicator of ours. MPI gives them to the handlers of
    /// `MPI_COMM_SELF` and `MPI_COMM_WORLD`; where these are the application's, they return errors for
    /// the time of the call.
    pub(super) fn returning_errors<R>(&self, call: impl FnOnce() -> Result<R>) -> Result<R> {
        if self.owned {
            return call();
        }
        let predefined = [sys::MALLEUS_COMM_WORLD, sys::MALLEUS_COMM_SELF];
        let mut handlers = [sys::MALLEUS_ERRHANDLER_NULL; 2];
        for (communicator, handler) in predefined.into_iter().zip(&mut handlers) {
            // SAFETY: MPI is initialized as long as `self` lives.
            unsafe {
                mpi!(MPI_Comm_get_errhandler(communicator, handler))?;
                mpi!(MPI_Comm_set_errhandler(
                    communicator,
                    sys::MALLEUS_ERRORS_RETURN
                ))?;
            }
        }
        let result = call();
        for (communicator, handler) in predefined.into_iter().zip(&mut handlers) {
            // SAFETY: the handler is the one that was there; what MPI_Comm_get_errhandler gives is
            // freed by who got it.
            unsafe {
                mpi!(MPI_Comm_set_errhandler(communicator, *handler))?;
                mpi!(MPI_Errhandler_free(handler))?;
            }
        }
        result
    }

    pub(super) fn abort(&self, message: &str, exit_code: i32) -> ! {
        eprintln!("malleus: {message}");
        std::thread::sleep(MESSAGE);
        // SAFETY: MPI is initialized as long as `self` lives.
        unsafe { sys::MPI_Abort(sys::MALLEUS_COMM_WORLD, exit_code) };
        std::process::abort()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let failed = self
            .failed
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(reason) = failed {
            self.abort(&reason, 1);
        }
        if std::thread::panicking() {
            self.abort("a panic ended this process", 101);
        }
        if self.owned && std::thread::current().id() != self.thread {
            self.abort(
                "the last handle of MPI ended on another thread than MPI started on",
                1,
            );
        }
        if self.owned {
            // SAFETY: every handle keeps `Inner` alive, so this is the last use of MPI; and this is the
            // thread that initialized it, as the standard asks.
            unsafe { sys::MPI_Finalize() };
        } else {
            for communicator in [&mut self.world, &mut self.alone] {
                // SAFETY: the duplicate was made in `attach`, and no handle to it is left.
                unsafe { sys::MPI_Comm_free(communicator) };
            }
        }
    }
}

/// Held by what starts MPI or attaches to it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Whether this library has initialized MPI in this process.
static OWNED: AtomicBool = AtomicBool::new(false);

/// How long `mpiexec` needs to take up what was written to standard error: what it has not read when it
/// ends a job is lost.
const MESSAGE: Duration = Duration::from_millis(100);

/// Asks the process manager to end the job, in the words that `MPI_Abort` has for it (PMI-1's `abort`). A
/// process that just exits is not enough: hydra's proxy was seen to spin for ever afterwards, where a
/// spawned program had ended before it initialized MPI (4.2.3).
fn end_job(code: i32) -> ! {
    if let Some(socket) = std::env::var("PMI_FD")
        .ok()
        .and_then(|socket| socket.parse().ok())
    {
        std::thread::sleep(MESSAGE);
        let request = format!("cmd=abort exitcode={code}\n");
        // SAFETY: write takes any descriptor, and the buffer has as many bytes.
        let written = unsafe { libc::write(socket, request.as_ptr().cast(), request.len()) };
        if usize::try_from(written).is_ok_and(|written| written == request.len()) {
            std::thread::sleep(Duration::from_secs(3));
        }
    }
    // SAFETY: _exit runs no handlers and may be called at any time, from any thread.
    unsafe { libc::_exit(code) }
}

const MAX_SAVED: &str = "FI_TCP_MAX_SAVED";
const HEAVY_YIELD: &str = "MPIR_CVAR_ENABLE_HEAVY_YIELD";
/// Set beside a variable that was chosen here, so that a process tells it from the user's own choice.
const CHOSEN_YIELD: &str = "MALLEUS_CHOSE_HEAVY_YIELD";

fn user_chose_yield() -> bool {
    std::env::var_os(HEAVY_YIELD).is_some() && std::env::var_os(CHOSEN_YIELD).is_none()
}

fn initialized() -> Result<bool> {
    let mut initialized: c_int = 0;
    let mut finalized: c_int = 0;
    // SAFETY: both calls may be made at any time.
    unsafe {
        mpi!(MPI_Initialized(&raw mut initialized))?;
        mpi!(MPI_Finalized(&raw mut finalized))?;
    }
    if finalized != 0 {
        return Err(Error::state(
            "MPI_Initialized",
            "MPI is finalized and can't start again",
        ));
    }
    Ok(initialized != 0)
}

fn is_only_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// Environment variables that MPICH reads when it starts, unless the user set them.
///
/// The environment is shared with every thread's `getenv`, which C libraries call unguarded. So nothing is set
/// where this process has other threads.
fn set_defaults() {
    if !is_only_thread() {
        tracing::warn!(
            "other threads run: provider, netmod and heavy yield are left to MPICH and to the environment"
        );
        return;
    }
    let unset = |name: &str| std::env::var_os(name).is_none();
    let set = |name: &str, value: &str| {
        // SAFETY: there is no other thread that could read the environment at the same time.
        unsafe { std::env::set_var(name, value) };
    };
    if !has_fabric_device() && crate::MPICH_DEVICE.contains("ofi") {
        if unset("FI_PROVIDER") {
            set("FI_PROVIDER", "tcp");
        }
        if unset("MPIR_CVAR_CH4_NETMOD") && crate::MPICH_DEVICE.contains("ucx") {
            set("MPIR_CVAR_CH4_NETMOD", "ofi");
        }
    }
    // Behind so many messages that nobody has asked for yet, the provider reads nothing more from a process, whatever it
    // is for: 64 by default, behind which two threads of a process can wait for each other (decision record 21).
    if Environment::provider().is_some_and(|provider| provider.starts_with("tcp"))
        && unset(MAX_SAVED)
    {
        set(MAX_SAVED, "1048576");
    }
    let local_ranks = std::env::var("MPI_LOCALNRANKS")
        .ok()
        .and_then(|ranks| ranks.parse().ok());
    // A process that was spawned shares the cores with those that spawned it, until it knows better.
    let spawned = std::env::var_os("PMI_SPAWNED").is_some_and(|value| value == "1");
    if (spawned || local_ranks.is_some_and(|ranks: usize| ranks > cores())) && unset(HEAVY_YIELD) {
        set(HEAVY_YIELD, "1");
        set(CHOSEN_YIELD, "1");
    }
}

/// Cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Whether the node has a device that libfabric drives better than tcp: InfiniBand or RoCE, Slingshot,
/// Omni-Path.
fn has_fabric_device() -> bool {
    let has_entries = |folder: &str| {
        Path::new(folder)
            .read_dir()
            .is_ok_and(|mut entries| entries.next().is_some())
    };
    ["/sys/class/infiniband", "/sys/class/cxi", "/sys/class/hfi1"]
        .into_iter()
        .any(has_entries)
}

/// The version of the MPI standard that the library follows, and its own version in one line.
///
/// # Errors
///
/// The MPI error.
pub fn library_version_line() -> Result<String> {
    let text = Environment::library_version()?;
    Ok(text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" "))
}
