//! The exchanges of each variant, on memory that the plan answers for.

use std::ffi::c_int;
use std::fmt;
use std::ptr::NonNull;

use super::node::Node;
use super::pieces::{Piece, Pieces};
use super::{Buffers, Result, Variant};
use crate::mpi::datatype::{address, int, large_count};
use crate::mpi::error::{mpi, mpi_count};
use crate::mpi::window::Window;
use crate::mpi::{self, Communicator, Element, Environment, Group};
use crate::sys;

/// A variant at work.
pub(super) struct Engine<T: Element> {
    communicator: Communicator,
    pieces: Pieces,
    buffers: Buffers<T>,
    kind: Kind<T>,
    unfreed: Unfreed,
}

/// Tells where a plan is dropped without `free`: others may still write to what it has left behind.
struct Unfreed(Option<Communicator>);

impl Drop for Unfreed {
    fn drop(&mut self) {
        if let Some(communicator) = &self.0 {
            communicator.mark_failed("an Alltoallv plan was dropped without free()");
        }
    }
}

enum Kind<T: Element> {
    Standard(Arguments),
    Persistent {
        request: sys::MPI_Request,
        /// MPI reads them at each start.
        _arguments: Arguments,
    },
    Fence(Window<T>, Puts<T>),
    Lock(Window<T>, Puts<T>),
    Once {
        locks: bool,
    },
    Pscw(Pscw<T>),
    Node(Box<Node<T>>),
}

/// Counts and displacements as MPI wants them.
#[derive(Debug)]
enum Arguments {
    Int {
        counts: [Vec<c_int>; 2],
        displacements: [Vec<c_int>; 2],
    },
    Large {
        counts: [Vec<sys::MPI_Count>; 2],
        displacements: [Vec<sys::MPI_Aint>; 2],
    },
}

impl Arguments {
    fn new(pieces: &Pieces) -> mpi::Result<Self> {
        let sides = [&pieces.send, &pieces.receive];
        let displacements = sides.map(|layout| {
            let blocks = 0..layout.counts().len();
            blocks
                .map(|rank| layout.block(rank).start)
                .collect::<Vec<_>>()
        });
        let counts = sides.map(|layout| layout.counts().to_vec());
        let small = |numbers: &[Vec<usize>; 2]| {
            let ints = |numbers: &Vec<usize>| -> Option<Vec<c_int>> {
                numbers
                    .iter()
                    .map(|&number| c_int::try_from(number).ok())
                    .collect()
            };
            Some([ints(&numbers[0])?, ints(&numbers[1])?])
        };
        if let (Some(counts), Some(displacements)) = (small(&counts), small(&displacements)) {
            return Ok(Self::Int {
                counts,
                displacements,
            });
        }
        let address = |&number: &usize| address("MPI_Alltoallv", "displacement", number as u64);
        let addresses = |numbers: &[usize]| numbers.iter().map(address).collect();
        let addresses = |numbers: &[usize]| -> mpi::Result<_> { addresses(numbers) };
        Ok(Self::Large {
            counts: counts.map(|counts| counts.into_iter().map(large_count).collect()),
            displacements: [addresses(&displacements[0])?, addresses(&displacements[1])?],
        })
    }
}

/// The puts of an exchange.
pub(super) struct Puts<T> {
    puts: Vec<Put>,
    /// One element from each target that is asked for one.
    confirmed: Vec<T>,
}

/// An `MPI_Put` of one piece.
#[derive(Clone, Copy, Debug)]
struct Put {
    peer: c_int,
    from: usize,
    count: usize,
    to: sys::MPI_Aint,
    /// Its end does not mean that its target has the data (decision record 22).
    unconfirmed: bool,
}

/// Whether what ends a put with this provider says nothing about its target.
fn is_unconfirmed() -> bool {
    Environment::provider().is_some_and(|provider| provider.starts_with("tcp"))
}

impl<T: Element> Puts<T> {
    /// Checks each against what its target exposes. `shared` says which targets' memory this process can reach itself.
    pub(super) fn new(
        window: &Window<T>,
        pieces: &[Piece],
        shared: impl Fn(usize) -> bool,
    ) -> mpi::Result<Self> {
        const CALL: &str = "MPI_Put";
        let unconfirmed = is_unconfirmed();
        let put = |piece: &Piece| {
            Ok(Put {
                peer: int(CALL, "rank", piece.peer)?,
                from: piece.from,
                count: piece.count,
                to: window.displacement(CALL, piece.peer, piece.to, piece.count as u64)?,
                unconfirmed: unconfirmed && !shared(piece.peer),
            })
        };
        Ok(Self {
            puts: pieces.iter().map(put).collect::<mpi::Result<_>>()?,
            confirmed: vec![super::zero(); pieces.len()],
        })
    }

