//! Every collective once: its checked arguments. `run.rs` has the three forms in which MPI runs it.
//!
//! [`Call`] is what the blocking methods of [`Communicator`], the scope of
//! [`Communicator::exchange`], the operations that own their buffers and the persistent ones share.

use std::ffi::{c_int, c_void};

use super::layout::{BlockLayout, Datatypes, Layouts, StridedLayout};
use crate::mpi::communicator::Communicator;
use crate::mpi::datatype::{Element, Operation, int, raw_of};
use crate::mpi::error::{Error, Result};
use crate::mpi::runtime_check::is_mpich_4_0;
use crate::sys;

/// Memory that MPI reads or writes.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) struct Memory {
    pub(super) pointer: *mut c_void,
    pub(super) count: usize,
    pub(super) datatype: sys::MPI_Datatype,
    pub(super) element_size: usize,
}

impl Memory {
    pub(in crate::mpi) fn read<T: Element>(elements: &[T]) -> Self {
        Self::at(elements.as_ptr().cast_mut(), elements.len())
    }

    pub(in crate::mpi) fn write<T: Element>(elements: &mut [T]) -> Self {
        Self::at(elements.as_mut_ptr(), elements.len())
    }

    pub(in crate::mpi) fn at<T: Element>(pointer: *mut T, count: usize) -> Self {
        Self {
            pointer: pointer.cast(),
            count,
            datatype: raw_of::<T>(),
            element_size: size_of::<T>(),
        }
    }

    /// `MPI_IN_PLACE`: the input is in the memory that is written. It has the count of that memory.
    fn in_place(receive: Self) -> Self {
        Self {
            pointer: sys::in_place(),
            ..receive
        }
    }

    pub(in crate::mpi) fn pointer(self) -> *mut c_void {
        self.pointer
    }

    /// Its size in bytes.
    pub(in crate::mpi) fn bytes(self) -> usize {
        self.count * self.element_size
    }
}

/// A collective whose arguments were checked against the communicator that it is for.
#[derive(Debug)]
pub(in crate::mpi) struct Call {
    pub(super) kind: Kind,
    pub(super) send: Memory,
    pub(super) receive: Memory,
    /// Elements for each rank, where all get the same number.
    pub(super) each: usize,
    pub(super) root: c_int,
    pub(super) operation: sys::MPI_Op,
    /// What MPI counts: elements in a reduction, else bytes ([`sys::MALLEUS_BYTE`]). MPICH ends the process
    /// where a message of other elements does not hold a whole number of those that are expected.
    pub(super) datatype: sys::MPI_Datatype,
    /// How many of those an element is.
    pub(super) unit: usize,
    pub(super) layouts: Option<Layouts>,
    /// What is sent to, and received from, each rank, where that differs.
    pub(super) types: Option<(Datatypes, Datatypes)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Barrier,
    Broadcast,
    Reduce,
    AllReduce,
    ReduceScatterBlock,
    ReduceScatter,
    Scan,
    ExclusiveScan,
    Gather,
    GatherV,
    Scatter,
    ScatterV,
    AllGather,
    AllGatherV,
    AllToAll,
    AllToAllV,
    AllToAllW,
    NeighborAllGather,
    NeighborAllToAllV,
}

impl Call {
    fn new(kind: Kind, send: Option<Memory>, receive: Memory, each: usize) -> Self {
        Self {
            kind,
            send: send.unwrap_or_else(|| Memory::in_place(receive)),
            receive,
            each,
            root: 0,
            operation: sys::MALLEUS_OP_NULL,
            datatype: sys::MALLEUS_BYTE,
            unit: receive.element_size,
            layouts: None,
            types: None,
        }
    }

    fn reducing(mut self, operation: Operation) -> Self {
        self.operation = operation.as_raw();
        self.datatype = self.receive.datatype;
        self.unit = 1;
        self
    }

    fn rooted(mut self, name: &'static str, root: usize) -> Result<Self> {
        self.root = int(name, "root", root)?;
        Ok(self)
    }

    fn laid_out(mut self, send: &BlockLayout, receive: &BlockLayout) -> Self {
        self.layouts = Some(Layouts::new(send, receive, self.unit));
        self
    }

    pub(in crate::mpi) fn barrier() -> Self {
        let nothing = Memory::read::<u8>(&[]);
        Self::new(Kind::Barrier, Some(nothing), nothing, 0)
    }

