//! The file that holds a process's blocks.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::MmapOptions;

use super::{Block, Error, Layout, Result, limit};

/// A sparse file in memory that holds this process's block of every array, each at its global offset.
///
/// One arena serves one process and one generation (the time between two resizes). Its file is made by `memfd_create`,
/// grows with each [`append`](Self::append) and can never shrink (`F_SEAL_SHRINK`), so a mapping never loses the file
/// under it. Clones are handles on one arena; the file closes when the last handle and the last [`Block`] are gone, and
/// memory that no process maps any more then returns to the system.
///
/// ```
/// use malleus::memory::Arena;
///
/// let arena = Arena::new("example")?;
/// let base = arena.append(1 << 40)?; // a distributed array of 1 TiB takes no memory yet
/// let mut block = arena.map(base, 4096..12_288)?; // this process's part
/// block.as_bytes_mut().fill(1);
/// assert!(arena.allocated_bytes()? >= 8192);
/// block.release()?;
/// assert_eq!(arena.allocated_bytes()?, 0);
/// # Ok::<(), malleus::memory::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Arena {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    file: File,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    layout: Layout,
    /// Ascending in `base`.
    arrays: Vec<Array>,
}

#[derive(Debug)]
struct Array {
    base: u64,
    bytes: u64,
    /// Whether its block lives; two would let safe code hold `&mut` to the same bytes twice.
    mapped: bool,
}

impl State {
    fn array(&mut self, base: u64) -> Result<&mut Array> {
        match self.arrays.binary_search_by_key(&base, |array| array.base) {
            Ok(position) => Ok(&mut self.arrays[position]),
            Err(_) => Err(Error::NoSuchArray { base }),
        }
    }
}

impl Arena {
    /// Makes an empty arena. `name` appears in `/proc/PID/maps` and serves people only.
    ///
    /// The call is `memfd_create` with `MFD_CLOEXEC` and `MFD_ALLOW_SEALING`, then `F_ADD_SEALS` with `F_SEAL_SHRINK`.
    ///
    /// # Errors
    ///
    /// [`Error::System`]: too many open files, a name that contains a zero byte or is longer than 249 bytes, no memfd on
    /// this system.
    pub fn new(name: &str) -> Result<Self> {
        let failed = |error| Error::system("memfd_create", 0, error);
        let name = CString::new(name).map_err(|error| failed(error.into()))?;
        // SAFETY: memfd_create(2) reads a string that ends in a zero byte, which a CString is, and keeps no pointer to it.
        let descriptor = unsafe {
            libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
        };
        if descriptor < 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new and open, and nobody else has it.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        // SAFETY: fcntl(2) with F_ADD_SEALS takes an int and touches no memory of the process.
        let code = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
        if code < 0 {
            return Err(Error::system(
                "fcntl(F_ADD_SEALS)",
                0,
                io::Error::last_os_error(),
            ));
        }
        Ok(Self {
            shared: Arc::new(Shared {
                file,
                state: Mutex::default(),
            }),
        })
    }

    /// Adds an array of `global_bytes` bytes, counted over all ranks, and returns its base. The file grows, the memory in
    /// use does not.
    ///
    /// Arenas to which the same sizes were appended in the same order return the same bases: see [`Layout`]. Threads may
    /// append at the same time, but the order is then theirs to settle.
    ///
    /// # Errors
    ///
    /// [`Error::OffsetOverflow`], [`Error::FileSizeLimit`], or [`Error::System`] if `ftruncate` fails. The arena is then
    /// unchanged.
    pub fn append(&self, global_bytes: u64) -> Result<u64> {
        let mut state = self.state();
        let mut layout = state.layout;
        let base = layout.append(global_bytes)?;
        let bytes = layout.end();
        // To exceed the limit raises SIGXFSZ, which ends the process.
        if let Some(limit) = limit(libc::RLIMIT_FSIZE).filter(|&limit| bytes > limit) {
            return Err(Error::FileSizeLimit { bytes, limit });
        }
        self.shared
            .file
            .set_len(bytes)
            .map_err(|error| Error::system("ftruncate", bytes, error))?;
        state.layout = layout;
        state.arrays.push(Array {
            base,
            bytes: global_bytes,
            mapped: false,
        });
        Ok(base)
    }