    fn is_empty(&self) -> bool {
        self.puts.is_empty()
    }

    /// # Safety
    ///
    /// An epoch to the targets is open on the window; the pieces lie inside of the elements from `send` on, which stay as they
    /// are until the epoch ends.
    #[inline]
    unsafe fn start(&self, window: sys::MPI_Win, send: *const T) -> mpi::Result<()> {
        let kind = T::KIND.as_raw();
        for put in &self.puts {
            // SAFETY: the caller's promises; what the target exposes was checked.
            unsafe {
                let origin = send.add(put.from).cast();
                mpi_count!(MPI_Put | MPI_Put_c, put.count, |count| (
                    origin, count, kind, put.peer, put.to, count, kind, window
                ))?;
            }
        }
        Ok(())
    }

    /// Asks each target for an element behind the data where the end of a put says nothing: requests of one process to
    /// another one are served in order, so that the answer says that the data is there.
    ///
    /// # Safety
    ///
    /// The epoch of the puts is still open, and ends before this value is used again.
    #[inline]
    unsafe fn confirm(&mut self, window: sys::MPI_Win) -> mpi::Result<()> {
        let kind = T::KIND.as_raw();
        for (put, place) in self.puts.iter().zip(&mut self.confirmed) {
            if put.unconfirmed {
                let place = (&raw mut *place).cast();
                // SAFETY: the element was just put, so that the target exposes it; its place lives as long as the plan.
                unsafe { mpi!(MPI_Get(place, 1, kind, put.peer, put.to, 1, kind, window))? };
            }
        }
        Ok(())
    }
}

/// Epochs to exactly the ranks with data.
pub(super) struct Pscw<T: Element> {
    window: Window<T>,
    puts: Puts<T>,
    /// Those that this rank sends to, and those that send to it.
    targets: Option<Group>,
    sources: Option<Group>,
}

impl<T: Element> Pscw<T> {
    pub(super) fn new(
        communicator: &Communicator,
        window: Window<T>,
        sends: &[Piece],
        sources: &[usize],
        shared: impl Fn(usize) -> bool,
    ) -> mpi::Result<Self> {
        let all = communicator.group()?;
        let group = |ranks: &[usize]| {
            let some = !ranks.is_empty();
            some.then(|| all.include(ranks)).transpose()
        };
        let targets: Vec<usize> = sends.iter().map(|piece| piece.peer).collect();
        Ok(Self {
            puts: Puts::new(&window, sends, shared)?,
            window,
            targets: group(&targets)?,
            sources: group(sources)?,
        })
    }

    /// # Safety
    ///
    /// Others may write this rank's memory until [`Pscw::wait`]; the elements from `send` on stay as they are until then.
    pub(super) unsafe fn start(&mut self, send: *const T) -> mpi::Result<()> {
        let raw = self.window.as_raw();
        // SAFETY: no epoch is open on the window; each one is closed here or in `wait`.
        unsafe {
            if let Some(sources) = &self.sources {
                mpi!(MPI_Win_post(sources.as_raw(), 0, raw))?;
            }
            if let Some(targets) = &self.targets {
                mpi!(MPI_Win_start(targets.as_raw(), 0, raw))?;
                self.puts.start(raw, send)?;
                self.puts.confirm(raw)?;
                mpi!(MPI_Win_complete(raw))?;
            }
        }
        Ok(())
    }

    pub(super) fn test(&mut self) -> mpi::Result<bool> {
        // MPI_Win_test ends the epoch where it says yes, so that only `wait` may ask.
        Ok(self.sources.is_none())
    }

    pub(super) fn wait(&mut self) -> mpi::Result<()> {
        if self.sources.is_some() {
            // SAFETY: the epoch was opened by `start`.
            unsafe { mpi!(MPI_Win_wait(self.window.as_raw()))? };
        }
        Ok(())
    }

    pub(super) fn free(self) -> mpi::Result<()> {
        self.window.free()
    }

    pub(super) fn memory(&self) -> *mut T {
        self.window.memory().as_ptr()
    }
}

/// Puts the peers on other nodes first.
fn far_first(communicator: &Communicator, pieces: &mut Pieces) -> mpi::Result<()> {
    let near = on_this_node(communicator)?;
    pieces.sends.sort_by_key(|piece| near[piece.peer]);
    Ok(())
}

