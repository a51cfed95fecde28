//! Windows and one-sided communication (MPI standard, chapter 12).
//!
//! An epoch is a scope: the operations exist on the [`Epoch`] that a method such as [`Window::fence`] or
//! [`Window::lock_all`] lends to its closure, their buffers are borrowed beyond that scope, and the scope's end
//! closes the epoch, which completes them. One epoch at a time is open on a window in a process, except
//! [`Window::start`] inside [`Window::post`].
//!
//! ```no_run
//! # fn main() -> malleus::mpi::Result<()> {
//! use malleus::mpi::{Environment, window::{Assertion, Window}};
//!
//! let environment = Environment::init()?;
//! let world = environment.world();
//! let window = Window::create(&world, vec![world.rank() as f64; 4], None)?;
//! let mut copy = [0.0; 4];
//! window.lock_all(Assertion::NoCheck, |epoch| epoch.get(&mut copy, 0, 0))?;
//! assert_eq!(copy, [0.0; 4]);
//! window.free()
//! # }
//! ```

mod accumulate;
mod allocate;
mod attributes;
mod bounds;
mod create;
mod dynamic;
mod epoch;
mod fence;
mod generalized;
mod memory;
mod operations;
mod passive;
mod reads;
mod requests;
mod strided;

pub use accumulate::{AccumulateOperation, BitOperation, Integer, OperationOn};
pub use attributes::{Attributes, Flavour, Model};
pub use create::Window;
pub use dynamic::{DynamicWindow, Region};
pub use epoch::{Epoch, ExposedRank, PROC_NULL};
pub use fence::{FenceAssertion, FenceEpoch};
pub use generalized::{ExposureEpoch, PostAssertion, StartedEpoch};
pub use memory::Memory;
pub use passive::{Assertion, LockKind, PassiveEpoch};
pub use reads::Reading;
pub use strided::Strided;
