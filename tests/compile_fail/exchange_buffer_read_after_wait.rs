//! A buffer belongs to the scope until its end, also when its own operation is complete.

use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let mut buffer = [0.0; 4];
    environment.world().exchange(|exchange| {
        exchange.ireceive(&mut buffer, 0, 7)?.wait()?;
        println!("{}", buffer[0]);
        Ok(())
    })
}
