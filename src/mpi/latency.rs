//! Recorded latencies of several processes as one.

use super::communicator::Communicator;
use super::error::{Error, Result};
use crate::latency::{self, Recorder};

impl Communicator {
    /// Merges what every process has recorded: the sum of all on the root, `None` on the others. Collective
    /// and blocking, along a tree of logarithmic depth; `MPI_Comm_dup`, so that no message of the caller is
    /// in its way, then two messages per process but the root, and `MPI_Comm_free`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a root that is not in the communicator; the MPI error otherwise.
    pub fn merge_latency(&self, recorder: &Recorder, root: usize) -> Result<Option<Recorder>> {
        const CALL: &str = "Communicator::merge_latency";
        let (rank, size) = (self.rank(), self.size());
        if root >= size {
            let expected = format!("a rank below {size}");
            return Err(Error::argument(CALL, "root", root, expected));
        }
        let private = self.duplicate()?;
        let place = (rank + size - root) % size;
        let at_place = |place: usize| (place + root) % size;
        let mut merged = recorder.clone();
        let mut malformed = None;
        let mut distance = 1;
        while distance < size {
            if place & distance != 0 {
                send(&private, &merged.to_bytes(), at_place(place - distance))?;
                break;
            }
            if place + distance < size {
                match Recorder::from_bytes(&receive(&private, at_place(place + distance))?) {
                    Ok(other) => merged.merge(&other),
                    Err(error) => malformed = Some(error),
                }
            }
            distance *= 2;
        }
        private.free()?;
        match malformed {
            Some(error) => Err(Error::state(CALL, error)),
            None => Ok((rank == root).then_some(merged)),
        }
    }

    /// Moves what the calling thread of every process has recorded since [`latency::start`] to the recorder of
    /// the root's: for processes that are about to end. Threads that don't record have nothing to move.
    /// Collective and blocking, as [`Communicator::merge_latency`].
    ///
    /// # Errors
    ///
    /// As for [`Communicator::merge_latency`].
    pub fn collect_latency(&self, root: usize) -> Result<()> {
        if let Some(merged) = self.merge_latency(&latency::take(), root)? {
            latency::absorb(&merged);
        }
        Ok(())
    }
}

fn send(communicator: &Communicator, bytes: &[u8], to: usize) -> Result<()> {
    let length = [bytes.len() as u64];
    communicator.exchange(|exchange| {
        exchange.send(&length, to, 0)?;
        exchange.send(bytes, to, 1)
    })
}

fn receive(communicator: &Communicator, from: usize) -> Result<Vec<u8>> {
    let mut length = [0_u64];
    communicator.exchange(|exchange| exchange.receive(&mut length, from, 0))?;
    let length = usize::try_from(length[0])
        .map_err(|_| Error::argument("MPI_Irecv", "count", length[0], "what fits into memory"))?;
    let mut bytes = vec![0_u8; length];
    communicator.exchange(|exchange| exchange.receive(&mut bytes, from, 1))?;
    Ok(bytes)
}