    /// Maps the block that this process holds of the array at `base`: the bytes `bytes`, counted from the start of the
    /// whole array. An empty range maps nothing.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchArray`], [`Error::OutOfRange`], [`Error::AlreadyMapped`] while an earlier block of the array lives,
    /// or [`Error::System`] if `mmap` fails.
    pub fn map(&self, base: u64, bytes: Range<u64>) -> Result<Block> {
        let mut state = self.state();
        let array = state.array(base)?;
        if bytes.start > bytes.end || bytes.end > array.bytes {
            return Err(Error::OutOfRange {
                range: bytes,
                len: array.bytes,
            });
        }
        if array.mapped {
            return Err(Error::AlreadyMapped { base });
        }
        let size = bytes.end - bytes.start;
        let mapping = if size == 0 {
            None
        } else {
            let failed = |error| Error::system("mmap", size, error);
            let len = usize::try_from(size)
                .map_err(|_| failed(io::Error::from_raw_os_error(libc::ENOMEM)))?;
            // memmap2 maps from the page that holds the offset and moves the pointer forward to it: the congruence.
            let mapping = MmapOptions::new()
                .offset(base + bytes.start)
                .len(len)
                .map_raw(&self.shared.file)
                .map_err(failed)?;
            Some(mapping)
        };
        array.mapped = true;
        Ok(Block::new(self.clone(), base, bytes, mapping))
    }

