//! P2P, as in MaM: a message per piece. What a rank keeps is copied.

use std::sync::Arc;

use super::{Bytes, each_destination};
use crate::memory::Block;
use crate::mpi::request::OwnedPieces;
use crate::mpi::{self, Communicator};

/// Tag of the messages. Those of several arrays between two ranks come in the order in which they are sent.
const TAG: i32 = 0;

pub(super) fn exchange(
    communicator: &Communicator,
    sends: &[Bytes],
    source: &[u8],
    receives: &[Bytes],
    target: &mut [u8],
) -> mpi::Result<()> {
    let rank = communicator.rank();
    communicator.exchange(|scope| {
        each_destination(receives, target, |piece, destination| {
            if piece.peer == rank {
                destination.copy_from_slice(&source[piece.source_offset..][..piece.len]);
                return Ok(());
            }
            scope.ireceive(destination, piece.peer, TAG).map(drop)
        })?;
        for piece in sends.iter().filter(|piece| piece.peer != rank) {
            let part = &source[piece.source_offset..][..piece.len];
            scope.isend(part, piece.peer, TAG).map(drop)?;
        }
        Ok(())
    })
}

/// The same with blocks that the operations own.
pub(super) fn start(
    communicator: &Communicator,
    sends: &[Bytes],
    source: Arc<Block>,
    receives: &[Bytes],
    target: Block,
) -> mpi::Result<OwnedPieces<Arc<Block>, Block>> {
    let rank = communicator.rank();
    let mut pieces = OwnedPieces::new(communicator, source, target);
    for piece in receives {
        if piece.peer == rank {
            let own = piece.source_offset..piece.source_offset + piece.len;
            pieces.copy(own, piece.target_offset)?;
        } else {
            let into = piece.target_offset..piece.target_offset + piece.len;
            pieces.ireceive(into, piece.peer, TAG)?;
        }
    }
    for piece in sends.iter().filter(|piece| piece.peer != rank) {
        let part = piece.source_offset..piece.source_offset + piece.len;
        pieces.isend(part, piece.peer, TAG)?;
    }
    Ok(pieces)
}
