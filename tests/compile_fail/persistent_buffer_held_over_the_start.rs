//! A slice of a buffer does not outlive the state in which the buffer may be used.

use malleus::mpi::{Environment, Operation, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let world = environment.world();
    let mut sum = world.all_reduce_init_in_place(vec![1.0; 4], Operation::Sum, None)?;
    let buffer = sum.receive_mut();
    let active = sum.start()?;
    buffer[0] = 2.0;
    active.wait()?;
    Ok(())
}
