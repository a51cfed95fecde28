//! Others may write to a window's memory at any time: it can't be read while the window lives.

use malleus::mpi::window::Window;
use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let mut exposed = [1.0; 4];
    let window = Window::create(&environment.world(), &mut exposed)?;
    println!("{}", exposed[0]);
    window.free()
}
