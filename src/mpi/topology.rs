//! Process topologies and collectives among neighbours (MPI standard, chapter 8).

use std::ffi::c_int;
use std::fmt;
use std::ops::Deref;

use super::collective::{BlockLayout, Call, Memory};
use super::communicator::Communicator;
use super::datatype::{Element, int, unsigned};
use super::environment::Environment;
use super::error::{Error, Result, mpi};
use super::info::Info;
use super::intercommunicator::check_rank;
use super::persistent::Inactive;
use super::request::{Buffer, BufferMut};
use crate::sys;

/// A grid of processes: a [`Communicator`] whose ranks have coordinates.
pub struct Cartesian {
    communicator: Communicator,
    dimensions: Vec<usize>,
    periods: Vec<bool>,
}

/// Processes that each know their neighbours: a [`Communicator`] with a distributed graph.
#[derive(Debug)]
pub struct DistributedGraph {
    communicator: Communicator,
    sources: Vec<usize>,
    destinations: Vec<usize>,
}

mod private {
    /// What says how many neighbours there are is trusted with memory.
    pub trait Sealed {}
    impl Sealed for super::Cartesian {}
    impl Sealed for super::DistributedGraph {}
}

/// What can be done among the neighbours of a topology. Everything here is collective over the
/// communicator and, unless it says otherwise, blocking. The trait is sealed.
pub trait Neighborhood: Deref<Target = Communicator> + private::Sealed {
    /// How many neighbours this rank receives from, and how many it sends to. In a grid both are two for
    /// each dimension: first the one below, then the one above.
    fn degrees(&self) -> (usize, usize);

    /// Every neighbour's `send`, in the order of the neighbours. The block of a neighbour beyond the edge
    /// of a grid stays as it is. `MPI_Neighbor_allgather`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless `receive` holds `send.len()` elements per neighbour; the MPI error
    /// otherwise.
    fn neighbor_all_gather<T: Element>(&self, send: &[T], receive: &mut [T]) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::neighbor_all_gather(send, receive, self.degrees().0)?)
    }

    /// Blocks of any length to and from the neighbours: the layouts have one block for each of those that
    /// this rank sends to, and receives from. `MPI_Neighbor_alltoallv`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if a layout does not have one block per neighbour or does not fit into its
    /// buffer, or if blocks that are received overlap; the MPI error otherwise.
    fn neighbor_all_to_all_v<T: Element>(
        &self,
        send: &[T],
        send_layout: &BlockLayout,
        receive: &mut [T],
        receive_layout: &BlockLayout,
    ) -> Result<()> {
        let (send, receive) = (Memory::read(send), Memory::write(receive));
        self.run(&Call::neighbor_all_to_all_v(
            self.degrees(),
            (send, send_layout),
            (receive, receive_layout),
        )?)
    }

    /// Sets up a persistent [`Neighborhood::neighbor_all_to_all_v`]. `MPI_Neighbor_alltoallv_init`.
    ///
    /// # Errors
    ///
    /// As for [`Neighborhood::neighbor_all_to_all_v`].
    fn neighbor_all_to_all_v_init<S, R>(
        &self,
        send: S,
        send_layout: &BlockLayout,
        receive: R,
        receive_layout: &BlockLayout,
        info: Option<&Info>,
    ) -> Result<Inactive<S, R>>
    where
        S: Buffer,
        R: BufferMut<Element = S::Element>,
    {
        Inactive::collective(self, (send, receive), info, |send, receive| {
            Call::neighbor_all_to_all_v(
                self.degrees(),
                (send, send_layout),
                (receive, receive_layout),
            )
        })
    }
}

/// MPICH keeps coordinates in places for 16 numbers: `MPI_Cart_shift`, and what exchanges among neighbours, write
/// beyond them for a grid of more dimensions (4.2.3).
const MOST_DIMENSIONS: usize = 16;

/// MPICH looks for factors up to the square root in an `int`, whose square overflows beyond this one: it then
/// divides by zero (4.2.3).
const MOST_TO_FACTOR: usize = 46_340 * 46_340;