/// Which ranks are on this rank's node. Collective.
pub(super) fn on_this_node(communicator: &Communicator) -> mpi::Result<Vec<bool>> {
    let node = communicator.split_shared()?;
    let here = communicator.group()?;
    let ranks: Vec<usize> = (0..node.size()).collect();
    let translated = node.group()?.translate(&ranks, &here)?;
    let mut near = vec![false; communicator.size()];
    for rank in translated.into_iter().flatten() {
        near[rank] = true;
    }
    node.free()?;
    Ok(near)
}

impl<T: Element> Engine<T> {
    /// Collective and blocking.
    ///
    /// # Safety
    ///
    /// The buffers are valid, and nobody else has references to them, until the engine is freed, or for ever; but for what a
    /// plan lends between [`Engine::wait`] and [`Engine::start`].
    pub(super) unsafe fn new(
        communicator: &Communicator,
        variant: Variant,
        mut pieces: Pieces,
        buffers: Buffers<T>,
    ) -> Result<Self> {
        if matches!(
            variant,
            Variant::FenceHierarchical | Variant::LockHierarchical
        ) {
            far_first(communicator, &mut pieces)?;
        }
        let window = || -> mpi::Result<Window<T>> {
            if buffers.receive.is_null() {
                return Window::allocate(communicator, buffers.receive_length, None);
            }
            let base = NonNull::new(buffers.receive).unwrap_or(NonNull::dangling());
            // SAFETY: the caller's promise.
            unsafe { Window::create_raw(communicator, base, buffers.receive_length, None, None) }
        };
        // MPI shares memory that it has allocated between the processes of a node.
        let shared = || -> mpi::Result<_> {
            let near = if buffers.receive.is_null() && is_unconfirmed() {
                on_this_node(communicator)?
            } else {
                vec![false; communicator.size()]
            };
            Ok(move |peer: usize| near[peer])
        };
        let kind = match variant {
            Variant::Standard => Kind::Standard(Arguments::new(&pieces)?),
            Variant::StandardPersistent => {
                let arguments = Arguments::new(&pieces)?;
                // SAFETY: the caller's promise, for the buffers; the arguments are kept as long as the request.
                let request = unsafe { arguments.initialize(communicator, buffers)? };
                Kind::Persistent {
                    request,
                    _arguments: arguments,
                }
            }
            Variant::Fence | Variant::FenceHierarchical => {
                let window = window()?;
                let puts = Puts::new(&window, &pieces.sends, shared()?)?;
                Kind::Fence(window, puts)
            }
            Variant::Lock | Variant::LockHierarchical => {
                let window = window()?;
                let puts = Puts::new(&window, &pieces.sends, shared()?)?;
                // SAFETY: no epoch is open on the window. This one is closed before it is freed.
                unsafe {
                    mpi!(MPI_Win_lock_all(
                        sys::MPI_MODE_NOCHECK as c_int,
                        window.as_raw()
                    ))?;
                }
                Kind::Lock(window, puts)
            }
            Variant::FenceOnce => Kind::Once { locks: false },
            Variant::LockOnce => Kind::Once { locks: true },
            Variant::Pscw => {
                let window = window()?;
                let (sends, sources) = (&pieces.sends, &pieces.sources);
                Kind::Pscw(Pscw::new(communicator, window, sends, sources, shared()?)?)
            }
            Variant::NodeShared => {
                // SAFETY: the caller's promise.
                let node = unsafe { Node::new(communicator, &pieces, buffers)? };
                Kind::Node(Box::new(node))
            }
        };
        Ok(Self {
            communicator: communicator.clone(),
            pieces,
            buffers,
            kind,
            unfreed: Unfreed(Some(communicator.clone())),
        })
    }

    /// The memory for what is received, where the variant has its own.
    pub(super) fn memory(&self) -> *mut T {
        match &self.kind {
            Kind::Fence(window, _) | Kind::Lock(window, _) => window.memory().as_ptr(),
            Kind::Pscw(pscw) => pscw.memory(),
            Kind::Node(node) => node.memory(),
            Kind::Standard(_) | Kind::Persistent { .. } | Kind::Once { .. } => self.buffers.receive,
        }
    }

