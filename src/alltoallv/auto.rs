//! `Auto`: the variant that is the fastest for a plan's own counts.
//!
//! The machine's [`Table`] says which variants may be the fastest; where it names one, that is taken. Where it names
//! several, or knows nothing, each does the plan's exchange a few times, in turns, and the others are freed.

use std::time::{Duration, Instant};

use super::aggregated::Nodes;
use super::engine::{Engine, place};
use super::pieces::Pieces;
use super::table::{Entry, Shape, Table};
use super::{Buffers, Result, Variant};
use crate::mpi::collective::BlockLayout;
use crate::mpi::{self, Communicator, Element, Operation};

/// How long exchanges are tried at an init; a round that has begun is ended.
const TRIAL: Duration = Duration::from_millis(20);
/// Exchanges of each candidate before those that count, but for the last of them: the first two touch the memory.
const WARM_UP: usize = 3;
/// After its warm-up, a candidate that takes so many times as long as the best is out.
const HOPELESS: f64 = 4.0;
const MOST_ROUNDS: usize = 64;
/// At such a look, a candidate that takes so many times as long as the best is out.
const BEHIND: f64 = 1.25;

/// What is tried, on one node and where there are several.
const ON_ONE: [Variant; 6] = [
    Variant::Standard,
    Variant::StandardPersistent,
    Variant::Fence,
    Variant::Lock,
    Variant::Pscw,
    Variant::NodeShared,
];
const ON_SEVERAL: [Variant; 9] = [
    Variant::Standard,
    Variant::StandardPersistent,
    Variant::Fence,
    Variant::Lock,
    Variant::FenceHierarchical,
    Variant::LockHierarchical,
    Variant::Pscw,
    Variant::NodeShared,
    Variant::Aggregated,
];

/// What a plan's exchange is like. Collective.
fn shape<T: Element>(
    communicator: &Communicator,
    pieces: &Pieces,
    own: bool,
) -> mpi::Result<Shape> {
    let nodes = Nodes::find(communicator, pieces.places(communicator)?)?.count();
    let sent: usize = pieces.sends.iter().map(|piece| piece.count).sum();
    let counts = pieces.receive.counts();
    let received: usize = pieces.sources.iter().map(|&rank| counts[rank]).sum();
    let mut most = [
        pieces.sends.len().max(pieces.sources.len()) as u64,
        (sent.max(received) * size_of::<T>()) as u64,
        (pieces.own.map_or(0, |own| own.count) * size_of::<T>()) as u64,
    ];
    communicator.all_reduce(&mut most, Operation::Maximum)?;
    Ok(Shape {
        ranks: communicator.size(),
        nodes,
        own,
        partners: place(most[0]),
        bytes: most[1],
        kept: most[2],
    })
}

fn tried(shape: &Shape) -> &'static [Variant] {
    if shape.nodes > 1 {
        &ON_SEVERAL
    } else {
        &ON_ONE
    }
}

/// What rank 0's table names. Collective.
fn named(communicator: &Communicator, shape: &Shape) -> mpi::Result<Vec<Variant>> {
    let tried = tried(shape);
    let mut bits = [0_u64];
    if communicator.rank() == 0 {
        let table = Table::read(&communicator.environment()).unwrap_or_else(|error| {
            tracing::warn!("the table of Alltoallv is left out: {error}");
            Table::default()
        });
        for variant in table.candidates(shape) {
            let at = tried.iter().position(|&one| one == variant);
            bits[0] |= at.map_or(0, |at| 1 << at);
        }
    }
    communicator.broadcast(&mut bits, 0)?;
    let named = tried.iter().enumerate();
    let named = named.filter(|(at, _)| bits[0] == 0 || bits[0] & (1 << at) != 0);
    Ok(named.map(|(_, &variant)| variant).collect())
}

/// The blocks of a buffer that exchanges write.
struct Saved<T> {
    blocks: Vec<(usize, Vec<T>)>,
}

impl<T: Element> Saved<T> {
    /// # Safety
    ///
    /// The layout fits the buffer, which nobody writes now.
    unsafe fn of(layout: &BlockLayout, buffer: *const T) -> Self {
        let blocks = (0..layout.counts().len()).map(|rank| layout.block(rank));
        let blocks = blocks.filter(|block| !block.is_empty()).map(|block| {
            // SAFETY: the caller's promise.
            let elements = unsafe { super::slice(buffer.add(block.start), block.len()) };
            (block.start, elements.to_vec())
        });
        Self {
            blocks: blocks.collect(),
        }
    }

    /// # Safety
    ///
    /// The same, and nobody else uses the buffer now.
    unsafe fn put_back(&self, buffer: *mut T) {
        for (start, elements) in &self.blocks {
            // SAFETY: the caller's promise.
            unsafe { super::slice_mut(buffer.add(*start), elements.len()) }
                .copy_from_slice(elements);
        }
    }
}

