//! Matrices: reading, storing, multiplying, generating them, and their halo patterns.
//!
//! Expected values come from `../shared/data/matrices` (verdicts on malformed files, and quantities
//! of well-known matrices that other programs have computed; `MALLEUS_DATA` names another place for
//! `../shared/data`), from definitions written out densely, and from arithmetic on paper.
#![cfg(feature = "cli")]

use std::path::PathBuf;

#[path = "matrix/generated.rs"]
mod generated;
#[path = "matrix/reader.rs"]
mod reader;
#[path = "matrix/reference.rs"]
mod reference;
#[path = "matrix/rows.rs"]
mod rows;
#[path = "matrix/sample.rs"]
mod sample;

/// Counts the bytes that each thread holds, so that tests which run beside each other do not
/// disturb each other.
#[allow(unsafe_code)]
mod heap {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    thread_local! {
        static LIVE: Cell<usize> = const { Cell::new(0) };
        static PEAK: Cell<usize> = const { Cell::new(0) };
    }

    struct Counting;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    fn grow(bytes: usize) {
        let live = LIVE.get() + bytes;
        LIVE.set(live);
        PEAK.set(PEAK.get().max(live));
    }

    fn shrink(bytes: usize) {
        // Memory that another thread has allocated may be freed here.
        LIVE.set(LIVE.get().saturating_sub(bytes));
    }

    // SAFETY: every call is passed on unchanged to the system's allocator; the counters are
    // constant-initialized thread-locals without destructors, so touching them neither allocates
    // nor unwinds.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            grow(layout.size());
            // SAFETY: the caller's promises are passed on.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            shrink(layout.size());
            // SAFETY: the caller's promises are passed on.
            unsafe { System.dealloc(pointer, layout) }
        }

        unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
            // As if both lived for a moment, as they do when the memory has to move.
            grow(new_size);
            shrink(layout.size());
            // SAFETY: the caller's promises are passed on.
            unsafe { System.realloc(pointer, layout, new_size) }
        }
    }

    /// The result, and by how many bytes this thread's heap grew at most meanwhile.
    pub(super) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
        let before = LIVE.get();
        PEAK.set(before);
        let result = work();
        (result, PEAK.get() - before)
    }
}

const MIB: usize = 1 << 20;

/// The folder of matrices, or nothing and a word about it.
fn data() -> Option<PathBuf> {
    let shared = std::env::var_os("MALLEUS_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    let folder = shared.join("matrices");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no folder {}", folder.display());
    None
}

const GENERAL: &str = "%%MatrixMarket matrix coordinate real general\n";

/// P blocks of rows, the remainder to the first of them.
fn block_cuts(rows: usize, blocks: usize) -> Vec<usize> {
    (0..=blocks)
        .map(|block| block * (rows / blocks) + block.min(rows % blocks))
        .collect()
}
