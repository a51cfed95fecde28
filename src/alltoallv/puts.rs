//! Puts into windows, and epochs to exactly the ranks with data.

use std::ffi::c_int;

use super::pieces::Piece;
use super::zero;
use crate::mpi::datatype::int;
use crate::mpi::error::{mpi, mpi_count};
use crate::mpi::window::Window;
use crate::mpi::{self, Communicator, Element, Environment, Group};
use crate::sys;

/// The puts of an exchange.
pub(super) struct Puts<T> {
    puts: Vec<Put>,
    /// Room for an element of each target, where the end of a put does not mean that it has the data (decision record 22).
    confirmed: Vec<T>,
}

/// An `MPI_Put` of one piece.
#[derive(Clone, Copy, Debug)]
struct Put {
    peer: c_int,
    from: usize,
    count: usize,
    to: sys::MPI_Aint,
}

/// Whether what ends a put with this provider says nothing about its target.
fn is_unconfirmed() -> bool {
    Environment::provider().is_some_and(|provider| provider.starts_with("tcp"))
}

impl<T: Element> Puts<T> {
    /// Checks each against what its target exposes.
    pub(super) fn new(window: &Window<T>, pieces: &[Piece]) -> mpi::Result<Self> {
        const CALL: &str = "MPI_Put";
        let put = |piece: &Piece| {
            Ok(Put {
                peer: int(CALL, "rank", piece.peer)?,
                from: piece.from,
                count: piece.count,
                to: window.displacement(CALL, piece.peer, piece.to, piece.count as u64)?,
            })
        };
        Ok(Self {
            puts: pieces.iter().map(put).collect::<mpi::Result<_>>()?,
            confirmed: vec![zero(); if is_unconfirmed() { pieces.len() } else { 0 }],
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

    /// Asks each target for an element behind the data where the end of a put says nothing: requests of one process to
    /// another one are served in order, so that the answer says that the data is there.
    ///
    /// # Safety
    ///
    /// The epoch of the puts is still open, and ends before this value is used again.
    #[inline]
    pub(super) unsafe fn confirm(&mut self, window: sys::MPI_Win) -> mpi::Result<()> {
        let kind = T::KIND.as_raw();
        for (put, place) in self.puts.iter().zip(&mut self.confirmed) {
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
        sends: &[Piece],
        sources: &[usize],
    ) -> mpi::Result<Self> {
        let all = communicator.group()?;
        let group = |ranks: &[usize]| {
            let some = !ranks.is_empty();
            some.then(|| all.include(ranks)).transpose()
        };
        let targets: Vec<usize> = sends.iter().map(|piece| piece.peer).collect();
        Ok(Self {
            puts: Puts::new(&window, sends)?,
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
