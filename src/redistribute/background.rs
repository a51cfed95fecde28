//! Redistributions that go on while the application does: paper R's strategies Threading, Non-blocking and Wait
//! Targets (sections II.B and III.B).
//!
//! What moves is constant: the application may read it meanwhile, and nobody writes it. So an operation holds
//! the sources' blocks by [`Arc`], and owns the targets' new ones.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::pace::Pace;
use super::plan::Plan;
use super::variant::{Completion, Strategy, Variant};
use super::wait_targets::{Transport, WaitTargets};
use super::{Bytes, Error, Method, Role, Times, bytes, check_length, layouts, point_to_point};
use crate::memory::Block;
use crate::mpi::request::{OwnedPieces, OwnedRequest, Request};
use crate::mpi::thread::ThreadCommunicator;
use crate::mpi::window::Reading;
use crate::mpi::{self, Communicator};
use crate::partition::Partition;

/// One array's move, as one rank sees it.
#[derive(Debug)]
pub struct Move {
    /// Who owns what before.
    pub from: Partition,
    /// Who owns what after.
    pub to: Partition,
    /// Bytes of an element.
    pub element_size: usize,
    /// This rank's block before; empty on a rank that is no source.
    pub source: Arc<Block>,
    /// This rank's block after; empty on a rank that is no target.
    pub target: Block,
}

/// A redistribution that goes on. [`Background::finish`] gives the new blocks.
///
/// Its tests never wait on a source, nor make a blocking collective call. They may say that everything is there in
/// different iterations on different ranks; [`Background::finish`] is collective, and belongs where all ranks
/// are: where they have agreed, with a collective of the application for example.
#[derive(Debug)]
#[must_use = "test or finish it"]
pub struct Background {
    flow: Flow,
    begun: Instant,
}

#[derive(Debug)]
enum Flow {
    NonBlocking(Flight),
    WaitTargets(WaitTargets<Flight>),
    Threading(JoinHandle<Result<Moved, Error>>),
    Done(Moved),
}

/// What a redistribution brings.
type Moved = (Vec<Block>, Times);

impl Background {
    /// Starts to move arrays. Collective over the communicator, of sources and targets; blocking until
    /// windows are created (Init_RMA), or the communicator is duplicated for the helper threads. A rank that is only
    /// a target of a threaded variant does its part here.
    ///
    /// # Errors
    ///
    /// [`Error::NotInBackground`] for a blocking variant; [`Error::ThreadLevel`] for a threaded one where MPI has less
    /// than `MPI_THREAD_MULTIPLE`; [`Error::Plan`] and [`Error::Length`] for arguments that do not fit together, on
    /// this rank before any communication; the MPI error otherwise.
    pub fn start(
        communicator: &Communicator,
        variant: Variant,
        moves: Vec<Move>,
    ) -> Result<Self, Error> {
        let begun = Instant::now();
        let rank = communicator.rank();
        let prepared = moves
            .into_iter()
            .map(|moved| Prepared::new(moved, rank))
            .collect::<Result<Vec<_>, _>>()?;
        let role = prepared
            .first()
            .map_or(Role::SourceOnly, |first| first.role);
        let flow = match (variant.strategy(), variant.method()) {
            (Strategy::Blocking, _) => return Err(Error::NotInBackground { variant }),
            (Strategy::NonBlocking, method) => {
                Flow::NonBlocking(Flight::start(communicator, method, prepared, None)?)
            }
            (strategy @ (Strategy::WaitTargets | Strategy::Paced), method) => {
                // A rank that only sends has requests as well, unless others read from it.
                let role = match (method, role) {
                    (Method::Collective | Method::PointToPoint, Role::SourceOnly) => Role::Both,
                    (_, role) => role,
                };
                let pace = (strategy == Strategy::Paced).then(Pace::default);
                let transport = Flight::start(communicator, method, prepared, pace)?;
                Flow::WaitTargets(WaitTargets::begin(role, transport)?)
            }
            (Strategy::Threading(completion), method) => {
                let environment = communicator.environment();
                let multiple = environment.multiple().ok_or(Error::ThreadLevel)?;
                let own = communicator.for_thread(&multiple)?;
                let helper = move || in_thread(own, method, completion, prepared);
                if role == Role::TargetOnly {
                    Flow::Done(helper()?)
                } else {
                    Flow::Threading(std::thread::spawn(helper))
                }
            }
        };
        Ok(Self { flow, begun })
    }

    /// Whether everything is there. Blocks on a rank that is only a target, but for NB. [`Strategy::Paced`] takes the time
    /// between two tests for an iteration.
    ///
    /// # Errors
    ///
    /// The MPI error, after which the operation can't go on.
    pub fn test(&mut self) -> Result<bool, Error> {
        match &mut self.flow {
            Flow::NonBlocking(flight) => flight.test_reads(),
            Flow::WaitTargets(flow) => flow.test(),
            Flow::Threading(helper) => Ok(helper.is_finished()),
            Flow::Done(_) => Ok(true),
        }
    }

