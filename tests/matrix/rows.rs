//! Matrices by rows, against dense ones, and their products.

use std::collections::BTreeSet;

use malleus::workload::matrix::{
    Coordinate, Csr, Entry, Error, Field, Stencil, Symmetry, market, spmv,
};
use proptest::prelude::*;

use crate::sample::sample;
use crate::{GENERAL, heap};

/// The matrix by its definition.
fn dense(matrix: &Coordinate) -> Vec<Vec<f64>> {
    let mut dense = vec![vec![0.0; matrix.cols]; matrix.rows];
    for &Entry { row, column, value } in &matrix.entries {
        let (row, column) = (row as usize, column as usize);
        dense[row][column] += value;
        match matrix.symmetry {
            Symmetry::Symmetric if row != column => dense[column][row] += value,
            Symmetry::SkewSymmetric => dense[column][row] -= value,
            _ => {}
        }
    }
    dense
}

/// Each position that has an entry, once and in order.
fn positions(matrix: &Coordinate) -> BTreeSet<(usize, usize)> {
    let mut positions = BTreeSet::new();
    for entry in &matrix.entries {
        let (row, column) = (entry.row as usize, entry.column as usize);
        positions.insert((row, column));
        if matrix.symmetry != Symmetry::General {
            positions.insert((column, row));
        }
    }
    positions
}

fn compare_with_dense(matrix: Coordinate) -> Result<(), TestCaseError> {
    let dense = dense(&matrix);
    let positions = positions(&matrix);
    let csr = matrix.into_csr().expect("valid");
    let mut stored = Vec::new();
    for (row, values) in dense.iter().enumerate() {
        stored.extend(csr.row(row).0.iter().map(|&column| (row, column as usize)));
        let found: Vec<_> = (0..csr.cols)
            .map(|column| csr.value_at(row, column))
            .collect();
        prop_assert_eq!(&found, values);
    }
    prop_assert_eq!(&stored, &positions.into_iter().collect::<Vec<_>>());
    let diagonal: Vec<_> = (0..csr.rows.min(csr.cols))
        .map(|at| dense[at][at])
        .collect();
    prop_assert_eq!(csr.diagonal(), diagonal);

    // The first stored position, in row order, whose value differs from its mirror image.
    let first = stored
        .into_iter()
        .find(|&(i, j)| csr.is_square() && dense[i][j] != dense[j][i]);
    match csr.check_symmetric() {
        Ok(()) => prop_assert_eq!(first, None),
        Err(Error::NotSquare { .. }) => prop_assert!(!csr.is_square()),
        Err(Error::NotSymmetric {
            row,
            column,
            value,
            mirrored,
        }) => {
            prop_assert_eq!(first, Some((row, column)));
            prop_assert_eq!((value, mirrored), (dense[row][column], dense[column][row]));
        }
        Err(error) => return Err(TestCaseError::fail(error.to_string())),
    }
    Ok(())
}

fn multiply_by_rows(matrix: Coordinate, begin: usize) -> Result<(), TestCaseError> {
    let mut csr = matrix.into_csr().expect("valid");
    // Small whole numbers, so that sums are exact in any order.
    for (at, value) in csr.values.iter_mut().enumerate() {
        *value = (at % 7) as f64 - 3.0;
    }
    let x: Vec<f64> = (1..=csr.cols).map(|number| number as f64).collect();
    let product = |row| {
        (0..csr.cols)
            .map(|column| csr.value_at(row, column) * x[column])
            .sum()
    };
    let expected: Vec<f64> = (0..csr.rows).map(product).collect();
    let mut y = vec![f64::NAN; csr.rows];
    csr.multiply(&x, &mut y);
    prop_assert_eq!(&y, &expected);

    // A block of rows with the part of x that it needs.
    let (row_starts, end) = (&csr.row_starts[begin..csr.rows], csr.row_starts[csr.rows]);
    let first = usize::try_from(csr.row_starts[begin]).expect("a 64-bit machine");
    let (columns, values) = (&csr.columns[first..], &csr.values[first..]);
    let needed = columns.iter().min().map_or(0, |&column| column as usize);
    let mut y = vec![f64::NAN; csr.rows - begin];
    spmv(
        row_starts,
        end,
        columns,
        values,
        needed,
        &x[needed..],
        &mut y,
    );
    prop_assert_eq!(&y, &expected[begin..]);
    Ok(())
}

proptest! {
    #[test]
    fn rows_hold_what_the_dense_matrix_holds(sample in sample()) {
        compare_with_dense(sample.matrix)?;
    }

    #[test]
    fn rows_and_blocks_of_rows_are_multiplied(
        sample in sample(),
        begin in any::<prop::sample::Index>(),
    ) {
        let begin = begin.index(sample.matrix.rows);
        multiply_by_rows(sample.matrix, begin)?;
    }
}

#[test]
fn sorting_takes_entries_and_result_and_hardly_more() {
    let (rows, count) = (1000_u32, 200_000);
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        u32::try_from(state >> 33).expect("31 bits") % rows
    };
    let mut entry = |_| Entry {
        row: random(),
        column: random(),
        value: 1.0,
    };
    let matrix = Coordinate {
        rows: rows as usize,
        cols: rows as usize,
        field: Field::Real,
        symmetry: Symmetry::Symmetric,
        entries: (0..count).map(&mut entry).collect(),
    };
    let stored: usize = matrix
        .entries
        .iter()
        .map(|entry| 1 + usize::from(entry.row != entry.column))
        .sum();
    let (result, peak) = heap::peak_of(|| matrix.into_csr());
    let matrix = result.expect("valid");
    assert!(matrix.nonzeros() > 300_000, "{}", matrix.nonzeros());
    // The entries themselves were there before.
    let limit = stored * 12 + (rows as usize + 1) * 8 + 64 * 1024;
    assert!(peak <= limit, "{peak} bytes instead of {limit}");
}

