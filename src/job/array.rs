//! What the application keeps in a job: distributed arrays and replicated values.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::{Job, Received, Registration};
use crate::memory::Block;
use crate::mpi::{Element, ElementKind, bytes_of_mut, elements_of, elements_of_mut};
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

/// What every rank has to know about an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Description {
    pub(super) name: String,
    pub(super) kind: ElementKind,
    pub(super) constant: bool,
    pub(super) moment: Moment,
    pub(super) distribution: Distribution,
    pub(super) partition: Partition,
}

impl Description {
    pub(super) fn bytes(&self, elements: Range<u64>) -> Range<u64> {
        let size = self.kind.size() as u64;
        elements.start * size..elements.end * size
    }

    /// Bytes of the whole array.
    pub(super) fn global_bytes(&self) -> u64 {
        self.partition.len() * self.kind.size() as u64
    }
}

/// Where the job finds the block of a constant array that the application has; empty until it is initialized.
pub(super) type Slot = Arc<Mutex<Option<Arc<Block>>>>;

/// What a slot holds.
pub(super) fn in_slot(slot: &Slot) -> Option<Arc<Block>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

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
        }
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
        }
    }

    /// Its bytes, where it is withdrawn or was never published, and nothing in the background reads it.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.contents {
            Contents::Own(block) => block.as_bytes_mut(),
            Contents::Shared(block) => Arc::get_mut(block)
                .expect("what goes on in the background ends before anything else uses a block")
                .as_bytes_mut(),
        }
    }

    fn elements<T: Element>(&self) -> &[T] {
        elements_of(self.bytes()).expect("blocks hold whole elements at aligned offsets")
    }

    fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        elements_of_mut(self.bytes_mut()).expect("blocks hold whole elements at aligned offsets")
    }
}

/// A distributed array that the application changes while it runs. It gives `&[T]` and `&mut [T]` of this
/// rank's block.
pub struct Array<T: Element> {
    stored: Stored,
    element: PhantomData<T>,
}

/// A distributed array that the application does not change: it gives `&[T]` only, so that it may be read
/// by others at any time (paper R, section II.B).
pub struct ConstantArray<T: Element> {
    stored: Stored,
    element: PhantomData<T>,
}

macro_rules! array_methods {
    ($($array:ident),*) => {$(
        impl<T: Element> $array<T> {
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

        impl<T: Element> Deref for $array<T> {
            type Target = [T];

            fn deref(&self) -> &[T] {
                self.stored.elements()
            }
        }

        impl<T: Element> fmt::Debug for $array<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?}, {:?})", stringify!($array), self.name(), self.stored.range)
            }
        }

        impl<T: Element> Registered for $array<T> {}

        impl<T: Element> Entry for $array<T> {
            fn entry(&mut self) -> EntryMut<'_> {
                EntryMut::Array(&mut self.stored)
            }
        }
    )*};
}

array_methods!(Array, ConstantArray);

impl<T: Element> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.stored.elements_mut()
    }
}

impl<T: Element> ConstantArray<T> {
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
        if self.stored.initialized {
            return Err(Error::Constant {
                name: self.name().to_owned(),
            });
        }
        let result = fill(self.range(), self.stored.elements_mut());
        self.stored.initialized = true;
        self.stored.publish();
        Ok(result)
    }
}

/// A value that every rank holds. A process that joins, and one that is recalled, gets rank 0's.
pub struct Replicated<T: Element> {
    name: String,
    value: [T; 1],
}

impl<T: Element> Replicated<T> {
    /// The name under which it is registered.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<T: Element> Deref for Replicated<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value[0]
    }
}

impl<T: Element> DerefMut for Replicated<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value[0]
    }
}

impl<T: Element> fmt::Debug for Replicated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replicated({:?}, {:?})", self.name, self.value[0])
    }
}

impl<T: Element> Registered for Replicated<T> {}

impl<T: Element> Entry for Replicated<T> {
    fn entry(&mut self) -> EntryMut<'_> {
        EntryMut::Value {
            name: &self.name,
            kind: T::KIND,
            bytes: bytes_of_mut(&mut self.value),
        }
    }
}

/// An array or a value, seen without its type.
pub enum EntryMut<'a> {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    Array(&'a mut Stored),
    #[doc(hidden)]
    Value {
        name: &'a str,
        kind: ElementKind,
        bytes: &'a mut [u8],
    },
}

