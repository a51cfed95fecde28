//! Malleus is a runtime for MPI jobs that change their number of processes while they run, and for the
//! one-sided communication that makes it cheap. It stands directly on the site's MPICH.
//!
//! A job registers its data as distributed arrays, and comes to a checkpoint each iteration. There it may
//! grow or shrink: processes are recalled, started, parked or released, and the arrays move.
//!
//! ```no_run
//! use malleus::job::{Checkpoint, Job, Options, Outcome, Script};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = malleus::mpi::Environment::init()?;
//! let script = Script::new(["100:4".parse()?, "200:1".parse()?])?;
//! let mut job = Job::start(&environment, Options::default().manager(script))?;
//! let mut x = job.array::<f64>("x").block(1 << 20)?;
//! while job.iteration() < 300 {
//!     x.iter_mut().for_each(|x| *x += 1.0);
//!     if let Checkpoint::Switch(switch) = job.checkpoint()?
//!         && switch.commit((&mut x,))? == Outcome::Left { break }
//! }
//! drop(x);
//! job.end()?;
//! # Ok(()) }
//! ```
//!
//! A module imports only from those before it in this list:
//!
//! * [`sys`]: the raw bindings, made for the MPICH that this library was built with;
//! * [`latency`]: how long operations take: histograms;
//! * [`partition`]: who owns which elements; pure arithmetic;
//! * [`memory`]: arrays in pages of anonymous files;
//! * [`mpi`]: safe MPI, one chapter of the standard per module;
//! * [`tune`]: what was measured on this machine, kept for those that choose by it;
//! * [`alltoallv`]: persistent Alltoallv over one-sided communication;
//! * [`redistribute`]: what moves in a resize, and how;
//! * [`job`]: the malleable job;
//! * `capi`: the C library, with the feature `capi`;
//! * `workload`: matrices, a solver and a synthetic application, `experiment`: results of paper R's evaluation, and
//!   `cli`: the `malleus` command; all with the feature `cli`.

pub mod alltoallv;
#[cfg(feature = "capi")]
pub mod capi;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod experiment;
pub mod job;
pub mod latency;
pub mod memory;
pub mod mpi;
pub mod partition;
pub mod redistribute;
pub mod sys;
pub mod tune;
#[cfg(feature = "cli")]
pub mod workload;

/// Version of the MPICH that this library was built with.
pub const MPICH_VERSION: &str = env!("MALLEUS_MPICH_VERSION");
/// Its device, such as `ch4:ofi`.
pub const MPICH_DEVICE: &str = env!("MALLEUS_MPICH_DEVICE");
/// Its `mpiexec`.
pub const MPIEXEC: &str = env!("MALLEUS_MPIEXEC");
/// Its `mpicc`.
pub const MPICC: &str = env!("MALLEUS_MPICC");
