//! The job can't go on before a switch is committed.

use malleus::job::{Checkpoint, Job, Options};
use malleus::mpi::Environment;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let environment = Environment::init()?;
    let mut job = Job::start(&environment, Options::default())?;
    let mut values = job.array::<f64>("values").block(100)?;
    let checkpoint = job.checkpoint()?;
    let _ = job.checkpoint()?;
    if let Checkpoint::Switch(switch) = checkpoint {
        let _ = switch.commit((&mut values,))?;
    }
    Ok(())
}
