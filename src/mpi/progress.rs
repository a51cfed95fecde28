//! A thread that lets MPI move on while the application computes.
//!
//! MPICH does nothing between two calls: a collective that goes on, and a read from memory that a provider does not
//! reach by itself, stand still while the exposed rank or the sender computes. `MPIR_CVAR_ASYNC_PROGRESS=1` is MPICH's
//! answer, a thread that spins on a core. This one calls MPI for as long as there is something to do, and sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::mpi::environment::Environment;
use crate::mpi::error::{Error, Result};
use crate::mpi::request::Nothing;
use crate::mpi::thread::{Multiple, ThreadCommunicator};

/// How much of a core a progress thread takes while there is something to do, and so how much longer the main thread's
/// iterations last where they share a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A quarter at most, a call every 200 µs: for one-sided reads, of which MPICH does a lot in each call.
    Low,
    /// Seven tenths at most, a call every 100 µs: for collectives and messages, which go on by small pieces, each after an
    /// answer of the other side.
    High,
}

impl Effort {
    /// How long it sleeps when MPI has nothing to do.
    const fn pause(self) -> Duration {
        match self {
            Self::Low => Duration::from_micros(200),
            Self::High => Duration::from_micros(100),
        }
    }

    /// How long it calls MPI before it lets the other threads in, at most.
    const fn burst(self) -> Duration {
        match self {
            Self::Low => Duration::from_millis(1),
            Self::High => Duration::from_millis(2),
        }
    }

    /// How long it waits for an answer of the other side before it sleeps.
    const fn linger(self) -> Duration {
        match self {
            Self::Low => Duration::from_micros(30),
            Self::High => Duration::from_micros(200),
        }
    }

    /// How long it sleeps after so much work.
    fn rest(self, work: Duration) -> Duration {
        match self {
            Self::Low => 3 * work,
            Self::High => 2 * work / 5,
        }
    }
}

/// A thread that calls MPI several times a millisecond, and again as long as that takes longer than doing nothing.
///
/// It is not collective: each process may have one, or none. Dropping it stops the thread, and waits for it.
#[derive(Debug)]
pub struct ProgressThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl ProgressThread {
    /// Starts the thread. `MPI_Comm_dup` of `MPI_COMM_SELF`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn start(
        environment: &Environment,
        multiple: &Multiple<'_>,
        effort: Effort,
    ) -> Result<Self> {
        let own = environment.self_communicator().for_thread(multiple)?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || drive(own, &stop, effort)
        });
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Stops the thread, and waits for it.
    ///
    /// # Errors
    ///
    /// The MPI error that it met.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        thread.thread().unpark();
        thread
            .join()
            .unwrap_or_else(|_| Err(Error::state("MPI_Test", "the progress thread panicked")))
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "progress thread");
        }
    }
}

/// `MPI_Test` makes progress with everything while the operation that it is asked about is not complete; `MPI_Iprobe`
/// does not: collectives that are going on stand still in it. One test moves a small piece (13 KiB with tcp) and does
/// not tell, but takes longer then than one that finds nothing to do: so it is followed by another one.
fn drive(own: ThreadCommunicator, stop: &AtomicBool, effort: Effort) -> Result<()> {
    let communicator = own.communicator();
    let mut open = communicator.ireceive(Nothing, 0, 0)?;
    let mut idle = Duration::MAX;
    while !stop.load(Ordering::Relaxed) {
        let burst = Instant::now();
        let mut useful = burst;
        while burst.elapsed() < effort.burst() && useful.elapsed() < effort.linger() {
            let begun = Instant::now();
            open.test()?;
            let time = begun.elapsed();
            idle = idle.min(time);
            if time > 2 * idle {
                useful = Instant::now();
            }
        }
        std::thread::park_timeout(effort.pause().max(effort.rest(burst.elapsed())));
    }
    communicator.send::<u8>(&[], 0, 0)?;
    open.wait()?;
    own.free()
}
