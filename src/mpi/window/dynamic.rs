//! Windows to which memory is attached after their creation (MPI standard, chapter 12.2.4).

use std::ops::Deref;
use std::ptr::NonNull;

use super::bounds::Bounds;
use super::create::{Window, bytes};
use super::memory::{Memory, Owner};
use crate::mpi::communicator::Communicator;
use crate::mpi::datatype::Element;
use crate::mpi::error::{Error, Result, mpi};
use crate::mpi::info::Info;
use crate::sys;

/// Memory that one process has attached to a dynamic window: an address in that process, and a number of
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    address: u64,
    bytes: u64,
}

impl Region {
    /// The displacement of an element, counted from the region's start.
    #[must_use]
    pub fn displacement<T: Element>(&self, index: u64) -> u64 {
        let offset = index.saturating_mul(size_of::<T>() as u64);
        self.address.saturating_add(offset)
    }

    /// Number of elements.
    #[must_use]
    pub fn elements<T: Element>(&self) -> u64 {
        self.bytes / size_of::<T>() as u64
    }

    /// Whether `extent` elements at an address lie in the region, where elements of its type do.
    pub(super) fn holds<T: Element>(&self, address: u64, extent: u64) -> bool {
        let size = size_of::<T>() as u64;
        let Some(offset) = address.checked_sub(self.address) else {
            return false;
        };
        address.is_multiple_of(size)
            && extent
                .checked_mul(size)
                .and_then(|bytes| offset.checked_add(bytes))
                .is_some_and(|end| end <= self.bytes)
    }
}

/// A window to which each process attaches memory while it lives, and detaches it again, without a collective
/// that is as expensive as a window. Displacements are addresses: [`Region::displacement`].
///
/// Others may access what was *published*: [`DynamicWindow::publish`] tells everybody which regions are
/// attached, and is the one collective here. So memory leaves in three steps: [`DynamicWindow::withdraw`],
/// `publish`, after which nobody accesses it, [`DynamicWindow::detach`].
#[derive(Debug)]
pub struct DynamicWindow<T: Element> {
    window: Window<T>,
    /// A duplicate of its own: on the caller's, a gather that another rank makes with numbers of its choice would be
    /// taken for what that rank publishes, and so open any address there.
    communicator: Communicator,
    attached: Vec<Attached<T>>,
}

#[derive(Debug)]
struct Attached<T> {
    region: Region,
    base: NonNull<T>,
    capacity: usize,
    /// Whether the next `publish` tells the others of it.
    offered: bool,
    /// Whether the others may know it.
    known: bool,
}

