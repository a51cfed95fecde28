//! A stage of an iteration on one rank: its buffers, and what it does.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::Error;
use super::config::{Amount, Stage, StageKind};
use super::exchange::{Started, partners};
use crate::mpi::collective::BlockLayout;
use crate::mpi::{Communicator, Operation};
use crate::partition::Partition;

/// Tag of the messages of stages that exchange and wait.
const TAG: i32 = 1;

/// The operation of a stage, with what it works on.
#[derive(Debug)]
pub(super) enum Work {
    /// So many terms of a series.
    Pi {
        terms: u64,
    },
    MatVec(Box<MatVec>),
    PointToPoint {
        send: Vec<u8>,
        receive: Vec<u8>,
    },
    Start {
        identifier: u64,
        message: Arc<[u8]>,
    },
    Wait {
        identifier: u64,
    },
    Broadcast {
        buffer: Vec<u8>,
        root: usize,
    },
    Allgatherv {
        send: Vec<u8>,
        receive: Vec<u8>,
        layout: BlockLayout,
    },
    Reduce {
        send: Vec<u8>,
        receive: Vec<u8>,
        root: usize,
    },
    Allreduce {
        send: Vec<u8>,
        receive: Vec<u8>,
    },
    Write(Blocks),
    Read(Blocks),
    /// This rank does not take part.
    Nothing,
}

/// A product of a dense square matrix with a vector.
#[derive(Debug)]
pub(super) struct MatVec {
    matrix: Vec<f64>,
    vector: Vec<f64>,
    product: Vec<f64>,
}

/// A file that has no name any more, so that nothing is left of it however this process ends.
#[derive(Debug)]
pub(super) struct Blocks {
    file: File,
    block: Vec<u8>,
    /// After so many, it begins again.
    count: u64,
}

/// Zeros, if there is room for them.
fn zeros<T: Clone + Default>(len: u64) -> Result<Vec<T>, String> {
    let too_large = || format!("no memory for {len} elements of {} bytes", size_of::<T>());
    let len = usize::try_from(len).map_err(|_| too_large())?;
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(len).map_err(|_| too_large())?;
    buffer.resize(len, T::default());
    Ok(buffer)
}

impl Work {
    /// What a stage does on this rank, with files in that folder.
    pub(super) fn new(
        stage: &Stage,
        communicator: &Communicator,
        files: &Path,
    ) -> Result<Self, String> {
        let bytes = stage.message_bytes();
        let takes_part = |ranks| ranks == 0 || communicator.rank() < ranks;
        Ok(match stage.kind {
            StageKind::Pi => Self::Pi {
                terms: stage.granularity,
            },
            StageKind::MatVec => Self::MatVec(Box::new(MatVec::new(stage.granularity)?)),
            StageKind::PointToPoint => Self::PointToPoint {
                send: zeros(bytes)?,
                receive: zeros(bytes)?,
            },
            StageKind::StartPointToPoint { identifier } => Self::Start {
                identifier,
                message: zeros(bytes)?.into(),
            },
            StageKind::Wait { identifier } => Self::Wait { identifier },
            StageKind::Broadcast { root } => Self::Broadcast {
                buffer: zeros(bytes)?,
                root,
            },
            StageKind::Allgatherv => {
                let blocks = Partition::block(bytes, communicator.size());
                let len = |rank| blocks.range(rank).end - blocks.range(rank).start;
                let counts = (0..communicator.size()).map(len).map(usize::try_from);
                let counts = counts.collect::<Result<_, _>>();
                Self::Allgatherv {
                    send: zeros(len(communicator.rank()))?,
                    receive: zeros(bytes)?,
                    layout: BlockLayout::packed(counts.map_err(|_| "too many bytes".to_owned())?),
                }
            }
            StageKind::Reduce { root } => Self::Reduce {
                send: zeros(bytes)?,
                receive: zeros(if communicator.rank() == root {
                    bytes
                } else {
                    0
                })?,
                root,
            },
            StageKind::Allreduce => Self::Allreduce {
                send: zeros(bytes)?,
                receive: zeros(bytes)?,
            },
            StageKind::FileWrite { ranks } if takes_part(ranks) => {
                Self::Write(Blocks::new(stage, files)?)
            }
            StageKind::FileRead { ranks } if takes_part(ranks) => {
                let blocks = Blocks::new(stage, files)?;
                let written = (0..blocks.count).try_for_each(|index| blocks.write(index));
                written.map_err(|error| format!("{}: {error}", files.display()))?;
                Self::Read(blocks)
            }
            StageKind::FileWrite { .. } | StageKind::FileRead { .. } => Self::Nothing,
        })
    }

    /// The operation, once. Collective where it communicates.
    pub(super) fn operate(
        &mut self,
        communicator: &Communicator,
        started: &mut Started,
        index: u64,
    ) -> Result<(), Error> {
        match self {
            Self::Pi { terms } => {
                black_box(pi(*terms));
            }
            Self::MatVec(product) => product.compute(),
            Self::PointToPoint { send, receive } => {
                let (to, from) = partners(communicator);
                communicator.send_receive((send, to, TAG), (receive, from, TAG))?;
            }
            Self::Start {
                identifier,
                message,
            } => started.start(communicator, *identifier, message)?,
            Self::Wait { identifier } => started.wait(*identifier, None)?,
            Self::Broadcast { buffer, root } => communicator.broadcast(buffer, *root)?,
            Self::Allgatherv {
                send,
                receive,
                layout,
            } => communicator.all_gather_v(send, receive, layout)?,
            Self::Reduce {
                send,
                receive,
                root,
            } => communicator.reduce(send, receive, Operation::Maximum, *root)?,
            Self::Allreduce { send, receive } => {
                communicator.all_reduce_into(send, receive, Operation::Maximum)?;
            }
            Self::Write(blocks) => blocks.write(index)?,
            Self::Read(blocks) => blocks.read(index)?,
            Self::Nothing => {}
        }
        Ok(())
    }
}

