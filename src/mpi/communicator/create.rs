//! Communicators out of others (MPI standard, chapter 7.4.2).

use std::ffi::c_int;

use super::Communicator;
use crate::mpi::datatype::int;
use crate::mpi::error::{Error, Result, mpi};
use crate::mpi::group::Group;
use crate::mpi::info::Info;
use crate::sys;

/// How [`Communicator::split_type`] divides the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitType<'a> {
    /// `MPI_COMM_TYPE_SHARED`: those that can share memory.
    Shared,
    /// `MPI_COMM_TYPE_HW_GUIDED`: those on the same hardware of this type, as the MPI library names it
    /// (the info key `mpi_hw_resource_type`).
    HardwareGuided(&'a str),
    /// `MPI_COMM_TYPE_HW_UNGUIDED`: those on the same part of the next smaller hardware level.
    HardwareUnguided,
}

impl Communicator {
    /// A new communicator of the same processes. Collective; `MPI_Comm_dup`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn duplicate(&self) -> Result<Self> {
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: the communicator is valid.
        unsafe { mpi!(MPI_Comm_dup(self.as_raw(), &raw mut raw))? };
        Self::adopt(raw, self.inner())
    }

    /// As [`Communicator::duplicate`], with these hints instead of those of this communicator.
    /// Collective; `MPI_Comm_dup_with_info`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn duplicate_with_info(&self, info: &Info) -> Result<Self> {
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: communicator and info are valid.
        unsafe {
            mpi!(MPI_Comm_dup_with_info(
                self.as_raw(),
                info.as_raw(),
                &raw mut raw
            ))?;
        }
        Self::adopt(raw, self.inner())
    }

    /// One new communicator per colour; ranks ordered by key, then by old rank. `None` as colour takes
    /// part in none. Collective; `MPI_Comm_split`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a colour beyond `int`; the MPI error otherwise.
    pub fn split(&self, color: Option<usize>, key: usize) -> Result<Option<Self>> {
        let color = match color {
            Some(color) => int("MPI_Comm_split", "color", color)?,
            None => sys::MPI_UNDEFINED as c_int,
        };
        let key = int("MPI_Comm_split", "key", key)?;
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: the communicator is valid.
        unsafe { mpi!(MPI_Comm_split(self.as_raw(), color, key, &raw mut raw))? };
        self.adopt_unless_null(raw)
    }

    /// The processes that can share memory with this one. Collective; `MPI_Comm_split_type` with
    /// `MPI_COMM_TYPE_SHARED`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn split_shared(&self) -> Result<Self> {
        let shared = self.split_type(&SplitType::Shared, self.rank(), None)?;
        shared.ok_or_else(|| Error::state("MPI_Comm_split_type", "no node has this process"))
    }

    /// One new communicator per part of the machine; ranks ordered by key, then by old rank. `None` where
    /// this process belongs to no such part. Collective; `MPI_Comm_split_type`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a key beyond `int` or a text with a zero byte; the MPI error otherwise.
    pub fn split_type(
        &self,
        split_type: &SplitType<'_>,
        key: usize,
        info: Option<&Info>,
    ) -> Result<Option<Self>> {
        const CALL: &str = "MPI_Comm_split_type";
        let key = int(CALL, "key", key)?;
        let mut resource = match info {
            Some(info) => info.duplicate()?,
            None => Info::new(&self.environment())?,
        };
        let kind = match split_type {
            SplitType::Shared => sys::MPI_COMM_TYPE_SHARED,
            SplitType::HardwareGuided(name) => {
                resource.set("mpi_hw_resource_type", name)?;
                sys::MPI_COMM_TYPE_HW_GUIDED
            }
            SplitType::HardwareUnguided => sys::MPI_COMM_TYPE_HW_UNGUIDED,
        };
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: communicator and info are valid.
        unsafe {
            mpi!(MPI_Comm_split_type(
                self.as_raw(),
                kind as c_int,
                key,
                resource.as_raw(),
                &raw mut raw
            ))?;
        }
        self.adopt_unless_null(raw)
    }

    /// A communicator of a part of these processes; `None` on those that are not in the group. All
    /// processes give the same group, or groups that share none. Collective; `MPI_Comm_create`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn create(&self, group: &Group) -> Result<Option<Self>> {
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: communicator and group are valid.
        unsafe {
            mpi!(MPI_Comm_create(self.as_raw(), group.as_raw(), &raw mut raw))?;
        }
        self.adopt_unless_null(raw)
    }

    /// A communicator of a part of these processes, made by that part alone. Collective over the
    /// group; `MPI_Comm_create_group`.
    ///
    /// # Errors
    ///
    /// The MPI error, among others where this process is not in the group.
    pub fn create_group(&self, group: &Group, tag: i32) -> Result<Self> {
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: communicator and group are valid.
        unsafe {
            mpi!(MPI_Comm_create_group(
                self.as_raw(),
                group.as_raw(),
                tag,
                &raw mut raw
            ))?
        };
        self.adopt_unless_null(raw)?.ok_or_else(|| {
            Error::argument(
                "MPI_Comm_create_group",
                "group",
                "a group without this process",
                "one with it",
            )
        })
    }
}
