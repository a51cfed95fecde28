//! What the application keeps in a form of its own: it packs each element into bytes, and these move.
//!
//! The packed form is a pair of arrays, as a sparse matrix's rows are: where each element begins, and the bytes behind
//! them. So it moves by the same plans and methods as everything else, in the background where it is constant.

use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};

use super::array::{ConstantArray, Stored};
use super::error::Error;
use super::registered::{Entry, EntryMut, Registered};
use super::{Job, Moment, Registration, Result, map};
use crate::mpi::bytes_of_mut;
use crate::partition::Partition;

/// Elements that have a form of their own: lists of different lengths, trees, objects with pointers. The application
/// says how each becomes bytes, and how it comes back from them (paper R, section II: user-defined structures).
///
/// ```
/// use malleus::job::{Pack, PackedElements};
///
/// /// For each node of a graph its neighbors.
/// #[derive(Default)]
/// struct Neighbors(Vec<Vec<u32>>);
///
/// impl Pack for Neighbors {
///     fn pack(&self, local: usize, bytes: &mut Vec<u8>) {
///         bytes.extend(self.0[local].iter().flat_map(|neighbor| neighbor.to_le_bytes()));
///     }
///
///     fn unpack(&mut self, elements: PackedElements<'_>) -> Result<(), String> {
///         let numbers = |bytes: &[u8]| bytes.as_chunks().0.iter().copied().map(u32::from_le_bytes).collect();
///         self.0 = elements.iter().map(numbers).collect();
///         Ok(())
///     }
/// }
/// ```
pub trait Pack {
    /// Appends the bytes of one element, of which `local` counts this rank's from 0 on. They may be none.
    fn pack(&self, local: usize, bytes: &mut Vec<u8>);

    /// Becomes these elements, in place of those that it was. There are none on a process that leaves the job.
    ///
    /// # Errors
    ///
    /// Why that is not possible, which ends the job: there is no way back then.
    fn unpack(&mut self, elements: PackedElements<'_>) -> std::result::Result<(), String>;
}

/// This rank's elements, each as the bytes that it was packed into.
#[derive(Clone, Debug)]
pub struct PackedElements<'a> {
    range: Range<u64>,
    /// Where each begins, in the array of all ranks.
    starts: &'a [u64],
    bytes: &'a [u8],
}

impl<'a> PackedElements<'a> {
    /// Their global indices.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The bytes of all, in order.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes of each, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> {
        let (starts, bytes) = (self.starts, self.bytes);
        let first = starts.first().copied().unwrap_or(0);
        let place = move |start: u64| usize::try_from(start - first).expect("inside a block");
        (0..starts.len()).map(move |local| {
            let end = starts.get(local + 1).map_or(bytes.len(), |&end| place(end));
            &bytes[place(starts[local])..end]
        })
    }
}

/// Elements that the application changes while it runs. They are packed at each switch.
///
/// It gives `&P` and `&mut P`.
pub struct Packed<P: Pack> {
    contents: P,
    arrays: Arrays,
}

/// Elements that the application does not change: it gives `&P` only. They are packed once, and the packed form is
/// kept, so that it can move in the background.
pub struct ConstantPacked<P: Pack> {
    contents: P,
    arrays: Arrays,
}

/// The packed form.
struct Arrays {
    starts: ConstantArray<u64>,
    bytes: ConstantArray<u8>,
}

impl Arrays {
    fn entries(&mut self) -> Vec<EntryMut<'_>> {
        let mut entries = self.starts.entries();
        entries.append(&mut self.bytes.entries());
        entries
    }

    /// Frees the packed form, of what the application changes.
    fn forget(&mut self) {
        self.starts.stored_mut().forget();
        self.bytes.stored_mut().forget();
    }

    fn unpack(&self, contents: &mut impl Pack) -> Result<()> {
        let elements = PackedElements {
            range: self.starts.range(),
            starts: &self.starts,
            bytes: &self.bytes,
        };
        contents.unpack(elements).map_err(|reason| Error::Unpack {
            name: self.starts.name().to_owned(),
            reason,
        })
    }
}

/// Packs this rank's elements: where each ends, and all bytes.
fn pack_all(contents: &impl Pack, elements: usize) -> (Vec<u64>, Vec<u8>) {
    let mut bytes = Vec::new();
    let ends = (0..elements).map(|local| {
        contents.pack(local, &mut bytes);
        bytes.len() as u64
    });
    (ends.collect(), bytes)
}

/// Where each element begins in the array of all ranks, if this rank's begin at `first`.
fn starts_of(ends: &[u64], first: u64) -> impl Iterator<Item = u64> {
    let before = std::iter::once(0).chain(ends.iter().copied());
    before.take(ends.len()).map(move |start| first + start)
}