/// Gives what is sent pages of its own: as long as it was never written, all of it is the one page of zeros, which the
/// cache has.
///
/// # Safety
///
/// The pieces lie in the buffer, which may be written, and which nobody else uses now.
unsafe fn touch<T: Element>(pieces: &Pieces, send: *mut T) {
    const PAGE: usize = 4096;
    let step = PAGE.div_ceil(size_of::<T>());
    for piece in pieces.sends.iter().chain(&pieces.own) {
        let ends = [piece.count - 1];
        for at in (0..piece.count).step_by(step).chain(ends) {
            // SAFETY: the caller's promise; no piece is empty.
            unsafe {
                let element = send.add(piece.from + at);
                element.write_volatile(element.read_volatile());
            }
        }
    }
}

/// A variant that is tried.
struct Candidate<T: Element> {
    variant: Variant,
    engine: Engine<T>,
    /// Seconds of each round, the longest of any rank.
    times: Vec<f64>,
}

impl<T: Element> Candidate<T> {
    fn median(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::INFINITY)
    }
}

/// Memory that is written before each exchange: between two exchanges, an application works on other data, which takes
/// the place of the buffers in the cache. What is small comes back quickly.
struct Elsewhere(Vec<u64>);

impl Elsewhere {
    /// Exchanges that it matters to.
    const FROM: u64 = 256 << 10;
    /// The largest cache, where the system does not tell, and where it tells of a larger one.
    const CACHE: usize = 64 << 20;

    /// The ranks of a node write more than its largest cache holds.
    fn beside(shape: &Shape) -> Self {
        let on_node = shape.ranks.div_ceil(shape.nodes.max(1));
        let bytes = Self::cache().min(Self::CACHE) * 3 / 2 / on_node;
        let works = shape.bytes >= Self::FROM;
        Self(vec![0; if works { bytes / size_of::<u64>() } else { 0 }])
    }

    fn cache() -> usize {
        let sizes = (0..8).filter_map(|index| {
            let file = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
            let size = std::fs::read_to_string(file).ok()?;
            let kibibytes: usize = size.trim().strip_suffix('K')?.parse().ok()?;
            Some(kibibytes << 10)
        });
        sizes.max().unwrap_or(Self::CACHE)
    }

    /// Rounds between two looks at the times.
    fn rounds(&self) -> usize {
        if self.0.is_empty() { 8 } else { 5 }
    }

    fn work(&mut self) {
        for word in self.0.iter_mut().step_by(8) {
            *word = word.wrapping_add(1);
        }
        std::hint::black_box(&mut self.0);
    }
}

/// So many exchanges of each, in turns, the last ones of which count. Collective; the times are those of all ranks.
fn rounds<T: Element>(
    communicator: &Communicator,
    candidates: &mut [Candidate<T>],
    (rounds, counted): (usize, usize),
    elsewhere: &mut Elsewhere,
) -> mpi::Result<()> {
    let count = candidates.len();
    let mut times = vec![0.0; counted * count];
    for round in 0..rounds {
        for turn in 0..count {
            let at = (turn + round) % count;
            let engine = &mut candidates[at].engine;
            elsewhere.work();
            communicator.barrier()?;
            let begun = Instant::now();
            engine.start()?;
            engine.wait()?;
            if let Some(round) = (round + counted).checked_sub(rounds) {
                times[round * count + at] = begun.elapsed().as_secs_f64();
            }
        }
    }
    communicator.all_reduce(&mut times, Operation::Maximum)?;
    for (at, candidate) in candidates.iter_mut().enumerate() {
        candidate.times.extend(times[at..].iter().step_by(count));
    }
    Ok(())
}

/// Frees those that take more than so many times as long as the best. Collective: the times are the same on all ranks.
fn drop_slow<T: Element>(candidates: &mut Vec<Candidate<T>>, factor: f64) -> mpi::Result<()> {
    let best = candidates.iter().map(Candidate::median);
    let limit = factor * best.fold(f64::INFINITY, f64::min);
    let (kept, slow) = std::mem::take(candidates)
        .into_iter()
        .partition::<Vec<_>, _>(|candidate| candidate.median() <= limit);
    *candidates = kept;
    slow.into_iter()
        .try_for_each(|candidate| candidate.engine.free())
}

