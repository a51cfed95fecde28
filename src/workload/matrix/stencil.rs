//! Matrices of regular grids, generated row by row.

use std::fmt;
use std::ops::Range;

use super::MAX_DIMENSION;
use super::csr::Csr;
use super::error::Error;

/// Which grid points a row refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The 5 points of a cross in the plane: 4 on the diagonal, −1 for neighbours.
    Poisson2d,
    /// The 7 points of a cross in space: 6 on the diagonal, −1 for neighbours.
    Poisson3d,
    /// The 27 points of a 3×3×3 cube: 26 on the diagonal, −1 for neighbours.
    Hpcg,
}

/// A symmetric matrix with a row for each point of a regular grid, of which any range of rows can
/// be built alone.
///
/// Point (ix, iy, iz) has the row ix + nx·(iy + ny·iz). Rows of points on the border have fewer
/// entries; the diagonal is the same everywhere, so that the matrix is positive definite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stencil {
    shape: Shape,
    x: Axis,
    y: Axis,
    z: Axis,
}

/// One direction of a grid. A point and its neighbours along an axis are `self.around(point)`; all
/// that has to be known about numbers of nonzeros follows from how many these are, and how many
/// they are for all points before one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Axis {
    points: u64,
}

impl Axis {
    fn around(self, point: u64) -> Range<u64> {
        point.saturating_sub(1)..(point + 2).min(self.points)
    }

    fn count_around(self, point: u64) -> u64 {
        let around = self.around(point);
        around.end - around.start
    }

    /// The sum of `count_around` over all points before this one: three each, but two at the ends.
    fn count_before(self, point: u64) -> u64 {
        3 * point - u64::from(point > 0) - u64::from(point == self.points)
    }

    fn count(self) -> u64 {
        self.count_before(self.points)
    }
}

impl Stencil {
    /// The 5-point Laplacian of an nx × ny grid: 4 on the diagonal, −1 for each neighbour.
    ///
    /// # Errors
    ///
    /// [`Error::Problem`] if a size is zero, or the grid has more than 2^32 points.
    pub fn poisson2d(nx: u64, ny: u64) -> Result<Self, Error> {
        Self::new(Shape::Poisson2d, [nx, ny, 1])
    }

    /// The 7-point Laplacian of an nx × ny × nz grid: 6 on the diagonal, −1 for each neighbour.
    ///
    /// # Errors
    ///
    /// As [`poisson2d`](Self::poisson2d).
    pub fn poisson3d(nx: u64, ny: u64, nz: u64) -> Result<Self, Error> {
        Self::new(Shape::Poisson3d, [nx, ny, nz])
    }

    /// HPCG's matrix for an nx × ny × nz grid: 26 on the diagonal, −1 for every other point in the
    /// 3×3×3 cube around.
    ///
    /// # Errors
    ///
    /// As [`poisson2d`](Self::poisson2d).
    pub fn hpcg(nx: u64, ny: u64, nz: u64) -> Result<Self, Error> {
        Self::new(Shape::Hpcg, [nx, ny, nz])
    }

    fn new(shape: Shape, points: [u64; 3]) -> Result<Self, Error> {
        let [x, y, z] = points.map(|points| Axis { points });
        let stencil = Self { shape, x, y, z };
        let wrong = |reason: &str| Error::Problem {
            found: format!("`{stencil}`"),
            reason: reason.to_owned(),
            allowed: "sizes from 1, and at most 2^32 = 4294967296 grid points \
                      (column indices are 32-bit)",
        };
        if points.contains(&0) {
            return Err(wrong("a size is zero"));
        }
        let rows = points
            .iter()
            .try_fold(1_u64, |product, &size| product.checked_mul(size));
        match rows {
            Some(rows) if rows <= MAX_DIMENSION => Ok(stencil),
            _ => Err(wrong("the grid has too many points")),
        }
    }

    /// Number of rows, which is the number of columns, too.
    #[must_use]
    pub fn rows(&self) -> usize {
        to_usize(self.x.points * self.y.points * self.z.points)
    }

    /// Number of nonzeros in all rows.
    #[must_use]
    pub fn nonzeros(&self) -> u64 {
        self.offset_of_row(self.rows())
    }

    /// Number of nonzeros in these rows; takes constant time.
    ///
    /// # Panics
    ///
    /// If the range ends behind the last row.
    #[must_use]
    pub fn nonzeros_in(&self, rows: Range<usize>) -> u64 {
        self.offset_of_row(rows.end.max(rows.start)) - self.offset_of_row(rows.start)
    }

    /// Number of nonzeros in all rows before this one, which may be the one behind the last; takes
    /// constant time.
    ///
    /// # Panics
    ///
    /// If the row is behind that.
    #[must_use]
    pub fn offset_of_row(&self, row: usize) -> u64 {
        assert!(row <= self.rows(), "row {row} of {}", self.rows());
        let Self { x, y, z, .. } = *self;
        let [ix, iy, iz] = self.point(row);
        // Nonzeros in whole planes before the point, in whole lines of its plane, and in its line.
        match self.shape {
            // A row has as many as there are combinations of neighbours along each axis.
            Shape::Hpcg => {
                z.count_before(iz) * y.count() * x.count()
                    + z.count_around(iz)
                        * (y.count_before(iy) * x.count() + y.count_around(iy) * x.count_before(ix))
            }
            // A row has as many as there are neighbours along the axes, but the point itself only
            // once.
            Shape::Poisson2d | Shape::Poisson3d => {
                let planes = iz * (y.points * x.count() + x.points * y.count())
                    + z.count_before(iz) * x.points * y.points;
                let lines =
                    iy * x.count() + x.points * (y.count_before(iy) + iy * z.count_around(iz));
                let line = x.count_before(ix) + ix * (y.count_around(iy) + z.count_around(iz));
                planes + lines + line - 2 * row as u64
            }
        }
    }