    pub(in crate::mpi) fn broadcast(buffer: Memory, root: usize) -> Result<Self> {
        Self::new(Kind::Broadcast, Some(buffer), buffer, buffer.count).rooted("MPI_Bcast", root)
    }

    /// `send` is `None` for the form in place, here and below.
    pub(in crate::mpi) fn all_reduce(
        send: Option<Memory>,
        receive: Memory,
        operation: Operation,
    ) -> Result<Self> {
        same_count("MPI_Allreduce", send, receive)?;
        Ok(Self::new(Kind::AllReduce, send, receive, receive.count).reducing(operation))
    }

    /// In place, the root reduces into its buffer, and the others' buffers are only read.
    pub(in crate::mpi) fn reduce(
        communicator: &Communicator,
        send: Option<Memory>,
        receive: Memory,
        operation: Operation,
        root: usize,
    ) -> Result<Self> {
        const NAME: &str = "MPI_Reduce";
        let at_root = communicator.rank() == root;
        if at_root {
            same_count(NAME, send, receive)?;
        }
        let each = send.unwrap_or(receive).count;
        let send = if at_root {
            send
        } else {
            send.or(Some(receive))
        };
        Self::new(Kind::Reduce, send, receive, each)
            .reducing(operation)
            .rooted(NAME, root)
    }

    /// In place, the result is in the first block of the buffer.
    pub(in crate::mpi) fn reduce_scatter_block(
        communicator: &Communicator,
        send: Option<Memory>,
        receive: Memory,
        operation: Operation,
    ) -> Result<Self> {
        let (input, size) = (send.unwrap_or(receive), communicator.size());
        let each = if send.is_some() {
            receive.count
        } else {
            input.count / size
        };
        check_total("MPI_Reduce_scatter_block", input.count, each, size)?;
        Ok(Self::new(Kind::ReduceScatterBlock, send, receive, each).reducing(operation))
    }

    pub(in crate::mpi) fn reduce_scatter(
        communicator: &Communicator,
        send: Option<Memory>,
        receive: Memory,
        counts: &[usize],
        operation: Operation,
    ) -> Result<Self> {
        const NAME: &str = "MPI_Reduce_scatter";
        let layout = BlockLayout::packed(counts.to_vec());
        let input = send.unwrap_or(receive);
        layout.check(NAME, "counts", input.count, communicator.size())?;
        let own = counts[communicator.rank()];
        if receive.count < own {
            let found = format!("{} elements", receive.count);
            return Err(Error::argument(
                NAME,
                "receive",
                found,
                format!("{own}, this rank's"),
            ));
        }
        Ok(Self::new(Kind::ReduceScatter, send, receive, own)
            .reducing(operation)
            .laid_out(&BlockLayout::default(), &layout))
    }

    pub(in crate::mpi) fn scan(
        send: Option<Memory>,
        receive: Memory,
        operation: Operation,
    ) -> Result<Self> {
        same_count("MPI_Scan", send, receive)?;
        Ok(Self::new(Kind::Scan, send, receive, receive.count).reducing(operation))
    }

    pub(in crate::mpi) fn exclusive_scan(
        send: Option<Memory>,
        receive: Memory,
        operation: Operation,
    ) -> Result<Self> {
        same_count("MPI_Exscan", send, receive)?;
        Ok(Self::new(Kind::ExclusiveScan, send, receive, receive.count).reducing(operation))
    }

    /// In place, the root's buffer holds all blocks, its own in its place; the others' hold theirs.
    pub(in crate::mpi) fn gather(
        communicator: &Communicator,
        send: Option<Memory>,
        receive: Memory,
        root: usize,
    ) -> Result<Self> {
        const NAME: &str = "MPI_Gather";
        let (size, at_root) = (communicator.size(), communicator.rank() == root);
        let each = match send {
            Some(send) => send.count,
            None if at_root => receive.count / size,
            None => receive.count,
        };
        if at_root {
            check_total(NAME, receive.count, each, size)?;
        }
        let send = if at_root {
            send
        } else {
            send.or(Some(receive))
        };
        Self::new(Kind::Gather, send, receive, each).rooted(NAME, root)
    }

