//! Nor may another thread open an epoch on a window that it was lent.

use malleus::mpi::window::{Assertion, Window};
use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let mut copy = [0.0; 4];
    let window = Window::create(&environment.world(), vec![1.0; 4], None)?;
    std::thread::scope(|scope| {
        scope.spawn(|| window.lock_all(Assertion::NoCheck, |epoch| epoch.get(&mut copy, 0, 0)));
    });
    window.free()
}
