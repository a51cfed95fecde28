//! Which pages of an array change their owner in a resize, and which are copied: the arithmetic of a redistribution that
//! maps pages.
//!
//! Every process keeps its block of an array in a file in which byte `b` of the whole array lies at the array's base plus
//! `b` ([`crate::memory`]). A page that lies inside one source's block and inside one target's block is *adopted*: the
//! target maps the file that it is in, and nothing moves. Every other page is copied, by each target that needs some of it,
//! into that target's own new file. So a block is a row of [`Extent`]s, and a page has exactly one owner.
//!
//! ```
//! use malleus::partition::Partition;
//! use malleus::redistribute::adoption::{Adoption, Way};
//!
//! // 10,001 elements of 8 bytes, from three sources to two targets: pages 6, 9 and 13 have a seam.
//! let (three, two) = (Partition::block(10_001, 3), Partition::block(10_001, 2));
//! let adoption = Adoption::new(&three, &two, 8, 4096)?;
//! let runs = adoption.runs(0);
//! let told: Vec<_> = runs.iter().map(|run| (run.way, run.source, run.bytes.clone())).collect();
//! assert_eq!(told, [
//!     (Way::Adopt, 0, 0..6 * 4096),
//!     (Way::Copy, 0, 6 * 4096..26_672),
//!     (Way::Copy, 1, 26_672..7 * 4096),
//!     (Way::Adopt, 1, 7 * 4096..9 * 4096),
//!     (Way::Copy, 1, 9 * 4096..40_008),
//! ]);
//! # Ok::<(), malleus::redistribute::plan::Error>(())
//! ```

use std::ops::Range;

use super::plan::{Error, Plan};
use crate::partition::Partition;

/// Blocks of fewer pages are copied: to map them costs more.
const FEWEST_PAGES: u64 = 2;
/// A block of more extents, or in more files, is copied as a whole.
pub const MOST_EXTENTS: usize = 64;

/// How a run of bytes comes to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Its pages change their owner.
    Adopt,
    /// It is copied into the target's own file.
    Copy,
}

/// Bytes that come to a target in one way from one source, counted from the start of the whole array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// How.
    pub way: Way,
    /// The source that holds them.
    pub source: usize,
    /// Which.
    pub bytes: Range<u64>,
}

/// What becomes of the pages of one array in a resize.
#[derive(Clone, Debug)]
pub struct Adoption<'a> {
    from: &'a Partition,
    to: &'a Partition,
    element: u64,
    page: u64,
}

impl<'a> Adoption<'a> {
    /// For elements of so many bytes, and pages of so many.
    ///
    /// # Errors
    ///
    /// [`Error::LengthsDiffer`] if the partitions are not of one length.
    ///
    /// # Panics
    ///
    /// If elements or pages have no bytes.
    pub fn new(
        from: &'a Partition,
        to: &'a Partition,
        element: u64,
        page: u64,
    ) -> Result<Self, Error> {
        assert!(element > 0 && page > 0, "sizes of elements and pages");
        Plan::for_target(from, to, 0)?;
        Ok(Self {
            from,
            to,
            element,
            page,
        })
    }

    /// The bytes of a block.
    fn bytes(&self, partition: &Partition, rank: usize) -> Range<u64> {
        let elements = partition.range(rank);
        elements.start * self.element..elements.end * self.element
    }

    /// The whole pages inside a range: the array's last page is whole where the array ends.
    fn pages(&self, bytes: &Range<u64>) -> Range<u64> {
        let len = self.from.len() * self.element;
        let end = if bytes.end == len {
            len
        } else {
            bytes.end / self.page * self.page
        };
        bytes.start.next_multiple_of(self.page).min(end)..end
    }

    /// Whether a block is large enough for its pages to be mapped.
    fn is_mapped(&self, block: &Range<u64>) -> bool {
        block.end - block.start >= FEWEST_PAGES * self.page
    }

