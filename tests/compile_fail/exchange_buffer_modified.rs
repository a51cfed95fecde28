//! MPI may still read what is sent until the exchange is over.

use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let mut buffer = [1.0; 4];
    environment.world().exchange(|exchange| {
        exchange.send(&buffer, 0, 7)?;
        buffer[0] = 2.0;
        Ok(())
    })
}