/// Factors a number of processes into dimensions as equal as possible; those that are not 0 already are
/// kept. Local; `MPI_Dims_create`.
///
/// # Errors
///
/// [`Error::Argument`] where the given dimensions do not divide the number; the MPI error otherwise.
pub fn dimensions_of(
    environment: &Environment,
    processes: usize,
    dimensions: &[usize],
) -> Result<Vec<usize>> {
    const CALL: &str = "MPI_Dims_create";
    let mut given = dimensions.iter().filter(|&&dimension| dimension > 0);
    let product = given.try_fold(1_usize, |product, &size| product.checked_mul(size));
    let is_complete = !dimensions.contains(&0);
    let divides = product.is_some_and(|product| {
        processes > 0 && processes.is_multiple_of(product) && (!is_complete || product == processes)
    });
    if !divides {
        let expected = format!("dimensions that divide {processes}");
        return Err(Error::argument(
            CALL,
            "dimensions",
            format!("{dimensions:?}"),
            expected,
        ));
    }
    let to_factor = processes / product.unwrap_or(1);
    if !is_complete && to_factor > MOST_TO_FACTOR {
        let expected = format!("at most {MOST_TO_FACTOR} in all dimensions that are 0");
        return Err(Error::argument(CALL, "processes", to_factor, expected));
    }
    let mut raw = ints(CALL, "dimensions", dimensions)?;
    let count = int(CALL, "dimensions", raw.len())?;
    let processes = int(CALL, "processes", processes)?;
    environment.inner.returning_errors(|| {
        // SAFETY: MPI is initialized as long as the environment lives; the list holds `count` integers.
        unsafe { mpi!(MPI_Dims_create(processes, count, raw.as_mut_ptr())) }
    })?;
    Ok(raw.into_iter().map(unsigned).collect())
}

impl Communicator {
    /// A grid of the first processes; `None` on those that are left over. `reorder` lets MPI choose other
    /// ranks. Collective; `MPI_Cart_create`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless every dimension has a size and a period, there are at most 16, and the grid fits
    /// into the communicator; the MPI error otherwise.
    pub fn create_cartesian(
        &self,
        dimensions: &[usize],
        periods: &[bool],
        reorder: bool,
    ) -> Result<Option<Cartesian>> {
        const CALL: &str = "MPI_Cart_create";
        let mut sizes = dimensions.iter();
        let cells = sizes.try_fold(1_usize, |cells, &size| cells.checked_mul(size));
        if cells.is_none_or(|cells| cells == 0 || cells > self.size()) {
            let found = format!("{dimensions:?}");
            let expected = format!("1 to {} processes", self.size());
            return Err(Error::argument(CALL, "dimensions", found, expected));
        }
        if dimensions.len() > MOST_DIMENSIONS {
            let found = format!("{} of them", dimensions.len());
            let expected = format!("at most {MOST_DIMENSIONS}");
            return Err(Error::argument(CALL, "dimensions", found, expected));
        }
        if periods.len() != dimensions.len() {
            let found = format!("{} of them", periods.len());
            return Err(Error::argument(CALL, "periods", found, dimensions.len()));
        }
        let sizes = ints(CALL, "dimensions", dimensions)?;
        let count = int(CALL, "dimensions", sizes.len())?;
        let wraps: Vec<_> = periods.iter().map(|&period| c_int::from(period)).collect();
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: the communicator is valid; both lists have `count` entries.
        unsafe {
            mpi!(MPI_Cart_create(
                self.as_raw(),
                count,
                sizes.as_ptr(),
                wraps.as_ptr(),
                c_int::from(reorder),
                &raw mut raw
            ))?;
        }
        let communicator = self.adopt_unless_null(raw)?;
        Ok(communicator.map(|communicator| Cartesian {
            communicator,
            dimensions: dimensions.to_vec(),
            periods: periods.to_vec(),
        }))
    }

    /// A communicator in which every process knows whom it receives from and sends to; both sides name each
    /// other. `reorder` lets MPI choose other ranks. Collective; `MPI_Dist_graph_create_adjacent`, without
    /// weights.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a rank that is not in the communicator; the MPI error otherwise.
    pub fn create_distributed_graph(
        &self,
        sources: &[usize],
        destinations: &[usize],
        info: Option<&Info>,
        reorder: bool,
    ) -> Result<DistributedGraph> {
        const CALL: &str = "MPI_Dist_graph_create_adjacent";
        let neighbors = |argument, ranks: &[usize]| {
            let mut ranks_there = ranks.iter();
            ranks_there.try_for_each(|&rank| check_rank(CALL, argument, rank, self.size()))?;
            Ok((
                ints(CALL, argument, ranks)?,
                int(CALL, argument, ranks.len())?,
            ))
        };
        let (from, indegree) = neighbors("sources", sources)?;
        let (to, outdegree) = neighbors("destinations", destinations)?;
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: the communicator is valid, the lists have as many entries as is said, and
        // MPI_UNWEIGHTED is a constant of the library.
        unsafe {
            let unweighted = sys::MPI_UNWEIGHTED;
            mpi!(MPI_Dist_graph_create_adjacent(
                self.as_raw(),
                indegree,
                from.as_ptr(),
                unweighted,
                outdegree,
                to.as_ptr(),
                unweighted,
                info.map_or(sys::MALLEUS_INFO_NULL, Info::as_raw),
                c_int::from(reorder),
                &raw mut raw
            ))?;
        }
        DistributedGraph::of(Self::adopt(raw, self.inner())?)
    }
}

