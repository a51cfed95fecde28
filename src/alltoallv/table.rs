//! What exchanges took on this machine: [`super::Variant::Auto`] chooses by it.

use serde::{Deserialize, Serialize};

use super::Variant;
use crate::mpi::Environment;
use crate::tune;

/// The subject of its file.
const SUBJECT: &str = "alltoallv";
/// How many times larger or smaller an exchange may be than one that tells something about it.
const NEAR: f64 = 2.0;
/// So many bytes are copied in no time.
const LITTLE: u64 = 4096;
/// A variant that took so many times the time of the best is not worth another look.
const WORTH: f64 = 1.3;

/// What an exchange is like, as far as the choice of a variant depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Ranks of the communicator.
    pub ranks: usize,
    /// Nodes that they are on.
    pub nodes: usize,
    /// Whether the plan has made its buffers.
    pub own: bool,
    /// The most ranks that any rank has data for, or from, without itself.
    pub partners: usize,
    /// The most bytes that any rank sends or receives, without what it keeps.
    pub bytes: u64,
    /// The most bytes that any rank keeps.
    pub kept: u64,
}

/// What the variants took for one exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The exchange.
    pub shape: Shape,
    /// Seconds of `start` and `wait`, the longest of any rank, the median; for each variant that was measured to the end.
    pub times: Vec<(Variant, f64)>,
}

/// What exchanges took on this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    entries: Vec<Entry>,
}

impl Shape {
    /// How far two are apart, as a factor of bytes or partners; nothing where one says nothing about the other.
    fn distance(&self, other: &Self) -> Option<f64> {
        let fixed = |shape: &Self| (shape.ranks, shape.nodes, shape.own);
        if fixed(self) != fixed(other) {
            return None;
        }
        #[allow(clippy::cast_precision_loss)]
        let factor = |a: u64, b: u64| {
            let (a, b) = (a.max(1) as f64, b.max(1) as f64);
            (a / b).max(b / a)
        };
        let partners = factor(self.partners as u64, other.partners as u64);
        let kept = factor(self.kept + LITTLE, other.kept + LITTLE);
        let factor = factor(self.bytes, other.bytes).max(partners).max(kept);
        Some(factor).filter(|&factor| factor <= NEAR)
    }
}

impl Table {
    /// This machine's; empty where nothing was measured.
    ///
    /// # Errors
    ///
    /// The file can't be read, or holds something else.
    pub fn read(environment: &Environment) -> Result<Self, tune::Error> {
        let path = tune::file(environment, SUBJECT)?;
        Ok(tune::read(&path)?.unwrap_or_default())
    }

    /// Makes it this machine's. Where it is now.
    ///
    /// # Errors
    ///
    /// The file can't be written.
    pub fn write(&self, environment: &Environment) -> Result<std::path::PathBuf, tune::Error> {
        let path = tune::file(environment, SUBJECT)?;
        tune::write(&path, self)?;
        Ok(path)
    }

    /// Adds an entry, instead of one of the same shape.
    pub fn add(&mut self, entry: Entry) {
        self.entries.retain(|one| one.shape != entry.shape);
        self.entries.push(entry);
    }

    /// The variants that may be the fastest for such an exchange; none where nothing near was measured. Where the two
    /// nearest entries disagree, both are heard.
    #[must_use]
    pub fn candidates(&self, shape: &Shape) -> Vec<Variant> {
        let mut near: Vec<(f64, &Entry)> = self
            .entries
            .iter()
            .filter_map(|entry| Some((shape.distance(&entry.shape)?, entry)))
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        // One of the very same shape says it all.
        let heard = if near.first().is_some_and(|(factor, _)| *factor <= 1.0) {
            1
        } else {
            2
        };
        let mut candidates = Vec::new();
        for (_, entry) in near.into_iter().take(heard) {
            let best = entry.times.iter().map(|(_, seconds)| *seconds);
            let best = best.fold(f64::INFINITY, f64::min);
            for &(variant, seconds) in &entry.times {
                if seconds <= WORTH * best && !candidates.contains(&variant) {
                    candidates.push(variant);
                }
            }
        }
        candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(bytes: u64) -> Shape {
        Shape {
            ranks: 4,
            nodes: 1,
            own: true,
            partners: 3,
            bytes,
            kept: 0,
        }
    }

    fn table(entries: &[(Shape, &[(Variant, f64)])]) -> Table {
        let mut table = Table::default();
        for (shape, times) in entries {
            table.add(Entry {
                shape: *shape,
                times: times.to_vec(),
            });
        }
        table
    }

    #[test]
    fn the_nearest_exchange_tells() {
        use Variant::{Fence, Lock, NodeShared, Standard};
        let table = table(&[
            (shape(1000), &[(Standard, 1.0), (NodeShared, 2.0)]),
            (
                shape(4000),
                &[(Standard, 3.0), (NodeShared, 1.0), (Fence, 1.2)],
            ),
            (
                Shape {
                    own: false,
                    ..shape(1000)
                },
                &[(Lock, 1.0)],
            ),
        ]);
        assert_eq!(table.candidates(&shape(1000)), [Standard]);
        assert_eq!(table.candidates(&shape(600)), [Standard]);
        assert_eq!(table.candidates(&shape(7999)), [NodeShared, Fence]);
        // Between two that disagree.
        let between = table.candidates(&shape(2000));
        assert_eq!(between, [Standard, NodeShared, Fence]);
        for unlike in [
            shape(9000),
            Shape {
                partners: 1,
                ..shape(1000)
            },
            Shape {
                nodes: 2,
                ..shape(1000)
            },
            Shape {
                kept: 8000,
                ..shape(1000)
            },
        ] {
            assert_eq!(table.candidates(&unlike), []);
        }
    }

    #[test]
    fn a_shape_has_one_entry() {
        use Variant::{Fence, Lock};
        let mut table = table(&[(shape(8), &[(Fence, 1.0)])]);
        table.add(Entry {
            shape: shape(8),
            times: vec![(Lock, 1.0)],
        });
        assert_eq!(table.candidates(&shape(8)), [Lock]);
        assert_eq!(table.candidates(&shape(0)), []);
    }
}
