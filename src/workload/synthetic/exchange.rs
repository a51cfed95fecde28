//! Point-to-point exchanges that a start stage leaves to its wait stage.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use crate::mpi::request::OwnedRequest;
use crate::mpi::{Communicator, Result};

/// Tag of the messages of stages that start exchanges.
const TAG: i32 = 2;

/// To whom a rank sends, and from whom it receives: half the job away, so that ranks are pairs where their number
/// is even.
pub(super) fn partners(communicator: &Communicator) -> (usize, usize) {
    let (rank, size) = (communicator.rank(), communicator.size());
    ((rank + size / 2) % size, (rank + size - size / 2) % size)
}

/// A message to a partner and one from a partner.
#[derive(Debug)]
struct Exchange {
    send: OwnedRequest<Arc<[u8]>>,
    receive: OwnedRequest<Vec<u8>>,
}

impl Exchange {
    fn test(&mut self) -> Result<bool> {
        Ok(self.receive.test()? & self.send.test()?)
    }

    /// Waits, and gives the buffer back.
    fn wait(self) -> Result<Vec<u8>> {
        let received = self.receive.wait()?;
        self.send.wait()?;
        Ok(received)
    }
}

/// What is started and not yet waited for, by identifier.
#[derive(Debug, Default)]
pub(super) struct Started {
    exchanges: HashMap<u64, VecDeque<Exchange>>,
    /// What a wait has given up: it completes later, or at the end of the group.
    late: VecDeque<Exchange>,
    /// Buffers to receive into.
    spare: Vec<Vec<u8>>,
}

impl Started {
    /// Starts an exchange of a message.
    pub(super) fn start(
        &mut self,
        communicator: &Communicator,
        identifier: u64,
        message: &Arc<[u8]>,
    ) -> Result<()> {
        let (to, from) = partners(communicator);
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.resize(message.len(), 0);
        let receive = communicator.ireceive(buffer, from, TAG)?;
        let send = communicator.isend(Arc::clone(message), to, TAG)?;
        let exchanges = self.exchanges.entry(identifier).or_default();
        exchanges.push_back(Exchange { send, receive });
        Ok(())
    }

    /// Waits for what was started with an identifier, for so many seconds at most where there is a limit; what has
    /// not arrived then is given up.
    pub(super) fn wait(&mut self, identifier: u64, limit_s: Option<f64>) -> Result<()> {
        let begun = Instant::now();
        let mut exchanges = self.exchanges.remove(&identifier).unwrap_or_default();
        while let Some(mut exchange) = exchanges.pop_front() {
            if let Some(limit_s) = limit_s {
                while !exchange.test()? {
                    if begun.elapsed().as_secs_f64() >= limit_s {
                        self.late.push_back(exchange);
                        self.late.append(&mut exchanges);
                        return Ok(());
                    }
                }
            }
            self.spare.push(exchange.wait()?);
        }
        while self.late.front_mut().map_or(Ok(false), Exchange::test)? {
            self.late.pop_front();
        }
        Ok(())
    }

    /// Waits for everything.
    pub(super) fn finish(mut self) -> Result<()> {
        for exchange in self.exchanges.into_values().flatten() {
            exchange.wait()?;
        }
        self.late.drain(..).try_for_each(|exchange| {
            exchange.wait()?;
            Ok(())
        })
    }
}
