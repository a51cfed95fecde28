//! What the command line runs: matrices and a solver that resizes while it works.

pub mod cg;
pub mod exact_sum;
pub mod halo;
pub mod matrix;
