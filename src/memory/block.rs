//! One process's mapped part of an array.

use std::fmt;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::slice;

use memmap2::MmapRaw;

use super::{Arena, BASE_ALIGNMENT, Error, Result, page_size};

/// The part of an array that this process holds, mapped for reading and writing. Made by [`Arena::map`].
///
/// The pages that the byte range touches are mapped. The address of the first byte is congruent, modulo the page size, to
/// its file offset; it does not change while the block lives, so windows can be opened on it. New pages read as zeros.
///
/// Dropping a block unmaps it and leaves its contents in the arena, where a later [`Arena::map`] finds them.
/// [`release`](Self::release) gives the memory back.
///
/// # Threads
///
/// A block is `Send` and `Sync` as a `Box<[u8]>` is: mappings belong to the process, not to a thread; an arena never maps
/// an array twice at a time, so this block is the only way to its bytes in this process; and safe access to them borrows
/// the block. The exceptions are raw: who writes through [`as_mut_ptr`](Self::as_mut_ptr), lets MPI write there, or lets
/// another process map the same pages, has to make sure that no slice of those bytes is in use meanwhile.
pub struct Block {
    arena: Arena,
    base: u64,
    bytes: Range<u64>,
    /// Absent where the range is empty.
    mapping: Option<MmapRaw>,
}

impl Block {
    /// The arena marks the array as mapped before it makes its block; the block undoes that when it is dropped.
    pub(super) fn new(
        arena: Arena,
        base: u64,
        bytes: Range<u64>,
        mapping: Option<MmapRaw>,
    ) -> Self {
        Self {
            arena,
            base,
            bytes,
            mapping,
        }
    }

