//! The matrix of a system, as a job keeps it: read or generated where the job starts, then distributed.

use super::cg::Error;
use super::matrix::{self, Csr, Problem, Stencil};
use crate::job::{ConstantArray, Job};
use crate::mpi::{self, bytes_of_mut};
use crate::partition::Partition;
use crate::redistribute::{self, Method, Transfer};

/// Two values of a symmetric pair may differ by this fraction: what text output rounds away.
const SYMMETRY: f64 = 1e-12;

/// A matrix as a job keeps it: three arrays, with global offsets and columns.
#[derive(Debug)]
pub(super) struct DistributedMatrix {
    pub(super) row_starts: ConstantArray<u64>,
    pub(super) columns: ConstantArray<u32>,
    pub(super) values: ConstantArray<f64>,
}

/// What the first rank knows of a matrix before it is distributed.
pub(super) enum Source {
    Stencil(Stencil),
    /// Read on rank 0; the others have an empty one.
    File(Csr),
}

impl Source {
    /// Reads and checks a matrix file on rank 0. Collective.
    pub(super) fn open(job: &Job, problem: &Problem) -> Result<Self, Error> {
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
    pub(super) fn size(&self, job: &Job) -> Result<(u64, u64), Error> {
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
    pub(super) fn new(
        job: &mut Job,
        source: Option<Source>,
        rows: u64,
        nonzeros: u64,
    ) -> Result<Self, Error> {
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

pub(super) fn inverse_diagonal(
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
