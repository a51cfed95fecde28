//! At which iteration all sources switch, once everybody's data has come in the background.
//!
//! Each source finds at a checkpoint of its own that its part is complete. None may wait there for the others: one of
//! them can be inside a collective call of the application that needs this one. Nor can it go on and switch later
//! without knowing that nobody is past that iteration. So a helper thread on each source speaks for it: when all parts
//! are complete (`MPI_Ibarrier`), it bars its own main thread from passing the next checkpoint, and the
//! latest of these checkpoints is where everybody switches (`MPI_Iallreduce`). The main thread waits at the
//! barred checkpoint for helper threads only, never for another main thread (decision record 17).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Result;
use super::error::Error;
use crate::mpi::thread::ThreadCommunicator;
use crate::mpi::{self, Communicator, Operation};
use crate::redistribute;

/// How long the helper thread sleeps between two tests.
const PAUSE: Duration = Duration::from_micros(200);

#[derive(Debug, Default)]
struct State {
    /// The last checkpoint of the main thread.
    iteration: u64,
    /// This rank's part is complete.
    complete: bool,
    /// The checkpoint that the main thread does not pass before it knows more.
    bar: Option<u64>,
    /// Where everybody switches.
    switch: Option<u64>,
    /// Nobody waits for the helper thread any more, or it has failed.
    over: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn wait_while(&self, condition: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        self.changed
            .wait_while(self.lock(), condition)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// One source's side of the agreement.
///
/// Dropped before its end, it stops the helper thread; the communicator is left behind then.
#[derive(Debug)]
pub(super) struct Agreement {
    shared: Arc<Shared>,
    helper: Option<JoinHandle<mpi::Result<()>>>,
}

impl Agreement {
    /// Collective over the sources; `MPI_Comm_dup`.
    pub(super) fn start(sources: &Communicator, iteration: u64) -> Result<Self> {
        let environment = sources.environment();
        let multiple = environment
            .multiple()
            .ok_or(redistribute::Error::ThreadLevel)?;
        let own = sources.for_thread(&multiple)?;
        let shared = Arc::new(Shared::default());
        shared.lock().iteration = iteration;
        let helper = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let result = speak(own, &shared);
                shared.change(|state| state.over = true);
                result
            }
        });
        Ok(Self {
            shared,
            helper: Some(helper),
        })
    }

    /// This rank's part is complete.
    pub(super) fn complete(&self) {
        self.shared.change(|state| state.complete = true);
    }

    /// At a checkpoint: whether everybody switches here. Waits for other ranks' helper threads at most.
    pub(super) fn switches_at(&mut self, iteration: u64) -> Result<bool> {
        self.shared.lock().iteration = iteration;
        let state = self.shared.wait_while(|state| {
            let barred = state.bar.is_some_and(|bar| iteration >= bar);
            barred && state.switch.is_none() && !state.over
        });
        let (switch, failed) = (state.switch, state.over && state.switch.is_none());
        drop(state);
        if failed {
            self.join()?;
        }
        Ok(switch == Some(iteration))
    }

    /// Waits for the end of the helper thread, which comes when every rank's part is complete.
    pub(super) fn join(&mut self) -> Result<()> {
        match self.helper.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => Ok(result?),
            Some(Err(_panic)) => Err(Error::Redistribute(redistribute::Error::Helper)),
        }
    }
}

impl Drop for Agreement {
    fn drop(&mut self) {
        self.shared.change(|state| state.over = true);
        if let Some(helper) = self.helper.take() {
            // Its result is nobody's concern where this is dropped before the end.
            let _ = helper.join();
        }
    }
}

/// The helper thread.
fn speak(own: ThreadCommunicator, shared: &Shared) -> mpi::Result<()> {
    let communicator = own.communicator();
    let state = shared.wait_while(|state| !state.complete && !state.over);
    let complete = state.complete;
    drop(state);
    if !complete {
        return Ok(());
    }
    let mut barrier = communicator.ibarrier()?;
    if !poll(shared, || barrier.test())? {
        return Ok(());
    }
    drop(barrier);
    let mut bar = 0;
    shared.change(|state| {
        bar = state.iteration + 1;
        state.bar = Some(bar);
    });
    let mut latest = communicator.iall_reduce(vec![bar], Operation::Maximum)?;
    if !poll(shared, || latest.test())? {
        return Ok(());
    }
    let latest = latest.wait()?;
    own.free()?;
    shared.change(|state| state.switch = Some(latest[0]));
    Ok(())
}

/// Tests until it is done, with a sleep in between; false where nobody waits any more.
fn poll(shared: &Shared, mut test: impl FnMut() -> mpi::Result<bool>) -> mpi::Result<bool> {
    loop {
        if test()? {
            return Ok(true);
        }
        if shared.lock().over {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
}
