//! A buffer that an operation owns is gone until the operation gives it back.

use malleus::mpi::{Environment, Operation, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let buffer = vec![1.0; 4];
    let request = environment.world().iall_reduce(buffer, Operation::Sum)?;
    println!("{}", buffer[0]);
    request.wait()?;
    Ok(())
}
