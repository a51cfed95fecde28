//! The method of conjugate gradients (Hestenes, Stiefel 1952) on a sparse matrix cut by rows, in a job
//! that may change its size at each iteration.
//!
//! Matrix and vectors are arrays of the job. After a resize the halo is rebuilt and the iteration goes on
//! with the redistributed vectors: nothing is restarted or computed again. Dot products are [exact
//! sums](super::exact_sum), so the iterates are the same to the last bit on any number of ranks.

use super::exact_sum::ExactSum;
use super::halo::Halo;
use super::matrix::{self, Csr, Problem, Stencil, spmv};
use crate::job::{self, Array, Checkpoint, ConstantArray, Job, Outcome, Replicated};
use crate::mpi::{self, bytes_of_mut};
use crate::partition::Partition;
use crate::redistribute::{self, Method, Transfer};

/// Two values of a symmetric pair may differ by this fraction: what text output rounds away.
const SYMMETRY: f64 = 1e-12;

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
            Self::Mpi(_) | Self::Redistribute(_) => false,
        }
    }
}

/// A matrix as a job keeps it: three arrays, with global offsets and columns.
#[derive(Debug)]
struct DistributedMatrix {
    row_starts: ConstantArray<u64>,
    columns: ConstantArray<u32>,
    values: ConstantArray<f64>,
}

/// A system A x = b with b = 1, on its way to being solved.
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
    halo: Option<Halo>,
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

/// What the first rank knows of a matrix before it is distributed.
enum Source {
    Stencil(Stencil),
    /// Read on rank 0; the others have an empty one.
    File(Csr),
}

impl Solver {
    /// Sets the system up, or takes it over from a job that this process joins. A matrix file is read on
    /// rank 0 and distributed. Collective.
    ///
    /// # Errors
    ///
    /// [`Error::Matrix`] if it can't be read, is not square, not symmetric, or not finite;
    /// [`Error::Diagonal`]; what job and MPI report otherwise.
    pub fn new(job: &mut Job, problem: &Problem, jacobi: bool) -> Result<Self, Error> {
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
            halo: None,
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
        )?);
        self.q = vec![0.0; self.x.len()];
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
            .expect("a solver between resizes has a halo");
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
        // It holds a handle to the communicator.
        self.halo = None;
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

impl Source {
    /// Reads and checks a matrix file on rank 0. Collective.
    fn open(job: &Job, problem: &Problem) -> Result<Self, Error> {
        let path = match problem {
            Problem::Stencil(stencil) => return Ok(Self::Stencil(*stencil)),
            Problem::File(path) => path,
        };
        let empty = || Csr {
            rows: 0,
            cols: 0,
            row_starts: vec![0],
            columns: Vec::new(),
            values: Vec::new(),
        };
        let (csr, problem) = if job.rank() == 0 {
            match problem.load().and_then(checked) {
                Ok(csr) => (csr, None),
                Err(error @ matrix::Error::File { .. }) => (empty(), Some(error.to_string())),
                Err(error) => (empty(), Some(format!("{}: {error}", path.display()))),
            }
        } else {
            (empty(), None)
        };
        match job.communicator().agree(problem)? {
            None => Ok(Self::File(csr)),
            Some((_, problem)) => Err(Error::Matrix(problem)),
        }
    }

    /// Rows and nonzeros. Collective.
    fn size(&self, job: &Job) -> Result<(u64, u64), Error> {
        let mut size = match self {
            Self::Stencil(stencil) => [stencil.rows() as u64, stencil.nonzeros()],
            Self::File(csr) => [csr.rows as u64, csr.nonzeros() as u64],
        };
        job.communicator().broadcast(&mut size, 0)?;
        Ok((size[0], size[1]))
    }
}

fn checked(csr: Csr) -> Result<Csr, matrix::Error> {
    if !csr.is_square() {
        return Err(matrix::Error::NotSquare {
            rows: csr.rows,
            cols: csr.cols,
        });
    }
    csr.check_finite()?;
    csr.check_symmetric_within(SYMMETRY)?;
    Ok(csr)
}