/// How the job reaches into what it has handed out.
#[doc(hidden)]
pub trait Entry {
    fn entry(&mut self) -> EntryMut<'_>;
}

/// What is registered with a job: [`Array`], [`ConstantArray`], [`Replicated`].
pub trait Registered: Entry {}

/// Everything that the application has registered, for `commit`: a tuple of `&mut` to arrays and values,
/// or a slice of `&mut dyn Registered`.
pub trait RegisteredSet {
    /// Its elements.
    fn registered(&mut self) -> Vec<&mut dyn Registered>;
}

impl RegisteredSet for [&mut dyn Registered] {
    fn registered(&mut self) -> Vec<&mut dyn Registered> {
        self.iter_mut()
            .map(|one| &mut **one as &mut dyn Registered)
            .collect()
    }
}

impl RegisteredSet for Vec<&mut dyn Registered> {
    fn registered(&mut self) -> Vec<&mut dyn Registered> {
        self.as_mut_slice().registered()
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Registered),*> RegisteredSet for ($(&mut $name,)*) {
            #[allow(non_snake_case)]
            fn registered(&mut self) -> Vec<&mut dyn Registered> {
                let ($($name,)*) = self;
                vec![$(&mut **$name as &mut dyn Registered),*]
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
tuples!(A B C D E F G H I);
tuples!(A B C D E F G H I J);
tuples!(A B C D E F G H I J K);
tuples!(A B C D E F G H I J K L);

/// Registers an array; made by [`Job::array`].
#[derive(Debug)]
#[must_use = "it registers nothing before it knows the distribution"]
pub struct ArrayBuilder<'job, T: Element, A> {
    job: &'job mut Job,
    name: String,
    moment: Option<Moment>,
    array: PhantomData<(T, A)>,
}

impl<'job, T: Element> ArrayBuilder<'job, T, Array<T>> {
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

impl<T: Element> Buildable for Array<T> {
    const CONSTANT: bool = false;

    #[allow(private_interfaces)]
    fn from_stored(stored: Stored) -> Self {
        Self {
            stored,
            element: PhantomData,
        }
    }
}

impl<T: Element> Buildable for ConstantArray<T> {
    const CONSTANT: bool = true;

    #[allow(private_interfaces)]
    fn from_stored(stored: Stored) -> Self {
        Self {
            stored,
            element: PhantomData,
        }
    }
}

impl<T: Element, A: Buildable> ArrayBuilder<'_, T, A> {
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
            (None, true) => Moment::Background,
            (None, false) => Moment::Switch,
        };
        let description = Description {
            name: self.name,
            kind: T::KIND,
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
    let name = expected.name.clone();
    let differs = |property, found: &dyn fmt::Debug, expected: &dyn fmt::Debug| {
        let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
        Err(Error::Mismatch {
            name,
            property,
            found,
            expected,
        })
    };
    if found.kind != expected.kind {
        return differs("element type", &found.kind, &expected.kind);
    }
    if found.constant != expected.constant {
        return differs("constant", &found.constant, &expected.constant);
    }
    if found.moment != expected.moment {
        return differs("moment", &found.moment, &expected.moment);
    }
    if found.distribution != expected.distribution {
        return differs("distribution", &found.distribution, &expected.distribution);
    }
    if found.partition.len() != expected.partition.len() {
        return differs("length", &found.partition.len(), &expected.partition.len());
    }
    Ok(())
}

impl Job {
    /// Registers a value that every rank holds, with this rank's copy of it. On a process that joined, it
    /// is rank 0's at the resize. No communication.
    ///
    /// # Errors
    ///
    /// [`Error::NameTaken`], [`Error::Mismatch`] or [`Error::Unknown`].
    pub fn replicated<T: Element>(&mut self, name: &str, value: T) -> Result<Replicated<T>, Error> {
        let mut replicated = Replicated {
            name: name.to_owned(),
            value: [value],
        };
        match self.receive_or_register(name)? {
            None => {}
            Some(Received::Value { kind, bytes })
                if kind == T::KIND && bytes.len() == size_of::<T>() =>
            {
                bytes_of_mut(&mut replicated.value).copy_from_slice(&bytes);
            }
            Some(other) => {
                return Err(Error::Mismatch {
                    name: name.to_owned(),
                    property: "type",
                    found: format!("value of {}", T::KIND.name()),
                    expected: other.describe(),
                });
            }
        }
        self.registry.push(Registration::Value {
            name: name.to_owned(),
            kind: T::KIND,
        });
        Ok(replicated)
    }
}
