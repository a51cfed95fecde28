//! Malleus is a runtime for MPI jobs that change their number of processes while they run.

pub mod mpi;
pub mod sys;

/// Version of the MPICH that this library was built with.
pub const MPICH_VERSION: &str = env!("MALLEUS_MPICH_VERSION");
/// Its device, such as `ch4:ofi`.
pub const MPICH_DEVICE: &str = env!("MALLEUS_MPICH_DEVICE");
/// Its `mpiexec`.
pub const MPIEXEC: &str = env!("MALLEUS_MPIEXEC");
/// Its `mpicc`.
pub const MPICC: &str = env!("MALLEUS_MPICC");
