//! What the command line runs: matrices and a solver that resizes while it works, and a synthetic application.

pub mod cg;
mod distributed;
pub mod exact_sum;
pub mod halo;
pub mod matrix;
pub mod synthetic;