/// π by the midpoint rule for 4 / (1 + x²), with so many terms.
fn pi(terms: u64) -> f64 {
    let width = 1.0 / terms as f64;
    let sum: f64 = (0..terms)
        .map(|term| {
            let x = width * (term as f64 + 0.5);
            4.0 / (1.0 + x * x)
        })
        .sum();
    width * sum
}

impl MatVec {
    fn new(order: u64) -> Result<Self, String> {
        let elements = order
            .checked_mul(order)
            .ok_or_else(|| format!("no memory for a matrix of order {order}"))?;
        let mut matrix: Vec<f64> = zeros(elements)?;
        let mut index = 0.0;
        for element in &mut matrix {
            *element = index;
            index += 1e-9;
        }
        let mut vector = zeros(order)?;
        vector.fill(1.0);
        Ok(Self {
            matrix,
            vector,
            product: zeros(order)?,
        })
    }

    fn compute(&mut self) {
        const LANES: usize = 8;
        let rows = self.matrix.chunks_exact(self.vector.len().max(1));
        for (product, row) in self.product.iter_mut().zip(rows) {
            let (row, row_rest) = row.as_chunks::<LANES>();
            let (vector, vector_rest) = self.vector.as_chunks::<LANES>();
            let mut sums = [0.0; LANES];
            for (a, x) in row.iter().zip(vector) {
                for lane in 0..LANES {
                    sums[lane] += a[lane] * x[lane];
                }
            }
            let rest = row_rest.iter().zip(vector_rest).map(|(a, x)| a * x);
            *product = sums.iter().sum::<f64>() + rest.sum::<f64>();
        }
        black_box(&mut self.product);
    }
}

impl Blocks {
    fn new(stage: &Stage, folder: &Path) -> Result<Self, String> {
        let told = |error: io::Error| format!("{}: {error}", folder.display());
        let count = match stage.amount() {
            Amount::Operations(count) => count,
            // The same block again and again: the time is given, not the size.
            Amount::OperationTime { .. } | Amount::Until { .. } => 1,
        };
        Ok(Self {
            file: unnamed(folder).map_err(told)?,
            block: zeros(stage.message_bytes())?,
            count: count.max(1),
        })
    }

    fn place(&self, index: u64) -> u64 {
        (index % self.count) * self.block.len() as u64
    }

    fn write(&self, index: u64) -> io::Result<()> {
        self.file.write_all_at(&self.block, self.place(index))
    }

    fn read(&mut self, index: u64) -> io::Result<()> {
        let place = self.place(index);
        self.file.read_exact_at(&mut self.block, place)
    }
}

/// A new file without a name.
fn unnamed(folder: &Path) -> io::Result<File> {
    for attempt in 0_u32.. {
        let name = format!(".malleus-synthetic-{}-{attempt}", std::process::id());
        let path = folder.join(name);
        let mut options = File::options();
        match options.read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                std::fs::remove_file(path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// How often a stage's operation runs in an iteration of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Repetition {
    Times(u64),
    /// Until so many seconds have passed.
    Until(f64),
}

/// A stage, ready to run in a group.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) kind: StageKind,
    pub(super) work: Work,
    pub(super) repetition: Repetition,
}

impl Ready {
    /// The stage, once. Collective where it communicates.
    pub(super) fn run(
        &mut self,
        communicator: &Communicator,
        started: &mut Started,
    ) -> Result<(), Error> {
        match (self.repetition, &mut self.work) {
            (_, Work::Nothing) => Ok(()),
            (Repetition::Until(limit_s), Work::Wait { identifier }) => {
                Ok(started.wait(*identifier, Some(limit_s))?)
            }
            (Repetition::Times(count), work) => {
                (0..count).try_for_each(|index| work.operate(communicator, started, index))
            }
            (Repetition::Until(limit_s), work) => {
                let begun = Instant::now();
                for index in 0.. {
                    work.operate(communicator, started, index)?;
                    let mut over = [u8::from(begun.elapsed().as_secs_f64() >= limit_s)];
                    if !self.kind.is_file() {
                        communicator.broadcast(&mut over, 0)?;
                    }
                    if over[0] == 1 {
                        break;
                    }
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_is_that_of_pi() {
        assert!((pi(100_000) - std::f64::consts::PI).abs() < 1e-9);
    }

    #[test]
    fn the_product_is_right() {
        let mut product = MatVec::new(19).unwrap();
        product.matrix.fill(0.5);
        product.vector[3] = 5.0;
        product.compute();
        assert!(
            product
                .product
                .iter()
                .all(|&sum| (sum - 11.5).abs() < 1e-12)
        );
        MatVec::new(u64::MAX).unwrap_err();
        MatVec::new(0).unwrap().compute();
    }

    #[test]
    fn files_have_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = unnamed(folder.path()).unwrap();
        file.write_all_at(b"x", 3).unwrap();
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        unnamed(&folder.path().join("missing")).unwrap_err();
    }
}
