//! The request of a get belongs to the epoch: it can't be waited for after its end.

use malleus::mpi::window::{Assertion, Window};
use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let window = Window::create(&environment.world(), vec![1.0; 4], None)?;
    let mut copy = [0.0; 4];
    let request = window.lock_all(Assertion::NoCheck, |epoch| epoch.rget(&mut copy, 0, 0))?;
    request.wait()?;
    window.free()
}