impl Cartesian {
    /// Processes along each dimension.
    #[must_use]
    pub fn dimensions(&self) -> &[usize] {
        &self.dimensions
    }

    /// Which dimensions wrap around.
    #[must_use]
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// Where a rank is. Local; `MPI_Cart_coords`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a rank that is not in the grid; the MPI error otherwise.
    pub fn coordinates(&self, rank: usize) -> Result<Vec<usize>> {
        const CALL: &str = "MPI_Cart_coords";
        check_rank(CALL, "rank", rank, self.size())?;
        let mut raw = vec![0; self.dimensions.len()];
        let count = int(CALL, "dimensions", raw.len())?;
        let rank = int(CALL, "rank", rank)?;
        // SAFETY: the communicator has a grid of `count` dimensions, and the list room for as many.
        unsafe {
            mpi!(MPI_Cart_coords(
                self.as_raw(),
                rank,
                count,
                raw.as_mut_ptr()
            ))?
        };
        Ok(raw.into_iter().map(unsigned).collect())
    }

    /// Which rank is there. A coordinate may lie beyond the edge of a dimension that wraps around.
    /// Local; `MPI_Cart_rank`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless there is one coordinate per dimension, inside those that do not wrap
    /// around; the MPI error otherwise.
    pub fn rank_at(&self, coordinates: &[i32]) -> Result<usize> {
        const CALL: &str = "MPI_Cart_rank";
        let sizes = self.dimensions.iter().zip(&self.periods);
        let is_inside = |(&coordinate, (&size, &wraps)): (&i32, (&usize, &bool))| {
            wraps || usize::try_from(coordinate).is_ok_and(|coordinate| coordinate < size)
        };
        if coordinates.len() != self.dimensions.len()
            || !coordinates.iter().zip(sizes).all(is_inside)
        {
            let found = format!("{coordinates:?}");
            let expected = format!("a place in {:?}", self.dimensions);
            return Err(Error::argument(CALL, "coordinates", found, expected));
        }
        let mut rank = 0;
        // SAFETY: the communicator has a grid with as many dimensions.
        unsafe {
            mpi!(MPI_Cart_rank(
                self.as_raw(),
                coordinates.as_ptr(),
                &raw mut rank
            ))?
        };
        Ok(unsigned(rank))
    }

    /// Whom to receive from and whom to send to so that everything moves so far along a dimension; `None`
    /// beyond the edge, which is `MPI_PROC_NULL` for a send or receive. Local; `MPI_Cart_shift`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for a dimension that the grid does not have; the MPI error otherwise.
    pub fn shift(&self, dimension: usize, by: i32) -> Result<(Option<usize>, Option<usize>)> {
        const CALL: &str = "MPI_Cart_shift";
        if dimension >= self.dimensions.len() {
            let expected = format!("below {}", self.dimensions.len());
            return Err(Error::argument(CALL, "dimension", dimension, expected));
        }
        let dimension = int(CALL, "dimension", dimension)?;
        let (mut source, mut destination) = (0, 0);
        // SAFETY: the communicator has a grid with this dimension.
        unsafe {
            mpi!(MPI_Cart_shift(
                self.as_raw(),
                dimension,
                by,
                &raw mut source,
                &raw mut destination
            ))?;
        }
        // MPI_PROC_NULL is negative.
        let rank = |raw| usize::try_from(raw).ok();
        Ok((rank(source), rank(destination)))
    }

