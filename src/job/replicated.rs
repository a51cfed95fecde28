//! Values that every rank holds.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::error::Error;
use super::registered::{Entry, EntryMut, Registered};
use super::{Job, Received, Registration};
use crate::mpi::{Record, bytes_of_mut};

/// A value that every rank holds. A process that joins, and one that is recalled, gets rank 0's.
pub struct Replicated<T: Record> {
    name: String,
    value: [T; 1],
}

impl<T: Record> Replicated<T> {
    /// The name under which it is registered.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<T: Record> Deref for Replicated<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value[0]
    }
}

impl<T: Record> DerefMut for Replicated<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value[0]
    }
}

impl<T: Record + fmt::Debug> fmt::Debug for Replicated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replicated({:?}, {:?})", self.name, self.value[0])
    }
}

impl<T: Record> Registered for Replicated<T> {}

impl<T: Record> Entry for Replicated<T> {
    fn entries(&mut self) -> Vec<EntryMut<'_>> {
        vec![EntryMut::Value {
            name: &self.name,
            type_map: T::type_map(),
            bytes: bytes_of_mut(&mut self.value),
        }]
    }
}

impl Job {
    /// Registers a value that every rank holds, with this rank's copy of it. On a process that joined, it
    /// is rank 0's at the resize. No communication.
    ///
    /// # Errors
    ///
    /// [`Error::NameTaken`], [`Error::Mismatch`] or [`Error::Unknown`].
    pub fn replicated<T: Record>(&mut self, name: &str, value: T) -> Result<Replicated<T>, Error> {
        let mut replicated = Replicated {
            name: name.to_owned(),
            value: [value],
        };
        match self.receive_or_register(name)? {
            None => {}
            Some(Received::Value { type_map, bytes })
                if type_map == T::type_map() && bytes.len() == size_of::<T>() =>
            {
                bytes_of_mut(&mut replicated.value).copy_from_slice(&bytes);
            }
            Some(other) => {
                return Err(Error::Mismatch {
                    name: name.to_owned(),
                    property: "type",
                    found: format!("value of {}", T::type_map()),
                    expected: other.describe(),
                });
            }
        }
        self.registry.push(Registration::Value {
            name: name.to_owned(),
            type_map: T::type_map(),
        });
        Ok(replicated)
    }
}
