//! MPI's handles stay on the thread that initialized it, whatever the thread level.

use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let world = environment.world();
    std::thread::spawn(move || world.barrier())
        .join()
        .expect("no panic")
}
