//! Nor can it leave its scope through a variable of the caller.

use malleus::mpi::window::{Assertion, LockKind, PassiveEpoch, Window};
use malleus::mpi::{Environment, Result};

fn main() -> Result<()> {
    let environment = Environment::init()?;
    let window = Window::create(&environment.world(), vec![1.0; 4], None)?;
    let mut kept: Option<&PassiveEpoch<'_, '_, f64>> = None;
    window.lock(LockKind::Shared, 0, Assertion::NoCheck, |epoch| {
        kept = Some(epoch);
        Ok(())
    })?;
    kept.map(|epoch| epoch.lock(LockKind::Shared, 0, Assertion::NoCheck));
    window.free()
}