/// What was just packed, and the arrays that are to hold it.
pub(super) struct Image<'a> {
    name: String,
    starts: &'a mut Stored,
    bytes: &'a mut Stored,
    ends: Vec<u64>,
    packed: Vec<u8>,
}

macro_rules! packed_methods {
    ($($packed:ident),*) => {$(
        impl<P: Pack> $packed<P> {
            /// The name under which it is registered.
            #[must_use]
            pub fn name(&self) -> &str {
                self.arrays.starts.name()
            }

            /// The global indices of this rank's elements.
            #[must_use]
            pub fn range(&self) -> Range<u64> {
                self.arrays.starts.range()
            }

            /// Who owns which elements.
            #[must_use]
            pub fn partition(&self) -> &Partition {
                self.arrays.starts.partition()
            }
        }

        impl<P: Pack> Deref for $packed<P> {
            type Target = P;

            fn deref(&self) -> &P {
                &self.contents
            }
        }

        impl<P: Pack> fmt::Debug for $packed<P> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?}, {:?})", stringify!($packed), self.name(), self.range())
            }
        }

        impl<P: Pack> Registered for $packed<P> {}
    )*};
}

packed_methods!(Packed, ConstantPacked);

impl<P: Pack> DerefMut for Packed<P> {
    fn deref_mut(&mut self) -> &mut P {
        &mut self.contents
    }
}

impl<P: Pack> Entry for Packed<P> {
    fn entries(&mut self) -> Vec<EntryMut<'_>> {
        self.arrays.entries()
    }

    #[allow(private_interfaces)]
    fn pack(&mut self) -> Option<Image<'_>> {
        let range = self.range();
        let elements = usize::try_from(range.end - range.start).expect("elements of this rank");
        let (ends, packed) = pack_all(&self.contents, elements);
        Some(Image {
            name: self.arrays.starts.name().to_owned(),
            starts: self.arrays.starts.stored_mut(),
            bytes: self.arrays.bytes.stored_mut(),
            ends,
            packed,
        })
    }

    fn unpack(&mut self) -> Result<()> {
        self.arrays.unpack(&mut self.contents)?;
        self.arrays.forget();
        Ok(())
    }
}

impl<P: Pack> Entry for ConstantPacked<P> {
    fn entries(&mut self) -> Vec<EntryMut<'_>> {
        self.arrays.entries()
    }

    fn unpack(&mut self) -> Result<()> {
        self.arrays.unpack(&mut self.contents)
    }
}

/// Registers packed elements; made by [`Job::packed`].
#[derive(Debug)]
#[must_use = "it registers nothing before it knows the distribution"]
pub struct PackedBuilder<'job> {
    job: &'job mut Job,
    name: String,
}

impl Job {
    /// Registers elements that the application keeps in a form of its own: [`PackedBuilder`] says how.
    pub fn packed(&mut self, name: &str) -> PackedBuilder<'_> {
        PackedBuilder {
            job: self,
            name: name.to_owned(),
        }
    }

    /// Puts what the application changes into the form that moves. Collective over the job.
    pub(super) fn pack(&mut self, registered: &mut [&mut dyn Registered], to: usize) -> Result<()> {
        let images = registered.iter_mut().filter_map(|one| one.pack());
        let mut images: HashMap<String, Image> =
            images.map(|image| (image.name.clone(), image)).collect();
        // In the order of the registry, which is that of every rank.
        let names: Vec<String> = self
            .registered_names()
            .into_iter()
            .map(str::to_owned)
            .collect();
        for name in names {
            if let Some(image) = images.remove(&name) {
                self.store(image, to)?;
            }
        }
        Ok(())
    }

    /// Collective over the job.
    fn store(&mut self, image: Image<'_>, to: usize) -> Result<()> {
        let (rank, from) = (self.rank(), self.size());
        let cuts = self.cuts_of(image.packed.len() as u64)?;
        let first = cuts[rank];
        let starts = image.starts.description.clone();
        let mut bytes = image.bytes.description.clone();
        bytes.partition = Partition::cuts(cuts)?;
        let blocks = map(&self.arena, &starts, rank)
            .and_then(|block| Ok((block, map(&self.arena, &bytes, rank)?)));
        let problem = blocks.as_ref().err().map(ToString::to_string);
        if let Some((rank, problem)) = self.communicator().agree(problem)? {
            return Err(Error::Abandoned {
                from,
                to,
                reason: format!("rank {rank}: {problem}"),
            });
        }
        let (mut starts_block, mut bytes_block) = blocks?;
        let starts_of: Vec<u64> = starts_of(&image.ends, first).collect();
        starts_block
            .as_bytes_mut()
            .copy_from_slice(crate::mpi::bytes_of(&starts_of));
        bytes_block.as_bytes_mut().copy_from_slice(&image.packed);
        let name = bytes.name.clone();
        for (stored, description, block) in [
            (image.starts, starts, starts_block),
            (image.bytes, bytes.clone(), bytes_block),
        ] {
            let range = description.partition.range(rank);
            stored.replace(block);
            stored.become_part(description, range);
        }
        for one in &mut self.registry {
            if let Registration::Array { description, .. } = one
                && description.name == name
            {
                *description = bytes.clone();
            }
        }
        Ok(())
    }

    /// The cut points of an array of which each rank has so many bytes. Collective over the job; `MPI_Allgather`.
    fn cuts_of(&self, bytes: u64) -> Result<Vec<u64>> {
        let mut all = vec![0; self.size()];
        self.communicator().all_gather(&[bytes], &mut all)?;
        let mut end = 0;
        let ends = all.into_iter().map(|bytes| {
            end += bytes;
            end
        });
        Ok(std::iter::once(0).chain(ends).collect())
    }
}

