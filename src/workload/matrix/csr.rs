//! Compressed sparse rows.

use super::error::Error;
use super::market::{Coordinate, Entry, Symmetry};

/// Up to so many rows, a matrix may be as empty as it likes.
pub(super) const ROWS_ALWAYS_ALLOWED: u64 = 1 << 20;
/// Beyond, its row offsets take at most 512 bytes for each entry: a header of a few bytes cannot
/// claim gigabytes.
pub(super) const ROWS_PER_ENTRY: u64 = 64;

/// A sparse matrix stored by rows, columns ascending within a row, each position at most once.
///
/// The fields are open so that they can be distributed as they are; [`Coordinate::into_csr`] and
/// [`Stencil::csr`](super::Stencil::csr) build matrices that satisfy what is said here.
#[derive(Debug, Clone, PartialEq)]
pub struct Csr {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns, at most 2^32.
    pub cols: usize,
    /// Where each row begins in `columns` and `values`, and where the last one ends: `rows + 1`
    /// ascending offsets from 0.
    pub row_starts: Vec<u64>,
    /// The column of each nonzero, from 0.
    pub columns: Vec<u32>,
    /// The value of each nonzero. Zeros that were stored explicitly stay.
    pub values: Vec<f64>,
}

impl Coordinate {
    /// Orders the entries by rows, adds those that symmetry implies, and adds up duplicates in file
    /// order.
    ///
    /// Takes, at its peak, the entries and the result: a counting sort moves each entry straight to
    /// its place. The entries are freed before rows are sorted by column.
    ///
    /// # Errors
    ///
    /// [`Error::EntryOutside`] if an entry lies outside the matrix; [`Error::NotSquare`] if it is
    /// declared symmetric but not square; [`Error::MostlyEmpty`] if it has more than 2^20 rows and
    /// more than 64 rows for each entry; [`Error::Memory`] if the result does not fit into memory.
    pub fn into_csr(self) -> Result<Csr, Error> {
        let Self {
            rows,
            cols,
            symmetry,
            entries,
            ..
        } = self;
        if symmetry != Symmetry::General && rows != cols {
            return Err(Error::NotSquare { rows, cols });
        }
        let total = check(rows, cols, symmetry, &entries)?;

        // Counts are kept one place to the right, so that their running sums are the offsets.
        let mut row_starts = zeroed(rows + 1, "row_starts")?;
        for entry in &entries {
            row_starts[entry.row as usize + 1] += 1;
            if has_mirror(symmetry, entry) {
                row_starts[entry.column as usize + 1] += 1;
            }
        }
        let mut sum = 0;
        for start in &mut row_starts {
            sum += *start;
            *start = sum;
        }
        let mut columns = zeroed(total, "columns")?;
        let mut values = zeroed(total, "values")?;
        let mut place = |row: u32, column: u32, value: f64| {
            let next = &mut row_starts[row as usize];
            let at = local(*next);
            *next += 1;
            columns[at] = column;
            values[at] = value;
        };
        for &Entry { row, column, value } in &entries {
            place(row, column, value);
            match symmetry {
                _ if row == column => {}
                Symmetry::General => {}
                Symmetry::Symmetric => place(column, row, value),
                Symmetry::SkewSymmetric => place(column, row, -value),
            }
        }
        drop(entries);
        // Each offset has walked to the next row's beginning.
        row_starts.copy_within(..rows, 1);
        row_starts[0] = 0;

        let mut matrix = Csr {
            rows,
            cols,
            row_starts,
            columns,
            values,
        };
        matrix.order_rows();
        Ok(matrix)
    }
}

/// Checks the entries, and counts them with those that symmetry implies.
fn check(rows: usize, cols: usize, symmetry: Symmetry, entries: &[Entry]) -> Result<usize, Error> {
    let mut total = entries.len();
    for entry in entries {
        if entry.row as usize >= rows || entry.column as usize >= cols {
            return Err(Error::EntryOutside {
                row: u64::from(entry.row),
                column: u64::from(entry.column),
                rows,
                cols,
            });
        }
        total += usize::from(has_mirror(symmetry, entry));
    }
    let (many_rows, many_entries) = (rows as u64, total as u64);
    if many_rows > ROWS_ALWAYS_ALLOWED && many_rows / ROWS_PER_ENTRY > many_entries {
        return Err(Error::MostlyEmpty {
            rows,
            entries: many_entries,
        });
    }
    Ok(total)
}