    /// How a target comes to its block, in ascending order and without gaps. What it copies of neighbouring runs may share
    /// a page of its own file.
    #[must_use]
    pub fn runs(&self, target: usize) -> Vec<Run> {
        let block = self.bytes(self.to, target);
        let first = self.to.range(target).start;
        let mut runs = Vec::new();
        let Ok(plan) = Plan::for_target(self.from, self.to, target) else {
            return runs;
        };
        for piece in plan.pieces() {
            let start = (first + piece.target_offset) * self.element;
            let bytes = start..start + piece.len * self.element;
            let theirs = self.bytes(self.from, piece.peer);
            let whole = if self.is_mapped(&block) && self.is_mapped(&theirs) {
                // The piece is where both blocks meet, so that its whole pages are those inside both.
                self.pages(&bytes)
            } else {
                bytes.start..bytes.start
            };
            let mut add = |way, bytes: Range<u64>| {
                if !bytes.is_empty() {
                    let source = piece.peer;
                    runs.push(Run { way, source, bytes });
                }
            };
            if whole.is_empty() {
                add(Way::Copy, bytes);
            } else {
                add(Way::Copy, bytes.start..whole.start);
                add(Way::Adopt, whole.clone());
                add(Way::Copy, whole.end..bytes.end);
            }
        }
        runs
    }

    /// As [`Adoption::runs`], for a target whose block would be in too many pieces: it copies all of it.
    #[must_use]
    pub fn copies(&self, target: usize) -> Vec<Run> {
        let runs = self.runs(target).into_iter();
        let mut copies: Vec<Run> = Vec::new();
        for run in runs {
            match copies.last_mut() {
                Some(last) if last.source == run.source => last.bytes.end = run.bytes.end,
                _ => copies.push(Run {
                    way: Way::Copy,
                    ..run
                }),
            }
        }
        copies
    }
}

/// Bytes of an array in one file, which is known by a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The file.
    pub file: u64,
    /// Counted from the start of the whole array, as the file counts them from the array's base.
    pub bytes: Range<u64>,
}

/// Where a block lies: its extents in ascending order, without gaps. Between two of them is the end of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents(Vec<Extent>);

impl Extents {
    /// A block in one file.
    #[must_use]
    pub fn whole(file: u64, bytes: Range<u64>) -> Self {
        let mut extents = Self::default();
        extents.push(file, bytes);
        extents
    }

    /// Adds what follows.
    fn push(&mut self, file: u64, bytes: Range<u64>) {
        if bytes.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.file == file && last.bytes.end == bytes.start => {
                last.bytes.end = bytes.end;
            }
            _ => self.0.push(Extent { file, bytes }),
        }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.0.iter()
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the block is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where a part of the block lies.
    pub fn part(&self, bytes: Range<u64>) -> impl Iterator<Item = Extent> {
        let first = self
            .0
            .partition_point(|extent| extent.bytes.end <= bytes.start);
        let reach = self.0[first..].iter();
        let reach = reach.take_while(move |extent| extent.bytes.start < bytes.end);
        reach.map(move |extent| Extent {
            file: extent.file,
            bytes: extent.bytes.start.max(bytes.start)..extent.bytes.end.min(bytes.end),
        })
    }

    /// Where a target's block lies after its runs, with a new file for what it copies.
    pub fn after<'a>(runs: &[Run], new: u64, of_source: impl Fn(usize) -> &'a Extents) -> Self {
        let mut extents = Self::default();
        for run in runs {
            match run.way {
                Way::Copy => extents.push(new, run.bytes.clone()),
                Way::Adopt => {
                    for extent in of_source(run.source).part(run.bytes.clone()) {
                        extents.push(extent.file, extent.bytes);
                    }
                }
            }
        }
        extents
    }

    /// Whether the block is in so many pieces that it is better copied.
    #[must_use]
    pub fn is_scattered(&self) -> bool {
        self.0.len() > MOST_EXTENTS
    }

    /// The whole pages that nobody adopted, of which this rank gives the memory back: its extents, without the runs that
    /// targets adopted from it, which are in ascending order. An extent that begins or ends inside a page has that page.
    #[must_use]
    pub fn given_back(&self, adopted: &[Range<u64>], page: u64) -> Vec<Extent> {
        let mut rest = Vec::new();
        let mut adopted = adopted.iter().peekable();
        for extent in &self.0 {
            let mut at = extent.bytes.start / page * page;
            let end = extent.bytes.end.next_multiple_of(page);
            let mut give = |bytes: Range<u64>| {
                if !bytes.is_empty() {
                    let file = extent.file;
                    rest.push(Extent { file, bytes });
                }
            };
            while let Some(run) = adopted.peek() {
                if run.start >= end {
                    break;
                }
                let run_end = run.end.next_multiple_of(page);
                if run_end > at {
                    give(at..run.start.max(at));
                    at = run_end.min(end);
                }
                if run_end > end {
                    break;
                }
                adopted.next();
            }
            give(at..end);
        }
        rest
    }
}
