//! Persistent sends and receives (MPI standard, chapter 3.9).

use super::Inactive;
use crate::mpi::collective::Form;
use crate::mpi::communicator::Communicator;
use crate::mpi::error::Result;
use crate::mpi::point_to_point::{Destination, Source, Tag, start_receive, start_send};
use crate::mpi::request::{Buffer, BufferMut, Nothing};
use crate::sys;

/// Point-to-point operations take no info.
const FORM: Form = Form::Persistent(sys::MALLEUS_INFO_NULL);

impl Communicator {
    /// Sets up a send. Local; `MPI_Send_init`.
    ///
    /// # Errors
    ///
    /// The MPI error, for example for a rank that is not in the communicator.
    pub fn send_init<S: Buffer>(
        &self,
        buffer: S,
        destination: impl Into<Destination>,
        tag: i32,
    ) -> Result<Inactive<S>> {
        let destination = destination.into();
        // SAFETY: the operation uses the memory it is given alone.
        unsafe {
            Inactive::new(self, (buffer, Nothing), |send, _| {
                Ok((start_send(self, send, destination, tag, FORM)?, None))
            })
        }
    }

    /// Sets up a receive of at most the buffer's length. [`Inactive::status`] tells what came. Local;
    /// `MPI_Recv_init`.
    ///
    /// # Errors
    ///
    /// The MPI error, for example for a rank that is not in the communicator.
    pub fn receive_init<R: BufferMut>(
        &self,
        buffer: R,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Inactive<Nothing, R>> {
        let (source, tag) = (source.into(), tag.into());
        // SAFETY: the operation uses the memory it is given alone.
        unsafe {
            Inactive::new(self, (Nothing, buffer), |_, receive| {
                Ok((start_receive(self, receive, source, tag, FORM)?, None))
            })
        }
    }
}
