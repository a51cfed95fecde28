//! What a window says of itself: attributes, group, name, hints (MPI standard, chapters 12.2.6, 12.2.7 and 7.8).

use std::ffi::{CStr, c_char, c_int};

use super::bounds::{Boundary, Bounds};
use super::create::Window;
use crate::mpi::datatype::{Element, unsigned};
use crate::mpi::error::{Error, Result, mpi};
use crate::mpi::group::Group;
use crate::mpi::info::{Info, c_string};
use crate::sys;

/// How a window was created (`MPI_WIN_CREATE_FLAVOR`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Over memory of the process.
    Create,
    /// Over memory that MPI allocated.
    Allocate,
    /// The same, shared between the processes of a node.
    Shared,
    /// Without memory.
    Dynamic,
}

/// How loads and stores see what others did to the memory (`MPI_WIN_MODEL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// There is a private copy, which synchronization updates.
    Separate,
    /// There is one copy.
    Unified,
}

/// The attributes of a window in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// `MPI_WIN_BASE`: address of the first byte; of no use where nothing is exposed.
    pub base: usize,
    /// `MPI_WIN_SIZE`: bytes.
    pub size: usize,
    /// `MPI_WIN_DISP_UNIT`: bytes per displacement.
    pub unit: usize,
    /// `MPI_WIN_CREATE_FLAVOR`
    pub flavour: Flavour,
    /// `MPI_WIN_MODEL`
    pub model: Model,
}

impl<T: Element> Window<T> {
    /// The predefined attributes. Local; `MPI_Win_get_attr`.
    ///
    /// # Errors
    ///
    /// The MPI error; [`Error::State`] for a value that the standard does not know.
    pub fn attributes(&self) -> Result<Attributes> {
        const CALL: &str = "MPI_Win_get_attr";
        let unknown = |name: &str| Error::state(CALL, format!("an unknown value of {name}"));
        let base = self.attribute::<u8>(sys::MPI_WIN_BASE)?.addr();
        let size = self.attribute::<sys::MPI_Aint>(sys::MPI_WIN_SIZE)?;
        // SAFETY: the attribute is a pointer to an MPI_Aint that lives as long as the window (MPI 4.1,
        // 12.2.6).
        let size = unsafe { size.read() };
        let [unit, flavour, model] = [
            sys::MPI_WIN_DISP_UNIT,
            sys::MPI_WIN_CREATE_FLAVOR,
            sys::MPI_WIN_MODEL,
        ]
        .map(|key| {
            self.attribute::<c_int>(key)
                // SAFETY: these attributes are pointers to an int that lives as long as the window.
                .map(|value| unsafe { value.read() })
        });
        let (flavour, model) = (flavour?, model?);
        let mut base = base;
        let mut size = usize::try_from(size).map_err(|_| unknown("MPI_WIN_SIZE"))?;
        if Boundary::is_needed() {
            base = self.memory().as_ptr().addr();
            size = self.memory().len() * size_of::<T>();
        }
        Ok(Attributes {
            base,
            size,
            unit: unsigned(unit?),
            flavour: [
                (sys::MALLEUS_WIN_FLAVOR_CREATE, Flavour::Create),
                (sys::MALLEUS_WIN_FLAVOR_ALLOCATE, Flavour::Allocate),
                (sys::MALLEUS_WIN_FLAVOR_SHARED, Flavour::Shared),
                (sys::MALLEUS_WIN_FLAVOR_DYNAMIC, Flavour::Dynamic),
            ]
            .into_iter()
            .find_map(|(raw, known)| (raw == flavour).then_some(known))
            .ok_or_else(|| unknown("MPI_WIN_CREATE_FLAVOR"))?,
            model: [
                (sys::MALLEUS_WIN_SEPARATE, Model::Separate),
                (sys::MALLEUS_WIN_UNIFIED, Model::Unified),
            ]
            .into_iter()
            .find_map(|(raw, known)| (raw == model).then_some(known))
            .ok_or_else(|| unknown("MPI_WIN_MODEL"))?,
        })
    }

    /// The pointer that MPI keeps for an attribute that every window has.
    fn attribute<V>(&self, key: c_int) -> Result<*const V> {
        const CALL: &str = "MPI_Win_get_attr";
        let mut value: *const V = std::ptr::null();
        let mut found: c_int = 0;
        // SAFETY: the window is valid; the call writes a pointer to `value`.
        unsafe {
            mpi!(MPI_Win_get_attr(
                self.as_raw(),
                key,
                (&raw mut value).cast(),
                &raw mut found
            ))?;
        }
        if found == 0 || (value.is_null() && key != sys::MPI_WIN_BASE) {
            return Err(Error::state(CALL, "a predefined attribute is not set"));
        }
        Ok(value)
    }

    /// Number of elements that a rank exposes; nothing in a dynamic window. Local.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a rank that is not in the window.
    pub fn exposed_by(&self, rank: usize) -> Result<u64> {
        self.check_rank("Window::exposed_by", rank)?;
        Ok(match &self.bounds {
            Bounds::Elements { lengths, .. } => lengths[rank],
            Bounds::Regions(_) => 0,
        })
    }

    /// The processes of the window. Local; `MPI_Win_get_group`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn group(&self) -> Result<Group> {
        let mut raw = sys::MALLEUS_GROUP_NULL;
        // SAFETY: the window is valid.
        unsafe { mpi!(MPI_Win_get_group(self.as_raw(), &raw mut raw))? };
        Ok(Group::adopt(raw, self.inner()))
    }

    /// Names the window, for debuggers. Local; `MPI_Win_set_name`. MPI cuts a name that is too long.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a name with a zero byte; the MPI error otherwise.
    pub fn set_name(&self, name: &str) -> Result<()> {
        let name = c_string("MPI_Win_set_name", "name", name)?;
        // SAFETY: the window is valid, the name a C string.
        unsafe { mpi!(MPI_Win_set_name(self.as_raw(), name.as_ptr())) }
    }

    /// The window's name; empty unless it was given one. Local; `MPI_Win_get_name`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn name(&self) -> Result<String> {
        let mut buffer: Vec<c_char> = vec![0; sys::MPI_MAX_OBJECT_NAME as usize + 1];
        let mut length: c_int = 0;
        // SAFETY: the window is valid; the buffer has more than MPI_MAX_OBJECT_NAME bytes, and ends with a zero
        // that the call does not overwrite.
        let name = unsafe {
            mpi!(MPI_Win_get_name(
                self.as_raw(),
                buffer.as_mut_ptr(),
                &raw mut length
            ))?;
            CStr::from_ptr(buffer.as_ptr())
        };
        Ok(name.to_string_lossy().into_owned())
    }

    /// The hints that are in use. Local; `MPI_Win_get_info`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn info(&self) -> Result<Info> {
        let mut raw = sys::MALLEUS_INFO_NULL;
        // SAFETY: the window is valid; the new object is owned here.
        unsafe { mpi!(MPI_Win_get_info(self.as_raw(), &raw mut raw))? };
        Ok(Info::adopt(raw, self.inner()))
    }

    /// Gives new hints. Collective; `MPI_Win_set_info`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn set_info(&self, info: &Info) -> Result<()> {
        // SAFETY: window and info are valid.
        unsafe { mpi!(MPI_Win_set_info(self.as_raw(), info.as_raw())) }
    }
}
