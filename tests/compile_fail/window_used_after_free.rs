//! A window that was freed is gone.

use malleus::mpi::window::{Assertion, Window};
use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let mut copy = [0.0; 4];
    let window = Window::create(&environment.world(), vec![1.0; 4], None)?;
    window.free()?;
    window.lock_all(Assertion::NoCheck, |epoch| epoch.get(&mut copy, 0, 0))
}
