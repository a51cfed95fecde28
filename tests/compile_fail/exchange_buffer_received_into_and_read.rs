//! What is received is there when the exchange is over, not before.

use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let mut buffer = [0.0; 4];
    environment.world().exchange(|exchange| {
        exchange.receive(&mut buffer, 0, 7)?;
        println!("{}", buffer[0]);
        Ok(())
    })
}