fn has_mirror(symmetry: Symmetry, entry: &Entry) -> bool {
    symmetry != Symmetry::General && entry.row != entry.column
}

fn zeroed<T: Clone + Default>(count: usize, array: &'static str) -> Result<Vec<T>, Error> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(count).map_err(|_| Error::Memory {
        count: count as u64,
        array,
    })?;
    vector.resize(count, T::default());
    Ok(vector)
}

impl Csr {
    /// Sorts each row by column and adds up duplicates.
    fn order_rows(&mut self) {
        let mut row = Vec::new();
        let mut kept = 0;
        let mut begin = 0;
        for next in 1..self.row_starts.len() {
            let end = local(self.row_starts[next]);
            if self.columns[begin..end].is_sorted_by(|a, b| a < b) {
                if kept != begin {
                    self.columns.copy_within(begin..end, kept);
                    self.values.copy_within(begin..end, kept);
                }
                kept += end - begin;
            } else {
                row.clear();
                row.extend(
                    self.columns[begin..end]
                        .iter()
                        .copied()
                        .zip(self.values[begin..end].iter().copied()),
                );
                // Stable, so that duplicates are added in the order in which they came.
                row.sort_by_key(|&(column, _)| column);
                for same in row.chunk_by(|a, b| a.0 == b.0) {
                    self.columns[kept] = same[0].0;
                    self.values[kept] = same[1..]
                        .iter()
                        .fold(same[0].1, |sum, &(_, value)| sum + value);
                    kept += 1;
                }
            }
            self.row_starts[next] = kept as u64;
            begin = end;
        }
        self.columns.truncate(kept);
        self.values.truncate(kept);
        self.columns.shrink_to_fit();
        self.values.shrink_to_fit();
    }

    /// Number of stored entries, explicit zeros included.
    #[must_use]
    pub fn nonzeros(&self) -> usize {
        self.columns.len()
    }

    /// Whether there are as many rows as columns.
    #[must_use]
    pub fn is_square(&self) -> bool {
        self.rows == self.cols
    }

    /// The columns and values of a row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> (&[u32], &[f64]) {
        let stored = local(self.row_starts[row])..local(self.row_starts[row + 1]);
        (&self.columns[stored.clone()], &self.values[stored])
    }

    /// The value at a position; 0 where none is stored.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    #[must_use]
    pub fn value_at(&self, row: usize, column: usize) -> f64 {
        let (columns, values) = self.row(row);
        match columns.binary_search_by(|&at| (at as usize).cmp(&column)) {
            Ok(found) => values[found],
            Err(_) => 0.0,
        }
    }

    /// Checks that each entry equals its mirror image exactly; a stored zero equals one that is not
    /// stored.
    ///
    /// Matrices from files that are declared symmetric pass by construction. Of those that list
    /// both triangles, many are symmetric but for the last digits: see
    /// [`check_symmetric_within`](Self::check_symmetric_within).
    ///
    /// # Errors
    ///
    /// [`Error::NotSquare`]; [`Error::NotSymmetric`] with the first stored entry, in row order,
    /// that differs from its mirror image.
    pub fn check_symmetric(&self) -> Result<(), Error> {
        self.check_symmetric_within(0.0)
    }

    /// Checks that each entry differs from its mirror image by no more than this fraction of the
    /// larger magnitude.
    ///
    /// # Errors
    ///
    /// As [`check_symmetric`](Self::check_symmetric).
    pub fn check_symmetric_within(&self, fraction: f64) -> Result<(), Error> {
        if !self.is_square() {
            return Err(Error::NotSquare {
                rows: self.rows,
                cols: self.cols,
            });
        }
        for row in 0..self.rows {
            let (columns, values) = self.row(row);
            for (&column, &value) in columns.iter().zip(values) {
                let column = column as usize;
                let mirrored = self.value_at(column, row);
                let allowed = fraction * value.abs().max(mirrored.abs());
                // Infinities are within no fraction of anything but themselves.
                let close = allowed.is_finite() && (value - mirrored).abs() <= allowed;
                if value != mirrored && !close {
                    return Err(Error::NotSymmetric {
                        row,
                        column,
                        value,
                        mirrored,
                    });
                }
            }
        }
        Ok(())
    }

    /// Checks that each value is a finite number: a file may spell out infinities, and sums of
    /// duplicates may overflow.
    ///
    /// # Errors
    ///
    /// [`Error::ValueNotFinite`] with the first entry, in row order, that is infinite or NaN.
    pub fn check_finite(&self) -> Result<(), Error> {
        let Some(at) = self.values.iter().position(|value| !value.is_finite()) else {
            return Ok(());
        };
        Err(Error::ValueNotFinite {
            // The last row that begins at or before it: empty rows before that begin there too.
            row: self.row_starts.partition_point(|&start| start <= at as u64) - 1,
            column: self.columns[at] as usize,
            value: self.values[at],
        })
    }

    /// The values on the diagonal, 0 where none is stored; as many as the matrix has rows or
    /// columns, whichever are fewer.
    #[must_use]
    pub fn diagonal(&self) -> Vec<f64> {
        (0..self.rows.min(self.cols))
            .map(|row| self.value_at(row, row))
            .collect()
    }

    /// y = A·x, on one thread; see [`spmv`].
    ///
    /// # Panics
    ///
    /// If x has not as many elements as the matrix has columns, or y not as many as it has rows.
    pub fn multiply(&self, x: &[f64], y: &mut [f64]) {
        assert_eq!(x.len(), self.cols, "length of x and columns of the matrix");
        let (end, row_starts) = self.row_starts.split_last().expect("rows + 1 offsets");
        spmv(row_starts, *end, &self.columns, &self.values, 0, x, y);
    }
}

