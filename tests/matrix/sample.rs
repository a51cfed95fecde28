//! Random small matrices, and the many ways to write one down.

use malleus::workload::matrix::{Coordinate, Entry, Field, Symmetry};
use proptest::prelude::*;

#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) matrix: Coordinate,
    /// The values as whole numbers, for files with the field `integer`.
    whole: Vec<i64>,
    style: Vec<u8>,
}

pub(crate) fn sample() -> impl Strategy<Value = Sample> {
    let field = prop_oneof![
        Just(Field::Real),
        Just(Field::Integer),
        Just(Field::Pattern)
    ];
    let symmetry = prop_oneof![
        Just(Symmetry::General),
        Just(Symmetry::Symmetric),
        Just(Symmetry::SkewSymmetric)
    ];
    let finite = prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO;
    let value = prop_oneof![3 => -9.0..9.0, 1 => finite];
    let whole = prop_oneof![-99_i64..99, any::<i64>()];
    let entries = proptest::collection::vec((any::<u32>(), any::<u32>(), value, whole), 0..40);
    (
        2_u32..9,
        2_u32..9,
        field,
        symmetry,
        any::<bool>(),
        entries,
        proptest::collection::vec(any::<u8>(), 64),
    )
        .prop_map(|(rows, cols, field, symmetry, upper, numbers, style)| {
            let symmetry = if field == Field::Pattern && symmetry == Symmetry::SkewSymmetric {
                Symmetry::Symmetric
            } else {
                symmetry
            };
            let cols = if symmetry == Symmetry::General {
                cols
            } else {
                rows
            };
            let mut entries = Vec::new();
            let mut whole = Vec::new();
            for (row, column, value, integer) in numbers {
                let (mut row, mut column) = (row % rows, column % cols);
                if symmetry != Symmetry::General && (row < column) != upper {
                    std::mem::swap(&mut row, &mut column);
                }
                if symmetry == Symmetry::SkewSymmetric && row == column {
                    continue;
                }
                let value = match field {
                    Field::Real => value,
                    Field::Integer => integer as f64,
                    Field::Pattern => 1.0,
                };
                entries.push(Entry { row, column, value });
                whole.push(integer);
            }
            let matrix = Coordinate {
                rows: rows as usize,
                cols: cols as usize,
                field,
                symmetry,
                entries,
            };
            Sample {
                matrix,
                whole,
                style,
            }
        })
}

impl Sample {
    /// The matrix as text, in one of the many ways to write it.
    pub(crate) fn write(&self) -> String {
        let Self {
            matrix,
            whole,
            style,
        } = self;
        let mut styles = style.iter().copied().cycle();
        let mut choose = |choices: u8| styles.next().expect("endless") % choices;
        let end = ["\n", "\r\n"][usize::from(choose(2))];
        let words = match (matrix.field, matrix.symmetry) {
            (field, Symmetry::SkewSymmetric) => format!("{field:?} skew-symmetric"),
            (field, symmetry) => format!("{field:?} {symmetry:?}"),
        };
        let banner = format!("matrix  coordinate\t{words}");
        let banner = if choose(2) == 0 {
            banner.to_lowercase()
        } else {
            banner.to_uppercase()
        };
        let mut text = format!("%%MatrixMarket {banner}{end}");
        let mut lines = vec![vec![
            matrix.rows.to_string(),
            matrix.cols.to_string(),
            matrix.entries.len().to_string(),
        ]];
        for (entry, whole) in matrix.entries.iter().zip(whole) {
            let mut line = vec![
                (entry.row + 1).to_string(),
                (u64::from(entry.column) + 1).to_string(),
            ];
            match matrix.field {
                Field::Pattern => {}
                Field::Integer => line.push(whole.to_string()),
                Field::Real => line.push(match choose(5) {
                    0 => format!("{:?}", entry.value),
                    1 => format!("{:e}", entry.value),
                    2 => format!("{:E}", entry.value),
                    3 => format!("{:+e}", entry.value).replace('e', "D"),
                    _ => format!("{:e}", entry.value).replace('e', "d"),
                }),
            }
            lines.push(line);
        }
        let last = lines.len() - 1;
        for (number, line) in lines.iter().enumerate() {
            for _ in 0..choose(3) {
                text += ["", "  \t", "% a comment", "  %1 1 1", "%"][usize::from(choose(5))];
                text += end;
            }
            text += ["", " ", "\t "][usize::from(choose(3))];
            text += &line.join([" ", "   ", "\t"][usize::from(choose(3))]);
            text += ["", " "][usize::from(choose(2))];
            if number < last || choose(2) == 0 {
                text += end;
            }
        }
        text
    }
}
