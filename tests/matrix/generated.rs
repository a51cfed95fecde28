//! Generated matrices, names of problems, halo patterns.

use std::collections::BTreeSet;
use std::path::PathBuf;

use malleus::workload::matrix::pattern::{self, HaloSize, RowBlocks};
use malleus::workload::matrix::{Error, Problem, Stencil};

use crate::block_cuts;

const NAMES: [&str; 14] = [
    "poisson2d:1x1",
    "poisson2d:1x5",
    "poisson2d:4x1",
    "poisson2d:5x4",
    "poisson2d:2x2",
    "poisson3d:1x1x1",
    "poisson3d:3x1x2",
    "poisson3d:4x3x5",
    "poisson3d:2x2x2",
    "hpcg:1x1x1",
    "hpcg:2x2x2",
    "hpcg:5x1x3",
    "hpcg:1x4x1",
    "hpcg:3x4x5",
];

fn stencil(name: &str) -> Stencil {
    match name.parse() {
        Ok(Problem::Stencil(stencil)) => stencil,
        other => panic!("{name}: {other:?}"),
    }
}

/// The value that the matrix should have at a position, from the distance of the two points.
fn by_definition(name: &str, row: usize, column: usize) -> f64 {
    let (shape, size) = name.split_once(':').unwrap();
    let size: Vec<usize> = size.split('x').map(|size| size.parse().unwrap()).collect();
    let point = |row: usize| {
        [
            row % size[0],
            row / size[0] % size[1],
            row / size[0] / size[1],
        ]
    };
    let distances: Vec<usize> = point(row)
        .iter()
        .zip(point(column))
        .map(|(a, b)| a.abs_diff(b))
        .collect();
    let neighbours = match shape {
        "hpcg" => distances.iter().all(|&distance| distance <= 1),
        _ => distances.iter().sum::<usize>() == 1,
    };
    match shape {
        "poisson2d" if row == column => 4.0,
        "poisson3d" if row == column => 6.0,
        "hpcg" if row == column => 26.0,
        _ => {
            if neighbours {
                -1.0
            } else {
                0.0
            }
        }
    }
}

#[test]
fn stencils_hold_what_their_definition_says() {
    for name in NAMES {
        let stencil = stencil(name);
        assert_eq!(stencil.to_string(), name);
        let matrix = stencil.csr();
        assert_eq!(matrix.rows, stencil.rows(), "{name}");
        matrix.check_symmetric().expect(name);
        assert!(matrix.values.iter().all(|&value| value != 0.0), "{name}");
        for row in 0..matrix.rows {
            assert!(matrix.row(row).0.is_sorted_by(|a, b| a < b), "{name}");
            for column in 0..matrix.cols {
                assert_eq!(
                    matrix.value_at(row, column),
                    by_definition(name, row, column),
                    "{name} ({row}, {column})"
                );
            }
        }
    }
}

#[test]
fn any_range_of_a_stencil_is_a_slice_of_the_whole() {
    for name in NAMES {
        let stencil = stencil(name);
        let matrix = stencil.csr();
        let mut offset = 0;
        for begin in 0..=matrix.rows {
            assert_eq!(stencil.offset_of_row(begin), offset, "{name} {begin}");
            offset += (0..matrix.cols)
                .filter(|&column| begin < matrix.rows && by_definition(name, begin, column) != 0.0)
                .count() as u64;
            for end in begin..=matrix.rows {
                let place = matrix.row_starts[begin]..matrix.row_starts[end];
                assert_eq!(
                    stencil.nonzeros_in(begin..end),
                    place.end - place.start,
                    "{name} {begin}..{end}"
                );
                let place =
                    usize::try_from(place.start).unwrap()..usize::try_from(place.end).unwrap();
                let (mut row_starts, mut columns, mut values) = (
                    vec![u64::MAX; end - begin],
                    vec![u32::MAX; place.len()],
                    vec![f64::NAN; place.len()],
                );
                stencil.fill(begin..end, &mut row_starts, &mut columns, &mut values);
                assert_eq!(
                    row_starts,
                    matrix.row_starts[begin..end],
                    "{name} {begin}..{end}"
                );
                assert_eq!(
                    columns,
                    matrix.columns[place.clone()],
                    "{name} {begin}..{end}"
                );
                assert_eq!(values, matrix.values[place], "{name} {begin}..{end}");
            }
        }
    }
}

#[test]
fn large_stencils_cost_nothing_until_filled() {
    // HPCG's own count for a 104³ grid, (3·104 − 2)³; a plane's 5-point count, 5·n² − 4·n.
    assert_eq!(stencil("hpcg:104x104x104").nonzeros(), 29_791_000);
    let plane = stencil("poisson2d:65536x65536");
    assert_eq!(plane.rows(), 1 << 32);
    assert_eq!(plane.nonzeros(), 5 * (1 << 32) - 4 * 65_536);
    // The last two rows: with neighbours before and below, and a corner.
    let rows = (1 << 32) - 2..1 << 32;
    let (mut row_starts, mut columns, mut values) = ([0; 2], [0; 7], [0.0; 7]);
    plane.fill(rows, &mut row_starts, &mut columns, &mut values);
    assert_eq!(row_starts, [plane.nonzeros() - 7, plane.nonzeros() - 3]);
    let last = u32::MAX;
    assert_eq!(
        columns,
        [
            last - 65_537,
            last - 2,
            last - 1,
            last,
            last - 65_536,
            last - 1,
            last
        ]
    );
    assert_eq!(values, [-1.0, -1.0, 4.0, -1.0, -1.0, -1.0, 4.0]);
}

