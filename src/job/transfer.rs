//! Stage 3: sources and targets learn what goes where, and every target gets its blocks.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::array::{Description, Stored};
use super::background::{self, Landed, Opening};
use super::error::Error;
use super::parking::Meeting;
use super::registered::{EntryMut, Registered};
use super::roster::{Change, Roster};
use super::verify::checksum;
use super::{Result, map};
use crate::memory::{Arena, Block};
use crate::mpi::{Communicator, Operation, TypeMap};
use crate::partition::Partition;
use crate::redistribute::plan::{Plan, kept_elements, moved_elements};
use crate::redistribute::{self, Times, Transfer, Variant};

/// What the root tells sources and targets at the start of stage 3.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// These arrays move while the application goes on; another message follows at the switch.
    Background(Box<Opening>),
    Go(Box<Header>),
    Abandon(String),
}

/// Everything that a target has to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) iteration: u64,
    pub(super) variant: Variant,
    pub(super) verify: bool,
    pub(super) lean: bool,
    pub(super) change: Change,
    pub(super) roster: Roster,
    pub(super) arrays: Vec<Move>,
    pub(super) values: Vec<Value>,
    /// Resizes that were asked for meanwhile.
    pub(super) queue: Vec<usize>,
    /// Where those that park connect to.
    pub(super) meeting: Option<Meeting>,
}

/// An array and where it goes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Move {
    pub(super) before: Description,
    pub(super) to: Partition,
}

