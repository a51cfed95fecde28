//! There is nothing to wait for before a persistent operation was started.

use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let barrier = environment.world().barrier_init(None)?;
    barrier.wait()?;
    Ok(())
}
