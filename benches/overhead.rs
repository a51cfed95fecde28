//! What the safe layer costs: its calls beside the same calls from C, in turns in one process. The limit is 2 %
//! of C's median, or 20 ns where that is more.
//!
//! `cargo bench --bench overhead` starts itself on two ranks. Run it on an idle machine.

// The C functions are loaded at run time; every unsafe block here calls one of them, or promises what
// `Window::create_raw` asks for.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

use std::ffi::c_int;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use libloading::{Library, Symbol};
use malleus::mpi::window::{Assertion, Window};
use malleus::mpi::{Communicator, Environment, Operation, Result};
use malleus::sys;

/// Samples per variant, and calls in one where they are short.
const SAMPLES: usize = 1500;
const WARM_UP: usize = 100;
const CALLS: c_int = 20;
/// Elements of f64 that are moved.
const ELEMENTS: usize = 8;

type RmaCall = unsafe extern "C" fn(sys::MPI_Win, *mut f64, c_int, c_int, c_int) -> i64;

/// The C side.
struct Reference {
    window: unsafe extern "C" fn(*mut f64, sys::MPI_Aint, sys::MPI_Comm) -> i64,
    lock_all_rget: RmaCall,
    put_flush: RmaCall,
    alltoall_init: unsafe extern "C" fn(
        *const f64,
        *mut f64,
        c_int,
        sys::MPI_Comm,
        *mut sys::MPI_Request,
    ) -> i64,
    start_wait: unsafe extern "C" fn(*mut sys::MPI_Request, c_int) -> i64,
    request_free: unsafe extern "C" fn(*mut sys::MPI_Request) -> i64,
}

/// Where the launcher leaves the compiled library for the ranks.
const LIBRARY: &str = "MALLEUS_BENCH_REFERENCE";

fn main() -> ExitCode {
    let Some(library) = std::env::var_os(LIBRARY) else {
        return launch();
    };
    let environment = Environment::init().expect("MPI");
    let reference = Reference::load(Path::new(&library));
    if let Err(error) = measure(&environment, &reference) {
        environment.abort(&error.to_string(), 1);
    }
    environment.finalize().expect("the end of MPI");
    ExitCode::SUCCESS
}

