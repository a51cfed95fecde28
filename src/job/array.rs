//! What the application keeps in a job: distributed arrays and replicated values.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::Job;
use super::error::Error;
use super::registered::{Entry, EntryMut, Registered};
use crate::memory::Block;
use crate::mpi::{Record, TypeMap, elements_of, elements_of_mut};
use crate::partition::Partition;

/// How an array follows the size of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Distribution {
    /// Equal blocks, the remainder to the first ranks.
    Block,
    /// Explicit cut points, which keep their shape.
    Cuts,
    /// Each element belongs to an element of another array, which holds where its elements begin: the
    /// nonzeros behind the rows of a sparse matrix.
    Behind {
        /// The array with the offsets.
        offsets: String,
    },
}

/// When an array moves in a resize, where the job's variant is one that goes on in the background
/// ([`super::Options::variant`]); with a blocking variant, everything moves at the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    /// While the application goes on: constant arrays only, whose default it is.
    Background,
    /// At the switch, when the application waits.
    Switch,
}

impl Moment {
    pub(super) fn usual(constant: bool) -> Self {
        if constant {
            Self::Background
        } else {
            Self::Switch
        }
    }
}

/// What every rank has to know about an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Description {
    pub(super) name: String,
    pub(super) type_map: TypeMap,
    pub(super) constant: bool,
    pub(super) moment: Moment,
    pub(super) distribution: Distribution,
    pub(super) partition: Partition,
}

impl Description {
    pub(super) fn bytes(&self, elements: Range<u64>) -> Range<u64> {
        let size = self.type_map.extent() as u64;
        elements.start * size..elements.end * size
    }

    /// Bytes of the whole array.
    pub(super) fn global_bytes(&self) -> u64 {
        self.partition.len() * self.type_map.extent() as u64
    }
}

/// Where the job finds the block of a constant array that the application has; empty until it is initialized.
pub(super) type Slot = Arc<Mutex<Option<Arc<Block>>>>;

/// What a slot holds.
pub(super) fn in_slot(slot: &Slot) -> Option<Arc<Block>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// What the blocks of arrays promise.
const WHOLE: &str = "blocks hold whole elements at aligned offsets";

/// An array on one rank, whatever its type.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) description: Description,
    /// The global indices of the block.
    pub(super) range: Range<u64>,
    contents: Contents,
    /// Whether a constant array has its contents.
    initialized: bool,
    slot: Slot,
}

#[derive(Debug)]
enum Contents {
    /// The application writes it.
    Own(Block),
    /// A constant array, which a redistribution in the background reads as well.
    Shared(Arc<Block>),
    /// It is made again before it moves.
    Nothing,
}

impl Contents {
    fn new(block: Block, description: &Description) -> Self {
        if description.constant {
            Self::Shared(Arc::new(block))
        } else {
            Self::Own(block)
        }
    }
}

impl Stored {
    pub(super) fn new(description: Description, range: Range<u64>, block: Block) -> Self {
        Self {
            contents: Contents::new(block, &description),
            description,
            range,
            initialized: false,
            slot: Slot::default(),
        }
    }

    /// An array that comes with its contents.
    pub(super) fn received(description: Description, range: Range<u64>, block: Block) -> Self {
        let mut stored = Self::new(description, range, block);
        stored.initialized = true;
        stored.publish();
        stored
    }

    pub(super) fn slot(&self) -> Slot {
        Arc::clone(&self.slot)
    }

    /// Replaces the block; gives the old one where nobody else has it.
    pub(super) fn replace(&mut self, block: Block) -> Option<Block> {
        self.withdraw();
        match std::mem::replace(&mut self.contents, Contents::new(block, &self.description)) {
            Contents::Own(block) => Some(block),
            Contents::Shared(block) => Arc::into_inner(block),
            Contents::Nothing => None,
        }
    }

    /// Frees the block of an array that is made again before it moves.
    pub(super) fn forget(&mut self) {
        self.withdraw();
        self.contents = Contents::Nothing;
    }

    /// A block that has come becomes this rank's part of what the array is now.
    pub(super) fn become_part(&mut self, description: Description, range: Range<u64>) {
        self.description = description;
        self.range = range;
        self.initialized = true;
        self.publish();
    }

