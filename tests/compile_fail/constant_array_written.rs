//! A constant array may be read by others at any time: the application gets no `&mut` to it.

use malleus::job::{Job, Options};
use malleus::mpi::Environment;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let environment = Environment::init()?;
    let mut job = Job::start(&environment, Options::default())?;
    let mut values = job.array::<f64>("values").constant().block(100)?;
    values.initialize(|_, values| values.fill(0.0))?;
    values[0] = 1.0;
    Ok(())
}
