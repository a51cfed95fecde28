//! The buffers of a persistent operation are MPI's while it is going on.

use malleus::mpi::{Environment, Operation, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let world = environment.world();
    let sum = world.all_reduce_init_in_place(vec![1.0; 4], Operation::Sum, None)?;
    let active = sum.start()?;
    println!("{}", active.receive()[0]);
    active.wait()?;
    Ok(())
}
