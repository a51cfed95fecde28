//! The destination of a get is MPI's until the epoch is closed.

use malleus::mpi::window::{Assertion, Window};
use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let window = Window::create(&environment.world(), vec![1.0; 4], None)?;
    let mut copy = [0.0; 4];
    window.lock_all(Assertion::NoCheck, |epoch| {
        epoch.get(&mut copy, 0, 0)?;
        println!("{}", copy[0]);
        Ok(())
    })?;
    window.free()
}
