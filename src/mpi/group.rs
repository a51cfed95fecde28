//! Groups of processes (MPI standard, chapter 7.3).

use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use super::datatype::{int, unsigned};
use super::environment::{Environment, Inner};
use super::error::{Error, Result, mpi};
use crate::sys;

/// How two groups, or the groups of two communicators, compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `MPI_IDENT`: the same group, or handles to the same communicator.
    Identical,
    /// `MPI_CONGRUENT`: two communicators of the same processes in the same order.
    Congruent,
    /// `MPI_SIMILAR`: the same processes in another order.
    Similar,
    /// `MPI_UNEQUAL`: anything else.
    Unequal,
}

impl Comparison {
    pub(super) fn from_raw(raw: c_int) -> Self {
        match raw {
            sys::MPI_IDENT => Self::Identical,
            sys::MPI_CONGRUENT => Self::Congruent,
            sys::MPI_SIMILAR => Self::Similar,
            _ => Self::Unequal,
        }
    }
}

/// An ordered set of processes. Everything about it is local.
#[derive(Debug)]
pub struct Group {
    raw: sys::MPI_Group,
    environment: Arc<Inner>,
    on_its_thread: PhantomData<*const ()>,
}

impl Group {
    pub(super) fn adopt(raw: sys::MPI_Group, environment: &Arc<Inner>) -> Self {
        Self {
            raw,
            environment: Arc::clone(environment),
            on_its_thread: PhantomData,
        }
    }

    /// The raw handle, for calls through [`crate::sys`]. It stays owned by this group.
    #[must_use]
    pub fn as_raw(&self) -> sys::MPI_Group {
        self.raw
    }