    /// `layout` counts at the root only. In place: as for `gather`.
    pub(in crate::mpi) fn gather_v(
        communicator: &Communicator,
        send: Option<Memory>,
        receive: Memory,
        layout: &BlockLayout,
        root: usize,
    ) -> Result<Self> {
        const NAME: &str = "MPI_Gatherv";
        let (rank, size) = (communicator.rank(), communicator.size());
        let at_root = rank == root;
        let mut own = send.unwrap_or(receive).count;
        let mut receive_layout = &BlockLayout::empty(size);
        if at_root {
            layout.check_receive(NAME, "layout", receive.count, size)?;
            own = same_block(NAME, send, layout, rank)?;
            receive_layout = layout;
        }
        let send = if at_root {
            send
        } else {
            send.or(Some(receive))
        };
        Self::new(Kind::GatherV, send, receive, own)
            .laid_out(&BlockLayout::packed(vec![own]), receive_layout)
            .rooted(NAME, root)
    }

    /// In place, the root's own block stays where it is; the others' buffers are written.
    pub(in crate::mpi) fn scatter(
        communicator: &Communicator,
        send: Memory,
        receive: Option<Memory>,
        root: usize,
    ) -> Result<Self> {
        const NAME: &str = "MPI_Scatter";
        let (size, at_root) = (communicator.size(), communicator.rank() == root);
        let each = match receive {
            Some(receive) => receive.count,
            None if at_root => send.count / size,
            None => send.count,
        };
        if at_root {
            check_total(NAME, send.count, each, size)?;
        }
        let receive = match receive {
            Some(receive) => receive,
            None if at_root => Memory::in_place(send),
            None => send,
        };
        Self::new(Kind::Scatter, Some(send), receive, each).rooted(NAME, root)
    }

    /// The call whose persistent form works: of some, MPICH's delivers nothing, and the vector form is right.
    /// Scatter fails from the second start on (4.2.3); with 4.0, gather and allgather do as well.
    pub(in crate::mpi) fn for_persistent(mut self, communicator: &Communicator) -> Self {
        let one = BlockLayout::packed(vec![self.each]);
        let all = BlockLayout::packed(vec![self.each; communicator.size()]);
        match self.kind {
            Kind::Scatter => {
                self.kind = Kind::ScatterV;
                self.laid_out(&all, &one)
            }
            Kind::Gather if is_mpich_4_0() => {
                self.kind = Kind::GatherV;
                self.laid_out(&one, &all)
            }
            Kind::AllGather if is_mpich_4_0() => {
                self.kind = Kind::AllGatherV;
                self.laid_out(&one, &all)
            }
            _ => self,
        }
    }

    /// `layout` counts at the root only. In place: as for `scatter`.
    pub(in crate::mpi) fn scatter_v(
        communicator: &Communicator,
        send: Memory,
        layout: &BlockLayout,
        receive: Option<Memory>,
        root: usize,
    ) -> Result<Self> {
        const NAME: &str = "MPI_Scatterv";
        let (rank, size) = (communicator.rank(), communicator.size());
        let at_root = rank == root;
        let mut own = receive.unwrap_or(send).count;
        let mut send_layout = &BlockLayout::empty(size);
        if at_root {
            layout.check(NAME, "layout", send.count, size)?;
            own = same_block(NAME, receive, layout, rank)?;
            send_layout = layout;
        }
        let receive = match receive {
            Some(receive) => receive,
            None if at_root => Memory::in_place(send),
            None => send,
        };
        Self::new(Kind::ScatterV, Some(send), receive, own)
            .laid_out(send_layout, &BlockLayout::packed(vec![own]))
            .rooted(NAME, root)
    }

    /// In place, every rank's own block is in its place.
    pub(in crate::mpi) fn all_gather(
        communicator: &Communicator,
        send: Option<Memory>,
        receive: Memory,
    ) -> Result<Self> {
        let size = communicator.size();
        let each = send.map_or(receive.count / size, |send| send.count);
        check_total("MPI_Allgather", receive.count, each, size)?;
        Ok(Self::new(Kind::AllGather, send, receive, each))
    }

    pub(in crate::mpi) fn all_gather_v(
        communicator: &Communicator,
        send: Option<Memory>,
        receive: Memory,
        layout: &BlockLayout,
    ) -> Result<Self> {
        const NAME: &str = "MPI_Allgatherv";
        layout.check_receive(NAME, "layout", receive.count, communicator.size())?;
        let own = same_block(NAME, send, layout, communicator.rank())?;
        Ok(Self::new(Kind::AllGatherV, send, receive, own)
            .laid_out(&BlockLayout::packed(vec![own]), layout))
    }