    #[inline]
    pub(super) fn start(&mut self) -> mpi::Result<()> {
        let send = self.buffers.send.cast_const();
        match &mut self.kind {
            Kind::Standard(_) | Kind::Once { .. } => {}
            // SAFETY: the request is inactive, and its memory is not lent until `wait`.
            Kind::Persistent { request, .. } => unsafe { mpi!(MPI_Start(request))? },
            Kind::Fence(window, puts) => {
                let raw = window.as_raw();
                // SAFETY: no other epoch is open. The puts are checked, and complete at the next fence.
                unsafe {
                    mpi!(MPI_Win_fence(sys::MPI_MODE_NOPRECEDE as c_int, raw))?;
                    puts.start(raw, send)?;
                }
            }
            Kind::Lock(window, puts) => {
                // Everybody's memory may be written again.
                self.communicator.barrier()?;
                let raw = window.as_raw();
                // SAFETY: the epoch is open since `new`. The puts are checked, and complete at the flush.
                unsafe {
                    puts.start(raw, send)?;
                }
            }
            // SAFETY: the plan lends its memory after `wait` only.
            Kind::Pscw(pscw) => unsafe { pscw.start(send)? },
            // SAFETY: the same.
            Kind::Node(node) => unsafe { node.start(send)? },
        }
        if let (Some(own), false) = (self.pieces.own, self.copies_itself()) {
            let (to, memory) = (place(own.to), self.memory());
            // SAFETY: the layouts were checked against the buffers, which do not overlap.
            unsafe {
                std::ptr::copy_nonoverlapping(send.add(own.from), memory.add(to), own.count);
            }
        }
        Ok(())
    }

    /// Whether MPI, or the node, moves what a rank keeps.
    fn copies_itself(&self) -> bool {
        matches!(
            self.kind,
            Kind::Standard(_) | Kind::Persistent { .. } | Kind::Node(_)
        )
    }

    pub(super) fn test(&mut self) -> mpi::Result<bool> {
        match &mut self.kind {
            Kind::Persistent { request, .. } => {
                let mut done = 0;
                // SAFETY: the request is valid; the call leaves it as it is.
                unsafe {
                    mpi!(MPI_Request_get_status(
                        *request,
                        &raw mut done,
                        sys::status_ignore()
                    ))?;
                }
                Ok(done != 0)
            }
            Kind::Pscw(pscw) => pscw.test(),
            Kind::Node(node) => node.test(),
            // Their end is collective.
            _ => Ok(false),
        }
    }

    #[inline]
    pub(super) fn wait(&mut self) -> mpi::Result<()> {
        match &mut self.kind {
            // SAFETY: the arguments were made for these buffers, which are not lent now.
            Kind::Standard(arguments) => unsafe {
                arguments.exchange(&self.communicator, self.buffers)
            },
            // SAFETY: the request was started.
            Kind::Persistent { request, .. } => unsafe {
                mpi!(MPI_Wait(request, sys::status_ignore()))
            },
            // SAFETY: the window's only epoch ends.
            Kind::Fence(window, puts) => unsafe {
                puts.confirm(window.as_raw())?;
                mpi!(MPI_Win_fence(
                    sys::MPI_MODE_NOSUCCEED as c_int,
                    window.as_raw()
                ))
            },
            Kind::Lock(window, puts) => {
                let raw = window.as_raw();
                if !puts.is_empty() {
                    // SAFETY: an epoch to all is open; the flush ends what is asked for.
                    unsafe {
                        puts.confirm(raw)?;
                        mpi!(MPI_Win_flush_all(raw))?;
                    }
                }
                // Everybody's puts are complete.
                self.communicator.barrier()?;
                // SAFETY: the same.
                unsafe { mpi!(MPI_Win_sync(raw)) }
            }
            Kind::Once { locks } => {
                let locks = *locks;
                self.once(locks)
            }
            Kind::Pscw(pscw) => pscw.wait(),
            Kind::Node(node) => node.wait(),
        }
    }

    /// Everything at once: displacements, window, epoch, and its end.
    fn once(&self, locks: bool) -> mpi::Result<()> {
        let Buffers {
            send,
            receive,
            receive_length,
            ..
        } = self.buffers;
        let communicator = &self.communicator;
        let (rank, size) = (communicator.rank(), communicator.size());
        let mine: Vec<u64> = (0..size)
            .map(|peer| self.pieces.receive.block(peer).start as u64)
            .collect();
        let mut theirs = vec![0; size];
        communicator.all_to_all(&mine, &mut theirs)?;
        let base = NonNull::new(receive).unwrap_or(NonNull::dangling());
        // SAFETY: the buffer is not lent now, and the window is freed before it is.
        let window =
            unsafe { Window::<T>::create_raw(communicator, base, receive_length, None, None)? };
        let raw = window.as_raw();
        debug_assert!(self.pieces.own.is_none_or(|own| theirs[rank] == own.to));
        let pieces = self.pieces.sends.iter().map(|piece| Piece {
            to: theirs[piece.peer],
            ..*piece
        });
        let mut puts = Puts::new(&window, &pieces.collect::<Vec<_>>(), |_| false)?;
        // SAFETY: each epoch that is opened is closed here, the pieces are checked, and complete at its end.
        unsafe {
            if locks {
                mpi!(MPI_Win_lock_all(sys::MPI_MODE_NOCHECK as c_int, raw))?;
            } else {
                mpi!(MPI_Win_fence(sys::MPI_MODE_NOPRECEDE as c_int, raw))?;
            }
            puts.start(raw, send)?;
            puts.confirm(raw)?;
            if locks {
                mpi!(MPI_Win_unlock_all(raw))?;
                communicator.barrier()?;
            } else {
                mpi!(MPI_Win_fence(sys::MPI_MODE_NOSUCCEED as c_int, raw))?;
            }
        }
        window.free()
    }

