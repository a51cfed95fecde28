//! Which elements of a distributed vector a block of rows needs from the others.
//!
//! Rows of a square matrix, and with them the elements of x and y, are cut into contiguous blocks.
//! To compute its part of y = A·x, a block needs every element of x that a nonzero in its rows
//! refers to; those it does not own are its halo.

use std::borrow::Cow;
use std::ops::Range;

use super::csr::Csr;
use super::error::Error;
use super::stencil::Stencil;

/// A matrix that can show the column of each nonzero in a block of rows.
pub trait RowBlocks {
    /// Number of rows.
    fn rows(&self) -> usize;

    /// Number of columns.
    fn cols(&self) -> usize;

    /// The columns of all nonzeros in these rows; stored zeros count as nonzeros.
    ///
    /// # Panics
    ///
    /// If there are no such rows.
    fn columns_in(&self, rows: Range<usize>) -> Cow<'_, [u32]>;
}

impl RowBlocks for Csr {
    fn rows(&self) -> usize {
        self.rows
    }

    fn cols(&self) -> usize {
        self.cols
    }

    fn columns_in(&self, rows: Range<usize>) -> Cow<'_, [u32]> {
        let offset = |row: usize| usize::try_from(self.row_starts[row]).expect("a 64-bit machine");
        Cow::Borrowed(&self.columns[offset(rows.start)..offset(rows.end)])
    }
}

/// Builds the block, and no more than it.
impl RowBlocks for Stencil {
    fn rows(&self) -> usize {
        self.rows()
    }

    fn cols(&self) -> usize {
        self.rows()
    }

    fn columns_in(&self, rows: Range<usize>) -> Cow<'_, [u32]> {
        let nonzeros = usize::try_from(self.nonzeros_in(rows.clone())).expect("a 64-bit machine");
        let mut columns = vec![0; nonzeros];
        self.fill(
            rows.clone(),
            &mut vec![0; rows.len()],
            &mut columns,
            &mut vec![0.0; nonzeros],
        );
        Cow::Owned(columns)
    }
}

/// What all blocks together receive before each multiplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HaloSize {
    /// Elements of x, each counted once for every block that needs and does not own it.
    pub elements: u64,
    /// Ordered pairs of blocks between which there are such elements.
    pub messages: u64,
}

/// Elements of x that one block receives from another before each multiplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The block that owns them.
    pub from: usize,
    /// The block that needs them.
    pub to: usize,
    /// How many they are.
    pub elements: usize,
}

/// What each block receives from each other one, by receivers and then by owners; block p owns the rows from `cuts[p]` to
/// `cuts[p + 1]`.
///
/// # Errors
///
/// [`Error::NotSquare`]; [`Error::Cuts`] if the cut points do not ascend from 0 to the number of
/// rows. Blocks may be empty.
pub fn messages<M: RowBlocks + ?Sized>(matrix: &M, cuts: &[usize]) -> Result<Vec<Message>, Error> {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    if rows != cols {
        return Err(Error::NotSquare { rows, cols });
    }
    check_cuts(cuts, rows)?;
    let owner = |column: u32| cuts.partition_point(|&cut| cut <= column as usize) - 1;
    let mut messages = Vec::new();
    for (to, block) in cuts.windows(2).enumerate() {
        let owned = block[0]..block[1];
        let needed = columns_outside(&matrix.columns_in(owned.clone()), owned);
        // Ascending columns have ascending owners.
        let of_one = needed.chunk_by(|&a, &b| owner(a) == owner(b));
        messages.extend(of_one.map(|columns| Message {
            from: owner(columns[0]),
            to,
            elements: columns.len(),
        }));
    }
    Ok(messages)
}

/// Counts what all blocks receive.
///
/// # Errors
///
/// As for [`messages`].
pub fn halo<M: RowBlocks + ?Sized>(matrix: &M, cuts: &[usize]) -> Result<HaloSize, Error> {
    let messages = messages(matrix, cuts)?;
    let elements = messages.iter().map(|message| message.elements as u64);
    Ok(HaloSize {
        elements: elements.sum(),
        messages: messages.len() as u64,
    })
}

/// The distinct columns outside the owned range, ascending: the elements of x that a block has to
/// receive.
#[must_use]
pub fn columns_outside(columns: &[u32], owned: Range<usize>) -> Vec<u32> {
    let mut outside: Vec<u32> = columns
        .iter()
        .copied()
        .filter(|&column| !owned.contains(&(column as usize)))
        .collect();
    outside.sort_unstable();
    outside.dedup();
    outside
}

fn check_cuts(cuts: &[usize], rows: usize) -> Result<(), Error> {
    let wrong = |found: String| Err(Error::Cuts { found, rows });
    match cuts {
        [] | [_] => wrong(format!("{} of them", cuts.len())),
        [first, ..] if *first != 0 => wrong(format!("{first} first")),
        [.., last] if *last != rows => wrong(format!("{last} last")),
        _ => match cuts.windows(2).find(|pair| pair[0] > pair[1]) {
            Some(pair) => wrong(format!("{} before {}", pair[0], pair[1])),
            None => Ok(()),
        },
    }
}