    /// The size of the file in bytes, holes included.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.state().layout.end()
    }

    /// Whether the arena holds no array.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes of memory the file takes now (`st_blocks` of `fstat`): whole pages that were touched and not given
    /// back, whichever process touched them.
    ///
    /// # Errors
    ///
    /// [`Error::System`] if `fstat` fails.
    pub fn allocated_bytes(&self) -> Result<u64> {
        let metadata = self.shared.file.metadata();
        // The unit of `st_blocks` is 512 bytes whatever the block size.
        metadata
            .map(|metadata| metadata.blocks() * 512)
            .map_err(|error| Error::system("fstat", 0, error))
    }

    /// Gives the memory of a file range back. Only [`Block::release`] knows when that is right.
    pub(super) fn punch(&self, range: Range<u64>) -> Result<()> {
        let bytes = range.end - range.start;
        let (Ok(offset), Ok(len)) = (i64::try_from(range.start), i64::try_from(bytes)) else {
            let base = range.start;
            return Err(Error::OffsetOverflow { base, bytes });
        };
        // SAFETY: fallocate(2) takes numbers only. It changes bytes of the file that no mapping of this process shows, since
        // the block that covered them was unmapped by the caller and the array is still marked as mapped.
        let code = unsafe {
            libc::fallocate(
                self.shared.file.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                offset,
                len,
            )
        };
        if code == 0 {
            Ok(())
        } else {
            let error = io::Error::last_os_error();
            Err(Error::system("fallocate(PUNCH_HOLE)", bytes, error))
        }
    }

    /// The block of the array at `base` is gone.
    pub(super) fn unmapped(&self, base: u64) {
        if let Ok(array) = self.state().array(base) {
            array.mapped = false;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave it half changed: each change is one assignment or one push.
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::super::{Resource, page_size};
    use super::*;

    const MIB: u64 = 1 << 20;
    const TIB: u64 = 1 << 40;

    #[test]
    fn a_sparse_file_costs_nothing() {
        let arena = Arena::new("sparse").unwrap();
        assert_eq!(arena.append(TIB).unwrap(), 0);
        assert_eq!(arena.append(TIB).unwrap(), TIB);
        assert_eq!(arena.len(), 2 * TIB);
        assert_eq!(arena.shared.file.metadata().unwrap().len(), 2 * TIB);
        assert_eq!(arena.allocated_bytes().unwrap(), 0);
        let mut block = arena.map(TIB, TIB - 8..TIB).unwrap();
        block.as_bytes_mut().fill(1);
        // One page, which is a huge one where the system uses those for shared memory.
        let allocated = arena.allocated_bytes().unwrap();
        assert!((page_size() as u64..=2 * MIB).contains(&allocated));
    }

    #[test]
    fn appending_leaves_mapped_blocks_alone() {
        let arena = Arena::new("grow").unwrap();
        let first = arena.append(MIB).unwrap();
        let mut block = arena.map(first, 0..MIB).unwrap();
        block.as_bytes_mut().fill(3);
        let second = arena.append(MIB).unwrap();
        let mut other = arena.map(second, 0..MIB).unwrap();
        other.as_bytes_mut().fill(4);
        assert!(block.as_bytes().iter().all(|&byte| byte == 3));
    }

    #[test]
    fn equal_appends_give_equal_bases() {
        let sizes = [5, 3 * MIB, 0, 2 * MIB];
        let bases = || {
            let arena = Arena::new("bases").unwrap();
            sizes.map(|bytes| arena.append(bytes).unwrap())
        };
        assert_eq!(bases(), [0, 2 * MIB, 6 * MIB, 8 * MIB]);
        assert_eq!(bases(), bases());
    }

    #[test]
    fn threads_may_append() {
        let arena = Arena::new("threads").unwrap();
        let mut bases: Vec<u64> = std::thread::scope(|scope| {
            let append = || {
                (0..100)
                    .map(|_| arena.append(1).unwrap())
                    .collect::<Vec<_>>()
            };
            let threads = [(); 4].map(|()| scope.spawn(append));
            threads.map(|thread| thread.join().unwrap()).concat()
        });
        bases.sort_unstable();
        let expected: Vec<u64> = (0..400).map(|step| step * 2 * MIB).collect();
        assert_eq!(bases, expected);
    }

    #[test]
    fn the_file_cannot_shrink() {
        let arena = Arena::new("sealed").unwrap();
        arena.append(4 * MIB).unwrap();
        let error = arena.shared.file.set_len(2 * MIB).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        assert_eq!(arena.shared.file.metadata().unwrap().len(), 4 * MIB);
    }

    #[test]
    fn an_array_is_mapped_once_at_a_time() {
        let arena = Arena::new("once").unwrap();
        let base = arena.append(MIB).unwrap();
        let block = arena.map(base, 0..10).unwrap();
        assert!(matches!(
            arena.clone().map(base, 20..30),
            Err(Error::AlreadyMapped { .. })
        ));
        drop(block);
        arena.map(base, 20..30).unwrap().release().unwrap();
        assert!(arena.map(base, 0..0).is_ok());
    }

    #[test]
    fn bad_arguments_are_named() {
        let arena = Arena::new("arguments").unwrap();
        let base = arena.append(100).unwrap();
        assert!(matches!(
            arena.map(8, 0..1),
            Err(Error::NoSuchArray { base: 8 })
        ));
        assert!(matches!(
            arena.map(base, 0..101),
            Err(Error::OutOfRange { len: 100, .. })
        ));
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is tested")]
        let reversed = 10..5;
        assert!(matches!(
            arena.map(base, reversed),
            Err(Error::OutOfRange { .. })
        ));
        assert!(matches!(
            arena.append(u64::MAX),
            Err(Error::OffsetOverflow { .. })
        ));
        assert_eq!(arena.append(1).unwrap(), 2 * MIB);
        let error = Arena::new("zero\0byte").unwrap_err();
        assert!(error.to_string().starts_with("memfd_create: "));
    }

    #[test]
    fn blocks_outlive_the_handles_on_their_arena() {
        let arena = Arena::new("handles").unwrap();
        let base = arena.append(100).unwrap();
        let mut block = arena.map(base, 0..100).unwrap();
        drop(arena);
        block.as_bytes_mut().fill(1);
        block.release().unwrap();
    }

    /// Runs the test `name` of this module again, alone, in a process that has `limit` for `resource`. Returns true in that
    /// process.
    fn limited(name: &str, resource: Resource, limit: u64) -> bool {
        const VARIABLE: &str = "MALLEUS_TEST_LIMITED";
        if std::env::var_os(VARIABLE).is_some() {
            return true;
        }
        let module = module_path!();
        let (_, module) = module.split_once("::").unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([&format!("{module}::{name}"), "--exact", "--test-threads=1"])
            .env(VARIABLE, "1");
        let set = move || {
            let limit = libc::rlimit {
                rlim_cur: limit,
                rlim_max: limit,
            };
            // SAFETY: setrlimit(2) reads one `rlimit`, which is what it is given.
            match unsafe { libc::setrlimit(resource, &raw const limit) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: the closure only makes a system call, which is allowed between fork and exec.
        let output = unsafe { command.pre_exec(set) }.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{}\n{text}",
            output.status
        );
        false
    }

    #[test]
    fn the_file_size_limit_is_an_error_and_no_signal() {
        if !limited(
            "the_file_size_limit_is_an_error_and_no_signal",
            libc::RLIMIT_FSIZE,
            4 * MIB,
        ) {
            return;
        }
        let arena = Arena::new("limited").unwrap();
        assert_eq!(arena.append(MIB).unwrap(), 0);
        let error = arena.append(TIB).unwrap_err();
        assert!(matches!(
            error,
            Error::FileSizeLimit { bytes, limit } if bytes == TIB + 2 * MIB && limit == 4 * MIB
        ));
        assert!(error.to_string().contains("RLIMIT_FSIZE"));
        // Exactly the limit is allowed, and the failure left no trace.
        assert_eq!(arena.append(2 * MIB).unwrap(), 2 * MIB);
        assert!(arena.append(0).is_err());
    }

    #[test]
    fn the_address_space_limit_is_named() {
        if !limited("the_address_space_limit_is_named", libc::RLIMIT_AS, 4 << 30) {
            return;
        }
        let arena = Arena::new("limited").unwrap();
        let base = arena.append(TIB).unwrap();
        let error = arena.map(base, 0..TIB).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("RLIMIT_AS") && text.contains("4294967296"),
            "{text}"
        );
        assert!(arena.map(base, 0..MIB).is_ok());
    }
}