impl Move {
    pub(super) fn after(&self) -> Description {
        Description {
            partition: self.to.clone(),
            ..self.before.clone()
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Value {
    pub(super) name: String,
    pub(super) type_map: TypeMap,
    pub(super) bytes: Vec<u8>,
}

/// New blocks of all arrays, in the order of the header; `None` where a lean resize has already put the
/// block into its array.
pub(super) type Blocks = (Arena, Vec<Option<Block>>);

/// Tells sources and targets how stage 3 begins. Collective; everybody gets rank 0's message.
pub(super) fn announce(union: &Communicator, message: Option<&Message>) -> Result<Message> {
    let mut text = match message {
        Some(message) if union.rank() == 0 => serde_json::to_vec(message)?,
        _ => Vec::new(),
    };
    union.broadcast_bytes(&mut text, 0)?;
    Ok(serde_json::from_slice(&text)?)
}

/// What a process that was recalled can't receive, since it has never registered it: it slept then.
pub(super) fn lacking(header: &Header, registered: &mut [&mut dyn Registered]) -> Option<String> {
    let arrays = header.arrays.iter().map(|moved| &moved.before.name);
    let name = arrays
        .chain(header.values.iter().map(|value| &value.name))
        .find(|name| find(registered, name).is_none())?;
    Some(format!("{name:?} was registered while this process slept"))
}

/// Stage 3 on a process that is only a target; `None` where the resize is abandoned. `problem` tells why
/// this process can't take part.
pub(super) fn receive(
    union: &Communicator,
    problem: impl FnOnce(&Header) -> Option<String>,
) -> Result<Option<(Header, Blocks)>> {
    let mut landed = Landed::default();
    let header = loop {
        match announce(union, None)? {
            Message::Background(opening) => match background::receive(union, *opening)? {
                Some(arrays) => landed = arrays,
                None => return Ok(None),
            },
            Message::Go(header) => break *header,
            Message::Abandon(reason) => {
                tracing::info!(reason, "resize abandoned");
                return Ok(None);
            }
        }
    };
    let mut old: Vec<Option<&mut Stored>> = header.arrays.iter().map(|_| None).collect();
    let problem = problem(&header);
    match move_all(union, &header, &mut old, landed, problem) {
        Ok((blocks, _times)) => Ok(Some((header, blocks))),
        Err(error) if error.leaves_job_whole() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Moves all arrays that have not come in the background. Collective over sources and targets, who all get the same
/// kind of result.
pub(super) fn move_all(
    union: &Communicator,
    header: &Header,
    old: &mut [Option<&mut Stored>],
    mut landed: Landed,
    problem: Option<String>,
) -> Result<(Blocks, Times)> {
    let rank = union.rank();
    let (from, to) = (header.from, header.to);
    let allocated = allocate(header, &mut landed, rank);
    let problem = problem.or_else(|| allocated.as_ref().err().map(ToString::to_string));
    if let Some((rank, problem)) = union.agree(problem)? {
        return Err(Error::Abandoned {
            from,
            to,
            reason: format!("rank {rank}: {problem}"),
        });
    }
    let (arena, mut blocks) = allocated?;
    let mut times = Times::default();
    let mut first_bad: Option<(&str, usize)> = None;
    for (position, (moved, stored)) in header.arrays.iter().zip(old).enumerate() {
        let name = &moved.before.name;
        let block = blocks[position].as_mut().expect("it is not placed yet");
        let expected = match landed.arrays.remove(name) {
            Some(arrived) => arrived.expected,
            None => {
                let source = stored.as_mut().map_or(&mut [][..], |stored| {
                    stored.withdraw();
                    stored.bytes_mut()
                });
                let expected = if header.verify {
                    Some(expected_checksums(union, moved, source)?)
                } else {
                    None
                };
                let transfer = Transfer {
                    from: &moved.before.partition,
                    to: &moved.to,
                    element_size: moved.before.type_map.extent(),
                    source,
                    target: block.as_bytes_mut(),
                };
                times += redistribute::array(union, header.variant.method(), transfer)?;
                tracing::debug!(array = name, "moved");
                expected
            }
        };
        if let Some(expected) = expected {
            let bad = block_differs(moved, rank, block, &expected);
            if let Some((rank, _)) = union.agree(bad.then(String::new))? {
                if header.lean && position > 0 {
                    return Err(Error::Lost {
                        from,
                        to,
                        array: name.clone(),
                        rank,
                    });
                }
                first_bad.get_or_insert((name, rank));
            }
        }
        if header.lean {
            if let Some((name, rank)) = first_bad {
                return Err(Error::Verification {
                    from,
                    to,
                    array: name.to_owned(),
                    rank,
                });
            }
            // Nobody reads the old block any more: the move of an array ends with a synchronization in
            // its one-sided forms; the collective one has sent what it had to.
            if let Some(stored) = stored {
                let block = blocks[position].take().expect("it is not placed yet");
                if let Some(old) = stored.replace(block) {
                    old.release()?;
                }
            }
        }
    }
    if let Some((name, rank)) = first_bad {
        return Err(Error::Verification {
            from,
            to,
            array: name.to_owned(),
            rank,
        });
    }
    // Every target has its data.
    union.barrier()?;
    Ok(((arena, blocks), times))
}

/// Maps this rank's new blocks, but for those that have come already.
fn allocate(header: &Header, landed: &mut Landed, rank: usize) -> Result<Blocks> {
    let arena = match landed.arena.take() {
        Some(arena) => arena,
        None => Arena::new("malleus")?,
    };
    let blocks = header
        .arrays
        .iter()
        .map(|moved| match landed.arrays.get_mut(&moved.before.name) {
            Some(arrived) => Ok(arrived.block.take()),
            None => map(&arena, &moved.after(), rank).map(Some),
        })
        .collect::<Result<_>>()?;
    Ok((arena, blocks))
}

/// The checksum that each target's block must have, from the sources' data. Collective.
pub(super) fn expected_checksums(
    union: &Communicator,
    moved: &Move,
    source: &[u8],
) -> Result<Vec<u64>> {
    let (from, rank, size) = (
        &moved.before.partition,
        union.rank(),
        moved.before.type_map.extent(),
    );
    let mut sums = vec![0_u64; moved.to.ranks()];
    let plan = Plan::for_source(from, &moved.to, rank).map_err(redistribute::Error::from)?;
    for piece in plan.pieces() {
        let index = |elements: u64| usize::try_from(elements).expect("part of a block") * size;
        let start = index(piece.source_offset);
        let part = &source[start..start + index(piece.len)];
        let first = from.range(rank).start + piece.source_offset;
        sums[piece.peer] = sums[piece.peer].wrapping_add(checksum(part, size, first));
    }
    union.all_reduce(&mut sums, Operation::Sum)?;
    Ok(sums)
}

pub(super) fn block_differs(moved: &Move, rank: usize, block: &Block, expected: &[u64]) -> bool {
    let found = || {
        checksum(
            block.as_bytes(),
            moved.before.type_map.extent(),
            moved.to.range(rank).start,
        )
    };
    expected
        .get(rank)
        .is_some_and(|&expected| found() != expected)
}

/// Puts what a rank has after a resize into the application's arrays and values.
pub(super) fn adopt(
    header: &Header,
    arena: Arena,
    blocks: Vec<Option<Block>>,
    registered: &mut [&mut dyn Registered],
    rank: usize,
    current: &mut Arena,
) -> Result<()> {
    for ((moved, stored), block) in header
        .arrays
        .iter()
        .zip(stored_of(header, registered))
        .zip(blocks)
    {
        let stored = stored.expect("the set was checked");
        if let Some(block) = block {
            stored.replace(block);
        }
        stored.become_part(moved.after(), moved.to.range(rank));
    }
    for value in &header.values {
        if let Some(EntryMut::Value { bytes, .. }) = find(registered, &value.name) {
            bytes.copy_from_slice(&value.bytes);
        }
    }
    *current = arena;
    registered.iter_mut().try_for_each(|one| one.unpack())
}

/// The application's arrays in the order of the header.
pub(super) fn stored_of<'a>(
    header: &Header,
    registered: &'a mut [&mut dyn Registered],
) -> Vec<Option<&'a mut Stored>> {
    let mut by_name: HashMap<String, &'a mut Stored> = registered
        .iter_mut()
        .flat_map(|one| one.entries())
        .filter_map(|entry| match entry {
            EntryMut::Array(stored) => Some((stored.description.name.clone(), stored)),
            EntryMut::Value { .. } => None,
        })
        .collect();
    header
        .arrays
        .iter()
        .map(|moved| by_name.remove(&moved.before.name))
        .collect()
}

pub(super) fn find<'a>(
    registered: &'a mut [&mut dyn Registered],
    name: &str,
) -> Option<EntryMut<'a>> {
    registered
        .iter_mut()
        .flat_map(|one| one.entries())
        .find(|entry| name_of(entry) == name)
}

pub(super) fn name_of<'a>(entry: &'a EntryMut<'_>) -> &'a str {
    match entry {
        EntryMut::Array(stored) => &stored.description.name,
        EntryMut::Value { name, .. } => name,
    }
}

pub(super) fn moved_bytes(header: &Header) -> Result<u64> {
    sum_bytes(header, moved_elements)
}

pub(super) fn kept_bytes(header: &Header) -> Result<u64> {
    sum_bytes(header, kept_elements)
}

pub(super) fn sum_bytes(
    header: &Header,
    elements: fn(&Partition, &Partition) -> std::result::Result<u64, redistribute::plan::Error>,
) -> Result<u64> {
    header.arrays.iter().try_fold(0, |sum, moved| {
        let elements =
            elements(&moved.before.partition, &moved.to).map_err(redistribute::Error::from)?;
        Ok(sum + elements * moved.before.type_map.extent() as u64)
    })
}