/// y = A·x for a block of rows, on one thread.
///
/// `row_starts` holds the *global* nonzero offset of each row of the block, and `end` the one
/// behind its last row. `columns` and `values` hold the block's nonzeros only: that with the global
/// offset `row_starts[0]` comes first. Columns are global, too: the nonzero's factor is `x[column -
/// first_column]`, so `x` is a window on the global vector.
///
/// A row's products are added in an order that depends on that row alone: the result is the same,
/// bit for bit, however the matrix is cut into blocks.
///
/// # Panics
///
/// If the lengths do not fit together, the offsets do not ascend, or `x` does not cover a column.
pub fn spmv(
    row_starts: &[u64],
    end: u64,
    columns: &[u32],
    values: &[f64],
    first_column: usize,
    x: &[f64],
    y: &mut [f64],
) {
    assert_eq!(y.len(), row_starts.len(), "length of y and number of rows");
    assert_eq!(columns.len(), values.len(), "numbers of columns and values");
    let Some((&first, later)) = row_starts.split_first() else {
        assert!(columns.is_empty(), "no rows, but nonzeros");
        return;
    };
    assert_eq!(
        end.checked_sub(first),
        Some(columns.len() as u64),
        "nonzeros of the rows and number of columns"
    );
    let ends = later.iter().chain(std::iter::once(&end));
    let mut begin = 0;
    for (y, &end) in y.iter_mut().zip(ends) {
        let end = local(end - first);
        *y = dot(&columns[begin..end], &values[begin..end], first_column, x);
        begin = end;
    }
}

/// Four sums instead of one: each addition has to wait for the one before in its sum, not in its
/// row.
#[inline]
fn dot(columns: &[u32], values: &[f64], first_column: usize, x: &[f64]) -> f64 {
    let factor = |column: u32| x[(column as usize).wrapping_sub(first_column)];
    let (column_chunks, column_rest) = columns.as_chunks::<4>();
    let (value_chunks, value_rest) = values.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (columns, values) in column_chunks.iter().zip(value_chunks) {
        for lane in 0..4 {
            sums[lane] += values[lane] * factor(columns[lane]);
        }
    }
    let mut sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    for (&column, &value) in column_rest.iter().zip(value_rest) {
        sum += value * factor(column);
    }
    sum
}

/// A nonzero's offset as an index; nothing is stored behind an offset that does not fit.
#[inline]
fn local(offset: u64) -> usize {
    usize::try_from(offset).expect("a 64-bit machine")
}
