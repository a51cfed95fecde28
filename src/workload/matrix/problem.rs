//! Where a matrix comes from, as a user names it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::csr::Csr;
use super::error::{Error, quote};
use super::market;
use super::stencil::Stencil;

const ALLOWED: &str = "`poisson2d:NXxNY`, `poisson3d:NXxNYxNZ`, `hpcg:NXxNYxNZ`, \
                       or the path of a Matrix Market file";

/// A matrix by its name: `poisson2d:NXxNY`, `poisson3d:NXxNYxNZ`, `hpcg:NXxNYxNZ`, or the path of a
/// Matrix Market file.
///
/// A file whose name looks like a generated matrix's can be named with a folder: `./hpcg:2x2x2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// A generated matrix.
    Stencil(Stencil),
    /// A Matrix Market file, plain or gzip-compressed; whether it is there, [`load`](Problem::load)
    /// finds out.
    File(PathBuf),
}

impl Problem {
    /// Builds or reads the whole matrix.
    ///
    /// A solver that needs it calls [`Csr::check_finite`] and [`Csr::check_symmetric_within`] next.
    ///
    /// *Blocking.* A parallel program that generates its matrix calls [`Stencil::fill`] for its own
    /// rows instead.
    ///
    /// # Errors
    ///
    /// As [`market::read_path`] and [`Coordinate::into_csr`](super::Coordinate::into_csr), with the
    /// file's path.
    pub fn load(&self) -> Result<Csr, Error> {
        match self {
            Self::Stencil(stencil) => Ok(stencil.csr()),
            Self::File(path) => market::read_path(path)?
                .into_csr()
                .map_err(|cause| Error::File {
                    path: path.clone(),
                    cause: Box::new(cause),
                }),
        }
    }
}

impl FromStr for Problem {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let wrong = |reason: &str, allowed| Error::Problem {
            found: quote(name.as_bytes()),
            reason: reason.to_owned(),
            allowed,
        };
        if name.is_empty() {
            return Err(wrong("no name", ALLOWED));
        }
        let (shape, size) = name.split_once(':').unwrap_or_default();
        let sizes = || {
            size.split('x')
                .map(|size| {
                    if size.starts_with('+') {
                        None
                    } else {
                        size.parse::<u64>().ok()
                    }
                })
                .collect::<Option<Vec<_>>>()
        };
        let stencil = match shape {
            "poisson2d" => match sizes().as_deref() {
                Some(&[nx, ny]) => Stencil::poisson2d(nx, ny),
                _ => Err(wrong(
                    "not a size",
                    "`poisson2d:NXxNY` with two whole numbers from 1",
                )),
            },
            "poisson3d" | "hpcg" => match sizes().as_deref() {
                Some(&[nx, ny, nz]) if shape == "hpcg" => Stencil::hpcg(nx, ny, nz),
                Some(&[nx, ny, nz]) => Stencil::poisson3d(nx, ny, nz),
                _ if shape == "hpcg" => Err(wrong(
                    "not a size",
                    "`hpcg:NXxNYxNZ` with three whole numbers from 1",
                )),
                _ => Err(wrong(
                    "not a size",
                    "`poisson3d:NXxNYxNZ` with three whole numbers from 1",
                )),
            },
            // A misspelt name would else be reported as a missing file.
            _ if !shape.is_empty() && !shape.contains('/') && sizes().is_some() => {
                return Err(wrong("no such generated matrix", ALLOWED));
            }
            _ => return Ok(Self::File(PathBuf::from(name))),
        };
        stencil.map(Self::Stencil)
    }
}

/// The name from which the problem can be read again.
impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stencil(stencil) => stencil.fmt(formatter),
            Self::File(path) => path.display().fmt(formatter),
        }
    }
}
