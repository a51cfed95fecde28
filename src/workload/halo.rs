//! The exchange before a sparse matrix-vector product: only the elements that a rank needs travel.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::matrix::pattern::columns_outside;
use crate::alltoallv::{self, Own, Plan, Variant};
use crate::mpi::collective::BlockLayout;
use crate::mpi::{self, Communicator, Operation};
use crate::partition::Partition;

/// Tag of the messages with elements.
const TAG: i32 = 1;

/// How elements travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum HaloExchange {
    /// Messages between neighbours.
    #[default]
    Messages,
    /// A persistent Alltoallv, which every rank takes part in.
    Alltoallv(Variant),
}

impl fmt::Display for HaloExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Messages => f.write_str("p2p"),
            Self::Alltoallv(variant) => write!(f, "alltoallv:{variant}"),
        }
    }
}

impl From<HaloExchange> for String {
    fn from(exchange: HaloExchange) -> Self {
        exchange.to_string()
    }
}

/// A name that no exchange has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown exchange {name:?}; the exchanges are p2p, {}",
    Variant::ALL.map(|variant| HaloExchange::Alltoallv(variant).to_string()).join(", ")
)]
pub struct UnknownExchange {
    /// The name that was given.
    pub name: String,
}

impl FromStr for HaloExchange {
    type Err = UnknownExchange;

    fn from_str(name: &str) -> Result<Self, UnknownExchange> {
        if name == "p2p" {
            return Ok(Self::Messages);
        }
        let variant = name.strip_prefix("alltoallv:");
        let variant = variant.and_then(|variant| variant.parse().ok());
        variant.map(Self::Alltoallv).ok_or_else(|| UnknownExchange {
            name: name.to_owned(),
        })
    }
}

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
    /// Where received elements go in the window.
    receive_positions: Vec<usize>,
    received_messages: usize,
    transport: Transport,
    /// In exchanges, up to now.
    spent: Duration,
}

/// Brings the elements of one buffer into those of the others.
#[derive(Debug)]
enum Transport {
    Messages {
        send_buffer: Vec<f64>,
        receive_buffer: Vec<f64>,
        sends: Vec<Message>,
        receives: Vec<Message>,
    },
    /// Nothing after an error, which has taken the plan.
    Plan(Option<Plan<f64, Own<f64>>>),
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

