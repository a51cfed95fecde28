//! A request that was waited for is gone.

use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let barrier = environment.world().ibarrier()?;
    barrier.wait()?;
    barrier.wait()
}