    /// The grids of lower dimension that remain when only some dimensions are kept; this is the one of
    /// this process. Collective; `MPI_Cart_sub`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] unless every dimension is kept or not; the MPI error otherwise.
    pub fn sub(&self, keep: &[bool]) -> Result<Self> {
        const CALL: &str = "MPI_Cart_sub";
        if keep.len() != self.dimensions.len() {
            let found = format!("{} of them", keep.len());
            return Err(Error::argument(CALL, "keep", found, self.dimensions.len()));
        }
        let flags: Vec<_> = keep.iter().map(|&keep| c_int::from(keep)).collect();
        let mut raw = sys::MALLEUS_COMM_NULL;
        // SAFETY: the communicator has a grid with as many dimensions.
        unsafe { mpi!(MPI_Cart_sub(self.as_raw(), flags.as_ptr(), &raw mut raw))? };
        let sizes = self.dimensions.iter().zip(keep);
        let periods = self.periods.iter().zip(keep);
        Ok(Self {
            communicator: Communicator::adopt(raw, self.inner())?,
            dimensions: sizes
                .filter(|(_, keep)| **keep)
                .map(|(&size, _)| size)
                .collect(),
            periods: periods
                .filter(|(_, keep)| **keep)
                .map(|(&wraps, _)| wraps)
                .collect(),
        })
    }

    /// The communicator, for [`Communicator::free`] and [`Communicator::disconnect`].
    #[must_use]
    pub fn into_communicator(self) -> Communicator {
        self.communicator
    }
}

impl DistributedGraph {
    /// Asks MPI for the neighbours, which may be others where ranks were reordered.
    fn of(communicator: Communicator) -> Result<Self> {
        const CALL: &str = "MPI_Dist_graph_neighbors";
        let (mut indegree, mut outdegree, mut weighted) = (0, 0, 0);
        // SAFETY: the communicator has a distributed graph.
        unsafe {
            mpi!(MPI_Dist_graph_neighbors_count(
                communicator.as_raw(),
                &raw mut indegree,
                &raw mut outdegree,
                &raw mut weighted
            ))?;
        }
        let mut sources = vec![0; unsigned(indegree)];
        let mut destinations = vec![0; unsigned(outdegree)];
        let (mut weights_in, mut weights_out) = (sources.clone(), destinations.clone());
        // SAFETY: the lists have room for all neighbours, and for weights, which there are none of.
        unsafe {
            mpi!(MPI_Dist_graph_neighbors(
                communicator.as_raw(),
                indegree,
                sources.as_mut_ptr(),
                weights_in.as_mut_ptr(),
                outdegree,
                destinations.as_mut_ptr(),
                weights_out.as_mut_ptr()
            ))?;
        }
        let rank = |raw: c_int| {
            usize::try_from(raw).map_err(|_| Error::state(CALL, "a neighbour that is no rank"))
        };
        Ok(Self {
            sources: sources.into_iter().map(rank).collect::<Result<_>>()?,
            destinations: destinations.into_iter().map(rank).collect::<Result<_>>()?,
            communicator,
        })
    }

    /// The ranks that this one receives from, in the order of the blocks.
    #[must_use]
    pub fn sources(&self) -> &[usize] {
        &self.sources
    }

    /// The ranks that this one sends to, in the order of the blocks.
    #[must_use]
    pub fn destinations(&self) -> &[usize] {
        &self.destinations
    }

    /// The communicator, for [`Communicator::free`] and [`Communicator::disconnect`].
    #[must_use]
    pub fn into_communicator(self) -> Communicator {
        self.communicator
    }
}

impl Neighborhood for Cartesian {
    fn degrees(&self) -> (usize, usize) {
        let neighbors = 2 * self.dimensions.len();
        (neighbors, neighbors)
    }
}

impl Neighborhood for DistributedGraph {
    fn degrees(&self) -> (usize, usize) {
        (self.sources.len(), self.destinations.len())
    }
}

impl Deref for Cartesian {
    type Target = Communicator;
    fn deref(&self) -> &Communicator {
        &self.communicator
    }
}

impl Deref for DistributedGraph {
    type Target = Communicator;
    fn deref(&self) -> &Communicator {
        &self.communicator
    }
}

impl fmt::Debug for Cartesian {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Cartesian({:?}, {:?})",
            self.dimensions, self.communicator
        )
    }
}

fn ints(operation: &'static str, argument: &'static str, values: &[usize]) -> Result<Vec<c_int>> {
    let values = values.iter();
    values
        .map(|&value| int(operation, argument, value))
        .collect()
}
