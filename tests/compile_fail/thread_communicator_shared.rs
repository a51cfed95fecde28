//! A communicator for another thread is on one thread at a time.

use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let multiple = environment.multiple().expect("MPI_THREAD_MULTIPLE");
    let background = environment.world().for_thread(&multiple)?;
    std::thread::scope(|scope| {
        scope.spawn(|| background.communicator().barrier());
    });
    background.free()
}
