//! Who sends how much to whom.

use std::fmt;
use std::str::FromStr;

use crate::cli::pattern;
use crate::mpi::collective::BlockLayout;
use crate::workload::matrix::Problem;

/// Who sends how much.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pattern {
    Uniform,
    Random(f64),
    Hotspot,
    Matrix(Problem),
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once(':') {
            None if text == "uniform" => Ok(Self::Uniform),
            None if text == "hotspot" => Ok(Self::Hotspot),
            Some(("random", density)) => match density.parse() {
                Ok(density) if (0.0..=1.0).contains(&density) => Ok(Self::Random(density)),
                _ => Err("a density is a number between 0 and 1".to_owned()),
            },
            Some(("matrix", name)) => match name.parse() {
                Ok(problem) => Ok(Self::Matrix(problem)),
                Err(error) => Err(error.to_string()),
            },
            _ => Err("expected uniform, random:DENSITY, hotspot or matrix:FILE".to_owned()),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Random(density) => write!(f, "random:{density}"),
            Self::Hotspot => f.write_str("hotspot"),
            Self::Matrix(problem) => write!(f, "matrix:{problem}"),
        }
    }
}

/// Bytes from each rank to each other one.
pub(super) struct Counts {
    bytes: Vec<usize>,
    ranks: usize,
}

impl Counts {
    pub(super) fn of(&self, from: usize, to: usize) -> usize {
        self.bytes[from * self.ranks + to]
    }

    /// What a rank sends, and what it receives.
    pub(super) fn layouts(&self, rank: usize) -> [BlockLayout; 2] {
        let all = 0..self.ranks;
        let sends = all.clone().map(|to| self.of(rank, to)).collect();
        let receives = all.map(|from| self.of(from, rank)).collect();
        [sends, receives].map(BlockLayout::packed)
    }

    /// The mean of those pairs that have some.
    pub(super) fn mean(&self) -> usize {
        let some = self.bytes.iter().filter(|&&bytes| bytes > 0).count();
        self.bytes.iter().sum::<usize>() / some.max(1)
    }
}

impl Pattern {
    pub(super) fn counts(&self, size: usize, ranks: usize) -> std::result::Result<Counts, String> {
        let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
        let bytes = match self {
            Self::Uniform => vec![size; ranks * ranks],
            Self::Hotspot => pairs
                .map(|(from, to)| match to {
                    0 => 10 * size,
                    _ if to == (from + 1) % ranks => size,
                    _ => 0,
                })
                .collect(),
            Self::Random(density) => pairs
                .map(|(from, to)| random(from * ranks + to, *density, size))
                .collect(),
            Self::Matrix(problem) => {
                let matrix = problem.load().map_err(|error| error.to_string())?;
                let messages = pattern::messages(&matrix, ranks);
                let mut bytes = vec![0; ranks * ranks];
                for message in messages.map_err(|error| error.to_string())? {
                    bytes[message.from * ranks + message.to] = message.elements * size_of::<f64>();
                }
                bytes
            }
        };
        Ok(Counts { bytes, ranks })
    }
}

/// Up to twice the size, for so many of the pairs; the same for a pair whoever asks.
fn random(pair: usize, density: f64, size: usize) -> usize {
    let mut word = pair as u64;
    let mut draw = || {
        // A step of SplitMix64.
        word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        #[allow(clippy::cast_precision_loss)]
        let unit = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        unit
    };
    if draw() >= density {
        return 0;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss
    )]
    let bytes = (2.0 * draw() * size as f64) as usize;
    bytes.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read() {
        for text in ["uniform", "hotspot", "random:0.25", "matrix:poisson2d:3x4"] {
            assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
        }
        for text in [
            "random",
            "random:2",
            "random:x",
            "uniform:1",
            "",
            "matrix:poisson2d:3",
        ] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn counts_of_a_matrix_are_its_halo() {
        // Twelve unknowns in a row of three by four: a row of the grid on each side of a cut.
        let pattern: Pattern = "matrix:poisson2d:3x4".parse().unwrap();
        let counts = pattern.counts(8, 2).unwrap();
        assert_eq!(counts.bytes, [0, 24, 24, 0]);
        assert_eq!(counts.mean(), 24);
        let [send, receive] = counts.layouts(1);
        assert_eq!(
            (send.counts(), receive.counts()),
            (&[24, 0][..], &[24, 0][..])
        );
    }

    #[test]
    fn a_random_pattern_is_as_dense_as_it_says() {
        let counts: Vec<usize> = (0..10_000).map(|pair| random(pair, 0.3, 1000)).collect();
        let some = counts.iter().filter(|&&count| count > 0).count();
        assert!((2_800..3_200).contains(&some), "{some}");
        assert!(counts.iter().all(|&count| count <= 2000));
        let mean = counts.iter().sum::<usize>() / some;
        assert!((950..1050).contains(&mean), "{mean}");
    }
}