    /// The first byte; for an empty block a page-aligned address where nothing is.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.as_mut_ptr()
    }

    /// The first byte, for writing by MPI or through raw pointers; for an empty block a page-aligned address where nothing
    /// is.
    ///
    /// Valid for [`len`](Self::len) bytes as long as the block lives. Rust's rules for references hold: nothing may be
    /// written through it while a slice of the same bytes is in use.
    #[must_use]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        match &self.mapping {
            Some(mapping) => mapping.as_mut_ptr(),
            None => ptr::without_provenance_mut(page_size()),
        }
    }

    /// The first byte as an element of type `T`, after a check that the block holds whole, aligned elements. That is so
    /// when the global byte offset and the length are multiples of the element's size, because bases are aligned to 2 MiB.
    ///
    /// # Errors
    ///
    /// [`Error::Misaligned`] if the address is not aligned for `T` or the length is not a multiple of its size.
    pub fn typed_ptr<T>(&self) -> Result<NonNull<T>> {
        const {
            assert!(size_of::<T>() > 0, "an element has a size");
        }
        let pointer = self.as_mut_ptr().cast::<T>();
        match NonNull::new(pointer) {
            Some(pointer) if pointer.is_aligned() && self.len().is_multiple_of(size_of::<T>()) => {
                Ok(pointer)
            }
            _ => Err(Error::Misaligned {
                address: pointer.addr(),
                len: self.len(),
                size: size_of::<T>(),
                align: align_of::<T>(),
            }),
        }
    }

    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.mapping.as_ref().map_or(0, MmapRaw::len)
    }

    /// Whether the block has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the array begins in the arena's file.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Which bytes of the whole array these are.
    #[must_use]
    pub fn bytes(&self) -> Range<u64> {
        self.bytes.clone()
    }

    /// The bytes, for reading.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the pointer is valid for `len` bytes while `self` lives: they are mapped, and the file under them cannot
        // become shorter (F_SEAL_SHRINK). A page of a file is always initialized. The arena maps an array once at a time,
        // so a writer in this process needs `&mut self`, or answers for itself (see Threads). An empty block's pointer is
        // aligned and not null.
        unsafe { slice::from_raw_parts(self.as_ptr(), self.len()) }
    }

    /// The bytes, for reading and writing.
    #[must_use]
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_bytes`; `&mut self` makes it the only access, because the arena maps an array once at a time.
        unsafe { slice::from_raw_parts_mut(self.as_mut_ptr(), self.len()) }
    }

    /// Unmaps the block and gives its memory back to the system (`FALLOC_FL_PUNCH_HOLE`); the bytes read as zeros from
    /// then on.
    ///
    /// An arena holds one block of each array, and arrays lie [`BASE_ALIGNMENT`] apart. So the pages at both ends, which the
    /// block covers only partly, hold nothing else in this file and go too, huge pages included: the range is rounded
    /// outward to that alignment. No other process may use these pages any more: under its mapping they would turn to zeros
    /// without a word. No window may be open on them.
    ///
    /// # Errors
    ///
    /// [`Error::System`] if the system refuses; the block is unmapped all the same, and its memory returns with the arena.
    pub fn release(mut self) -> Result<()> {
        if self.mapping.take().is_none() {
            return Ok(());
        }
        // Bases are multiples of the alignment and at least the array's length apart, so this neither overflows nor reaches
        // the next array.
        let start = self.base + self.bytes.start;
        let end = (self.base + self.bytes.end).next_multiple_of(BASE_ALIGNMENT);
        self.arena.punch(start - start % BASE_ALIGNMENT..end)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // Unmapped first, so that no moment sees two mappings of the array.
        self.mapping = None;
        self.arena.unmapped(self.base);
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Block")
            .field("base", &self.base)
            .field("bytes", &self.bytes)
            .field("address", &self.as_ptr())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn arena() -> Arena {
        Arena::new("block-test").unwrap()
    }

    #[test]
    fn blocks_cross_threads() {
        fn assert<T: Send + Sync>() {}
        assert::<Block>();
        assert::<Arena>();
    }

    #[test]
    fn addresses_are_congruent_to_file_offsets() {
        let arena = arena();
        let page = page_size() as u64;
        for start in [
            0,
            8,
            page - 8,
            page,
            page + 24,
            5 * page + 4088,
            3 * MIB + 16,
        ] {
            let base = arena.append(4 * MIB).unwrap();
            for end in [start + 8, start + page, start + 3 * page + 8] {
                let block = arena.map(base, start..end).unwrap();
                assert_eq!(block.as_ptr().addr() as u64 % page, (base + start) % page);
                assert_eq!(block.len() as u64, end - start);
                assert_eq!(block.bytes(), start..end);
            }
        }
    }

    #[test]
    fn new_memory_is_zero_and_keeps_what_is_written() {
        let arena = arena();
        let base = arena.append(MIB).unwrap();
        let mut block = arena.map(base, 100..9000).unwrap();
        assert!(block.as_bytes().iter().all(|&byte| byte == 0));
        block.as_bytes_mut().fill(7);
        drop(block);
        // Unmapping keeps the contents: 100..9000 are sevens, the neighbours are not.
        let block = arena.map(base, 99..9001).unwrap();
        let (first, last) = (block.as_bytes()[0], block.as_bytes()[8901]);
        assert_eq!((first, last), (0, 0));
        assert!(block.as_bytes()[1..8901].iter().all(|&byte| byte == 7));
    }

    #[test]
    fn blocks_do_not_touch_each_other() {
        let (first_arena, second_arena) = (arena(), arena());
        let mut blocks = Vec::new();
        for arena in [&first_arena, &second_arena] {
            for _ in 0..3 {
                let base = arena.append(10_000).unwrap();
                blocks.push(arena.map(base, 0..10_000).unwrap());
            }
        }
        for (value, block) in (1..).zip(&mut blocks) {
            block.as_bytes_mut().fill(value);
        }
        for (value, block) in (1..).zip(&blocks) {
            assert!(block.as_bytes().iter().all(|&byte| byte == value));
        }
    }

    #[test]
    fn empty_blocks_have_no_mapping() {
        let arena = arena();
        let base = arena.append(100).unwrap();
        let mut block = arena.map(base, 100..100).unwrap();
        assert!(block.is_empty());
        assert!(block.as_bytes_mut().is_empty());
        assert_eq!(block.as_ptr().addr() % page_size(), 0);
        assert!(block.typed_ptr::<u128>().is_ok());
        block.release().unwrap();
        assert!(arena.map(base, 0..100).is_ok());
    }

    #[test]
    fn typed_pointers_are_checked() {
        let arena = arena();
        let base = arena.append(MIB).unwrap();
        let check = |bytes: Range<u64>| arena.map(base, bytes).unwrap().typed_ptr::<f64>().is_ok();
        assert!(check(8..80));
        assert!(!check(8..81));
        assert!(!check(4..76));
        let block = arena.map(base, 16..32).unwrap();
        let pointer = block.typed_ptr::<u64>().unwrap();
        // SAFETY: the pointer was checked, and the block holds two elements that nothing else uses.
        unsafe {
            pointer.add(1).write(u64::from_ne_bytes(*b"12345678"));
        }
        assert_eq!(&block.as_bytes()[8..], b"12345678");
    }

    #[test]
    fn release_gives_the_memory_back() {
        let arena = arena();
        let neighbour_base = arena.append(100_000).unwrap();
        let base = arena.append(256 * MIB).unwrap();
        let mut neighbour = arena.map(neighbour_base, 0..100_000).unwrap();
        neighbour.as_bytes_mut().fill(1);
        let kept = arena.allocated_bytes().unwrap();
        // Neither end on a page boundary.
        let bytes = 100 * MIB + 8..164 * MIB + 16;
        let resident = resident_shared();
        let mut block = arena.map(base, bytes.clone()).unwrap();
        block.as_bytes_mut().fill(2);
        // Pages are small or, where the system uses those for shared memory, huge.
        let taken = arena.allocated_bytes().unwrap() - kept;
        assert!((64 * MIB + 8..=68 * MIB).contains(&taken), "{taken}");
        // Other tests run meanwhile, and use far less than this.
        assert!(resident_shared() > resident + 48 * MIB);
        block.release().unwrap();
        assert_eq!(arena.allocated_bytes().unwrap(), kept);
        assert!(resident_shared() < resident + 16 * MIB);
        assert!(neighbour.as_bytes().iter().all(|&byte| byte == 1));
        let block = arena.map(base, bytes).unwrap();
        assert!(block.as_bytes().iter().all(|&byte| byte == 0));
    }

    #[test]
    fn dropping_without_release_keeps_the_memory() {
        let arena = arena();
        let base = arena.append(MIB).unwrap();
        let mut block = arena.map(base, 0..MIB).unwrap();
        block.as_bytes_mut().fill(1);
        drop(block);
        assert!(arena.allocated_bytes().unwrap() >= MIB);
    }

    /// `RssShmem` of this process in bytes.
    fn resident_shared() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssShmem:"))
            .unwrap();
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        kib * 1024
    }
}
