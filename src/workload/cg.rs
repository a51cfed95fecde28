//! The method of conjugate gradients (Hestenes, Stiefel 1952) on a sparse matrix cut by rows, in a job
//! that may change its size at each iteration.
//!
//! Matrix and vectors are arrays of the job. After a resize the halo is rebuilt and the iteration goes on
//! with the redistributed vectors: nothing is restarted or computed again. Dot products are [exact
//! sums](super::exact_sum), so the iterates are the same to the last bit on any number of ranks.

use super::distributed::{DistributedMatrix, Source, inverse_diagonal};
use super::exact_sum::ExactSum;
use super::halo::{Halo, HaloExchange};
use super::matrix::{Problem, spmv};
use crate::alltoallv;
use crate::job::{self, Array, Checkpoint, ConstantArray, Job, Outcome, Replicated};
use crate::{mpi, redistribute};

/// Why a system could not be set up or solved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The matrix can't be used: the same on every rank.
    #[error("{0}")]
    Matrix(String),
    /// A direction in which the matrix is not positive: the same on every rank.
    #[error("the matrix is not positive definite: p·Ap = {curvature} in iteration {iteration}")]
    NotPositiveDefinite {
        /// Where it was found.
        iteration: u64,
        /// The value that should be positive.
        curvature: f64,
    },
    /// A diagonal element that Jacobi's preconditioner can't divide by: the same on every rank.
    #[error(
        "the Jacobi preconditioner needs a positive diagonal; that of row {row} (counted from 1) is not"
    )]
    Diagonal {
        /// The first such row, counted from 1.
        row: u64,
    },
    /// The job failed.
    #[error(transparent)]
    Job(#[from] job::Error),
    /// MPI failed.
    #[error(transparent)]
    Mpi(#[from] mpi::Error),
    /// The exchange of the halo failed.
    #[error(transparent)]
    Halo(#[from] alltoallv::Error),
    /// The matrix could not be distributed.
    #[error(transparent)]
    Redistribute(#[from] redistribute::Error),
}

impl Error {
    /// Whether every rank has the same error, so that the job can end in an orderly way.
    #[must_use]
    pub fn is_common(&self) -> bool {
        match self {
            Self::Matrix(_) | Self::NotPositiveDefinite { .. } | Self::Diagonal { .. } => true,
            Self::Job(error) => error.leaves_job_whole(),
            Self::Halo(error) => !matches!(error, alltoallv::Error::Mpi(_)),
            Self::Mpi(_) | Self::Redistribute(_) => false,
        }
    }
}

/// A system A x = b with b = 1, on its way to being solved.
///
/// [`Solver::free`] on every rank is its end on a job that goes on or ends in an orderly way.
#[derive(Debug)]
pub struct Solver {
    rows: Replicated<u64>,
    nonzeros: Replicated<u64>,
    matrix: DistributedMatrix,
    /// The inverse of the diagonal, for Jacobi's preconditioner.
    inverse_diagonal: Option<ConstantArray<f64>>,
    x: Array<f64>,
    /// The residual by recurrence.
    r: Array<f64>,
    /// The search direction.
    p: Array<f64>,
    /// r·z, with z = r where there is no preconditioner.
    rho: Replicated<f64>,
    /// r·r.
    residual: Replicated<f64>,
    exchange: HaloExchange,
    halo: Option<Halo>,
    /// Seconds in exchanges of halos that are gone, of the slowest rank.
    exchange_s: f64,
    /// A p, of this iteration.
    q: Vec<f64>,
    sum: ExactSum,
}

/// Where a solver stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Iterations done.
    pub iteration: u64,
    /// ‖r‖ / ‖b‖, with r by recurrence.
    pub relative_residual: f64,
    /// Ranks of the job.
    pub ranks: usize,
}

impl Solver {
    /// Sets the system up, or takes it over from a job that this process joins. A matrix file is read on
    /// rank 0 and distributed. Collective.
    ///
    /// # Errors
    ///
    /// [`Error::Matrix`] if it can't be read, is not square, not symmetric, or not finite;
    /// [`Error::Diagonal`]; what job and MPI report otherwise.
    pub fn new(
        job: &mut Job,
        problem: &Problem,
        jacobi: bool,
        exchange: HaloExchange,
    ) -> Result<Self, Error> {
        let source = if job.is_first_start() {
            Some(Source::open(job, problem)?)
        } else {
            None
        };
        let (rows, nonzeros) = source
            .as_ref()
            .map_or(Ok((0, 0)), |source| source.size(job))?;
        let rows = job.replicated("rows", rows)?;
        let nonzeros = job.replicated("nonzeros", nonzeros)?;
        let matrix = DistributedMatrix::new(job, source, *rows, *nonzeros)?;
        let inverse_diagonal = if jacobi {
            Some(inverse_diagonal(job, &matrix, *rows)?)
        } else {
            None
        };
        let x = job.array("x").block(*rows)?;
        let mut r = job.array("r").block(*rows)?;
        let mut p = job.array("p").block(*rows)?;
        let rho = job.replicated("rho", 0.0)?;
        let residual = job.replicated("residual", 0.0)?;
        if job.is_first_start() {
            // x = 0, so r = b = 1.
            r.fill(1.0);
            precondition(inverse_diagonal.as_deref(), &r, &mut p);
        }
        let mut solver = Self {
            rows,
            nonzeros,
            matrix,
            inverse_diagonal,
            x,
            r,
            p,
            rho,
            residual,
            exchange,
            halo: None,
            exchange_s: 0.0,
            q: Vec::new(),
            sum: ExactSum::new(),
        };
        if job.is_first_start() {
            *solver.residual = *solver.rows as f64;
            // p = z here.
            *solver.rho = dot(&mut solver.sum, job, &solver.r, &solver.p)?;
        }
        solver.rebuild(job)?;
        Ok(solver)
    }

    /// What belongs to one size of the job. Collective.
    fn rebuild(&mut self, job: &Job) -> Result<(), Error> {
        let partition = self.matrix.row_starts.partition();
        self.halo = Some(Halo::new(
            job.communicator(),
            partition,
            &self.matrix.columns,
            self.exchange,
        )?);
        self.q = vec![0.0; self.x.len()];
        Ok(())
    }

    /// How many seconds exchanges took since the last call, up to the last resize or [`Solver::free`]: the sum over
    /// iterations on the rank for which it is largest. The ranks begin an exchange at nearly the same time, since each
    /// iteration ends with a sum over all of them.
    pub fn take_exchange_s(&mut self) -> f64 {
        std::mem::take(&mut self.exchange_s)
    }

    /// Frees what the exchange has set up: there are no more steps. Collective and blocking; nothing a second time.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn free(&mut self) -> Result<(), Error> {
        if let Some(halo) = self.halo.take() {
            self.exchange_s += halo.free()?;
        }
        Ok(())
    }

    /// Where the solver stands.
    #[must_use]
    pub fn progress(&self, job: &Job) -> Progress {
        Progress {
            iteration: job.iteration(),
            relative_residual: (*self.residual / *self.rows as f64).sqrt(),
            ranks: job.size(),
        }
    }

    /// Rows of the matrix.
    #[must_use]
    pub fn rows(&self) -> u64 {
        *self.rows
    }

    /// Nonzeros of the matrix.
    #[must_use]
    pub fn nonzeros(&self) -> u64 {
        *self.nonzeros
    }

    /// One iteration. Collective.
    ///
    /// # Errors
    ///
    /// [`Error::NotPositiveDefinite`]; the MPI error otherwise.
    pub fn step(&mut self, job: &Job) -> Result<(), Error> {
        let halo = self
            .halo
            .as_mut()
            .expect("a solver that is not freed has a halo between resizes");
        let (first, window) = halo.exchange(&self.p)?;
        let (matrix, end) = (&self.matrix, self.matrix.columns.range().end);
        spmv(
            &matrix.row_starts,
            end,
            &matrix.columns,
            &matrix.values,
            first,
            window,
            &mut self.q,
        );
        let curvature = dot(&mut self.sum, job, &self.p, &self.q)?;
        if curvature.is_nan() || curvature <= 0.0 || curvature.is_infinite() {
            return Err(Error::NotPositiveDefinite {
                iteration: job.iteration() + 1,
                curvature,
            });
        }
        let alpha = *self.rho / curvature;
        self.x
            .iter_mut()
            .zip(self.p.iter())
            .for_each(|(x, p)| *x += alpha * p);
        self.r
            .iter_mut()
            .zip(&self.q)
            .for_each(|(r, q)| *r -= alpha * q);
        *self.residual = dot(&mut self.sum, job, &self.r, &self.r)?;
        // q is free until the next product: it holds z now.
        precondition(self.inverse_diagonal.as_deref(), &self.r, &mut self.q);
        let rho = if self.inverse_diagonal.is_some() {
            dot(&mut self.sum, job, &self.r, &self.q)?
        } else {
            *self.residual
        };
        let beta = rho / *self.rho;
        *self.rho = rho;
        self.p
            .iter_mut()
            .zip(&self.q)
            .for_each(|(p, z)| *p = z + beta * *p);
        Ok(())
    }

    /// Passes the job's checkpoint, with a resize if one is due; false on a process that leaves.
    /// Collective.
    ///
    /// # Errors
    ///
    /// What the job reports.
    pub fn checkpoint(&mut self, job: &mut Job) -> Result<bool, Error> {
        let size = job.size();
        let Checkpoint::Switch(switch) = job.checkpoint()? else {
            return Ok(true);
        };
        // Those that leave can't tell later what they have recorded.
        if switch.size() < size
            && crate::latency::is_recording()
            && let Some(halo) = &self.halo
        {
            halo.communicator().collect_latency(0)?;
        }
        // It holds a handle to the communicator, and may have windows on it.
        self.free()?;
        let DistributedMatrix {
            row_starts,
            columns,
            values,
        } = &mut self.matrix;
        let mut registered: Vec<&mut dyn job::Registered> = vec![
            &mut self.rows,
            &mut self.nonzeros,
            row_starts,
            columns,
            values,
        ];
        if let Some(inverse_diagonal) = &mut self.inverse_diagonal {
            registered.push(inverse_diagonal);
        }
        registered.push(&mut self.x);
        registered.push(&mut self.r);
        registered.push(&mut self.p);
        registered.push(&mut self.rho);
        registered.push(&mut self.residual);
        match switch.commit(registered) {
            Ok(Outcome::Member(_)) => {}
            Ok(Outcome::Left) => return Ok(false),
            // The old communicator is still the job's.
            Err(error @ job::Error::Abandoned { .. }) => tracing::warn!(%error, "the job goes on"),
            Err(error) => return Err(error.into()),
        }
        self.rebuild(job)?;
        Ok(true)
    }

    /// The sum of x over all ranks. Collective.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn sum_x(&mut self, job: &Job) -> Result<f64, Error> {
        self.sum.clear();
        self.x.iter().for_each(|&x| self.sum.add(x));
        Ok(self.sum.value_over(job.communicator())?)
    }
}

/// z = M⁻¹ r.
fn precondition(inverse_diagonal: Option<&[f64]>, r: &[f64], z: &mut [f64]) {
    match inverse_diagonal {
        Some(inverse) => z
            .iter_mut()
            .zip(r)
            .zip(inverse)
            .for_each(|((z, r), inverse)| *z = r * inverse),
        None => z.copy_from_slice(r),
    }
}

fn dot(sum: &mut ExactSum, job: &Job, a: &[f64], b: &[f64]) -> Result<f64, Error> {
    sum.clear();
    sum.add_products(a, b);
    Ok(sum.value_over(job.communicator())?)
}
