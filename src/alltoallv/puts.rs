//! Puts into windows, and epochs to exactly the ranks with data.

use std::ffi::c_int;

use super::pieces::{Piece, Pieces, places};
use super::zero;
use crate::mpi::datatype::int;
use crate::mpi::error::{mpi, mpi_count};
use crate::mpi::window::Window;
use crate::mpi::{self, Communicator, Element, Environment, Group};
use crate::sys;

/// The puts of an exchange.
pub(super) struct Puts<T> {
    puts: Vec<Put>,
    /// Those of them whose end does not mean that the target has the data, and room for an element of each.
    unconfirmed: Vec<(Put, T)>,
}

/// An `MPI_Put` of one piece.
#[derive(Clone, Copy, Debug)]
struct Put {
    peer: c_int,
    from: usize,
    count: usize,
    to: sys::MPI_Aint,
}

/// For each rank, whether what ends a put says nothing about whether it has the data (decision record 22): with tcp, those
/// that MPICH does not reach through shared memory. It does reach those on this node that were started together with this
/// process. Collective as [`Pieces::places`] is.
pub(super) fn unconfirmed(communicator: &Communicator, pieces: &Pieces) -> mpi::Result<Vec<bool>> {
    if !Environment::may_use_tcp() {
        return Ok(vec![false; communicator.size()]);
    }
    let near = pieces.places(communicator)?;
    let world = communicator.environment().world();
    let together = places(communicator, &world)?;
    let both = near.iter().zip(&together);
    Ok(both
        .map(|(near, together)| near.is_none() || together.is_none())
        .collect())
}

impl<T: Element> Puts<T> {
    /// Checks each against what its target exposes. `unconfirmed` is what the function of that name says.
    pub(super) fn new(
        window: &Window<T>,
        pieces: &[Piece],
        unconfirmed: &[bool],
    ) -> mpi::Result<Self> {
        const CALL: &str = "MPI_Put";
        let put = |piece: &Piece| {
            Ok(Put {
                peer: int(CALL, "rank", piece.peer)?,
                from: piece.from,
                count: piece.count,
                to: window.displacement(CALL, piece.peer, piece.to, piece.count as u64)?,
            })
        };
        let puts: Vec<Put> = pieces.iter().map(put).collect::<mpi::Result<_>>()?;
        let asked = pieces.iter().zip(&puts);
        let asked = asked.filter(|(piece, _)| unconfirmed[piece.peer]);
        Ok(Self {
            unconfirmed: asked.map(|(_, put)| (*put, zero())).collect(),
            puts,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.puts.is_empty()
    }

    /// # Safety
    ///
    /// An epoch to the targets is open on the window; the pieces lie inside of the elements from `send` on, which stay as they
    /// are until the epoch ends.
    #[inline]
    pub(super) unsafe fn start(&self, window: sys::MPI_Win, send: *const T) -> mpi::Result<()> {
        let kind = T::KIND.as_raw();
        for put in &self.puts {
            // SAFETY: the caller's promises; what the target exposes was checked.
            unsafe {
                let origin = send.add(put.from).cast();
                mpi_count!(MPI_Put | MPI_Put_c, put.count, |count| (
                    origin, count, kind, put.peer, put.to, count, kind, window
                ))?;
            }
        }
        Ok(())
    }

    /// Asks those targets for an element behind the data of which the end of a put says nothing: requests of one process to
    /// another one are served in order, so that the answer says that the data is there.
    ///
    /// # Safety
    ///
    /// The epoch of the puts is still open, and ends before this value is used again.
    #[inline]
    pub(super) unsafe fn confirm(&mut self, window: sys::MPI_Win) -> mpi::Result<()> {
        let kind = T::KIND.as_raw();
        for (put, place) in &mut self.unconfirmed {
            let place = (&raw mut *place).cast();
            // SAFETY: the element was just put, so that the target exposes it; its place lives as long as the plan.
            unsafe { mpi!(MPI_Get(place, 1, kind, put.peer, put.to, 1, kind, window))? };
        }
        Ok(())
    }
}

/// Epochs to exactly the ranks with data.
pub(super) struct Pscw<T: Element> {
    window: Window<T>,
    puts: Puts<T>,
    /// Those that this rank sends to, and those that send to it.
    targets: Option<Group>,
    sources: Option<Group>,
}

impl<T: Element> Pscw<T> {
    pub(super) fn new(
        communicator: &Communicator,
        window: Window<T>,
        (sends, sources): (&[Piece], &[usize]),
        unconfirmed: &[bool],
    ) -> mpi::Result<Self> {
        let all = communicator.group()?;
        let group = |ranks: &[usize]| {
            let some = !ranks.is_empty();
            some.then(|| all.include(ranks)).transpose()
        };
        let targets: Vec<usize> = sends.iter().map(|piece| piece.peer).collect();
        Ok(Self {
            puts: Puts::new(&window, sends, unconfirmed)?,
            window,
            targets: group(&targets)?,
            sources: group(sources)?,
        })
    }

    /// # Safety
    ///
    /// Others may write this rank's memory until [`Pscw::wait`]; the elements from `send` on stay as they are until then.
    pub(super) unsafe fn start(&mut self, send: *const T) -> mpi::Result<()> {
        let raw = self.window.as_raw();
        // SAFETY: no epoch is open on the window; each one is closed here or in `wait`.
        unsafe {
            if let Some(sources) = &self.sources {
                mpi!(MPI_Win_post(sources.as_raw(), 0, raw))?;
            }
            if let Some(targets) = &self.targets {
                mpi!(MPI_Win_start(targets.as_raw(), 0, raw))?;
                self.puts.start(raw, send)?;
                self.puts.confirm(raw)?;
                mpi!(MPI_Win_complete(raw))?;
            }
        }
        Ok(())
    }

    pub(super) fn test(&mut self) -> mpi::Result<bool> {
        // MPI_Win_test ends the epoch where it says yes, so that only `wait` may ask.
        Ok(self.sources.is_none())
    }

    pub(super) fn wait(&mut self) -> mpi::Result<()> {
        if self.sources.is_some() {
            // SAFETY: the epoch was opened by `start`.
            unsafe { mpi!(MPI_Win_wait(self.window.as_raw()))? };
        }
        Ok(())
    }

    pub(super) fn free(self) -> mpi::Result<()> {
        self.window.free()
    }

    pub(super) fn memory(&self) -> *mut T {
        self.window.memory().as_ptr()
    }
}