    /// Waits until everything is there, frees the windows, and gives the new blocks, in the order of the moves, with
    /// the times of the stages on this rank. Collective and blocking.
    ///
    /// # Errors
    ///
    /// As for [`Background::test`]; [`Error::Helper`] where a helper thread panicked.
    pub fn finish(self) -> Result<(Vec<Block>, Times), Error> {
        let (blocks, mut times) = match self.flow {
            Flow::NonBlocking(mut flight) => {
                flight.release()?;
                flight.moved()
            }
            Flow::WaitTargets(mut flow) => {
                flow.finish()?;
                flow.transport.moved()
            }
            // These have measured their stages themselves.
            Flow::Threading(helper) => return helper.join().map_err(|_| Error::Helper)?,
            Flow::Done(moved) => return Ok(moved),
        };
        let spent = times.expose + times.release;
        times.transfer = self.begun.elapsed().saturating_sub(spent);
        Ok((blocks, times))
    }
}

/// A move with its plan.
#[derive(Debug)]
struct Prepared {
    role: Role,
    sends: Vec<Bytes>,
    receives: Vec<Bytes>,
    source: Arc<Block>,
    target: Block,
}

impl Prepared {
    fn new(moved: Move, rank: usize) -> Result<Self, Error> {
        let Move {
            from,
            to,
            element_size,
            source,
            target,
        } = moved;
        check_length("source", source.len(), &from, rank, element_size)?;
        check_length("target", target.len(), &to, rank, element_size)?;
        Ok(Self {
            role: Role::of(rank, &from, &to),
            sends: bytes(&Plan::for_source(&from, &to, rank)?, element_size),
            receives: bytes(&Plan::for_target(&from, &to, rank)?, element_size),
            source,
            target,
        })
    }
}

/// The move of one array that goes on: it owns both blocks.
#[derive(Debug)]
enum Part {
    Collective(OwnedRequest<(Arc<Block>, Block)>),
    Messages(OwnedPieces<Arc<Block>, Block>),
    Reads(Reads),
}

/// A window, and the reads from it.
type Reader = Reading<Arc<Block>, Block>;

impl Part {
    fn test(&mut self) -> mpi::Result<bool> {
        match self {
            Self::Collective(request) => request.test(),
            Self::Messages(pieces) => pieces.test(),
            Self::Reads(reads) => reads.reader.test(),
        }
    }

    fn wait(&mut self) -> mpi::Result<()> {
        match self {
            Self::Collective(request) => request.complete(),
            Self::Messages(pieces) => pieces.wait(),
            Self::Reads(reads) => reads.reader.wait(),
        }
    }

    /// Collective where there is a window; blocking.
    fn take(self) -> mpi::Result<(Arc<Block>, Block)> {
        match self {
            Self::Collective(request) => request.wait(),
            Self::Messages(pieces) => pieces.finish(),
            Self::Reads(reads) => reads.reader.free(),
        }
    }
}

/// The moves of all arrays.
#[derive(Debug)]
struct Flight {
    communicator: Communicator,
    parts: Vec<Part>,
    barrier: Option<Request<'static>>,
    /// What was taken. The sources' blocks are dropped last: it takes time that is none of the stages.
    taken: Vec<(Arc<Block>, Block)>,
    times: Times,
    /// Of reads that are not all started at once.
    pace: Option<Pace>,
}

impl Flight {
    /// Starts all moves; Init_RMA and the reads, where the method is one-sided.
    fn start(
        communicator: &Communicator,
        method: Method,
        moves: Vec<Prepared>,
        pace: Option<Pace>,
    ) -> Result<Self, Error> {
        let mut times = Times::default();
        let mut start = |moved: Prepared| {
            let (sends, receives) = (&moved.sends, &moved.receives);
            Ok(match method {
                Method::Collective => {
                    let (sends, receives) = layouts(communicator.size(), sends, receives);
                    let (source, target) = (moved.source, moved.target);
                    Part::Collective(communicator.iall_to_all_v(source, &sends, target, &receives)?)
                }
                Method::PointToPoint => {
                    let (source, target) = (moved.source, moved.target);
                    Part::Messages(point_to_point::start(
                        communicator,
                        sends,
                        source,
                        receives,
                        target,
                    )?)
                }
                Method::RmaLock | Method::RmaLockAll => {
                    let (mut reads, exposed) = Reads::open(communicator, method, moved)?;
                    times.expose += exposed;
                    if pace.is_none() {
                        reads.start(usize::MAX, Reading::read)?;
                    }
                    Part::Reads(reads)
                }
            })
        };
        let parts = moves.into_iter().map(&mut start);
        let parts = parts.collect::<mpi::Result<_>>()?;
        Ok(Self {
            communicator: communicator.clone(),
            parts,
            barrier: None,
            taken: Vec::new(),
            times,
            pace,
        })
    }

    fn moved(self) -> Moved {
        let blocks = self.taken.into_iter().map(|(_source, target)| target);
        (blocks.collect(), self.times)
    }
}

impl Transport for Flight {
    type Error = Error;