/// Compiles the C side and starts two ranks.
fn launch() -> ExitCode {
    let folder = std::env::temp_dir().join(format!("malleus-overhead-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder for temporary files");
    let library = folder.join("reference.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/c/reference.c");
    let compiled = Command::new(malleus::MPICC)
        .args(["-O2", "-Wall", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    if compiled.is_ok_and(|status| status.success()) {
        let program = std::env::current_exe().expect("this program");
        let status = Command::new(malleus::MPIEXEC)
            .args(["-n", "2"])
            .arg(program)
            .env(LIBRARY, &library)
            .status();
        println!(
            "{}",
            if status.is_ok_and(|s| s.success()) {
                "done"
            } else {
                "failed"
            }
        );
    } else {
        println!(
            "skipped: {} can't compile {}",
            malleus::MPICC,
            source.display()
        );
    }
    std::fs::remove_dir_all(&folder).expect("the folder is still there");
    ExitCode::SUCCESS
}

impl Reference {
    fn load(path: &Path) -> Self {
        unsafe {
            let library = Library::new(path).expect("the C side can be loaded");
            let initialized: Symbol<unsafe extern "C" fn() -> c_int> =
                library.get(b"reference_initialized\0").expect("a symbol");
            assert_eq!(initialized(), 1, "the C side has an MPI of its own");
            let reference = Self {
                window: *library.get(b"reference_window\0").expect("a symbol"),
                lock_all_rget: *library.get(b"reference_lock_all_rget\0").expect("a symbol"),
                put_flush: *library.get(b"reference_put_flush\0").expect("a symbol"),
                alltoall_init: *library.get(b"reference_alltoall_init\0").expect("a symbol"),
                start_wait: *library.get(b"reference_start_wait\0").expect("a symbol"),
                request_free: *library.get(b"reference_request_free\0").expect("a symbol"),
            };
            // It stays loaded.
            std::mem::forget(library);
            reference
        }
    }
}

/// Times of Rust and of C, in ns per call.
#[derive(Default)]
struct Pair([Vec<f64>; 2]);

impl Pair {
    /// Runs both in turns, the one that is first changing each round, after a barrier where both ranks take
    /// part; the longer time of both ranks counts then.
    fn measure(
        communicator: Option<&Communicator>,
        calls: c_int,
        mut rust: impl FnMut() -> Result<()>,
        mut c: impl FnMut() -> i64,
    ) -> Result<Self> {
        let mut pair = Self::default();
        for round in 0..WARM_UP + SAMPLES {
            for turn in 0..2 {
                if let Some(communicator) = communicator {
                    communicator.barrier()?;
                }
                let who = (round + turn) % 2;
                let time = if who == 0 {
                    let begun = Instant::now();
                    rust()?;
                    begun.elapsed().as_nanos() as f64
                } else {
                    let time = c();
                    assert!(time >= 0, "C: MPI error {}", -time);
                    time as f64
                };
                if round >= WARM_UP {
                    pair.0[who].push(time / f64::from(calls));
                }
            }
        }
        if let Some(communicator) = communicator {
            for times in &mut pair.0 {
                communicator.all_reduce(times, Operation::Maximum)?;
            }
        }
        Ok(pair)
    }

    fn report(mut self, name: &str) {
        let [rust, c] = &mut self.0;
        let mut quartiles = [[0.0; 3]; 2];
        for (times, quartiles) in [rust, c].into_iter().zip(&mut quartiles) {
            times.sort_by(f64::total_cmp);
            *quartiles = [1, 2, 3].map(|quarter| times[times.len() * quarter / 4]);
        }
        let [rust, c] = quartiles;
        let difference = rust[1] - c[1];
        let limit = (0.02 * c[1]).max(20.0);
        println!(
            "{name:<34} {:>10.1} {:>10.1} {:>7.3} {:>+9.1} {:>8.1} {:>9.1} {:>9.1}  {}",
            rust[1],
            c[1],
            rust[1] / c[1],
            difference,
            limit,
            rust[2] - rust[0],
            c[2] - c[0],
            if difference <= limit { "OK" } else { "over" }
        );
    }
}

fn measure(environment: &Environment, reference: &Reference) -> Result<()> {
    let world = environment.world();
    let is_root = world.rank() == 0;
    let show = |name: &str, pair: Pair| {
        if is_root {
            pair.report(name);
        }
    };
    if is_root {
        println!(
            "MPICH {} ({}), provider {}, {}, {} ranks, {} cores",
            malleus::MPICH_VERSION,
            malleus::MPICH_DEVICE,
            Environment::provider().as_deref().unwrap_or("default"),
            environment.thread_level().name(),
            world.size(),
            std::thread::available_parallelism().map_or(1, usize::from),
        );
        println!("{SAMPLES} samples each, in turns; ns per call; spread: between the quartiles");
        println!(
            "{:<34} {:>10} {:>10} {:>7} {:>9} {:>8} {:>9} {:>9}",
            "", "Rust", "C", "ratio", "more", "limit", "spread", "spread C"
        );
    }
    for kib in [1, 64, 1024] {
        show(
            &format!("window creation, {kib} KiB"),
            window(&world, reference, kib * 128)?,
        );
    }
    let allocated = Window::<f64>::allocate(&world, ELEMENTS, None)?;
    let created = Window::create(&world, vec![1.0; ELEMENTS], None)?;
    for (flavour, window) in [("allocate", &allocated), ("create", &created)] {
        for (name, call) in [
            (
                "lock_all+rget+wait+unlock_all",
                rget as fn(&_, &_) -> Result<Pair>,
            ),
            ("put+flush", put),
        ] {
            world.barrier()?;
            // Rank 0 is the origin; the other one waits inside MPI.
            let pair = if is_root {
                Some(call(window, reference)?)
            } else {
                None
            };
            world.barrier()?;
            if let Some(pair) = pair {
                pair.report(&format!("{name}, {flavour}"));
            }
        }
    }
    allocated.free()?;
    created.free()?;
    show(
        "persistent alltoall, start+wait",
        persistent(&world, reference)?,
    );
    Ok(())
}

fn window(world: &Communicator, reference: &Reference, elements: usize) -> Result<Pair> {
    let mut memory = vec![1.0_f64; elements];
    let base = NonNull::from(memory.as_mut_slice()).cast();
    let lengths: Arc<[u64]> = vec![elements as u64; world.size()].into();
    let mut pair = Pair::default();
    for round in 0..WARM_UP + SAMPLES {
        for turn in 0..2 {
            world.barrier()?;
            let who = (round + turn) % 2;
            let time = if who == 0 {
                let lengths = Some(Arc::clone(&lengths));
                let begun = Instant::now();
                // The memory outlives the window, and nobody accesses it; every rank exposes as much.
                let window = unsafe { Window::create_raw(world, base, elements, lengths, None)? };
                let time = begun.elapsed();
                window.free()?;
                time.as_nanos() as f64
            } else {
                let count = sys::MPI_Aint::try_from(elements).expect("a length");
                let time = unsafe { (reference.window)(base.as_ptr(), count, world.as_raw()) };
                assert!(time >= 0, "C: MPI error {}", -time);
                time as f64
            };
            if round >= WARM_UP {
                pair.0[who].push(time);
            }
        }
    }
    for times in &mut pair.0 {
        world.all_reduce(times, Operation::Maximum)?;
    }
    Ok(pair)
}

fn rget(window: &Window<f64>, reference: &Reference) -> Result<Pair> {
    let (mut copy, mut c_copy) = ([0.0; ELEMENTS], [0.0; ELEMENTS]);
    let count = c_int::try_from(ELEMENTS).expect("a count");
    Pair::measure(
        None,
        CALLS,
        || {
            for _ in 0..CALLS {
                window.lock_all(Assertion::NoCheck, |epoch| {
                    epoch.rget(&mut copy, 1, 0)?.wait()?;
                    Ok(())
                })?;
            }
            Ok(())
        },
        || unsafe {
            (reference.lock_all_rget)(window.as_raw(), c_copy.as_mut_ptr(), count, 1, CALLS)
        },
    )
}

fn put(window: &Window<f64>, reference: &Reference) -> Result<Pair> {
    let source = [2.0; ELEMENTS];
    let mut c_source = source;
    let count = c_int::try_from(ELEMENTS).expect("a count");
    window.lock_all(Assertion::NoCheck, |epoch| {
        Pair::measure(
            None,
            CALLS,
            || {
                for _ in 0..CALLS {
                    epoch.put(&source, 1, 0)?;
                    epoch.flush(1)?;
                }
                Ok(())
            },
            || unsafe {
                (reference.put_flush)(window.as_raw(), c_source.as_mut_ptr(), count, 1, CALLS)
            },
        )
    })
}

fn persistent(world: &Communicator, reference: &Reference) -> Result<Pair> {
    let elements = ELEMENTS * world.size();
    let mut operation =
        Some(world.all_to_all_init(vec![1.0_f64; elements], vec![0.0_f64; elements], None)?);
    let (c_send, mut c_receive) = (vec![1.0_f64; elements], vec![0.0_f64; elements]);
    let count = c_int::try_from(ELEMENTS).expect("a count");
    let mut request = sys::MALLEUS_REQUEST_NULL;
    let made = unsafe {
        (reference.alltoall_init)(
            c_send.as_ptr(),
            c_receive.as_mut_ptr(),
            count,
            world.as_raw(),
            &raw mut request,
        )
    };
    assert!(made >= 0, "C: MPI error {}", -made);
    let pair = Pair::measure(
        Some(world),
        CALLS,
        || {
            for _ in 0..CALLS {
                let inactive = operation.take().expect("it was put back");
                operation = Some(inactive.start()?.wait()?);
            }
            Ok(())
        },
        || unsafe { (reference.start_wait)(&raw mut request, CALLS) },
    )?;
    let freed = unsafe { (reference.request_free)(&raw mut request) };
    assert!(freed >= 0, "C: MPI error {}", -freed);
    operation.take().expect("it was put back").free()?;
    assert_eq!(c_receive, vec![1.0; elements]);
    Ok(pair)
}