    /// Lets the job find the block, if nobody writes it any more.
    pub(super) fn publish(&mut self) {
        if let (true, Contents::Shared(block)) = (self.initialized, &self.contents) {
            *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(block));
        }
    }

    /// The job does not find the block any more.
    pub(super) fn withdraw(&mut self) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.contents {
            Contents::Own(block) => block.as_bytes(),
            Contents::Shared(block) => block.as_bytes(),
            Contents::Nothing => &[],
        }
    }

    /// Its bytes, where it is withdrawn or was never published, and nothing in the background reads it.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.contents {
            Contents::Own(block) => block.as_bytes_mut(),
            Contents::Shared(block) => Arc::get_mut(block)
                .expect("what goes on in the background ends before anything else uses a block")
                .as_bytes_mut(),
            Contents::Nothing => &mut [],
        }
    }

    fn elements<T: Record>(&self) -> &[T] {
        elements_of(self.bytes()).expect(WHOLE)
    }

    fn elements_mut<T: Record>(&mut self) -> &mut [T] {
        elements_of_mut(self.bytes_mut()).expect(WHOLE)
    }

    /// Lends the block of a constant array for writing, once.
    pub(super) fn initialize<R>(&mut self, fill: impl FnOnce(&mut [u8]) -> R) -> Result<R, Error> {
        if self.initialized {
            return Err(Error::Constant {
                name: self.description.name.clone(),
            });
        }
        let result = fill(self.bytes_mut());
        self.initialized = true;
        self.publish();
        Ok(result)
    }
}

/// A distributed array that the application changes while it runs. It gives `&[T]` and `&mut [T]` of this
/// rank's block.
pub struct Array<T: Record> {
    stored: Stored,
    element: PhantomData<T>,
}

/// A distributed array that the application does not change: it gives `&[T]` only, so that it may be read
/// by others at any time (paper R, section II.B).
pub struct ConstantArray<T: Record> {
    stored: Stored,
    element: PhantomData<T>,
}

macro_rules! array_methods {
    ($($array:ident),*) => {$(
        impl<T: Record> $array<T> {
            /// The name under which it is registered.
            #[must_use]
            pub fn name(&self) -> &str {
                &self.stored.description.name
            }

            /// The global indices of this rank's block.
            #[must_use]
            pub fn range(&self) -> Range<u64> {
                self.stored.range.clone()
            }

            /// Who owns what.
            #[must_use]
            pub fn partition(&self) -> &Partition {
                &self.stored.description.partition
            }
        }

        impl<T: Record> Deref for $array<T> {
            type Target = [T];

            fn deref(&self) -> &[T] {
                self.stored.elements()
            }
        }

        impl<T: Record> fmt::Debug for $array<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?}, {:?})", stringify!($array), self.name(), self.stored.range)
            }
        }

        impl<T: Record> Registered for $array<T> {}

        impl<T: Record> Entry for $array<T> {
            fn entries(&mut self) -> Vec<EntryMut<'_>> {
                vec![EntryMut::Array(&mut self.stored)]
            }
        }
    )*};
}

array_methods!(Array, ConstantArray);

impl<T: Record> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.stored.elements_mut()
    }
}

impl<T: Record> ConstantArray<T> {
    pub(super) fn stored_mut(&mut self) -> &mut Stored {
        &mut self.stored
    }

    /// Writes this rank's block, once, where the job starts. Processes that join later receive it instead.
    /// Returns what `fill` does.
    ///
    /// # Errors
    ///
    /// [`Error::Constant`] the second time.
    pub fn initialize<R>(
        &mut self,
        fill: impl FnOnce(Range<u64>, &mut [T]) -> R,
    ) -> Result<R, Error> {
        let range = self.range();
        self.stored.initialize(|block| {
            let elements = elements_of_mut(block).expect(WHOLE);
            fill(range, elements)
        })
    }
}

/// Registers an array; made by [`Job::array`].
#[derive(Debug)]
#[must_use = "it registers nothing before it knows the distribution"]
pub struct ArrayBuilder<'job, T: Record, A> {
    job: &'job mut Job,
    name: String,
    moment: Option<Moment>,
    array: PhantomData<(T, A)>,
}

impl<'job, T: Record> ArrayBuilder<'job, T, Array<T>> {
    pub(super) fn new(job: &'job mut Job, name: &str) -> Self {
        Self {
            job,
            name: name.to_owned(),
            moment: None,
            array: PhantomData,
        }
    }

    /// Makes it constant: the application gets no `&mut` to it.
    pub fn constant(self) -> ArrayBuilder<'job, T, ConstantArray<T>> {
        ArrayBuilder {
            job: self.job,
            name: self.name,
            moment: self.moment,
            array: PhantomData,
        }
    }
}

/// The two kinds of arrays that an [`ArrayBuilder`] makes.
#[doc(hidden)]
pub trait Buildable {
    const CONSTANT: bool;
    #[allow(private_interfaces)]
    fn from_stored(stored: Stored) -> Self;
}

impl<T: Record> Buildable for Array<T> {
    const CONSTANT: bool = false;

    #[allow(private_interfaces)]
    fn from_stored(stored: Stored) -> Self {
        Self {
            stored,
            element: PhantomData,
        }
    }
}

impl<T: Record> Buildable for ConstantArray<T> {
    const CONSTANT: bool = true;

    #[allow(private_interfaces)]
    fn from_stored(stored: Stored) -> Self {
        Self {
            stored,
            element: PhantomData,
        }
    }
}