    /// Collective and blocking.
    pub(super) fn free(mut self) -> mpi::Result<()> {
        self.unfreed.0 = None;
        match self.kind {
            Kind::Standard(_) | Kind::Once { .. } => Ok(()),
            Kind::Persistent { mut request, .. } => {
                // SAFETY: the request is inactive, and this is its last use.
                unsafe { mpi!(MPI_Request_free(&raw mut request)) }
            }
            Kind::Fence(window, _) => window.free(),
            Kind::Lock(window, _) => {
                // SAFETY: the epoch is open since `new`.
                unsafe { mpi!(MPI_Win_unlock_all(window.as_raw()))? };
                window.free()
            }
            Kind::Pscw(pscw) => pscw.free(),
            Kind::Node(node) => node.free(),
        }
    }
}

impl Arguments {
    /// # Safety
    ///
    /// They fit the buffers, which nobody else uses meanwhile.
    unsafe fn exchange<T: Element>(
        &self,
        communicator: &Communicator,
        buffers: Buffers<T>,
    ) -> mpi::Result<()> {
        let (raw, kind) = (communicator.as_raw(), T::KIND.as_raw());
        let (send, receive) = (buffers.send.cast_const().cast(), buffers.receive.cast());
        // SAFETY: the caller's promises.
        unsafe {
            match self {
                Self::Int {
                    counts: [sends, receives],
                    displacements: [from, to],
                } => mpi!(MPI_Alltoallv(
                    send,
                    sends.as_ptr(),
                    from.as_ptr(),
                    kind,
                    receive,
                    receives.as_ptr(),
                    to.as_ptr(),
                    kind,
                    raw
                )),
                Self::Large {
                    counts: [sends, receives],
                    displacements: [from, to],
                } => mpi!(MPI_Alltoallv_c(
                    send,
                    sends.as_ptr(),
                    from.as_ptr(),
                    kind,
                    receive,
                    receives.as_ptr(),
                    to.as_ptr(),
                    kind,
                    raw
                )),
            }
        }
    }

    /// # Safety
    ///
    /// They fit the buffers. Both stay where they are as long as the request lives.
    unsafe fn initialize<T: Element>(
        &self,
        communicator: &Communicator,
        buffers: Buffers<T>,
    ) -> mpi::Result<sys::MPI_Request> {
        let (raw, kind) = (communicator.as_raw(), T::KIND.as_raw());
        let (send, receive) = (buffers.send.cast_const().cast(), buffers.receive.cast());
        let mut request = sys::MALLEUS_REQUEST_NULL;
        // SAFETY: the caller's promises.
        unsafe {
            match self {
                Self::Int {
                    counts: [sends, receives],
                    displacements: [from, to],
                } => mpi!(MPI_Alltoallv_init(
                    send,
                    sends.as_ptr(),
                    from.as_ptr(),
                    kind,
                    receive,
                    receives.as_ptr(),
                    to.as_ptr(),
                    kind,
                    raw,
                    sys::MALLEUS_INFO_NULL,
                    &raw mut request
                ))?,
                Self::Large {
                    counts: [sends, receives],
                    displacements: [from, to],
                } => mpi!(MPI_Alltoallv_init_c(
                    send,
                    sends.as_ptr(),
                    from.as_ptr(),
                    kind,
                    receive,
                    receives.as_ptr(),
                    to.as_ptr(),
                    kind,
                    raw,
                    sys::MALLEUS_INFO_NULL,
                    &raw mut request
                ))?,
            }
        }
        Ok(request)
    }
}

/// An index into a buffer of this rank.
pub(super) fn place(index: u64) -> usize {
    usize::try_from(index).expect("inside of a buffer in memory")
}

impl<T: Element> fmt::Debug for Engine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("sends", &self.pieces.sends.len())
            .field("sources", &self.pieces.sources.len())
            .finish_non_exhaustive()
    }
}