    /// Finds out what has to travel for a block of rows with these (global) columns, and sets the exchange up.
    /// Collective and blocking; `MPI_Alltoall`, `MPI_Alltoallv`, and what a plan needs ([`Plan::allocate`]).
    ///
    /// # Errors
    ///
    /// As for [`Plan::allocate`].
    ///
    /// # Panics
    ///
    /// If a column is not in the partition.
    pub fn new(
        communicator: &Communicator,
        rows: &Partition,
        columns: &[u32],
        exchange: HaloExchange,
    ) -> alltoallv::Result<Self> {
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
        let messages = |layout: &BlockLayout| -> Vec<Message> {
            (0..size)
                .map(|peer| Message {
                    peer,
                    elements: layout.block(peer),
                })
                .filter(|message| !message.elements.is_empty())
                .collect()
        };
        let receives = messages(&receive_layout);
        let received_messages = receives.len();
        let transport = match exchange {
            HaloExchange::Messages => Transport::Messages {
                send_buffer: vec![0.0; asked_columns.len()],
                receive_buffer: vec![0.0; needed.len()],
                sends: messages(&send_layout),
                receives,
            },
            HaloExchange::Alltoallv(variant) => {
                let plan = Plan::allocate(communicator, variant, &send_layout, &receive_layout)?;
                Transport::Plan(Some(plan))
            }
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
            receive_positions: needed
                .iter()
                .map(|&column| column as usize - lowest)
                .collect(),
            received_messages,
            transport,
            spent: Duration::ZERO,
            own,
        })
    }

    /// Elements that this rank receives each time.
    #[must_use]
    pub fn received_elements(&self) -> usize {
        self.receive_positions.len()
    }

    /// Ranks that send something to this one each time.
    #[must_use]
    pub fn received_messages(&self) -> usize {
        self.received_messages
    }

    /// Brings in what the product needs of a vector, of which this rank's block is given. Returns the
    /// window and the global index of its first element. Collective; `MPI_Isend`, `MPI_Irecv` between
    /// neighbours only, or the plan's.
    ///
    /// # Errors
    ///
    /// The MPI error, with which a plan is gone.
    ///
    /// # Panics
    ///
    /// If the block is not of this rank's length, or after an error.
    pub fn exchange<'a>(&'a mut self, block: &'a [f64]) -> alltoallv::Result<(usize, &'a [f64])> {
        assert_eq!(block.len(), self.own.len(), "length of the block");
        let started = Instant::now();
        match &mut self.transport {
            Transport::Messages {
                send_buffer,
                receive_buffer,
                sends,
                receives,
            } => {
                gather(block, &self.send_indices, send_buffer);
                exchange_messages(
                    &self.communicator,
                    (sends, send_buffer),
                    (receives, receive_buffer),
                )?;
                scatter(receive_buffer, &self.receive_positions, &mut self.window);
            }
            Transport::Plan(place) => {
                let mut plan = place.take().expect("no exchange has failed");
                gather(block, &self.send_indices, plan.send_mut());
                let plan = place.insert(plan.start()?.wait()?);
                scatter(plan.receive(), &self.receive_positions, &mut self.window);
            }
        }
        self.spent += started.elapsed();
        if self.window.is_empty() {
            return Ok((self.own.start, block));
        }
        let own = self.own.start - self.first..self.own.end - self.first;
        self.window[own].copy_from_slice(block);
        Ok((self.first, &self.window))
    }

    /// Frees a plan, and tells for how many seconds the slowest rank was in exchanges: gathering, waiting for the others,
    /// scattering. Collective and blocking; `MPI_Allreduce`. A halo with a plan that is dropped marks the environment failed.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn free(self) -> alltoallv::Result<f64> {
        let mut spent = [self.spent.as_secs_f64()];
        self.communicator
            .all_reduce(&mut spent, Operation::Maximum)?;
        if let Transport::Plan(Some(plan)) = self.transport {
            plan.free()?;
        }
        Ok(spent[0])
    }
}

fn gather(block: &[f64], indices: &[usize], buffer: &mut [f64]) {
    for (element, &index) in buffer.iter_mut().zip(indices) {
        *element = block[index];
    }
}

fn scatter(buffer: &[f64], positions: &[usize], window: &mut [f64]) {
    for (&element, &position) in buffer.iter().zip(positions) {
        window[position] = element;
    }
}

fn exchange_messages(
    communicator: &Communicator,
    (sends, send_buffer): (&[Message], &[f64]),
    (receives, receive_buffer): (&[Message], &mut [f64]),
) -> mpi::Result<()> {
    if sends.is_empty() && receives.is_empty() {
        return Ok(());
    }
    communicator.exchange(|exchange| {
        let mut rest = receive_buffer;
        for message in receives {
            // Messages lie one behind the other.
            let (elements, tail) = std::mem::take(&mut rest).split_at_mut(message.elements.len());
            rest = tail;
            exchange.receive(elements, message.peer, TAG)?;
        }
        sends.iter().try_for_each(|message| {
            exchange.send(&send_buffer[message.elements.clone()], message.peer, TAG)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{HaloExchange, Variant};

    #[test]
    fn names_of_exchanges() {
        let all = Variant::ALL.map(HaloExchange::Alltoallv);
        for exchange in all.into_iter().chain([HaloExchange::Messages]) {
            assert_eq!(exchange.to_string().parse(), Ok(exchange));
        }
        for name in ["", "alltoallv", "alltoallv:", "alltoallv:rma", "fence"] {
            let error = name.parse::<HaloExchange>().expect_err(name).to_string();
            assert!(error.contains("p2p, alltoallv:standard, "), "{error}");
            assert!(error.ends_with(&all[all.len() - 1].to_string()), "{error}");
        }
    }
}
