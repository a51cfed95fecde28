//! Two gets of one epoch can't write to the same elements.

use malleus::mpi::window::{Assertion, Window};
use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let window = Window::create(&environment.world(), vec![1.0; 4], None)?;
    let mut copy = [0.0; 4];
    window.lock_all(Assertion::NoCheck, |epoch| {
        epoch.get(&mut copy, 0, 0)?;
        epoch.get(&mut copy[2..], 0, 0)
    })?;
    window.free()
}
