//! Memory that another process on the node can take over without a copy.
//!
//! A distributed array does not live on the heap but in an [`Arena`]: an anonymous file in memory (`memfd_create`) that
//! its process maps. Every array begins at a *base* that is the same in every process, and byte `b` of the whole,
//! distributed array lies at file offset `base + b` in whichever process's arena holds it. So all processes agree on
//! which bytes share a page, and a page can change its owner by being mapped elsewhere. Files are sparse: a process pays
//! for the pages of its own block only, and a terabyte of somebody else's elements before it costs nothing.
//!
//! Things to know:
//!
//! * A block begins where its first element falls in a page, so its address is congruent to its file offset modulo the
//!   page size. It is aligned for its elements, but not to 64 bytes as a fresh allocation might be.
//! * Pages stay on the NUMA node of the thread that first touched them.
//! * The memory counts as shared (`RssShmem`) and is charged to the control group of the process that touches it first.
//!   The size of `/dev/shm` does not limit it. If the system has no page left when one is first touched, the process is
//!   killed (`SIGBUS` or the out-of-memory killer), as with any memory that is given out lazily.
//!
//! The modules use no MPI.

#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::sync::OnceLock;

mod arena;
mod block;
mod layout;

pub use arena::Arena;
pub use block::Block;
pub use layout::{BASE_ALIGNMENT, Layout};

/// The result of a memory operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a memory operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("{operation}{}: {source}{}", of(*bytes), after(hint))]
    System {
        /// The system call.
        operation: &'static str,
        /// The size it was asked for; 0 for a call without one.
        bytes: u64,
        /// What is likely to be the cause, where that is known; otherwise empty.
        hint: String,
        /// The error code of the system.
        source: io::Error,
    },
    /// The arena's file would exceed the size that the process may give a file. Asking for it regardless would end the
    /// process with `SIGXFSZ`.
    #[error(
        "an arena file of {bytes} bytes exceeds the file size limit of {limit} bytes (RLIMIT_FSIZE); raise it with \
         `ulimit -f`: the file spans the whole distributed array, though only the pages in use take memory"
    )]
    FileSizeLimit {
        /// The size that the file would need.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The arena's file would be longer than the largest file offset, `i64::MAX`.
    #[error("an array of {bytes} bytes at offset {base} ends beyond the largest file offset")]
    OffsetOverflow {
        /// Where the array would begin.
        base: u64,
        /// The size of the array.
        bytes: u64,
    },
    /// No array of the arena begins at this base.
    #[error("no array of this arena begins at `base` {base}")]
    NoSuchArray {
        /// The base given.
        base: u64,
    },
    /// The byte range does not lie inside the array.
    #[error("`bytes` {}..{} does not lie inside the array's {len} bytes", range.start, range.end)]
    OutOfRange {
        /// The range given.
        range: Range<u64>,
        /// The size of the array.
        len: u64,
    },
    /// The array's block is mapped already; an arena holds one block of each array.
    #[error("the block of the array at `base` {base} is mapped already")]
    AlreadyMapped {
        /// The base given.
        base: u64,
    },
    /// The block cannot be seen as elements of this type.
    #[error(
        "a block of {len} bytes at address {address:#x} does not hold whole, aligned elements of {size} bytes \
         (alignment {align})"
    )]
    Misaligned {
        /// Where the block begins.
        address: usize,
        /// The length of the block in bytes.
        len: usize,
        /// The size of the element type.
        size: usize,
        /// The alignment of the element type.
        align: usize,
    },
}

impl Error {
    /// The error of a system call, with the limit that is the likely cause of it.
    fn system(operation: &'static str, bytes: u64, source: io::Error) -> Self {
        Self::System {
            operation,
            bytes,
            hint: hint(operation, &source),
            source,
        }
    }
}

fn of(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        _ => format!(" of {bytes} bytes"),
    }
}

fn after(hint: &str) -> String {
    match hint {
        "" => String::new(),
        _ => format!(" ({hint})"),
    }
}

/// What to look at, for the failures that people meet.
fn hint(operation: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOMEM) if operation == "mmap" => match limit(libc::RLIMIT_AS) {
            Some(limit) => {
                format!("RLIMIT_AS, `ulimit -v`, leaves the process {limit} bytes of addresses")
            }
            None => "vm.max_map_count limits the number of mappings".into(),
        },
        Some(libc::EMFILE) => "RLIMIT_NOFILE, `ulimit -n`, limits the number of open files".into(),
        Some(libc::ENOSYS) => format!("this kernel has no {operation}, or a sandbox forbids it"),
        _ => String::new(),
    }
}

// The type of a resource's name differs between C libraries (`c_int`, or an unsigned type with glibc).
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// A resource limit of this process; `None` if there is none.
fn limit(resource: Resource) -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: getrlimit(2) writes one `rlimit`, which is what it is given, and keeps no pointer to it.
    let code = unsafe { libc::getrlimit(resource, &raw mut limit) };
    (code == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// The page size of this system in bytes, a power of two.
#[must_use]
pub fn page_size() -> usize {
    static PAGE_SIZE: OnceLock<usize> = OnceLock::new();
    *PAGE_SIZE.get_or_init(|| {
        // SAFETY: sysconf(3) takes a number and returns a number.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(size).expect("every POSIX system has a page size")
    })
}
