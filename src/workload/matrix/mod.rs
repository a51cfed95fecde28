//! Sparse matrices: read from Matrix Market files or generated, stored by rows (CSR), multiplied
//! with vectors.
//!
//! This module imports no MPI and nothing of the rest of the crate. A parallel program uses it in
//! one of two ways:
//!
//! * A generated matrix ([`Stencil`]) gives any range of its rows without building the others,
//!   together with their global nonzero offsets, so each rank fills its own block and nobody
//!   communicates.
//! * A file ([`market`]) is read as a whole into a [`Csr`], whose row offsets are already global
//!   64-bit numbers: a block of rows is a sub-slice of each of its three arrays, unchanged.
//!
//! [`spmv`] multiplies such a block, and [`pattern`] says which entries of the vector the block
//! needs from elsewhere.
//!
//! ```
//! # use malleus::workload::matrix::{Problem, Error};
//! let problem: Problem = "poisson2d:3x2".parse()?;
//! let matrix = problem.load()?;
//! assert_eq!(matrix.row_starts, [0, 3, 7, 10, 13, 17, 20]);
//! let mut y = [0.0; 6];
//! matrix.multiply(&[1.0; 6], &mut y);
//! assert_eq!(y, [2.0, 1.0, 2.0, 2.0, 1.0, 2.0]);
//! # Ok::<(), Error>(())
//! ```

mod csr;
mod error;
pub mod market;
pub mod pattern;
mod problem;
mod stencil;

pub use csr::{Csr, spmv};
pub use error::Error;
pub use market::{Coordinate, Entry, Field, Symmetry};
pub use problem::Problem;
pub use stencil::Stencil;

/// The largest number of rows, and of columns: column indices are `u32`.
pub const MAX_DIMENSION: u64 = 1 << 32;
