//! Arrays of the C library, whose elements have no type in Rust.

use std::ops::Range;

use super::Job;
use super::array::{Description, Distribution, Moment, Stored};
use super::error::Error;
use super::registered::{Entry, EntryMut, Registered};
use crate::mpi::TypeMap;
use crate::partition::Partition;

/// An array whose elements have no type in Rust: a C program's, with a datatype of its own.
pub(crate) struct Untyped {
    stored: Stored,
}

impl Untyped {
    /// Registers equal blocks of `len` elements in all, as [`super::ArrayBuilder::block`] does.
    pub(crate) fn block(
        job: &mut Job,
        name: &str,
        type_map: TypeMap,
        constant: bool,
        len: u64,
    ) -> Result<Self, Error> {
        let description = Description {
            name: name.to_owned(),
            type_map,
            constant,
            moment: Moment::usual(constant),
            distribution: Distribution::Block,
            partition: Partition::block(len, job.size()),
        };
        let stored = job.register_array(description)?;
        Ok(Self { stored })
    }

    /// The global indices of this rank's block.
    pub(crate) fn range(&self) -> Range<u64> {
        self.stored.range.clone()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.stored.bytes()
    }

    /// Lends the block for writing: that of a constant array once, where the job starts.
    pub(crate) fn write<R>(&mut self, write: impl FnOnce(&mut [u8]) -> R) -> Result<R, Error> {
        if self.stored.description.constant {
            return self.stored.initialize(write);
        }
        Ok(write(self.stored.bytes_mut()))
    }
}

impl Registered for Untyped {}

impl Entry for Untyped {
    fn entries(&mut self) -> Vec<EntryMut<'_>> {
        vec![EntryMut::Array(&mut self.stored)]
    }
}
