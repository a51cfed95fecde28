//! MPI on several threads, and inside an application that initialized MPI itself.

use malleus::job::{Error as JobError, Job, Options};
use malleus::mpi::collective::BlockLayout;
use malleus::mpi::process::PublishedName;
use malleus::mpi::{Communicator, Environment, Error, ErrorClass, Info, Operation, ThreadLevel};
use malleus::{redistribute, sys};

use super::expect;
use super::persistent::ends_with;
use crate::harness::{Case, Outcome};

pub fn cases() -> Vec<Case> {
    vec![
        Case::on_each("thread_communicators", &[1, 2, 3], on_two_threads),
        Case::ranks("worker_with_a_late_thread", &[], late_thread),
        Case::command("a_communicator_dropped_on_a_thread_ends_the_job", |run| {
            ends_with(run, "worker_with_a_late_thread", "dropped without free()")
        }),
        Case::ranks("worker_that_ends_on_a_thread", &[], ends_on_a_thread),
        Case::command("mpi_does_not_end_on_another_thread", |run| {
            ends_with(run, "worker_that_ends_on_a_thread", "on another thread")
        }),
        Case::on_each("gathers_while_an_exchange_waits", &[2, 3], gathers),
        Case::bare("attached_environment", &[1, 2], attached),
        Case::bare("attached_below_multiple", &[1], attached_below_multiple),
        Case::bare("funneled", &[2], funneled),
    ]
}

fn on_two_threads(communicator: &Communicator) -> Outcome {
    const ROUNDS: u64 = 20;
    let environment = communicator.environment();
    let size = communicator.size() as u64;
    expect("level", environment.thread_level(), ThreadLevel::Multiple)?;
    let multiple = environment.multiple().ok_or("no MPI_THREAD_MULTIPLE")?;
    let background = communicator.for_thread(&multiple)?;
    let sums = |communicator: &Communicator, factor: u64| -> malleus::mpi::Result<u64> {
        let mut total = 0;
        for round in 0..ROUNDS {
            let mut sum = [factor * round];
            communicator.all_reduce(&mut sum, Operation::Sum)?;
            total += sum[0];
        }
        Ok(total)
    };
    let helper = std::thread::spawn(move || {
        let total = sums(background.communicator(), 1000);
        (background, total)
    });
    let here = sums(communicator, 1)?;
    let (background, there) = helper.join().map_err(|_| "the helper panicked")?;
    expect("here", here, size * ROUNDS * (ROUNDS - 1) / 2)?;
    expect("there", there?, 1000 * here)?;
    // One way back is to free it, the other to keep it here.
    let kept = background.into_communicator();
    kept.for_thread(&multiple)?.free()?;
    kept.free()?;
    Ok(())
}

/// Paper R (section IV) saw the application's Allgather stand still while a helper thread was inside of an Alltoallv.
/// Here the exchange can't end before the application has gathered: one of its ranks begins with it only then.
fn gathers(communicator: &Communicator) -> Outcome {
    const ROUNDS: u64 = 20;
    const PART: usize = 1 << 17;
    let (rank, size) = (communicator.rank(), communicator.size());
    let environment = communicator.environment();
    let multiple = environment.multiple().ok_or("no MPI_THREAD_MULTIPLE")?;
    let own = communicator.for_thread(&multiple)?;
    let (gathered, wait) = std::sync::mpsc::channel();
    let helper = std::thread::spawn(move || {
        let layout = BlockLayout::packed(vec![PART; size]);
        let send = vec![rank as u64; size * PART];
        let mut received = vec![u64::MAX; size * PART];
        if rank == size - 1 && wait.recv().is_err() {
            // The application has failed.
            return Ok(None);
        }
        let communicator = own.communicator();
        communicator.all_to_all_v(&send, &layout, &mut received, &layout)?;
        own.free()?;
        Ok::<_, Error>(Some(received))
    });
    let mut all = vec![0; size << 13];
    for round in 0..ROUNDS {
        communicator.all_gather(&vec![round * rank as u64; 1 << 13], &mut all)?;
        let of = all.chunks(1 << 13).map(|part| part[0]).collect::<Vec<_>>();
        let expected: Vec<_> = (0..size as u64).map(|rank| round * rank).collect();
        expect("gathered", of, expected)?;
    }
    // The others' exchange may be over already.
    if rank == size - 1 {
        gathered.send(())?;
    }
    let received = helper.join().map_err(|_| "the helper panicked")??;
    let received = received.ok_or("no exchange")?;
    for (from, part) in received.chunks(PART).enumerate() {
        let right = part.iter().all(|&value| value == from as u64);
        expect("exchanged", right, true)?;
    }
    Ok(())
}

fn late_thread(environment: &Environment) -> Outcome {
    let multiple = environment.multiple().ok_or("no MPI_THREAD_MULTIPLE")?;
    let background = environment.world().for_thread(&multiple)?;
    std::thread::spawn(move || drop(background))
        .join()
        .map_err(|_| "the helper panicked")?;
    Ok(())
}

/// The main thread's handles are all gone when the helper frees its communicator.
#[allow(unsafe_code)]
fn ends_on_a_thread(environment: &Environment) -> Outcome {
    let multiple = environment.multiple().ok_or("no MPI_THREAD_MULTIPLE")?;
    let background = environment.world().for_thread(&multiple)?;
    let refused = environment.clone().finalize();
    expect("it is in use", refused.is_err(), true)?;
    // SAFETY: the harness's own handle is not used again: this function does not return.
    drop(unsafe { std::ptr::read(environment) });
    std::thread::spawn(move || background.free());
    loop {
        std::thread::park();
    }
}

