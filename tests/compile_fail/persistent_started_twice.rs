//! A persistent operation that was started is not there to be started again.

use malleus::mpi::{Environment, Operation, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let world = environment.world();
    let sum = world.all_reduce_init_in_place(vec![1.0; 4], Operation::Sum, None)?;
    let first = sum.start()?;
    let second = sum.start()?;
    first.wait()?;
    second.wait()?;
    Ok(())
}
