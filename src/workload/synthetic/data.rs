//! The data of the application: an array that does not change, and one that may.

use super::config::Configuration;
use crate::job::{Array, ConstantArray, Error, Job, Registered};
use crate::mpi::Element;

/// The arrays, whatever their elements are.
pub(super) trait Data {
    /// For a commit.
    fn registered(&mut self) -> Vec<&mut dyn Registered>;
    /// Elements of this rank's blocks that do not have the values of the start.
    fn wrong(&self) -> u64;
}

/// An element whose value follows from its index.
trait Indexed: Element + PartialEq {
    fn at(index: u64) -> Self;
}

impl Indexed for u8 {
    fn at(index: u64) -> Self {
        u64::at(index).to_le_bytes()[7]
    }
}

impl Indexed for u64 {
    fn at(index: u64) -> Self {
        (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// What tells the variable array's elements from those of the constant one.
const VARIABLE: u64 = 1 << 62;

struct Arrays<T: Element> {
    constant: ConstantArray<T>,
    variable: Array<T>,
}

impl<T: Indexed> Arrays<T> {
    fn new(job: &mut Job, constant: u64, variable: u64) -> Result<Self, Error> {
        let mut constant = job.array::<T>("constant").constant().block(constant)?;
        let mut variable = job.array::<T>("variable").block(variable)?;
        if job.is_first_start() {
            constant.initialize(|range, block| {
                block
                    .iter_mut()
                    .zip(range)
                    .for_each(|(element, index)| *element = T::at(index));
            })?;
            let range = variable.range();
            variable
                .iter_mut()
                .zip(range)
                .for_each(|(element, index)| *element = T::at(index | VARIABLE));
        }
        Ok(Self { constant, variable })
    }
}

impl<T: Indexed> Data for Arrays<T> {
    fn registered(&mut self) -> Vec<&mut dyn Registered> {
        vec![&mut self.constant, &mut self.variable]
    }

    fn wrong(&self) -> u64 {
        let constant = self.constant.iter().zip(self.constant.range());
        let constant = constant.filter(|(found, index)| **found != T::at(*index));
        let variable = self.variable.iter().zip(self.variable.range());
        let variable = variable.filter(|(found, index)| **found != T::at(*index | VARIABLE));
        (constant.count() + variable.count()) as u64
    }
}

/// Registers the arrays, and fills them where the job starts. Elements of 8 bytes are moved as such, all others
/// as bytes.
pub(super) fn register(
    job: &mut Job,
    configuration: &Configuration,
) -> Result<Box<dyn Data>, Error> {
    let (constant, variable) = (configuration.constant_bytes, configuration.variable_bytes);
    if configuration.element_bytes == 8 {
        Ok(Box::new(Arrays::<u64>::new(
            job,
            constant / 8,
            variable / 8,
        )?))
    } else {
        Ok(Box::new(Arrays::<u8>::new(job, constant, variable)?))
    }
}
