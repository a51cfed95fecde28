//! MPI is finalized by the thread that initialized it.

use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    std::thread::spawn(move || environment.finalize())
        .join()
        .expect("no panic")
}