/// An application that has initialized MPI itself, with this level.
#[allow(unsafe_code)]
fn initialize(level: ThreadLevel) {
    let raw = match level {
        ThreadLevel::Single => sys::MPI_THREAD_SINGLE,
        ThreadLevel::Funneled => sys::MPI_THREAD_FUNNELED,
        ThreadLevel::Serialized => sys::MPI_THREAD_SERIALIZED,
        ThreadLevel::Multiple => sys::MPI_THREAD_MULTIPLE,
    };
    let mut provided = 0;
    let null = std::ptr::null_mut();
    // SAFETY: this is the first call of MPI in this process.
    let code = unsafe { sys::MPI_Init_thread(null, null.cast(), raw, &raw mut provided) };
    assert_eq!((code, provided), (sys::MPI_SUCCESS, raw));
}

#[allow(unsafe_code)]
fn finalize() {
    // SAFETY: the application initialized MPI on this thread; this is the last call.
    let code = unsafe { sys::MPI_Finalize() };
    assert_eq!(code, sys::MPI_SUCCESS);
}

/// Whether both predefined communicators have the handler that MPI starts with: an error that reaches it ends
/// the job.
#[allow(unsafe_code)]
fn errors_are_fatal() -> bool {
    let predefined = [sys::MALLEUS_COMM_WORLD, sys::MALLEUS_COMM_SELF];
    predefined.into_iter().all(|communicator| {
        let mut handler = sys::MALLEUS_ERRHANDLER_NULL;
        // SAFETY: MPI is initialized; what is got is freed.
        unsafe {
            sys::MPI_Comm_get_errhandler(communicator, &raw mut handler);
            let is_fatal = handler == sys::MALLEUS_ERRORS_ARE_FATAL;
            sys::MPI_Errhandler_free(&raw mut handler);
            is_fatal
        }
    })
}

fn attached() -> Outcome {
    initialize(ThreadLevel::Multiple);
    expect("what MPI starts with", errors_are_fatal(), true)?;
    let inside = Environment::attach()?;
    let world = inside.world();
    expect(
        "another world",
        world.as_raw() == sys::MALLEUS_COMM_WORLD,
        false,
    )?;
    let class = |result: malleus::mpi::Result<()>| result.err().and_then(|error| error.class());
    expect(
        "world",
        class(world.broadcast(&mut [0], 9)),
        Some(ErrorClass::ROOT),
    )?;
    let alone = inside.self_communicator();
    expect(
        "self",
        class(alone.send(&[0], 9, 0)),
        Some(ErrorClass::RANK),
    )?;
    let derived = world.duplicate()?;
    expect(
        "a duplicate",
        class(derived.send(&[0], 9, 0)),
        Some(ErrorClass::RANK),
    )?;
    derived.free()?;
    expect("a group", world.group()?.include(&[77]).is_err(), true)?;
    expect("info", Info::new(&inside)?.set("", "").is_err(), true)?;
    let unknown = PublishedName::look_up(&inside, "no-such-service", None);
    expect("an unknown service", unknown.is_err(), true)?;
    expect("the handlers are as they were", errors_are_fatal(), true)?;
    drop((world, alone));
    inside.finalize()?;
    // MPI does not end with it, and another one may come.
    Environment::attach()?.finalize()?;
    // MPI_THREAD_MULTIPLE allows it on another thread, too.
    let elsewhere = std::thread::spawn(|| {
        let inside = Environment::attach()?;
        inside.world().barrier()?;
        inside.finalize()
    });
    elsewhere.join().map_err(|_| "the thread panicked")??;
    finalize();
    expect("MPI is over", Environment::attach().is_err(), true)?;
    expect("for good", Environment::init().is_err(), true)
}

fn attached_below_multiple() -> Outcome {
    initialize(ThreadLevel::Serialized);
    let elsewhere = std::thread::spawn(|| Environment::attach().map(drop));
    let refused = elsewhere.join().map_err(|_| "the thread panicked")?;
    expect(
        "on another thread",
        matches!(refused, Err(Error::State { .. })),
        true,
    )?;
    let inside = Environment::attach()?;
    expect("level", inside.thread_level(), ThreadLevel::Serialized)?;
    expect("no token", inside.multiple().is_none(), true)?;
    inside.world().barrier()?;
    inside.finalize()?;
    finalize();
    Ok(())
}

fn funneled() -> Outcome {
    let environment = Environment::init_thread(ThreadLevel::Funneled)?;
    expect("level", environment.thread_level(), ThreadLevel::Funneled)?;
    expect("no token", environment.multiple().is_none(), true)?;
    let again = std::thread::spawn(|| Environment::init().map(drop).is_err());
    expect(
        "MPI starts once",
        again.join().is_ok_and(|is_refused| is_refused),
        true,
    )?;
    let mut job = Job::start(&environment, Options::default())?;
    job.set_variant("rma2".parse()?)?;
    let refused = job.set_variant("rma2-wt".parse()?);
    let found = matches!(
        refused,
        Err(JobError::Redistribute(redistribute::Error::ThreadLevel))
    );
    expect("a variant with helper threads", found, true)?;
    job.end()?;
    environment.finalize()?;
    Ok(())
}