    pub(in crate::mpi) fn all_to_all(
        communicator: &Communicator,
        send: Option<Memory>,
        receive: Memory,
    ) -> Result<Self> {
        const NAME: &str = "MPI_Alltoall";
        let size = communicator.size();
        let each = receive.count / size;
        check_total(NAME, receive.count, each, size)?;
        check_total(NAME, send.unwrap_or(receive).count, each, size)?;
        Ok(Self::new(Kind::AllToAll, send, receive, each))
    }

    /// In place, `send` is `None` and both layouts are the same.
    pub(in crate::mpi) fn all_to_all_v(
        communicator: &Communicator,
        send: Option<(Memory, &BlockLayout)>,
        receive: Memory,
        receive_layout: &BlockLayout,
    ) -> Result<Self> {
        const NAME: &str = "MPI_Alltoallv";
        let (memory, send_layout) = send.unwrap_or((receive, receive_layout));
        send_layout.check(NAME, "send layout", memory.count, communicator.size())?;
        receive_layout.check_receive(NAME, "receive layout", receive.count, communicator.size())?;
        let send = send.map(|(memory, _)| memory);
        Ok(Self::new(Kind::AllToAllV, send, receive, 0).laid_out(send_layout, receive_layout))
    }

    /// In place, `send` is `None` and both layouts are the same.
    pub(in crate::mpi) fn all_to_all_w(
        communicator: &Communicator,
        send: Option<(Memory, &StridedLayout)>,
        receive: Memory,
        receive_layout: &StridedLayout,
    ) -> Result<Self> {
        const NAME: &str = "MPI_Alltoallw";
        let (memory, send_layout) = send.unwrap_or((receive, receive_layout));
        send_layout.check(NAME, "send layout", memory.count, communicator.size())?;
        receive_layout.check(NAME, "receive layout", receive.count, communicator.size())?;
        let mut call = Self::new(Kind::AllToAllW, send.map(|(memory, _)| memory), receive, 0);
        let size = receive.element_size;
        call.layouts = Some(Layouts::new(
            &send_layout.of_types(size),
            &receive_layout.of_types(size),
            1,
        ));
        call.types = Some((
            Datatypes::new(send_layout, size)?,
            Datatypes::new(receive_layout, size)?,
        ));
        Ok(call)
    }

    pub(in crate::mpi) fn neighbor_all_gather(
        send: Memory,
        receive: Memory,
        sources: usize,
    ) -> Result<Self> {
        check_total("MPI_Neighbor_allgather", receive.count, send.count, sources)?;
        Ok(Self::new(
            Kind::NeighborAllGather,
            Some(send),
            receive,
            send.count,
        ))
    }

    /// `degrees`: how many neighbours this rank receives from, and how many it sends to.
    pub(in crate::mpi) fn neighbor_all_to_all_v(
        (sources, destinations): (usize, usize),
        (send, send_layout): (Memory, &BlockLayout),
        (receive, receive_layout): (Memory, &BlockLayout),
    ) -> Result<Self> {
        const NAME: &str = "MPI_Neighbor_alltoallv";
        send_layout.check(NAME, "send layout", send.count, destinations)?;
        receive_layout.check_receive(NAME, "receive layout", receive.count, sources)?;
        Ok(Self::new(Kind::NeighborAllToAllV, Some(send), receive, 0)
            .laid_out(send_layout, receive_layout))
    }
}

fn same_count(operation: &'static str, send: Option<Memory>, receive: Memory) -> Result<()> {
    match send {
        Some(send) if send.count != receive.count => Err(Error::argument(
            operation,
            "receive",
            format!("{} elements", receive.count),
            format!("the {} of what is sent", send.count),
        )),
        _ => Ok(()),
    }
}

/// The elements of this rank's own block, which has to be as long in both buffers.
fn same_block(
    operation: &'static str,
    buffer: Option<Memory>,
    layout: &BlockLayout,
    rank: usize,
) -> Result<usize> {
    let own = layout.counts()[rank];
    match buffer {
        Some(buffer) if buffer.count != own => Err(Error::argument(
            operation,
            "buffer",
            format!("{} elements", buffer.count),
            format!("the {own} of this rank's block"),
        )),
        _ => Ok(own),
    }
}

fn check_total(operation: &'static str, found: usize, each: usize, ranks: usize) -> Result<()> {
    if each.checked_mul(ranks) == Some(found) {
        return Ok(());
    }
    let found = format!("{found} elements");
    Err(Error::argument(
        operation,
        "buffer",
        found,
        format!("{each} for each of {ranks} ranks"),
    ))
}