    /// Number of processes. `MPI_Group_size`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn size(&self) -> Result<usize> {
        let mut size: c_int = 0;
        // SAFETY: the group is valid as long as `self` lives.
        unsafe { mpi!(MPI_Group_size(self.raw, &raw mut size))? };
        Ok(unsigned(size))
    }

    /// Rank of this process; `None` if it is not in the group. `MPI_Group_rank`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn rank(&self) -> Result<Option<usize>> {
        let mut rank: c_int = 0;
        // SAFETY: the group is valid as long as `self` lives.
        unsafe { mpi!(MPI_Group_rank(self.raw, &raw mut rank))? };
        // MPI_UNDEFINED is negative.
        Ok(usize::try_from(rank).ok())
    }

    /// The processes with these ranks, in this order. `MPI_Group_incl`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a rank that is not in the group, or twice; the MPI error otherwise.
    pub fn include(&self, ranks: &[usize]) -> Result<Self> {
        const CALL: &str = "MPI_Group_incl";
        let ranks = self.ranks(CALL, ranks, true)?;
        let count = int(CALL, "ranks", ranks.len())?;
        // SAFETY: the group is valid, and `ranks` holds `count` integers.
        self.derive(|raw| unsafe { mpi!(MPI_Group_incl(self.raw, count, ranks.as_ptr(), raw)) })
    }

    /// All processes but those with these ranks. `MPI_Group_excl`.
    ///
    /// # Errors
    ///
    /// As for [`Group::include`].
    pub fn exclude(&self, ranks: &[usize]) -> Result<Self> {
        const CALL: &str = "MPI_Group_excl";
        let ranks = self.ranks(CALL, ranks, true)?;
        let count = int(CALL, "ranks", ranks.len())?;
        // SAFETY: the group is valid, and `ranks` holds `count` integers.
        self.derive(|raw| unsafe { mpi!(MPI_Group_excl(self.raw, count, ranks.as_ptr(), raw)) })
    }

    /// The processes of this group, then those that only the other has. `MPI_Group_union`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn union(&self, other: &Self) -> Result<Self> {
        // SAFETY: both groups are valid.
        self.derive(|raw| unsafe { mpi!(MPI_Group_union(self.raw, other.raw, raw)) })
    }

    /// The processes of this group that the other has too. `MPI_Group_intersection`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn intersection(&self, other: &Self) -> Result<Self> {
        // SAFETY: both groups are valid.
        self.derive(|raw| unsafe { mpi!(MPI_Group_intersection(self.raw, other.raw, raw)) })
    }

    /// The processes of this group that the other does not have. `MPI_Group_difference`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn difference(&self, other: &Self) -> Result<Self> {
        // SAFETY: both groups are valid.
        self.derive(|raw| unsafe { mpi!(MPI_Group_difference(self.raw, other.raw, raw)) })
    }

    /// The ranks that these processes have in another group; `None` for those that are not in it.
    /// `MPI_Group_translate_ranks`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a rank that is not in this group; the MPI error otherwise.
    pub fn translate(&self, ranks: &[usize], other: &Self) -> Result<Vec<Option<usize>>> {
        const CALL: &str = "MPI_Group_translate_ranks";
        let ranks = self.ranks(CALL, ranks, false)?;
        let count = int(CALL, "ranks", ranks.len())?;
        let mut translated = vec![0; ranks.len()];
        // SAFETY: both groups are valid; both lists hold `count` integers.
        unsafe {
            mpi!(MPI_Group_translate_ranks(
                self.raw,
                count,
                ranks.as_ptr(),
                other.raw,
                translated.as_mut_ptr()
            ))?;
        }
        // MPI_UNDEFINED is negative.
        let rank = |raw| usize::try_from(raw).ok();
        Ok(translated.into_iter().map(rank).collect())
    }

    /// How two groups compare. `MPI_Group_compare`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn compare(&self, other: &Self) -> Result<Comparison> {
        let mut result = 0;
        // SAFETY: both groups are valid.
        unsafe { mpi!(MPI_Group_compare(self.raw, other.raw, &raw mut result))? };
        Ok(Comparison::from_raw(result))
    }

    /// Gives the handle away, which then has to be freed through [`crate::sys`].
    #[must_use]
    pub fn into_raw(mut self) -> sys::MPI_Group {
        std::mem::replace(&mut self.raw, sys::MALLEUS_GROUP_NULL)
    }

    /// Takes over a group that was made through [`crate::sys`].
    ///
    /// # Safety
    ///
    /// `raw` is a group of MPI's present initialization that nobody else frees.
    #[must_use]
    pub unsafe fn from_raw(raw: sys::MPI_Group, environment: &Environment) -> Self {
        Self::adopt(raw, &environment.inner)
    }

    fn derive(&self, call: impl FnOnce(*mut sys::MPI_Group) -> Result<()>) -> Result<Self> {
        let mut raw = sys::MALLEUS_GROUP_NULL;
        call(&raw mut raw)?;
        Ok(Self::adopt(raw, &self.environment))
    }

    /// Ranks as MPI takes them, all in the group, and `distinct` where it matters: an error of a group is
    /// no communicator's, and its handler may be the application's.
    fn ranks(
        &self,
        operation: &'static str,
        ranks: &[usize],
        distinct: bool,
    ) -> Result<Vec<c_int>> {
        let size = self.size()?;
        let mut seen = vec![false; size];
        let check = |&rank: &usize| {
            if rank >= size {
                let expected = format!("a rank below {size}");
                return Err(Error::argument(operation, "ranks", rank, expected));
            }
            if std::mem::replace(&mut seen[rank], true) && distinct {
                let found = format!("{rank} twice");
                return Err(Error::argument(operation, "ranks", found, "each rank once"));
            }
            int(operation, "ranks", rank)
        };
        ranks.iter().map(check).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // MPI_GROUP_EMPTY is predefined: MPI may give it out, and allows to free what it gave out.
        if self.raw != sys::MALLEUS_GROUP_NULL {
            // SAFETY: the group is valid and this is its last use; freeing it is local.
            unsafe { sys::MPI_Group_free(&raw mut self.raw) };
        }
    }
}
