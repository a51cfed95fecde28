//! What was started has no buffers before its end, and can't be started.

use malleus::alltoallv::{Plan, Result, Variant};
use malleus::mpi::Environment;
use malleus::mpi::collective::BlockLayout;

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let world = environment.world();
    let layout = BlockLayout::packed(vec![1; world.size()]);
    let plan = Plan::<f64, _>::allocate(&world, Variant::Fence, &layout, &layout)?;
    let mut started = plan.start()?;
    started.send_mut()[0] = 1.0;
    println!("{}", started.receive()[0]);
    started.start()?.wait()?.free()
}
