//! Others may write to a window's memory at any time: it can't be read while the window lives.

use malleus::mpi::window::Window;
use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let mut exposed = [1.0; 4];
    Window::scope(&environment.world(), &mut exposed, None, |_| {
        println!("{}", exposed[0]);
        Ok(())
    })
}
