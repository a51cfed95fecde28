//! A plan that was started is not there: neither its buffers nor a second start.

use malleus::alltoallv::{Own, Plan, Result};

fn main() {}

fn written(mut plan: Plan<f64, Own<f64>>) -> Result<()> {
    let started = plan.start()?;
    plan.send_mut()[0] = 1.0;
    started.wait()?.free()
}

fn read(plan: Plan<f64, Own<f64>>) -> Result<()> {
    let started = plan.start()?;
    println!("{}", plan.receive()[0]);
    started.wait()?.free()
}

fn started_twice(plan: Plan<f64, Own<f64>>) -> Result<()> {
    let started = plan.start()?;
    let twice = plan.start()?;
    twice.wait()?.free()?;
    started.wait()?.free()
}
