//! The exchange before a sparse matrix-vector product: only the elements that a rank needs travel.

use std::ops::Range;

use super::matrix::pattern::columns_outside;
use crate::mpi::collective::BlockLayout;
use crate::mpi::{self, Communicator};
use crate::partition::Partition;

/// Tag of the messages with elements.
const TAG: i32 = 1;

/// Which elements of a distributed vector go where before each product, and room for them.
///
/// The vector that the product reads is a window on the global one: it begins at the lowest column that
/// this rank needs. Only the parts of it that are written take memory, so global column indices serve as
/// they are.
#[derive(Debug)]
pub struct Halo {
    communicator: Communicator,
    /// Global index of the window's first element.
    first: usize,
    window: Vec<f64>,
    own: Range<usize>,
    /// Own elements to send, for one peer after the other.
    send_indices: Vec<usize>,
    send_buffer: Vec<f64>,
    /// Where received elements go in the window.
    receive_positions: Vec<usize>,
    receive_buffer: Vec<f64>,
    sends: Vec<Message>,
    receives: Vec<Message>,
}

/// Elements of a buffer that go to, or come from, one peer.
#[derive(Clone, Debug)]
struct Message {
    peer: usize,
    elements: Range<usize>,
}

impl Halo {
    /// The communicator that it was set up on.
    pub(super) fn communicator(&self) -> &Communicator {
        &self.communicator
    }

    /// Finds out what has to travel for a block of rows with these (global) columns. Collective;
    /// `MPI_Alltoall`, `MPI_Alltoallv`.
    ///
    /// # Errors
    ///
    /// The MPI error.
    ///
    /// # Panics
    ///
    /// If a column is not in the partition.
    pub fn new(
        communicator: &Communicator,
        rows: &Partition,
        columns: &[u32],
    ) -> mpi::Result<Self> {
        let index = |index: u64| usize::try_from(index).expect("at most 2^32 rows");
        let range = rows.range(communicator.rank());
        let own = index(range.start)..index(range.end);
        let needed = columns_outside(columns, own.clone());

        let size = communicator.size();
        let mut wanted = vec![0_u64; size];
        for &column in &needed {
            wanted[rows
                .owner(u64::from(column))
                .expect("columns lie in the matrix")] += 1;
        }
        let mut asked = vec![0_u64; size];
        communicator.all_to_all(&wanted, &mut asked)?;
        let receive_layout =
            BlockLayout::packed(wanted.iter().map(|&count| index(count)).collect());
        let send_layout = BlockLayout::packed(asked.iter().map(|&count| index(count)).collect());
        let mut asked_columns = vec![0_u32; send_layout.total()];
        // Requests go the other way than elements.
        communicator.all_to_all_v(&needed, &receive_layout, &mut asked_columns, &send_layout)?;

        let lowest = needed
            .first()
            .map_or(own.start, |&column| own.start.min(column as usize));
        let highest = needed
            .last()
            .map_or(own.end, |&column| own.end.max(column as usize + 1));
        let messages = |layout: &BlockLayout| {
            (0..size)
                .map(|peer| Message {
                    peer,
                    elements: layout.block(peer),
                })
                .filter(|message| !message.elements.is_empty())
                .collect()
        };
        Ok(Self {
            communicator: communicator.clone(),
            first: lowest,
            // Zeroed memory is not touched here, and takes no room before it is written.
            window: if needed.is_empty() {
                Vec::new()
            } else {
                vec![0.0; highest - lowest]
            },
            send_indices: asked_columns
                .iter()
                .map(|&column| column as usize - own.start)
                .collect(),
            send_buffer: vec![0.0; asked_columns.len()],
            receive_positions: needed
                .iter()
                .map(|&column| column as usize - lowest)
                .collect(),
            receive_buffer: vec![0.0; needed.len()],
            sends: messages(&send_layout),
            receives: messages(&receive_layout),
            own,
        })
    }

    /// Elements that this rank receives each time.
    #[must_use]
    pub fn received_elements(&self) -> usize {
        self.receive_positions.len()
    }

    /// Messages that this rank receives each time.
    #[must_use]
    pub fn received_messages(&self) -> usize {
        self.receives.len()
    }

    /// Brings in what the product needs of a vector, of which this rank's block is given. Returns the
    /// window and the global index of its first element. Collective; `MPI_Isend`, `MPI_Irecv` between
    /// neighbours only.
    ///
    /// # Errors
    ///
    /// The MPI error.
    ///
    /// # Panics
    ///
    /// If the block is not of this rank's length.
    pub fn exchange<'a>(&'a mut self, block: &'a [f64]) -> mpi::Result<(usize, &'a [f64])> {
        assert_eq!(block.len(), self.own.len(), "length of the block");
        for (element, &index) in self.send_buffer.iter_mut().zip(&self.send_indices) {
            *element = block[index];
        }
        if !(self.sends.is_empty() && self.receives.is_empty()) {
            let Self {
                communicator,
                send_buffer,
                receive_buffer,
                sends,
                receives,
                ..
            } = self;
            communicator.exchange(|exchange| {
                let mut rest = receive_buffer.as_mut_slice();
                for message in receives.iter() {
                    // Messages lie one behind the other.
                    let (elements, tail) =
                        std::mem::take(&mut rest).split_at_mut(message.elements.len());
                    rest = tail;
                    exchange.receive(elements, message.peer, TAG)?;
                }
                sends.iter().try_for_each(|message| {
                    exchange.send(&send_buffer[message.elements.clone()], message.peer, TAG)
                })
            })?;
        }
        if self.window.is_empty() {
            return Ok((self.own.start, block));
        }
        let own = self.own.start - self.first..self.own.end - self.first;
        self.window[own].copy_from_slice(block);
        for (&position, &element) in self.receive_positions.iter().zip(&self.receive_buffer) {
            self.window[position] = element;
        }
        Ok((self.first, &self.window))
    }
}
