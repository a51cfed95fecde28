//! What can be wrong with a matrix.

use std::io;
use std::path::PathBuf;

/// What can be wrong with a matrix, its file, or its name; every message is one line.
///
/// Lines are counted from 1, as editors do. Rows and columns in *fields* are counted from 0, as in
/// [`Csr`](super::Csr); *messages* count them from 1, as Matrix Market files do, and say so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something is wrong with this file.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file, as it was named by the caller.
        path: PathBuf,
        /// What is wrong with it.
        cause: Box<Error>,
    },
    /// The operating system refuses to give the file's content: it is missing, a directory, not
    /// permitted.
    #[error("cannot be read: {cause}")]
    Open {
        /// The system's reason.
        cause: io::Error,
    },
    /// Reading failed in the middle, or the compressed data is damaged or ends early.
    #[error("line {line}: cannot be read: {cause}")]
    Read {
        /// The line that could not be read to its end.
        line: u64,
        /// The reason.
        cause: io::Error,
    },
    /// The data does not start with a Matrix Market banner.
    #[error(
        "not a Matrix Market file: line 1: found {found}; allowed: \
         `%%MatrixMarket matrix coordinate FIELD SYMMETRY`, plain or gzip-compressed"
    )]
    NotMatrixMarket {
        /// What the first line is instead, in quotes or words.
        found: String,
    },
    /// The banner is valid Matrix Market, of a kind that this reader does not support.
    #[error("line {line}: unsupported: found {found}; supported: {supported}")]
    Unsupported {
        /// Where it says so.
        line: u64,
        /// What was asked for.
        found: String,
        /// What this reader supports in its place.
        supported: &'static str,
    },
    /// A line is not what its place in the file demands.
    #[error("line {line}: found {found}; allowed: {allowed}")]
    Line {
        /// The line.
        line: u64,
        /// What it holds, in quotes or words.
        found: String,
        /// What it may hold.
        allowed: String,
    },
    /// A value is not a number, or too large for one.
    #[error(
        "line {line}: found the value {found}; allowed: finite numbers, at most 1.797e308 in magnitude"
    )]
    NotFinite {
        /// The line.
        line: u64,
        /// The value as written, in quotes.
        found: String,
    },
    /// The matrix has more rows or columns than a 32-bit index can name.
    #[error(
        "line {line}: found {found} {what}; allowed: at most 2^32 = 4294967296 {what} \
         (column indices are 32-bit)"
    )]
    Dimension {
        /// The line with the sizes.
        line: u64,
        /// How many.
        found: u64,
        /// Rows or columns.
        what: &'static str,
    },
    /// An entry lies outside the matrix; files are checked while they are read, so this is about a
    /// [`Coordinate`](super::Coordinate) that a program has put together.
    #[error(
        "an entry at row {}, column {} (counted from 1) of a matrix with {rows} rows and {cols} \
         columns; allowed: entries inside it",
        row + 1,
        column + 1
    )]
    EntryOutside {
        /// The entry's row.
        row: u64,
        /// The entry's column.
        column: u64,
        /// The matrix's rows.
        rows: usize,
        /// The matrix's columns.
        cols: usize,
    },
    /// Nearly all rows are empty, and storing them by rows would take far more memory than the
    /// entries do.
    #[error(
        "{rows} rows with {entries} entries; allowed: up to {} rows, or up to {} rows for each entry",
        super::csr::ROWS_ALWAYS_ALLOWED,
        super::csr::ROWS_PER_ENTRY
    )]
    MostlyEmpty {
        /// The matrix's rows.
        rows: usize,
        /// Its entries, after symmetric expansion.
        entries: u64,
    },
    /// The memory for a matrix cannot be had.
    #[error("no memory for {count} elements of the matrix's {array}")]
    Memory {
        /// Elements asked for.
        count: u64,
        /// The array of [`Csr`](super::Csr) they are for.
        array: &'static str,
    },
    /// The matrix has to be square.
    #[error("the matrix has {rows} rows and {cols} columns; allowed: as many rows as columns")]
    NotSquare {
        /// The matrix's rows.
        rows: usize,
        /// Its columns.
        cols: usize,
    },
    /// The matrix has to be symmetric, and is not.
    #[error(
        "not symmetric: A({0},{1}) is {value:?} but A({1},{0}) is {mirrored:?} (counted from 1)",
        row + 1,
        column + 1
    )]
    NotSymmetric {
        /// Row of the first entry, in row order, that has no equal mirror image.
        row: usize,
        /// Column of that entry.
        column: usize,
        /// The entry's value.
        value: f64,
        /// Its mirror image's value, 0 where none is stored.
        mirrored: f64,
    },
    /// The matrix has to hold finite values only, and does not.
    #[error("A({},{}) is {value} (counted from 1); allowed: finite values", row + 1, column + 1)]
    ValueNotFinite {
        /// Row of the first such entry.
        row: usize,
        /// Column of that entry.
        column: usize,
        /// The entry's value.
        value: f64,
    },
    /// The name of a generated matrix, or its size, is wrong.
    #[error("problem {found}: {reason}; allowed: {allowed}")]
    Problem {
        /// What was asked for, in quotes.
        found: String,
        /// What is wrong with it.
        reason: String,
        /// What may be asked for.
        allowed: &'static str,
    },
    /// The cut points are not a partition of the rows.
    #[error("cut points: found {found}; allowed: ascending, from 0 to {rows} rows")]
    Cuts {
        /// What is wrong.
        found: String,
        /// The matrix's rows.
        rows: usize,
    },
}

/// Quotes bytes of unknown nature for a message: printable, on one line, cut short.
pub(super) fn quote(bytes: &[u8]) -> String {
    const SHOWN: usize = 40;
    let cut = &bytes[..bytes.len().min(SHOWN)];
    let more = if bytes.len() > SHOWN { "…" } else { "" };
    format!("`{}{more}`", cut.escape_ascii())
}