impl PackedBuilder<'_> {
    /// Equal blocks of `elements` in all, as [`super::ArrayBuilder::block`] makes them. `contents` are this rank's
    /// elements where the job starts; on a process that joined, they are unpacked into it. Collective over the job
    /// in that every rank has to register the same; `MPI_Allgather` where it starts.
    ///
    /// # Errors
    ///
    /// As for [`super::ArrayBuilder::block`]; [`Error::Unpack`].
    pub fn block<P: Pack>(self, elements: u64, contents: P) -> Result<Packed<P>> {
        let starts = self.job.array(&self.name).constant();
        let starts = starts.moves(Moment::Switch).block(elements)?;
        self.variable(starts, contents)
    }

    /// The same with explicit cut points, as [`super::ArrayBuilder::cuts`] takes them.
    ///
    /// # Errors
    ///
    /// As for [`super::ArrayBuilder::cuts`]; [`Error::Unpack`].
    pub fn cuts<P: Pack>(self, cuts: Vec<u64>, contents: P) -> Result<Packed<P>> {
        let starts = self.job.array(&self.name).constant();
        let starts = starts.moves(Moment::Switch).cuts(cuts)?;
        self.variable(starts, contents)
    }

    /// As [`PackedBuilder::block`], for elements that the application does not change. `contents` has to have this
    /// rank's elements, where the job starts: they are packed here. Collective over the job; `MPI_Allgather`
    /// where it starts.
    ///
    /// # Errors
    ///
    /// As for [`PackedBuilder::block`].
    pub fn constant_block<P: Pack>(self, elements: u64, contents: P) -> Result<ConstantPacked<P>> {
        let starts = self.job.array(&self.name).constant().block(elements)?;
        self.constant(starts, contents)
    }

    /// The same with explicit cut points.
    ///
    /// # Errors
    ///
    /// As for [`PackedBuilder::cuts`].
    pub fn constant_cuts<P: Pack>(self, cuts: Vec<u64>, contents: P) -> Result<ConstantPacked<P>> {
        let starts = self.job.array(&self.name).constant().cuts(cuts)?;
        self.constant(starts, contents)
    }

    fn bytes_name(&self) -> String {
        format!("{}: bytes", self.name)
    }

    fn variable<P: Pack>(self, starts: ConstantArray<u64>, mut contents: P) -> Result<Packed<P>> {
        let name = self.bytes_name();
        let received = self.job.received_length(&name);
        let bytes = self.job.array(&name).constant().moves(Moment::Switch);
        // Nothing is packed yet, where the job starts.
        let bytes = bytes.behind(&starts, received.unwrap_or(0))?;
        let mut arrays = Arrays { starts, bytes };
        if received.is_some() {
            arrays.unpack(&mut contents)?;
        }
        arrays.forget();
        Ok(Packed { contents, arrays })
    }

    fn constant<P: Pack>(
        self,
        mut starts: ConstantArray<u64>,
        mut contents: P,
    ) -> Result<ConstantPacked<P>> {
        let name = self.bytes_name();
        if let Some(length) = self.job.received_length(&name) {
            let bytes = self.job.array(&name).constant().behind(&starts, length)?;
            let arrays = Arrays { starts, bytes };
            arrays.unpack(&mut contents)?;
            return Ok(ConstantPacked { contents, arrays });
        }
        let (ends, packed) = pack_all(&contents, starts.len());
        let cuts = self.job.cuts_of(packed.len() as u64)?;
        let first = cuts[self.job.rank()];
        starts.initialize(|_, block| {
            block
                .iter_mut()
                .zip(starts_of(&ends, first))
                .for_each(|(place, start)| *place = start);
        })?;
        let length = cuts.last().copied().unwrap_or(0);
        let bytes = self.job.array(&name).constant();
        let mut bytes = bytes.behind(&starts, length)?;
        bytes.initialize(|_, block| bytes_of_mut(block).copy_from_slice(&packed))?;
        Ok(ConstantPacked {
            contents,
            arrays: Arrays { starts, bytes },
        })
    }
}