impl<T: Element> DynamicWindow<T> {
    /// A window without memory. Collective and blocking; `MPI_Comm_dup`, `MPI_Win_create_dynamic`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn create(communicator: &Communicator, info: Option<&Info>) -> Result<Self> {
        let own = communicator.duplicate()?;
        let raw = Window::<T>::new_window(communicator, |raw| {
            // SAFETY: communicator and info are valid; the call writes the handle to `raw`.
            unsafe {
                mpi!(MPI_Win_create_dynamic(
                    info.map_or(sys::MALLEUS_INFO_NULL, Info::as_raw),
                    communicator.as_raw(),
                    raw
                ))
            }
        })?;
        let mut window = Window::adopt(raw, communicator, NonNull::dangling(), 0, Owner::Borrow);
        window.bounds = Bounds::Regions(vec![Vec::new(); communicator.size()]);
        Ok(Self {
            window,
            communicator: own,
            attached: Vec::new(),
        })
    }

    /// Attaches memory, which the window owns from now on. Local; `MPI_Win_attach`. Others can access it after
    /// the next [`DynamicWindow::publish`].
    ///
    /// That the memory is a vector's rules out an address that is misaligned, out of range or attached twice.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for no elements; the MPI error otherwise.
    pub fn attach(&mut self, memory: Vec<T>) -> Result<Region> {
        const CALL: &str = "MPI_Win_attach";
        if memory.is_empty() {
            return Err(Error::argument(
                CALL,
                "memory",
                "empty",
                "at least one element",
            ));
        }
        let size = bytes::<T>(CALL, memory.len())?;
        let mut memory = memory;
        let base = NonNull::new(memory.as_mut_ptr()).expect("a vector's pointer is not null");
        let mut address: sys::MPI_Aint = 0;
        // SAFETY: the memory is owned by the window from here on, and every bit pattern that a remote
        // process may write is a valid element. Vectors don't overlap: it is not attached already.
        unsafe {
            mpi!(MPI_Get_address(base.as_ptr().cast(), &raw mut address))?;
            mpi!(MPI_Win_attach(
                self.window.as_raw(),
                base.as_ptr().cast(),
                size
            ))?;
        }
        let memory = std::mem::ManuallyDrop::new(memory);
        let region = Region {
            address: address.cast_unsigned() as u64,
            bytes: size_of_val(memory.as_slice()) as u64,
        };
        self.attached.push(Attached {
            region,
            base,
            capacity: memory.capacity(),
            offered: true,
            known: false,
        });
        Ok(region)
    }

    /// Lets the next [`DynamicWindow::publish`] tell the others nothing of a region any more. Local.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a region that is not attached here.
    pub fn withdraw(&mut self, region: Region) -> Result<()> {
        let index = self.find("DynamicWindow::withdraw", region)?;
        self.attached[index].offered = false;
        Ok(())
    }

    /// Tells everybody which regions are attached and not withdrawn. When it returns, no operation on any
    /// other region is going on. Collective and blocking; `MPI_Allgather` and `MPI_Allgatherv`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn publish(&mut self) -> Result<()> {
        let mut words = Vec::new();
        for attached in &mut self.attached {
            attached.known |= attached.offered;
            if attached.offered {
                words.extend([attached.region.address, attached.region.bytes]);
            }
        }
        // Nobody's epoch is open when it comes here, since `self` is borrowed exclusively; and what an
        // epoch started is complete at the exposed rank when it has closed, or, after start and complete,
        // when that rank's own scope of post and wait has.
        let everybody = self
            .communicator
            .all_gather_bytes(crate::mpi::datatype::bytes_of(&words))?;
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        let regions = everybody.iter().map(|bytes| {
            bytes
                .chunks_exact(16)
                .map(|pair| Region {
                    address: word(&pair[..8]),
                    bytes: word(&pair[8..]),
                })
                .collect()
        });
        self.window.bounds = Bounds::Regions(regions.collect());
        for attached in &mut self.attached {
            attached.known = attached.offered;
        }
        Ok(())
    }

    /// Detaches memory and gives it back. Local; `MPI_Win_detach`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a region that is not attached here; [`Error::State`] while others may access it;
    /// the MPI error otherwise.
    pub fn detach(&mut self, region: Region) -> Result<Vec<T>> {
        const CALL: &str = "MPI_Win_detach";
        let index = self.find(CALL, region)?;
        if self.attached[index].known {
            return Err(Error::state(
                CALL,
                "others may access the region: withdraw it, and publish",
            ));
        }
        // SAFETY: the region is attached, and no other process knows of it.
        unsafe {
            mpi!(MPI_Win_detach(
                self.window.as_raw(),
                self.attached[index].base.as_ptr().cast()
            ))?
        };
        Ok(self.attached.remove(index).into_vector())
    }

    /// The regions that a rank has published, in the order in which it attached them.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a rank that is not in the window.
    pub fn regions(&self, rank: usize) -> Result<&[Region]> {
        self.window.check_rank("DynamicWindow::regions", rank)?;
        match &self.window.bounds {
            Bounds::Regions(regions) => Ok(&regions[rank]),
            Bounds::Elements { .. } => Ok(&[]),
        }
    }

    /// Memory of a region of this process, for copies in and out.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a region that is not attached here.
    pub fn attached(&self, region: Region) -> Result<Memory<'_, T>> {
        let index = self.find("DynamicWindow::attached", region)?;
        let attached = &self.attached[index];
        // SAFETY: the memory is owned by the window, and stays for as long as it is borrowed.
        Ok(unsafe { Memory::new(attached.base, attached.length()) })
    }

    /// Frees the window and what is attached to it. Collective and blocking (a barrier); `MPI_Win_free`,
    /// `MPI_Comm_free`.
    ///
    /// # Errors
    ///
    /// The MPI error; the memory is left behind then.
    pub fn free(self) -> Result<()> {
        self.window.free()?;
        for attached in self.attached {
            drop(attached.into_vector());
        }
        self.communicator.free()
    }

    fn find(&self, operation: &'static str, region: Region) -> Result<usize> {
        self.attached
            .iter()
            .position(|attached| attached.region == region)
            .ok_or_else(|| {
                Error::argument(
                    operation,
                    "region",
                    format!("{} bytes at {:#x}", region.bytes, region.address),
                    "one that is attached here",
                )
            })
    }
}

impl<T> Attached<T> {
    fn length(&self) -> usize {
        usize::try_from(self.region.bytes).expect("the vector had a usize of bytes")
            / size_of::<T>()
    }

    fn into_vector(self) -> Vec<T> {
        // SAFETY: the parts are those of the vector that was attached; it is detached, or its window
        // freed, and they are given away once.
        unsafe { Vec::from_raw_parts(self.base.as_ptr(), self.length(), self.capacity) }
    }
}

impl<T: Element> Deref for DynamicWindow<T> {
    type Target = Window<T>;

    fn deref(&self) -> &Window<T> {
        &self.window
    }
}