impl<T: Record, A: Buildable> ArrayBuilder<'_, T, A> {
    /// When it moves; constant arrays in the background and others at the switch, unless this says otherwise.
    pub fn moves(mut self, moment: Moment) -> Self {
        self.moment = Some(moment);
        self
    }

    /// Equal blocks of `len` elements in all, the remainder to the first ranks (paper R's `Block_id`).
    /// New elements are zero; a process that joined gets its block. Collective over the job in that
    /// every rank has to register the same; no communication.
    ///
    /// # Errors
    ///
    /// [`Error::NameTaken`], [`Error::Mismatch`], [`Error::Unknown`], or [`Error::Memory`];
    /// [`Error::VariableInBackground`] where such an array was to move in the background.
    pub fn block(self, len: u64) -> Result<A, Error> {
        let partition = Partition::block(len, self.job.size());
        self.build(Distribution::Block, partition)
    }

    /// Blocks between explicit cut points, one more than there are ranks. A resize keeps the shape: the
    /// cut points for another number of ranks are interpolated ([`Partition::recut`]). On a process that
    /// joined only the last one counts, the length. Otherwise as [`ArrayBuilder::block`].
    ///
    /// # Errors
    ///
    /// [`Error::Partition`] for cut points out of order; [`Error::Mismatch`] where there is not one more
    /// than ranks; otherwise as [`ArrayBuilder::block`].
    pub fn cuts(self, cuts: Vec<u64>) -> Result<A, Error> {
        let partition = Partition::cuts(cuts)?;
        if partition.ranks() != self.job.size() && self.job.is_first_start() {
            return Err(Error::Mismatch {
                name: self.name,
                property: "number of blocks",
                found: partition.ranks().to_string(),
                expected: self.job.size().to_string(),
            });
        }
        self.build(Distribution::Cuts, partition)
    }

    /// The elements that belong to the elements of another array, `offsets`, whose values say where they
    /// begin: `len` in all. The nonzeros behind the rows of a sparse matrix. A resize cuts it where the
    /// offsets are cut. Collective over the job; `MPI_Allgather` where the job starts.
    ///
    /// # Errors
    ///
    /// [`Error::Partition`] for offsets out of order; [`Error::Unknown`] for offsets of another job;
    /// otherwise as [`ArrayBuilder::block`].
    pub fn behind(self, offsets: &ConstantArray<u64>, len: u64) -> Result<A, Error> {
        if !self.job.is_registered(offsets.name()) {
            return Err(Error::Unknown {
                name: offsets.name().to_owned(),
                known: self.job.registered_names().join(", "),
            });
        }
        let partition = if self.job.is_received(&self.name) {
            // The cut points were received as well.
            Partition::block(len, self.job.size())
        } else {
            let first = offsets.first().copied().unwrap_or(u64::MAX);
            let mut cuts = vec![0; self.job.size()];
            self.job.communicator().all_gather(&[first], &mut cuts)?;
            cuts.push(len);
            // A rank without rows begins where the next one begins.
            for rank in (0..cuts.len() - 1).rev() {
                if cuts[rank] == u64::MAX {
                    cuts[rank] = cuts[rank + 1];
                }
            }
            Partition::cuts(cuts)?
        };
        self.build(
            Distribution::Behind {
                offsets: offsets.name().to_owned(),
            },
            partition,
        )
    }

    fn build(self, distribution: Distribution, partition: Partition) -> Result<A, Error> {
        let moment = match (self.moment, A::CONSTANT) {
            (Some(Moment::Background), false) => {
                return Err(Error::VariableInBackground { name: self.name });
            }
            (Some(moment), _) => moment,
            (None, constant) => Moment::usual(constant),
        };
        let description = Description {
            name: self.name,
            type_map: T::type_map(),
            constant: A::CONSTANT,
            moment,
            distribution,
            partition,
        };
        self.job.register_array(description).map(A::from_stored)
    }
}

/// Checks what a process that joined registers against what it received.
pub(super) fn check_same(found: &Description, expected: &Description) -> Result<(), Error> {
    let debug = |one: &dyn fmt::Debug| format!("{one:?}");
    let properties = [
        (
            "element type",
            [&found.type_map, &expected.type_map].map(ToString::to_string),
        ),
        (
            "constant",
            [&found.constant, &expected.constant].map(|one| debug(one)),
        ),
        (
            "moment",
            [&found.moment, &expected.moment].map(|one| debug(one)),
        ),
        (
            "distribution",
            [&found.distribution, &expected.distribution].map(|one| debug(one)),
        ),
        (
            "length",
            [&found.partition, &expected.partition].map(|one| one.len().to_string()),
        ),
    ];
    for (property, [found, wanted]) in properties {
        if found != wanted {
            return Err(Error::Mismatch {
                name: expected.name.clone(),
                property,
                found,
                expected: wanted,
            });
        }
    }
    Ok(())
}
