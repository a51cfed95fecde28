//! The request of a receive belongs to the scope that waits for it.

use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let mut buffer = [0.0; 4];
    let request = environment
        .world()
        .exchange(|exchange| exchange.ireceive(&mut buffer, 0, 7))?;
    request.wait()
}