    fn test_reads(&mut self) -> Result<bool, Error> {
        // Every one is tested, since a test is what makes progress.
        let mut all = true;
        for part in &mut self.parts {
            all &= part.test()?;
        }
        if let Some(pace) = &mut self.pace {
            let mut budget = pace.next(Instant::now(), all);
            for part in &mut self.parts {
                if let Part::Reads(reads) = part {
                    let started = reads.start(budget, Reading::read)?;
                    budget -= started;
                    all &= started == 0 && reads.rest.is_empty();
                }
            }
        }
        Ok(all)
    }

    fn wait_reads(&mut self) -> Result<(), Error> {
        for part in &mut self.parts {
            if let Part::Reads(reads) = part {
                reads.start(usize::MAX, Reading::read)?;
            }
        }
        for part in &mut self.parts {
            part.wait()?;
        }
        Ok(())
    }

    fn start_barrier(&mut self) -> Result<(), Error> {
        self.barrier = Some(self.communicator.ibarrier()?);
        Ok(())
    }

    fn test_barrier(&mut self) -> Result<bool, Error> {
        // A source that reads nothing makes progress here for those that read from it.
        match &mut self.barrier {
            Some(barrier) => Ok(barrier.test()?),
            None => Ok(true),
        }
    }

    fn wait_barrier(&mut self) -> Result<(), Error> {
        match self.barrier.take() {
            Some(barrier) => Ok(barrier.wait()?),
            None => Ok(()),
        }
    }

    fn release(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        for part in self.parts.drain(..) {
            self.taken.push(part.take()?);
        }
        self.times.release = begun.elapsed();
        Ok(())
    }
}

/// How a read is started: [`Reading::read`] or [`Reading::get`].
type Read = fn(&mut Reader, usize, u64, Range<usize>) -> mpi::Result<()>;

/// A window, its epoch, and the reads of an array.
#[derive(Debug)]
struct Reads {
    reader: Reader,
    method: Method,
    /// Those that are still to be started, in order.
    rest: VecDeque<Bytes>,
    /// A part of the first of them is started, so that its source is locked.
    is_locked: bool,
}

impl Reads {
    /// Init_RMA without its reads, with the time that the window took. Collective and blocking.
    fn open(
        communicator: &Communicator,
        method: Method,
        moved: Prepared,
    ) -> mpi::Result<(Self, Duration)> {
        let begun = Instant::now();
        let mut reader = Reading::create(communicator, moved.source, moved.target, None)?;
        let exposed = begun.elapsed();
        if method == Method::RmaLockAll && !moved.receives.is_empty() {
            reader.lock_all()?;
        }
        let reads = Self {
            reader,
            method,
            rest: moved.receives.into(),
            is_locked: false,
        };
        Ok((reads, exposed))
    }

    /// Starts reads of so many bytes at most, and tells of how many. What this rank reads from itself is copied here.
    fn start(&mut self, budget: usize, read: Read) -> mpi::Result<usize> {
        let mut started = 0;
        while started < budget
            && let Some(piece) = self.rest.pop_front()
        {
            if self.method == Method::RmaLock && !self.is_locked {
                self.reader.lock(piece.peer)?;
            }
            let len = piece.len.min(budget - started);
            let into = piece.target_offset..piece.target_offset + len;
            let from = piece.source_offset as u64;
            read(&mut self.reader, piece.peer, from, into)?;
            started += len;
            self.is_locked = len < piece.len;
            if self.is_locked {
                self.rest.push_front(Bytes {
                    source_offset: piece.source_offset + len,
                    target_offset: piece.target_offset + len,
                    len: piece.len - len,
                    ..piece
                });
            }
        }
        Ok(started)
    }
}

/// The whole algorithm, on a helper thread of a source, or on a target.
fn in_thread(
    own: ThreadCommunicator,
    method: Method,
    completion: Completion,
    moves: Vec<Prepared>,
) -> Result<Moved, Error> {
    let communicator = own.communicator();
    let mut times = Times::default();
    let mut blocks = Vec::with_capacity(moves.len());
    for mut moved in moves {
        let begun = Instant::now();
        if method == Method::Collective {
            let (sends, receives) = layouts(communicator.size(), &moved.sends, &moved.receives);
            communicator.all_to_all_v(
                moved.source.as_bytes(),
                &sends,
                moved.target.as_bytes_mut(),
                &receives,
            )?;
            times.transfer += begun.elapsed();
            blocks.push(moved.target);
            continue;
        }
        let read = match completion {
            Completion::AtUnlock => Reading::get,
            Completion::Polled => Reading::read,
        };
        let (mut reads, exposed) = Reads::open(communicator, method, moved)?;
        reads.start(usize::MAX, read)?;
        let mut reader = reads.reader;
        times.expose += exposed;
        if completion == Completion::Polled {
            let mut pause = SHORTEST;
            while !reader.test()? {
                std::thread::sleep(pause);
                pause = (2 * pause).min(LONGEST);
            }
        }
        reader.unlock()?;
        times.transfer += begun.elapsed().saturating_sub(exposed);
        let freeing = Instant::now();
        let (_source, target) = reader.free()?;
        times.release += freeing.elapsed();
        blocks.push(target);
    }
    own.free()?;
    Ok((blocks, times))
}

/// How long a helper thread sleeps between two tests.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);
