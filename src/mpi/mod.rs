//! Safe MPI, one chapter of the standard per module.
//!
//! [`Environment`] is the token for an initialized MPI, and every handle keeps it alive. Calls return
//! [`Error`] with the operation, the error class, the raw code and MPI's own text. Freeing a collective
//! object is collective, so it is a method that consumes it; dropping one leaves it behind and marks
//! the environment failed.
#![allow(unsafe_code)]

#[cfg(feature = "cli")]
pub(crate) mod bare;
pub mod collective;
mod communicator;
pub(crate) mod datatype;
mod environment;
pub(crate) mod error;
mod group;
mod info;
mod intercommunicator;
mod latency;
pub mod persistent;
mod point_to_point;
pub mod process;
mod progress;
#[cfg(feature = "cli")]
pub(crate) mod reference;
pub mod request;
mod runtime_check;
pub mod thread;
pub mod tool;
pub mod topology;
mod type_map;
pub mod window;

pub use communicator::{Communicator, SplitType};
pub use datatype::{
    Element, ElementKind, Operation, bytes_of, bytes_of_mut, elements_of, elements_of_mut,
};
pub use environment::{Environment, library_version_line};
pub use error::{Error, ErrorClass, Result};
pub use group::{Comparison, Group};
pub use info::Info;
pub use intercommunicator::Intercommunicator;
pub use point_to_point::{Destination, Source, Status, Tag};
pub use process::SpawnCommand;
pub use progress::{Effort, ProgressThread};
pub use runtime_check::Library;
pub use thread::ThreadLevel;
pub use type_map::{Datatype, Record, TypeMap};
