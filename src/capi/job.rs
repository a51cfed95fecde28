//! A job of a C program.

use std::ffi::{CStr, c_char, c_int, c_void};

use malleus_result as R;

use super::array::malleus_array;
use super::handle::{Handle, Place, place, shared};
use super::result::{Failure, guard, malleus_result};
use crate::job::{Checkpoint, Event, Job, Options, Outcome, Registered, Script};
use crate::mpi::Environment;
use crate::redistribute::{Completion, Method, Strategy, Variant};
use crate::sys::{MPI_Comm, MPI_Finalized};

/// How the data of a resize moves.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum malleus_method {
    /// MPI_Alltoallv for each array.
    MALLEUS_COLLECTIVE = 0,
    /// A window for each array, a lock for each source.
    MALLEUS_RMA_LOCK = 1,
    /// A window for each array, MPI_Win_lock_all.
    MALLEUS_RMA_LOCK_ALL = 2,
    /// MPI_Isend and MPI_Irecv for each piece of an array.
    MALLEUS_POINT_TO_POINT = 3,
}

/// When the data of a resize moves. With another one than MALLEUS_BLOCKING, constant arrays move while the
/// program goes on, checkpoints give MALLEUS_CONTINUE meanwhile, and all others move at the switch; MPI has to be
/// initialized with MPI_THREAD_MULTIPLE.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum malleus_strategy {
    /// At once.
    MALLEUS_BLOCKING = 0,
    /// A thread on each rank moves it; not with MALLEUS_POINT_TO_POINT.
    MALLEUS_THREADING = 1,
    /// Each checkpoint tests it; not with one-sided methods.
    MALLEUS_NON_BLOCKING = 2,
    /// The same, and a barrier tells that all targets have it.
    MALLEUS_WAIT_TARGETS = 3,
    /// The same, with so many reads between two checkpoints that these come a third later, and not all at once; with
    /// one-sided methods only.
    MALLEUS_PACED = 4,
}

/// What a checkpoint came to.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum malleus_checkpoint {
    /// The job goes on as it is.
    MALLEUS_CONTINUE = 0,
    /// The job has another size now: communicator, rank, size and all data pointers are new. A process that
    /// slept in between has a new iteration as well.
    MALLEUS_SWITCHED = 1,
    /// This process has left the job: leave the loop, then malleus_job_end and MPI_Finalize.
    MALLEUS_LEFT = 2,
}

/// Called on every rank before a resize moves data, with the communicator that it ends. Collective calls on
/// it are allowed: free here what you made out of it, and make it again after the checkpoint, also where that
/// says that the resize was abandoned. No call to Malleus with the job is allowed.
pub type malleus_before_switch =
    Option<unsafe extern "C" fn(context: *mut c_void, communicator: MPI_Comm)>;

/// How a job behaves; the same on every rank. All zero is the default. It is only read.
#[repr(C)]
#[derive(Debug)]
pub struct malleus_options {
    /// When to resize: "ITERATION:PROCESSES,…", such as "10:2,20:1"; NULL or empty for never.
    pub script: *const c_char,
    /// One of malleus_method.
    pub method: c_int,
    /// One of malleus_strategy.
    pub strategy: c_int,
    /// Whether each array's checksum is compared before and after a resize.
    pub verify: bool,
    /// Whether arrays move one at a time, to save memory. A failure after the first then ends the job.
    pub lean: bool,
    /// Called before each switch; may be NULL.
    pub before_switch: malleus_before_switch,
    /// For before_switch.
    pub context: *mut c_void,
}

/// A job that can change its number of processes at its checkpoints. Owned: it goes back to malleus_job_end.
pub struct malleus_job(Handle<Owned>);

/// A job and what belongs to it.
pub(super) struct Owned {
    pub(super) job: Job,
    /// Boxes that C has pointers to.
    arrays: Vec<*mut malleus_array>,
    before_switch: malleus_before_switch,
    context: *mut c_void,
    /// The last, since everything else is in it.
    environment: Environment,
}

impl Owned {
    /// Keeps an array for C.
    pub(super) fn keep(&mut self, array: malleus_array) -> *mut malleus_array {
        let pointer = Box::into_raw(Box::new(array));
        self.arrays.push(pointer);
        pointer
    }
}