impl DistributedMatrix {
    /// Registers the arrays, and fills them where the job starts. Collective.
    fn new(job: &mut Job, source: Option<Source>, rows: u64, nonzeros: u64) -> Result<Self, Error> {
        let communicator = job.communicator().clone();
        let mut row_starts = job.array("row_starts").constant().block(rows)?;
        let row_partition = row_starts.partition().clone();
        if let Some(source) = &source {
            row_starts.initialize(|range, block: &mut [u64]| match source {
                Source::Stencil(stencil) => {
                    range
                        .zip(block)
                        .for_each(|(row, start)| *start = stencil.offset_of_row(local(row)));
                    Ok(())
                }
                Source::File(csr) => {
                    let mut starts = csr.row_starts.clone();
                    starts.pop();
                    from_root(&communicator, &row_partition, starts, block)
                }
            })??;
        }
        let mut columns = job
            .array("columns")
            .constant()
            .behind(&row_starts, nonzeros)?;
        let mut values = job
            .array("values")
            .constant()
            .behind(&row_starts, nonzeros)?;
        match source {
            None => {}
            Some(Source::Stencil(stencil)) => {
                let range = row_starts.range();
                let mut starts = vec![0; row_starts.len()];
                columns.initialize(|_, columns: &mut [u32]| {
                    values.initialize(|_, values| {
                        stencil.fill(
                            local(range.start)..local(range.end),
                            &mut starts,
                            columns,
                            values,
                        );
                    })
                })??;
            }
            Some(Source::File(csr)) => {
                let partition = columns.partition().clone();
                columns.initialize(|_, block| {
                    from_root(&communicator, &partition, csr.columns, block)
                })??;
                values.initialize(|_, block| {
                    from_root(&communicator, &partition, csr.values, block)
                })??;
            }
        }
        Ok(Self {
            row_starts,
            columns,
            values,
        })
    }
}

/// Distributes what rank 0 has: a move from one source to all. Collective.
fn from_root<T: mpi::Element>(
    communicator: &mpi::Communicator,
    to: &Partition,
    mut whole: Vec<T>,
    block: &mut [T],
) -> Result<(), Error> {
    let from = Partition::block(to.len(), 1);
    let transfer = Transfer {
        from: &from,
        to,
        element_size: size_of::<T>(),
        source: bytes_of_mut(&mut whole),
        target: bytes_of_mut(block),
    };
    redistribute::array(communicator, Method::Collective, transfer)?;
    Ok(())
}

fn inverse_diagonal(
    job: &mut Job,
    matrix: &DistributedMatrix,
    rows: u64,
) -> Result<ConstantArray<f64>, Error> {
    let mut inverse = job.array("inverse_diagonal").constant().block(rows)?;
    if !job.is_first_start() {
        return Ok(inverse);
    }
    let mut bad = None;
    let first = matrix.columns.range().start;
    let ends = matrix
        .row_starts
        .iter()
        .skip(1)
        .copied()
        .chain([matrix.columns.range().end]);
    inverse.initialize(|range, inverse| {
        for (((row, inverse), &start), end) in
            range.zip(inverse).zip(matrix.row_starts.iter()).zip(ends)
        {
            let nonzeros = local(start - first)..local(end - first);
            let diagonal: f64 = nonzeros
                .filter(|&nonzero| u64::from(matrix.columns[nonzero]) == row)
                .map(|nonzero| matrix.values[nonzero])
                .sum();
            if !(diagonal.is_finite() && diagonal > 0.0) {
                bad.get_or_insert(row + 1);
            }
            *inverse = 1.0 / diagonal;
        }
    })?;
    match job.communicator().agree(bad.map(|row| row.to_string()))? {
        None => Ok(inverse),
        Some((_, row)) => Err(Error::Diagonal {
            row: row.parse().unwrap_or(0),
        }),
    }
}

fn local(index: u64) -> usize {
    usize::try_from(index).expect("part of a block in memory")
}
