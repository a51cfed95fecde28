//! Without `MPI_THREAD_MULTIPLE` there is no token, and without the token no communicator for another thread.

use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let background = environment.world().for_thread(&environment.multiple())?;
    background.free()
}