#[test]
fn long_rows_are_multiplied_exactly_and_alike_in_every_block() {
    // Every length from 0 to 40, with values that make the order of additions visible.
    let mut csr = Csr {
        rows: 41,
        cols: 41,
        row_starts: vec![0],
        columns: Vec::new(),
        values: Vec::new(),
    };
    for length in 0..41_u32 {
        csr.columns.extend(0..length);
        csr.row_starts.push(csr.columns.len() as u64);
    }
    csr.values = vec![1.0; csr.columns.len()];
    let mut y = vec![f64::NAN; 41];
    csr.multiply(&[1.0; 41], &mut y);
    assert_eq!(y, (0..41).map(f64::from).collect::<Vec<_>>());

    csr.values = (0..csr.columns.len())
        .map(|at| 1.0 / (at + 3) as f64)
        .collect();
    csr.multiply(&[1.0 / 3.0; 41], &mut y);
    for begin in 0..41 {
        let first = usize::try_from(csr.row_starts[begin]).unwrap();
        let mut part = vec![f64::NAN; 41 - begin];
        spmv(
            &csr.row_starts[begin..41],
            csr.row_starts[41],
            &csr.columns[first..],
            &csr.values[first..],
            0,
            &[1.0 / 3.0; 41],
            &mut part,
        );
        assert_eq!(part, y[begin..]);
    }
}

#[test]
#[should_panic(expected = "index out of bounds")]
fn a_column_before_the_window_is_not_read_from_elsewhere() {
    spmv(&[5], 6, &[2], &[1.0], 3, &[1.0; 4], &mut [0.0]);
}

#[test]
#[should_panic(expected = "nonzeros of the rows and number of columns")]
fn offsets_that_do_not_fit_the_nonzeros_are_refused() {
    spmv(
        &[5, 6],
        8,
        &[2, 2],
        &[1.0, 1.0],
        0,
        &[1.0; 4],
        &mut [0.0, 0.0],
    );
}

#[test]
#[should_panic(expected = "length of x and columns of the matrix")]
fn a_vector_longer_than_the_rows_is_refused() {
    Stencil::poisson2d(2, 1)
        .expect("a size")
        .csr()
        .multiply(&[1.0; 3], &mut [0.0; 2]);
}

#[test]
#[should_panic(expected = "length of y and number of rows")]
fn a_result_longer_than_the_columns_is_refused() {
    Stencil::poisson2d(2, 1)
        .expect("a size")
        .csr()
        .multiply(&[1.0; 2], &mut [0.0; 3]);
}

#[test]
fn nearly_symmetric_is_a_matter_of_fractions() {
    let mut matrix = Stencil::poisson2d(2, 1).expect("a size").csr();
    assert_eq!(matrix.columns, [0, 1, 0, 1]);
    matrix.values[1] = -1.25;
    matrix.check_symmetric_within(0.2).expect("0.25 of 1.25");
    let error = matrix
        .check_symmetric_within(0.19)
        .expect_err("0.25 of 1.25");
    assert!(
        matches!(
            error,
            Error::NotSymmetric {
                row: 0,
                column: 1,
                ..
            }
        ),
        "{error}"
    );
    matrix.values[1] = f64::INFINITY;
    matrix
        .check_symmetric_within(0.5)
        .expect_err("infinity and -1");
    matrix.values[2] = f64::INFINITY;
    matrix.check_symmetric().expect("two infinities");
    matrix.values.fill(f64::NAN);
    matrix.check_symmetric_within(0.5).expect_err("NaN");
}

#[test]
fn asymmetry_is_named_by_its_first_pair() {
    let text = format!("{GENERAL}3 3 4\n1 1 1\n1 3 5\n3 1 5.5\n2 3 0\n");
    let mut matrix = market::read(text.as_bytes())
        .expect("valid")
        .into_csr()
        .expect("valid");
    let message = matrix.check_symmetric().expect_err("5 and 5.5").to_string();
    assert_eq!(
        message,
        "not symmetric: A(1,3) is 5.0 but A(3,1) is 5.5 (counted from 1)"
    );
    // The zero that is stored on one side only does not matter.
    matrix.values[1] = 5.5;
    matrix.check_symmetric().expect("symmetric");
    matrix.cols = 4;
    assert!(matches!(
        matrix.check_symmetric(),
        Err(Error::NotSquare { rows: 3, cols: 4 })
    ));
}

#[test]
fn entries_outside_a_matrix_made_by_a_program_are_refused() {
    let entries = vec![Entry {
        row: 1,
        column: 2,
        value: 1.0,
    }];
    let matrix = Coordinate {
        rows: 2,
        cols: 2,
        field: Field::Real,
        symmetry: Symmetry::General,
        entries,
    };
    assert!(matches!(
        matrix.clone().into_csr(),
        Err(Error::EntryOutside {
            row: 1,
            column: 2,
            rows: 2,
            cols: 2
        })
    ));
    let matrix = Coordinate {
        cols: 3,
        symmetry: Symmetry::Symmetric,
        ..matrix
    };
    assert!(matches!(
        matrix.into_csr(),
        Err(Error::NotSquare { rows: 2, cols: 3 })
    ));
}
