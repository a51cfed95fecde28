//! The exchanges of each variant, on memory that the plan answers for.

use std::ffi::c_int;
use std::fmt;
use std::ptr::NonNull;

use super::node::Node;
use super::pieces::{Piece, Pieces};
use super::puts::{Pscw, Puts, unconfirmed};
use super::standard::Arguments;
use super::{Buffers, Result, Variant};
use crate::mpi::error::mpi;
use crate::mpi::window::Window;
use crate::mpi::{self, Communicator, Element};
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
        unconfirmed: Vec<bool>,
    },
    Pscw(Pscw<T>),
    Node(Box<Node<T>>),
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
            // The peers on other nodes first.
            let near = pieces.places(communicator)?.to_vec();
            pieces.sends.sort_by_key(|piece| near[piece.peer].is_some());
        }
        let window = || -> mpi::Result<Window<T>> {
            if buffers.receive.is_null() {
                return Window::allocate(communicator, buffers.receive_length, None);
            }
            let base = NonNull::new(buffers.receive).unwrap_or(NonNull::dangling());
            // SAFETY: the caller's promise.
            unsafe { Window::create_raw(communicator, base, buffers.receive_length, None, None) }
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
                let puts = Puts::new(&window, &pieces.sends, &unconfirmed(communicator, &pieces)?)?;
                Kind::Fence(window, puts)
            }
            Variant::Lock | Variant::LockHierarchical => {
                let window = window()?;
                let puts = Puts::new(&window, &pieces.sends, &unconfirmed(communicator, &pieces)?)?;
                // SAFETY: no epoch is open on the window. This one is closed before it is freed.
                unsafe {
                    mpi!(MPI_Win_lock_all(
                        sys::MPI_MODE_NOCHECK as c_int,
                        window.as_raw()
                    ))?;
                }
                Kind::Lock(window, puts)
            }
            Variant::FenceOnce | Variant::LockOnce => Kind::Once {
                locks: variant == Variant::LockOnce,
                unconfirmed: unconfirmed(communicator, &pieces)?,
            },
            Variant::Pscw => {
                let window = window()?;
                let (sends, sources) = (&pieces.sends, &pieces.sources);
                let unconfirmed = unconfirmed(communicator, &pieces)?;
                Kind::Pscw(Pscw::new(
                    communicator,
                    window,
                    (sends, sources),
                    &unconfirmed,
                )?)
            }
            Variant::NodeShared | Variant::Aggregated => {
                let aggregate = variant == Variant::Aggregated;
                // SAFETY: the caller's promise.
                let node = unsafe { Node::new(communicator, &pieces, buffers, aggregate)? };
                Kind::Node(Box::new(node))
            }
            Variant::Auto => unreachable!("it stands for another variant"),
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
            Kind::Once { locks, unconfirmed } => {
                let (communicator, pieces) = (&self.communicator, &self.pieces);
                // SAFETY: the pieces were checked against the buffers, which are not lent now.
                unsafe { once(communicator, pieces, self.buffers, (*locks, unconfirmed)) }
            }
            Kind::Pscw(pscw) => pscw.wait(),
            Kind::Node(node) => node.wait(),
        }
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

/// Everything at once: displacements, window, epoch, and its end.
///
/// # Safety
///
/// The pieces lie in the buffers, which nobody else uses meanwhile.
unsafe fn once<T: Element>(
    communicator: &Communicator,
    pieces: &Pieces,
    buffers: Buffers<T>,
    (locks, unconfirmed): (bool, &[bool]),
) -> mpi::Result<()> {
    let Buffers {
        send,
        receive,
        receive_length,
        ..
    } = buffers;
    let (rank, size) = (communicator.rank(), communicator.size());
    let mine: Vec<u64> = (0..size)
        .map(|peer| pieces.receive.block(peer).start as u64)
        .collect();
    let mut theirs = vec![0; size];
    communicator.all_to_all(&mine, &mut theirs)?;
    let base = NonNull::new(receive).unwrap_or(NonNull::dangling());
    // SAFETY: the buffer is not lent now, and the window is freed before it is.
    let window =
        unsafe { Window::<T>::create_raw(communicator, base, receive_length, None, None)? };
    let raw = window.as_raw();
    debug_assert!(pieces.own.is_none_or(|own| theirs[rank] == own.to));
    let sends = pieces.sends.iter().map(|piece| Piece {
        to: theirs[piece.peer],
        ..*piece
    });
    let sends: Vec<Piece> = sends.collect();
    let mut puts = Puts::new(&window, &sends, unconfirmed)?;
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