impl malleus_job {
    pub(super) fn borrow(&self) -> Result<std::cell::RefMut<'_, Owned>, Failure> {
        self.0.borrow()
    }

    /// The job, unless it has ended on this process.
    pub(super) fn member(&self) -> Result<std::cell::RefMut<'_, Owned>, Failure> {
        let owned = self.borrow()?;
        if owned.job.is_member() {
            Ok(owned)
        } else {
            Err(crate::job::Error::Ended.into())
        }
    }
}

/// # Safety
///
/// The script is NULL or a C string.
unsafe fn options(given: &malleus_options) -> Result<Options, Failure> {
    let method = match given.method {
        method if method == malleus_method::MALLEUS_COLLECTIVE as c_int => Method::Collective,
        method if method == malleus_method::MALLEUS_RMA_LOCK as c_int => Method::RmaLock,
        method if method == malleus_method::MALLEUS_RMA_LOCK_ALL as c_int => Method::RmaLockAll,
        method if method == malleus_method::MALLEUS_POINT_TO_POINT as c_int => Method::PointToPoint,
        other => {
            return Err(Failure::argument(format!(
                "method {other} is not one of malleus_method"
            )));
        }
    };
    let strategy = match given.strategy {
        given if given == malleus_strategy::MALLEUS_BLOCKING as c_int => Strategy::Blocking,
        given if given == malleus_strategy::MALLEUS_THREADING as c_int => {
            Strategy::Threading(Completion::Polled)
        }
        given if given == malleus_strategy::MALLEUS_NON_BLOCKING as c_int => Strategy::NonBlocking,
        given if given == malleus_strategy::MALLEUS_WAIT_TARGETS as c_int => Strategy::WaitTargets,
        given if given == malleus_strategy::MALLEUS_PACED as c_int => Strategy::Paced,
        other => {
            return Err(Failure::argument(format!(
                "strategy {other} is not one of malleus_strategy"
            )));
        }
    };
    let variant = Variant::new(method, strategy).ok_or_else(|| {
        Failure::argument(format!(
            "strategy {} does not go with method {}",
            given.strategy, given.method
        ))
    })?;
    let script = if given.script.is_null() {
        ""
    } else {
        // SAFETY: the caller's promise.
        unsafe { CStr::from_ptr(given.script) }
            .to_str()
            .map_err(|_| Failure::argument("the script is not UTF-8"))?
    };
    Ok(Options::default()
        .manager(read_script(script)?)
        .variant(variant)
        .verify(given.verify)
        .lean(given.lean))
}

fn read_script(text: &str) -> Result<Script, Failure> {
    let entries: Result<Vec<_>, _> = text
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(str::parse)
        .collect();
    entries
        .and_then(Script::new)
        .map_err(|error| Failure::argument(format!("the script: {error}")))
}

/// Sets what MPICH reads from the environment when it starts, unless the user has set it: the libfabric
/// provider tcp where the node has no fabric device, and how many messages that it keeps, ofi where there is a choice,
/// heavy yield where ranks share cores. To be called before MPI_Init, and before there are threads. Without it, MPICH 4.2's own choice on a
/// node without a fabric device is the provider sockets, with which a process that parks can hang, and a job whose
/// rank 0 runs ahead of the others can hang with tcp where data moves in the background.
#[unsafe(no_mangle)]
pub extern "C" fn malleus_prepare() -> malleus_result {
    guard(|| {
        Environment::prepare();
        Ok(())
    })
}

