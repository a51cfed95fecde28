//! What the ranks of a node exchange through a little shared memory, where what is received goes to a caller's buffer.
//!
//! A receiver has a lane for each rank of its node that sends to it: two slots and two counters. The sender fills slots in
//! turns, `filled` counts them; the receiver empties them into its buffer, `emptied` counts them. So the shared memory stays in
//! the cache, however large a block is, and a block travels while it is still being copied. The counters are never set back.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::bell::Bell;
use super::node::Line;

/// Slots of a lane: one is filled while the other is emptied.
const SLOTS: usize = 2;
/// Bytes of a slot, for blocks that are larger.
const SLOT: usize = 64 << 10;

#[repr(C, align(128))]
pub(super) struct Counters {
    filled: Line,
    emptied: Line,
}

/// Bytes of a lane's counters.
pub(super) const HEAD: usize = size_of::<Counters>();

/// Elements of a slot for so many.
fn slot<T>(count: usize) -> usize {
    count.min((SLOT / size_of::<T>()).max(1))
}

/// Bytes of the slots of a lane for so many elements.
pub(super) fn bytes_of<T>(count: usize) -> usize {
    (SLOTS * slot::<T>(count) * size_of::<T>()).next_multiple_of(align_of::<Counters>())
}

/// One end of a lane.
pub(super) struct Lane<T> {
    counters: NonNull<Counters>,
    slots: NonNull<T>,
    /// Of the rank at the other end.
    bell: NonNull<Bell>,
    /// Where the block begins in this rank's buffer.
    buffer: usize,
    count: usize,
    /// Elements of this exchange that have passed here, and slots of all exchanges.
    done: usize,
    passed: u64,
}

impl<T> Lane<T> {
    /// # Safety
    ///
    /// Counters, which are zero, slots of [`bytes_of`], and bell are there as long as the lane is used.
    pub(super) unsafe fn new(
        (counters, slots): (NonNull<Counters>, NonNull<T>),
        bell: NonNull<Bell>,
        buffer: usize,
        count: usize,
    ) -> Self {
        Self {
            counters,
            slots,
            bell,
            buffer,
            count,
            done: count,
            passed: 0,
        }
    }

    /// The next slot and how many elements of the block are for it; nothing once all have passed.
    fn next(&self) -> Option<(*mut T, usize)> {
        let slot = slot::<T>(self.count);
        let left = self.count - self.done;
        let at = usize::from(!self.passed.is_multiple_of(SLOTS as u64));
        // The slots lie one behind the other.
        (left > 0).then(|| (self.slots.as_ptr().wrapping_add(at * slot), left.min(slot)))
    }

    fn pass(&mut self, count: usize, counter: impl Fn(&Counters) -> &Line, rings: bool) {
        self.done += count;
        self.passed += 1;
        // SAFETY: the promise of `new`.
        let (counters, bell) = unsafe { (self.counters.as_ref(), self.bell.as_ref()) };
        counter(counters).0.store(self.passed, Ordering::Release);
        if rings {
            bell.ring();
        }
    }

    /// Fills what is empty. Whether the whole block has left.
    ///
    /// # Safety
    ///
    /// The block lies behind `send`.
    unsafe fn fill(&mut self, send: *const T, rings: bool) -> bool {
        while let Some((slot, count)) = self.next() {
            // SAFETY: the promise of `new`.
            let emptied = unsafe { self.counters.as_ref() }
                .emptied
                .0
                .load(Ordering::Acquire);
            if self.passed - emptied >= SLOTS as u64 {
                return false;
            }
            // SAFETY: the caller's promise; the slot is this end's until it is counted.
            unsafe {
                std::ptr::copy_nonoverlapping(send.add(self.buffer + self.done), slot, count);
            }
            self.pass(count, |counters| &counters.filled, rings);
        }
        true
    }

    /// Empties what is filled. Whether the whole block has come.
    ///
    /// # Safety
    ///
    /// The block lies behind `receive`, and is nobody else's.
    unsafe fn empty(&mut self, receive: *mut T, rings: bool) -> bool {
        while let Some((slot, count)) = self.next() {
            // SAFETY: the promise of `new`.
            let filled = unsafe { self.counters.as_ref() }
                .filled
                .0
                .load(Ordering::Acquire);
            if filled <= self.passed {
                return false;
            }
            // SAFETY: the caller's promise; the slot is this end's until it is counted.
            unsafe {
                std::ptr::copy_nonoverlapping(slot, receive.add(self.buffer + self.done), count);
            }
            self.pass(count, |counters| &counters.emptied, rings);
        }
        true
    }
}

/// All lanes of a rank.
pub(super) struct Lanes<T> {
    pub(super) out: Vec<Lane<T>>,
    pub(super) into: Vec<Lane<T>>,
}

impl<T> Lanes<T> {
    pub(super) fn start(&mut self) {
        for lane in self.out.iter_mut().chain(&mut self.into) {
            lane.done = 0;
        }
    }

    /// Does what can be done. Whether everything has left and come.
    ///
    /// # Safety
    ///
    /// The blocks lie behind `send` and `receive`; those that come are nobody else's.
    pub(super) unsafe fn advance(&mut self, send: *const T, receive: *mut T, rings: bool) -> bool {
        let mut all = true;
        for lane in &mut self.out {
            // SAFETY: the caller's promise.
            all &= unsafe { lane.fill(send, rings) };
        }
        for lane in &mut self.into {
            // SAFETY: the caller's promise.
            all &= unsafe { lane.empty(receive, rings) };
        }
        all
    }
}
