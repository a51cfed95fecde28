//! A resize replaces the memory of an array: no slice of it may live through the commit.

use malleus::job::{Checkpoint, Job, Options};
use malleus::mpi::Environment;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let environment = Environment::init()?;
    let mut job = Job::start(&environment, Options::default())?;
    let mut values = job.array::<f64>("values").block(100)?;
    let slice = &values[..10];
    if let Checkpoint::Switch(switch) = job.checkpoint()? {
        let _ = switch.commit((&mut values,))?;
    }
    println!("{}", slice[0]);
    Ok(())
}