/// Starts a job on the processes of MPI_COMM_WORLD, or joins the one that has started this process: that one
/// comes here by itself, since it runs the same program with the same arguments. Collective over
/// MPI_COMM_WORLD.
///
/// MPI has to be initialized, best with MPI_THREAD_MULTIPLE; its error handlers are left alone. `options` may
/// be NULL. `*job` is owned: give it to malleus_job_end.
///
/// A process that joins, and whose resize is abandoned in the meantime, is not needed: it finalizes MPI and
/// exits in this call, with status 0. From here on, a panic in Malleus ends the whole MPI job.
///
/// # Safety
///
/// `options` is NULL or valid; `job` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malleus_job_start(
    options: *const malleus_options,
    job: *mut *mut malleus_job,
) -> malleus_result {
    guard(|| {
        // SAFETY: C's promises, as the documentation asks for them.
        let (given, place) = unsafe { (options.as_ref(), place(job, "job")?) };
        let options = match given {
            // SAFETY: the same.
            Some(given) => unsafe { self::options(given)? },
            None => Options::default(),
        };
        let environment = Environment::attach()?;
        let job = Job::start(&environment, options)?;
        let owned = Owned {
            job,
            arrays: Vec::new(),
            before_switch: given.and_then(|given| given.before_switch),
            context: given.map_or(std::ptr::null_mut(), |given| given.context),
            environment,
        };
        place.set(Box::into_raw(Box::new(malleus_job(Handle::new(owned)))));
        Ok(())
    })
}

/// Ends an iteration: the only place where the job can change its size. Collective over the job. If it does,
/// all arrays have moved when this returns; on a process that leaves it may return much later, since such a
/// process sleeps in here until the job needs it again (MALLEUS_SWITCHED) or ends (MALLEUS_LEFT).
///
/// Where a resize can't be done, the job goes on with its old size: see malleus_result_leaves_job_whole, and
/// malleus_job_resizes. After any other error it can't go on.
///
/// # Safety
///
/// `job` comes from malleus_job_start; `outcome` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malleus_job_checkpoint(
    job: *mut malleus_job,
    outcome: *mut malleus_checkpoint,
) -> malleus_result {
    guard(|| {
        // SAFETY: C's promises, as the documentation asks for them.
        let (job, outcome) = unsafe { (shared(job, "job")?, place(outcome, "outcome")?) };
        let mut owned = job.member()?;
        let Owned {
            job,
            arrays,
            before_switch,
            context,
            ..
        } = &mut *owned;
        let old = job.communicator().as_raw();
        let Checkpoint::Switch(switch) = job.checkpoint()? else {
            outcome.set(malleus_checkpoint::MALLEUS_CONTINUE);
            return Ok(());
        };
        if let Some(before_switch) = before_switch {
            // SAFETY: C gave the function together with its context, and the communicator is valid until
            // the commit.
            unsafe { before_switch(*context, old) };
        }
        let mut borrowed = Vec::with_capacity(arrays.len());
        for &array in &*arrays {
            // SAFETY: the job's arrays live as long as it does.
            borrowed.push(unsafe { &*array }.handle().borrow()?);
        }
        let registered: Vec<&mut dyn Registered> =
            borrowed.iter_mut().map(|data| data.registered()).collect();
        outcome.set(match switch.commit(registered)? {
            Outcome::Member(_) => malleus_checkpoint::MALLEUS_SWITCHED,
            Outcome::Left => malleus_checkpoint::MALLEUS_LEFT,
        });
        Ok(())
    })
}

/// Ends the job, and frees it and its arrays, whatever the result is. Collective over the job, those that
/// have left included. MPI_Finalize comes after it.
///
/// # Safety
///
/// `job` comes from malleus_job_start and is not used again; nor are its arrays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malleus_job_end(job: *mut malleus_job) -> malleus_result {
    guard(|| {
        // SAFETY: C's promises, as the documentation asks for them.
        drop(unsafe { shared(job, "job")? }.borrow()?);
        let mut finalized = 0;
        // SAFETY: the call may be made at any time.
        unsafe { MPI_Finalized(&raw mut finalized) };
        if finalized != 0 {
            // All that it could do now is to call MPI.
            return Err(Failure::new(
                R::MALLEUS_ERROR_STATE,
                "MPI is finalized already: malleus_job_end comes before MPI_Finalize",
            ));
        }
        // SAFETY: it was made by Box::into_raw, it is not in use, and the caller gives it back.
        let owned = unsafe { Box::from_raw(job) }.0.into_inner();
        for array in owned.arrays {
            // SAFETY: made by Box::into_raw, and the caller gives it back with its job.
            drop(unsafe { Box::from_raw(array) });
        }
        let ended = owned.job.end();
        drop(owned.environment);
        ended?;
        Ok(())
    })
}

