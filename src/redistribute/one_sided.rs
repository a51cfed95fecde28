//! RMA1 and RMA2: the targets read from the sources' memory (paper R, algorithms 2 and 3).
//!
//! Every rank creates the window: sources expose their block, ranks that are only targets expose
//! nothing. The locks are shared and promise `MPI_MODE_NOCHECK`, since everybody only reads. As printed,
//! the loops of the algorithms stop before the last source; they mean to include it.

use super::Bytes;
use crate::mpi::window::{Assertion, LockKind, PassiveEpoch, Window};
use crate::mpi::{self, Communicator};

/// RMA1 (algorithm 2): all locks and gets, then all unlocks.
pub(super) fn lock_each(
    communicator: &Communicator,
    receives: &[Bytes],
    source: &mut [u8],
    target: &mut [u8],
) -> mpi::Result<()> {
    Window::scope(communicator, source, None, |window| {
        window.locks(|epoch| {
            get_each(receives, target, |piece, destination| {
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
) -> mpi::Result<()> {
    Window::scope(communicator, source, None, |window| {
        if receives.is_empty() {
            // Only a source: algorithm 3 opens no epoch there.
            return Ok(());
        }
        window.lock_all(Assertion::NoCheck, |epoch| {
            get_each(receives, target, |piece, destination| {
                get(epoch, piece, destination)
            })
        })
    })
}

fn get<'scope, 'buffers>(
    epoch: &'scope PassiveEpoch<'scope, 'buffers, u8>,
    piece: &Bytes,
    destination: &'buffers mut [u8],
) -> mpi::Result<()> {
    epoch.get(destination, piece.peer, piece.source_offset as u64)
}

/// Hands out the destination of each piece. They lie one behind the other, in the order of the plan.
fn get_each<'buffers>(
    receives: &[Bytes],
    target: &'buffers mut [u8],
    mut get: impl FnMut(&Bytes, &'buffers mut [u8]) -> mpi::Result<()>,
) -> mpi::Result<()> {
    let mut rest = target;
    let mut position = 0;
    for piece in receives {
        let (destination, tail) = rest[piece.target_offset - position..].split_at_mut(piece.len);
        position = piece.target_offset + piece.len;
        rest = tail;
        get(piece, destination)?;
    }
    Ok(())
}