/// The variants with their times, the fastest last. Collective.
///
/// # Safety
///
/// As for [`Engine::new`]; the receive buffer is valid, though variants with memory of their own do not use it where the plan
/// makes its buffers.
unsafe fn race<T: Element>(
    communicator: &Communicator,
    pieces: &Pieces,
    buffers: Buffers<T>,
    shape: &Shape,
    variants: &[Variant],
    trial: Duration,
) -> Result<Vec<Candidate<T>>> {
    let mut candidates = Vec::new();
    for &variant in variants {
        let mut buffers = buffers;
        if shape.own && variant.has_own_memory() {
            buffers.receive = std::ptr::null_mut();
        }
        // SAFETY: the caller's promise; only one engine is at work at a time.
        let engine = unsafe { Engine::new(communicator, variant, pieces.clone(), buffers)? };
        candidates.push(Candidate {
            variant,
            engine,
            times: Vec::new(),
        });
    }
    if candidates.len() > 1 {
        let begun = Instant::now();
        let mut elsewhere = Elsewhere::beside(shape);
        rounds(communicator, &mut candidates, (WARM_UP, 1), &mut elsewhere)?;
        drop_slow(&mut candidates, HOPELESS)?;
        if candidates.len() > 1 {
            candidates
                .iter_mut()
                .for_each(|candidate| candidate.times.clear());
        }
        let mut done = 0;
        while candidates.len() > 1 && done < MOST_ROUNDS {
            let some = elsewhere.rounds();
            rounds(communicator, &mut candidates, (some, some), &mut elsewhere)?;
            done += some;
            let mut elapsed = [begun.elapsed().as_secs_f64()];
            communicator.all_reduce(&mut elapsed, Operation::Maximum)?;
            if elapsed[0] > trial.as_secs_f64() {
                break;
            }
            drop_slow(&mut candidates, BEHIND)?;
        }
    }
    candidates.sort_by(|a, b| b.median().total_cmp(&a.median()));
    Ok(candidates)
}

/// The fastest variant, at work. What the blocks of the receive buffer hold stays as it is. Collective.
///
/// # Safety
///
/// As for [`Engine::new`]. With `own`, the receive buffer is zero, and used by variants without memory of their own only.
pub(super) unsafe fn choose<T: Element>(
    communicator: &Communicator,
    pieces: &Pieces,
    buffers: Buffers<T>,
    own: bool,
) -> Result<(Variant, Engine<T>)> {
    let shape = shape::<T>(communicator, pieces, own)?;
    let variants = named(communicator, &shape)?;
    let tries = variants.len() > 1;
    if own && tries {
        // SAFETY: the layouts were checked against the buffers, which are the plan's.
        unsafe { touch(pieces, buffers.send) };
    }
    // SAFETY: the layout was checked against the buffer, which nobody uses yet.
    let saved = tries.then(|| unsafe { Saved::of(&pieces.receive, buffers.receive) });
    // SAFETY: the caller's promise.
    let candidates = unsafe { race(communicator, pieces, buffers, &shape, &variants, TRIAL)? };
    let mut fastest = None;
    for candidate in candidates {
        if let Some(slower) = fastest.replace(candidate) {
            slower.engine.free()?;
        }
    }
    let fastest = fastest.expect("every list of variants has some");
    // Where the application finds what it receives.
    let memory = if own {
        fastest.engine.memory()
    } else {
        buffers.receive
    };
    if let Some(saved) = saved {
        // SAFETY: the layout fits every memory that an engine makes for it, and what it was given. Others write it after
        // this rank's next start.
        unsafe { saved.put_back(memory) };
    }
    Ok((fastest.variant, fastest.engine))
}

/// What each variant takes that [`Variant::Auto`] considers, with buffers of a plan's own or of a caller. Collective and
/// blocking, for about so long.
///
/// # Errors
///
/// As for [`super::Plan::allocate`].
pub fn measure<T: Element>(
    communicator: &Communicator,
    send: &BlockLayout,
    receive: &BlockLayout,
    own: bool,
    trial: Duration,
) -> Result<Entry> {
    let (mut sent, mut received) = (super::buffer::<T>(send), super::buffer::<T>(receive));
    let lengths = (sent.len(), received.len());
    let pieces = Pieces::exchange(communicator, (send, lengths.0), (receive, lengths.1))?;
    let shape = shape::<T>(communicator, &pieces, own)?;
    let buffers = Buffers {
        send: sent.as_mut_ptr(),
        send_length: lengths.0,
        receive: received.as_mut_ptr(),
        receive_length: lengths.1,
    };
    // SAFETY: the pieces were checked against the buffers.
    unsafe { touch(&pieces, buffers.send) };
    // An error leaves engines behind that still use them.
    let kept = std::mem::ManuallyDrop::new((sent, received));
    let variants = tried(&shape);
    // SAFETY: the buffers are left where they are until every engine is freed.
    let candidates = unsafe { race(communicator, &pieces, buffers, &shape, variants, trial)? };
    let mut times = Vec::new();
    for candidate in candidates.into_iter().rev() {
        times.push((candidate.variant, candidate.median()));
        candidate.engine.free()?;
    }
    drop(std::mem::ManuallyDrop::into_inner(kept));
    Ok(Entry { shape, times })
}