/// What a function that asks a job does.
///
/// # Safety
///
/// `job` comes from malleus_job_start; `place` may be written.
unsafe fn ask<T>(
    job: *const malleus_job,
    place: *mut T,
    name: &str,
    answer: impl FnOnce(&malleus_job) -> Result<T, Failure>,
) -> malleus_result {
    guard(|| {
        // SAFETY: the caller's promises.
        let (job, place): (_, Place<T>) =
            unsafe { (shared(job, "job")?, self::place(place, name)?) };
        place.set(answer(job)?);
        Ok(())
    })
}

/// This process's rank in the job.
///
/// # Safety
///
/// `job` comes from malleus_job_start; `rank` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malleus_job_rank(
    job: *const malleus_job,
    rank: *mut c_int,
) -> malleus_result {
    // SAFETY: C's promises, as the documentation asks for them.
    unsafe { ask(job, rank, "rank", |job| int(job.member()?.job.rank())) }
}

/// The number of processes of the job.
///
/// # Safety
///
/// `job` comes from malleus_job_start; `size` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malleus_job_size(
    job: *const malleus_job,
    size: *mut c_int,
) -> malleus_result {
    // SAFETY: C's promises, as the documentation asks for them.
    unsafe { ask(job, size, "size", |job| int(job.member()?.job.size())) }
}

fn int(value: usize) -> Result<c_int, Failure> {
    c_int::try_from(value).map_err(|_| Failure::new(R::MALLEUS_ERROR_OTHER, "a rank beyond int"))
}

/// The number of checkpoints that the job has passed; the same on every rank, those that joined included.
///
/// # Safety
///
/// `job` comes from malleus_job_start; `iteration` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malleus_job_iteration(
    job: *const malleus_job,
    iteration: *mut u64,
) -> malleus_result {
    // SAFETY: C's promises, as the documentation asks for them.
    unsafe {
        ask(job, iteration, "iteration", |job| {
            Ok(job.borrow()?.job.iteration())
        })
    }
}

/// Whether this process was there when the job started, so that it has to fill its arrays.
///
/// # Safety
///
/// `job` comes from malleus_job_start; `first` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malleus_job_is_first_start(
    job: *const malleus_job,
    first: *mut bool,
) -> malleus_result {
    // SAFETY: C's promises, as the documentation asks for them.
    unsafe {
        ask(job, first, "first", |job| {
            Ok(job.borrow()?.job.is_first_start())
        })
    }
}

/// The communicator of the job's processes. Borrowed: don't free it, don't change its error handler; a
/// resize replaces it.
///
/// # Safety
///
/// `job` comes from malleus_job_start; `communicator` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malleus_job_communicator(
    job: *const malleus_job,
    communicator: *mut MPI_Comm,
) -> malleus_result {
    // SAFETY: C's promises, as the documentation asks for them.
    unsafe {
        ask(job, communicator, "communicator", |job| {
            Ok(job.member()?.job.communicator().as_raw())
        })
    }
}

/// How many resizes were done while this process was part of the job, and how many were refused or
/// abandoned. Rank 0 knows all.
///
/// # Safety
///
/// `job` comes from malleus_job_start; the others may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malleus_job_resizes(
    job: *const malleus_job,
    done: *mut u64,
    refused: *mut u64,
) -> malleus_result {
    guard(|| {
        // SAFETY: C's promises, as the documentation asks for them.
        let (job, done, refused) = unsafe {
            (
                shared(job, "job")?,
                place(done, "done")?,
                place(refused, "refused")?,
            )
        };
        let owned = job.borrow()?;
        let events = owned.job.events();
        let resized = events
            .iter()
            .filter(|event| matches!(event, Event::Resized(_)))
            .count();
        done.set(resized as u64);
        refused.set((events.len() - resized) as u64);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_from_text() {
        let script = |text: &str| read_script(text).map(|script| script.after(0).count());
        assert_eq!(script("").unwrap(), 0);
        assert_eq!(script("10:2, 20:1,").unwrap(), 2);
        let failure = script("10:2,10:3").unwrap_err();
        assert_eq!(failure.result, R::MALLEUS_ERROR_ARGUMENT);
        assert!(failure.text.contains("two resizes"), "{}", failure.text);
        assert!(script("ten:2").is_err());
    }
}
