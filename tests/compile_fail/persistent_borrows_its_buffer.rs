//! A persistent operation owns its buffers: a borrow would end when the operation is forgotten, while MPI
//! still writes.

use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let mut buffer = [0.0; 4];
    let receive = environment.world().receive_init(&mut buffer[..], 0, 7)?;
    std::mem::forget(receive.start()?);
    println!("{}", buffer[0]);
    Ok(())
}
