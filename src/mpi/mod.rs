//! Safe MPI, one chapter of the standard per module.
//!
//! [`Environment`] is the token for an initialized MPI, and every handle keeps it alive. Calls return
//! [`Error`] with the operation, the error class, the raw code and MPI's own text. Freeing a collective
//! object is collective, so it is a method that consumes it; dropping one leaves it behind and marks
//! the environment failed.
#![allow(unsafe_code)]

pub mod collective;
mod communicator;
mod datatype;
mod environment;
mod error;
mod group;
mod info;
mod latency;
mod process;
pub mod request;
pub mod tool;
pub mod window;

pub use communicator::Communicator;
pub use datatype::{
    Element, ElementKind, Operation, bytes_of, bytes_of_mut, elements_of, elements_of_mut,
};
pub use environment::{Environment, ThreadLevel, library_version_line};
pub use error::{Error, ErrorClass, Result};
pub use group::Group;
pub use info::Info;
pub use process::{Intercommunicator, SpawnCommand};
