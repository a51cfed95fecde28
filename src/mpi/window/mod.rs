//! Windows and one-sided communication (MPI standard, chapter 12).
//!
//! An access epoch is a scope: the operations exist on the epoch that a method such as
//! [`Window::lock_all`] lends to its closure, their buffers are borrowed beyond that scope, and the scope's
//! end closes the epoch, which completes them.
//!
//! ```no_run
//! # fn main() -> malleus::mpi::Result<()> {
//! use malleus::mpi::{Environment, window::{Assertion, Window}};
//!
//! let environment = Environment::init()?;
//! let world = environment.world();
//! let mut exposed = vec![world.rank() as f64; 4];
//! let window = Window::create(&world, &mut exposed)?;
//! let mut copy = [0.0; 4];
//! window.lock_all(Assertion::NoCheck, |epoch| epoch.get(&mut copy, 0, 0))?;
//! assert_eq!(copy, [0.0; 4]);
//! window.free()
//! # }
//! ```

mod create;
mod passive;

pub use create::Window;
pub use passive::{Assertion, LockKind, PassiveEpoch};
