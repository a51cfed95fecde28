//! A get may still write when the body of the epoch has returned: its destination lives longer.

use malleus::mpi::window::{Assertion, Window};
use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let window = Window::create(&environment.world(), vec![1.0; 4], None)?;
    window.lock_all(Assertion::NoCheck, |epoch| {
        let mut copy = [0.0; 4];
        epoch.get(&mut copy, 0, 0)
    })?;
    window.free()
}