#[test]
fn problems_are_named_or_refused_in_one_line() {
    assert_eq!(
        "hpcg:2x3x4".parse::<Problem>().unwrap(),
        Problem::Stencil(Stencil::hpcg(2, 3, 4).unwrap())
    );
    for path in [
        "a.mtx",
        "./hpcg:2x2x2",
        "dir/poisson2d:4",
        "c:matrix.mtx",
        "hpcg",
    ] {
        let problem: Problem = path.parse().unwrap();
        assert_eq!(problem, Problem::File(PathBuf::from(path)));
        assert_eq!(problem.to_string(), path);
    }
    let cases = [
        ("", "problem ``: no name; allowed: `poisson2d:NXxNY`"),
        (
            "poisson2d:0x4",
            "problem `poisson2d:0x4`: a size is zero; allowed: sizes from 1",
        ),
        (
            "poisson2d:65537x65536",
            "the grid has too many points; allowed: sizes from 1, and at most 2^32",
        ),
        (
            "hpcg:4294967296x4294967296x1",
            "the grid has too many points",
        ),
        (
            "hpcg:18446744073709551615x1x1",
            "the grid has too many points",
        ),
        (
            "hpcg:18446744073709551616x1x1",
            "not a size; allowed: `hpcg:NXxNYxNZ`",
        ),
        (
            "hpcg:2x2",
            "problem `hpcg:2x2`: not a size; allowed: `hpcg:NXxNYxNZ` with three",
        ),
        (
            "poisson2d:2x2x2",
            "not a size; allowed: `poisson2d:NXxNY` with two",
        ),
        (
            "poisson3d:2x2x",
            "not a size; allowed: `poisson3d:NXxNYxNZ` with three",
        ),
        ("poisson2d:+2x2", "not a size"),
        ("poisson2d:-2x2", "not a size"),
        (
            "poisson:4x4",
            "problem `poisson:4x4`: no such generated matrix; allowed: `poisson2d:NXxNY`, ",
        ),
    ];
    for (name, expected) in cases {
        let message = name.parse::<Problem>().expect_err(name).to_string();
        assert!(
            message.contains(expected) && !message.contains('\n'),
            "{message}\ninstead of\n{expected}"
        );
    }
    let message = Problem::File("no/such.mtx".into())
        .load()
        .expect_err("no file")
        .to_string();
    assert!(
        message.starts_with("no/such.mtx: cannot be read: "),
        "{message}"
    );
}

#[test]
fn halos_on_paper() {
    // A 4×4 plane in two halves: each needs the other's row of 4 points at the seam. In four: 1 + 2
    // + 2 + 1 seams.
    let plane = stencil("poisson2d:4x4");
    assert_eq!(
        pattern::halo(&plane, &[0, 8, 16]).unwrap(),
        HaloSize {
            elements: 8,
            messages: 2
        }
    );
    assert_eq!(
        pattern::halo(&plane, &[0, 4, 8, 12, 16]).unwrap(),
        HaloSize {
            elements: 24,
            messages: 6
        }
    );
    assert_eq!(
        pattern::halo(&plane, &[0, 16]).unwrap(),
        HaloSize::default()
    );
    // One point per block: all 48 neighbours. Empty blocks send and receive nothing.
    assert_eq!(
        pattern::halo(&plane, &(0..=16).collect::<Vec<_>>()).unwrap(),
        HaloSize {
            elements: 48,
            messages: 48
        }
    );
    assert_eq!(
        pattern::halo(&plane, &[0, 0, 8, 8, 8, 16, 16]).unwrap(),
        HaloSize {
            elements: 8,
            messages: 2
        }
    );
    assert_eq!(
        pattern::columns_outside(&plane.columns_in(5..7), 5..7),
        [1, 2, 4, 7, 9, 10]
    );

    for (cuts, expected) in [
        (&[][..], "found 0 of them"),
        (&[16], "found 1 of them"),
        (&[1, 16], "found 1 first"),
        (&[0, 15], "found 15 last"),
        (
            &[0, 9, 8, 16],
            "found 9 before 8; allowed: ascending, from 0 to 16 rows",
        ),
    ] {
        let message = pattern::halo(&plane, cuts)
            .expect_err("no partition")
            .to_string();
        assert!(message.contains(expected), "{message}");
    }
    let mut oblong = plane.csr();
    oblong.cols += 1;
    assert!(matches!(
        pattern::halo(&oblong, &[0, 16]),
        Err(Error::NotSquare { rows: 16, cols: 17 })
    ));
}

#[test]
fn halos_of_a_stencil_are_those_of_its_rows() {
    for name in NAMES {
        let stencil = stencil(name);
        let matrix = stencil.csr();
        for blocks in 1..9 {
            let cuts = block_cuts(matrix.rows, blocks);
            let owner = |row: usize| cuts.iter().rposition(|&cut| cut <= row).unwrap();
            let mut needed = BTreeSet::new();
            for row in 0..matrix.rows {
                needed.extend(
                    matrix
                        .row(row)
                        .0
                        .iter()
                        .map(|&column| (owner(row), column as usize)),
                );
            }
            needed.retain(|&(block, column)| owner(column) != block);
            let pairs: BTreeSet<_> = needed
                .iter()
                .map(|&(block, column)| (block, owner(column)))
                .collect();
            let expected = HaloSize {
                elements: needed.len() as u64,
                messages: pairs.len() as u64,
            };
            assert_eq!(
                pattern::halo(&matrix, &cuts).unwrap(),
                expected,
                "{name} {blocks}"
            );
            assert_eq!(
                pattern::halo(&stencil, &cuts).unwrap(),
                expected,
                "{name} {blocks}"
            );
        }
    }
}
