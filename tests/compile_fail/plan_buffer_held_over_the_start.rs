//! A plan's buffers are borrowed from it: none is held over a start.

use malleus::alltoallv::{Plan, Result, Variant};
use malleus::mpi::Environment;
use malleus::mpi::collective::BlockLayout;

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let world = environment.world();
    let layout = BlockLayout::packed(vec![1; world.size()]);
    let plan = Plan::<f64, _>::allocate(&world, Variant::Fence, &layout, &layout)?;
    let received = plan.receive();
    let started = plan.start()?;
    println!("{}", received[0]);
    started.wait()?.free()
}
