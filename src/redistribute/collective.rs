//! COL: one `MPI_Alltoallv` per array (paper R, section II.B).

use super::Bytes;
use crate::mpi::collective::BlockLayout;
use crate::mpi::{self, Communicator};

pub(super) fn all_to_all_v(
    communicator: &Communicator,
    sends: &[Bytes],
    source: &[u8],
    receives: &[Bytes],
    target: &mut [u8],
) -> mpi::Result<()> {
    let (send_layout, receive_layout) = layouts(communicator.size(), sends, receives);
    communicator.all_to_all_v(source, &send_layout, target, &receive_layout)
}

/// Where the pieces lie in the blocks, rank by rank.
pub(super) fn layouts(
    ranks: usize,
    sends: &[Bytes],
    receives: &[Bytes],
) -> (BlockLayout, BlockLayout) {
    let mut send_layout = BlockLayout::empty(ranks);
    for piece in sends {
        send_layout.set(piece.peer, piece.source_offset, piece.len);
    }
    let mut receive_layout = BlockLayout::empty(ranks);
    for piece in receives {
        receive_layout.set(piece.peer, piece.target_offset, piece.len);
    }
    (send_layout, receive_layout)
}
