//! MPI's own Alltoallv, each time or persistent.

use std::ffi::c_int;

use super::Buffers;
use super::pieces::Pieces;
use crate::mpi::datatype::{address, large_count};
use crate::mpi::error::mpi;
use crate::mpi::{self, Communicator, Element};
use crate::sys;

/// Counts and displacements as MPI wants them.
#[derive(Debug)]
pub(super) enum Arguments {
    Int {
        counts: [Vec<c_int>; 2],
        displacements: [Vec<c_int>; 2],
    },
    Large {
        counts: [Vec<sys::MPI_Count>; 2],
        displacements: [Vec<sys::MPI_Aint>; 2],
    },
}

/// Calls the form for the size of the numbers.
macro_rules! call {
    ($small:ident | $large:ident, $arguments:expr, $communicator:expr, $buffers:expr $(, $more:expr)*) => {{
        let (raw, kind) = ($communicator.as_raw(), T::KIND.as_raw());
        let receive = $buffers.receive.cast();
        let send = if $buffers.send.is_null() {
            sys::in_place().cast_const()
        } else {
            $buffers.send.cast_const().cast()
        };
        macro_rules! with {
            ($function:ident, $counts:expr, $displacements:expr) => {
                mpi!($function(
                    send,
                    $counts[0].as_ptr(),
                    $displacements[0].as_ptr(),
                    kind,
                    receive,
                    $counts[1].as_ptr(),
                    $displacements[1].as_ptr(),
                    kind,
                    raw
                    $(, $more)*
                ))
            };
        }
        match $arguments {
            Self::Int { counts, displacements } => with!($small, counts, displacements),
            Self::Large { counts, displacements } => with!($large, counts, displacements),
        }
    }};
}

impl Arguments {
    pub(super) fn new(pieces: &Pieces) -> mpi::Result<Self> {
        let sides = [&pieces.send, &pieces.receive];
        let displacements = sides.map(|layout| {
            let blocks = 0..layout.counts().len();
            blocks
                .map(|rank| layout.block(rank).start)
                .collect::<Vec<_>>()
        });
        let counts = sides.map(|layout| layout.counts().to_vec());
        let small = |numbers: &[Vec<usize>; 2]| {
            let ints = |numbers: &Vec<usize>| -> Option<Vec<c_int>> {
                numbers
                    .iter()
                    .map(|&number| c_int::try_from(number).ok())
                    .collect()
            };
            Some([ints(&numbers[0])?, ints(&numbers[1])?])
        };
        if let (Some(counts), Some(displacements)) = (small(&counts), small(&displacements)) {
            return Ok(Self::Int {
                counts,
                displacements,
            });
        }
        let address = |&number: &usize| address("MPI_Alltoallv", "displacement", number as u64);
        let addresses = |numbers: &[usize]| numbers.iter().map(address).collect();
        let addresses = |numbers: &[usize]| -> mpi::Result<_> { addresses(numbers) };
        Ok(Self::Large {
            counts: counts.map(|counts| counts.into_iter().map(large_count).collect()),
            displacements: [addresses(&displacements[0])?, addresses(&displacements[1])?],
        })
    }

    /// # Safety
    ///
    /// They fit the buffers, which nobody else uses meanwhile.
    pub(super) unsafe fn exchange<T: Element>(
        &self,
        communicator: &Communicator,
        buffers: Buffers<T>,
    ) -> mpi::Result<()> {
        // SAFETY: the caller's promises.
        unsafe { call!(MPI_Alltoallv | MPI_Alltoallv_c, self, communicator, buffers) }
    }

    /// # Safety
    ///
    /// They fit the buffers. Both stay where they are as long as the request lives.
    pub(super) unsafe fn initialize<T: Element>(
        &self,
        communicator: &Communicator,
        buffers: Buffers<T>,
    ) -> mpi::Result<sys::MPI_Request> {
        let mut request = sys::MALLEUS_REQUEST_NULL;
        // SAFETY: the caller's promises.
        unsafe {
            call!(
                MPI_Alltoallv_init | MPI_Alltoallv_init_c,
                self,
                communicator,
                buffers,
                sys::MALLEUS_INFO_NULL,
                &raw mut request
            )?;
        }
        Ok(request)
    }
}
