//! Where in an arena each array begins.

use super::{Error, Result};

/// What every array's base is a multiple of: 2 MiB, the size of a huge page on most machines and a multiple of every base
/// page size in use.
pub const BASE_ALIGNMENT: u64 = 2 << 20;

/// The rule that places arrays in an arena.
///
/// Arrays lie one after the other, each beginning at the next multiple of [`BASE_ALIGNMENT`], so that no two share a page.
/// The bases follow from the sizes and their order alone: processes that append the same arrays in the same order agree on
/// them without talking to each other. An array without bytes takes up one step too, so that bases tell arrays apart.
///
/// ```
/// use malleus::memory::Layout;
///
/// let mut layout = Layout::default();
/// assert_eq!(layout.append(3 << 20)?, 0);
/// assert_eq!(layout.append(0)?, 4 << 20);
/// assert_eq!(layout.append(8)?, 6 << 20);
/// assert_eq!(layout.end(), 8 << 20);
/// # Ok::<(), malleus::memory::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layout {
    end: u64,
}

impl Layout {
    /// Places an array of `bytes` bytes, its global size over all ranks, and returns its base.
    ///
    /// # Errors
    ///
    /// [`Error::OffsetOverflow`] if the array would end beyond the largest file offset; the layout is then unchanged.
    pub fn append(&mut self, bytes: u64) -> Result<u64> {
        let base = self.end;
        let end = base
            .checked_add(bytes.max(1))
            .and_then(|end| end.checked_next_multiple_of(BASE_ALIGNMENT))
            .filter(|&end| i64::try_from(end).is_ok())
            .ok_or(Error::OffsetOverflow { base, bytes })?;
        self.end = end;
        Ok(base)
    }

    /// Where the next array would begin: the size of a file that holds all arrays so far.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bases(sizes: &[u64]) -> Vec<u64> {
        let mut layout = Layout::default();
        sizes
            .iter()
            .map(|&bytes| layout.append(bytes).unwrap())
            .collect()
    }

    #[test]
    fn bases_follow_from_the_order_of_sizes() {
        const M: u64 = 1 << 20;
        assert_eq!(
            bases(&[1, 2 * M, 2 * M + 1, 0, 5]),
            [0, 2 * M, 4 * M, 8 * M, 10 * M]
        );
        assert_eq!(bases(&[2 * M + 1, 1]), [0, 4 * M]);
        assert_eq!(bases(&[1, 2 * M + 1]), [0, 2 * M]);
    }

    #[test]
    fn the_end_stays_a_file_offset() {
        let mut layout = Layout::default();
        // The largest multiple of 2 MiB that a signed 64-bit offset holds.
        let largest = 0x7fff_ffff_ffe0_0000;
        assert!(layout.append(largest + 1).is_err());
        assert!(layout.append(u64::MAX).is_err());
        assert_eq!(layout, Layout::default());
        assert_eq!(layout.append(largest).unwrap(), 0);
        assert!(matches!(
            layout.append(1),
            Err(Error::OffsetOverflow { base, bytes: 1 }) if base == largest
        ));
        assert_eq!(layout.end(), largest);
    }
}
