//! An epoch can't be used after the scope that closes it.

use malleus::mpi::window::{Assertion, Window};
use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let window = Window::create(&environment.world(), vec![1.0; 4], None)?;
    let mut copy = [0.0; 4];
    let epoch = window.lock_all(Assertion::NoCheck, |epoch| Ok(epoch))?;
    epoch.get(&mut copy, 0, 0)?;
    window.free()
}
