//! RMA1 and RMA2: the targets read from the sources' memory (paper R, algorithms 2 and 3).
//!
//! Every rank creates the window: sources expose their block, ranks that are only targets expose
//! nothing. The locks are shared and promise `MPI_MODE_NOCHECK`, since everybody only reads. As printed,
//! the loops of the algorithms stop before the last source; they mean to include it.

use std::time::Instant;

use super::{Bytes, Times, each_destination};
use crate::mpi::window::{Assertion, LockKind, PassiveEpoch, Window};
use crate::mpi::{self, Communicator};

/// RMA1 (algorithm 2): all locks and gets, then all unlocks.
pub(super) fn lock_each(
    communicator: &Communicator,
    receives: &[Bytes],
    source: &mut [u8],
    target: &mut [u8],
) -> mpi::Result<Times> {
    timed(communicator, source, |window| {
        window.locks(|epoch| {
            each_destination(receives, target, |piece, destination| {
                epoch.lock(LockKind::Shared, piece.peer, Assertion::NoCheck)?;
                get(epoch, piece, destination)
            })
        })
    })
}

/// RMA2 (algorithm 3): one epoch to all.
pub(super) fn lock_all(
    communicator: &Communicator,
    receives: &[Bytes],
    source: &mut [u8],
    target: &mut [u8],
) -> mpi::Result<Times> {
    timed(communicator, source, |window| {
        if receives.is_empty() {
            // Only a source: algorithm 3 opens no epoch there.
            return Ok(());
        }
        window.lock_all(Assertion::NoCheck, |epoch| {
            each_destination(receives, target, |piece, destination| {
                get(epoch, piece, destination)
            })
        })
    })
}

/// Runs `body` with a window over the source, and tells how long each stage took.
fn timed(
    communicator: &Communicator,
    source: &mut [u8],
    body: impl FnOnce(&Window<u8>) -> mpi::Result<()>,
) -> mpi::Result<Times> {
    let begun = Instant::now();
    let (exposed, moved) = Window::scope(communicator, source, None, |window| {
        let exposed = Instant::now();
        body(window)?;
        Ok::<_, mpi::Error>((exposed, Instant::now()))
    })?;
    Ok(Times {
        expose: exposed - begun,
        transfer: moved - exposed,
        release: moved.elapsed(),
    })
}

fn get<'scope, 'buffers>(
    epoch: &'scope PassiveEpoch<'scope, 'buffers, u8>,
    piece: &Bytes,
    destination: &'buffers mut [u8],
) -> mpi::Result<()> {
    epoch.get(destination, piece.peer, piece.source_offset as u64)
}
