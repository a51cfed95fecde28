//! A resize happens once.

use malleus::job::{Checkpoint, Job, Options};
use malleus::mpi::Environment;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let environment = Environment::init()?;
    let mut job = Job::start(&environment, Options::default())?;
    let mut values = job.array::<f64>("values").block(100)?;
    if let Checkpoint::Switch(switch) = job.checkpoint()? {
        let _ = switch.commit((&mut values,))?;
        let _ = switch.commit((&mut values,))?;
    }
    Ok(())
}