    /// Writes a range of rows: the *global* offset of each row's first nonzero (and none for the
    /// row behind), and columns and values of the nonzeros, columns ascending within a row.
    ///
    /// Takes time in proportion to what it writes, wherever the range is.
    ///
    /// # Panics
    ///
    /// If the range ends behind the last row, or the slices are not as long as the range, and as
    /// [`nonzeros_in`](Self::nonzeros_in) says.
    pub fn fill(
        &self,
        rows: Range<usize>,
        row_starts: &mut [u64],
        columns: &mut [u32],
        values: &mut [f64],
    ) {
        let nonzeros = to_usize(self.nonzeros_in(rows.clone()));
        assert_eq!(row_starts.len(), rows.len(), "offsets and rows");
        assert_eq!(columns.len(), nonzeros, "columns and nonzeros");
        assert_eq!(values.len(), nonzeros, "values and nonzeros");
        let first = self.offset_of_row(rows.start);
        let mut next = 0;
        for (row, start) in rows.zip(row_starts) {
            *start = first + next as u64;
            self.for_each_neighbour(row, |column, value| {
                columns[next] = column;
                values[next] = value;
                next += 1;
            });
        }
    }

    /// The whole matrix.
    ///
    /// # Panics
    ///
    /// If there is not enough memory.
    #[must_use]
    pub fn csr(&self) -> Csr {
        let rows = self.rows();
        let nonzeros = to_usize(self.nonzeros());
        let mut matrix = Csr {
            rows,
            cols: rows,
            row_starts: vec![0; rows + 1],
            columns: vec![0; nonzeros],
            values: vec![0.0; nonzeros],
        };
        let (end, row_starts) = matrix
            .row_starts
            .split_last_mut()
            .expect("rows + 1 offsets");
        *end = self.nonzeros();
        self.fill(0..rows, row_starts, &mut matrix.columns, &mut matrix.values);
        matrix
    }

    fn point(&self, row: usize) -> [u64; 3] {
        let row = row as u64;
        let (line, ix) = (row / self.x.points, row % self.x.points);
        [ix, line % self.y.points, line / self.y.points]
    }

    /// Column and value of each nonzero of a row, columns ascending.
    #[inline]
    fn for_each_neighbour(&self, row: usize, mut each: impl FnMut(u32, f64)) {
        let point = self.point(row);
        let [ix, iy, iz] = point;
        let number = |row: u64| u32::try_from(row).expect("at most 2^32 rows");
        let column =
            |[ix, iy, iz]: [u64; 3]| number(ix + self.x.points * (iy + self.y.points * iz));
        match self.shape {
            Shape::Hpcg => {
                let row = column(point);
                let around = self.x.around(ix);
                for jz in self.z.around(iz) {
                    for jy in self.y.around(iy) {
                        // Neighbours in a line of the grid are neighbours in the matrix.
                        let first = column([around.start, jy, jz]);
                        for column in first..=first + number(around.end - around.start - 1) {
                            each(column, if column == row { 26.0 } else { -1.0 });
                        }
                    }
                }
            }
            Shape::Poisson2d | Shape::Poisson3d => {
                let diagonal = if self.shape == Shape::Poisson2d {
                    4.0
                } else {
                    6.0
                };
                let inside = |is: bool, neighbour: [u64; 3], each: &mut dyn FnMut(u32, f64)| {
                    if is {
                        each(column(neighbour), -1.0);
                    }
                };
                inside(iz > 0, [ix, iy, iz.wrapping_sub(1)], &mut each);
                inside(iy > 0, [ix, iy.wrapping_sub(1), iz], &mut each);
                inside(ix > 0, [ix.wrapping_sub(1), iy, iz], &mut each);
                each(column(point), diagonal);
                inside(ix + 1 < self.x.points, [ix + 1, iy, iz], &mut each);
                inside(iy + 1 < self.y.points, [ix, iy + 1, iz], &mut each);
                inside(iz + 1 < self.z.points, [ix, iy, iz + 1], &mut each);
            }
        }
    }
}

/// The name that [`Problem`](super::Problem) reads, as in `hpcg:16x16x16`.
impl fmt::Display for Stencil {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [nx, ny, nz] = [self.x, self.y, self.z].map(|axis| axis.points);
        match self.shape {
            Shape::Poisson2d => write!(formatter, "poisson2d:{nx}x{ny}"),
            Shape::Poisson3d => write!(formatter, "poisson3d:{nx}x{ny}x{nz}"),
            Shape::Hpcg => write!(formatter, "hpcg:{nx}x{ny}x{nz}"),
        }
    }
}

/// Only for numbers of things that are, or are about to be, in memory.
fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("a 64-bit machine")
}
