//! Options that the benchmarks share, in the manner of OSU's.

use std::path::PathBuf;
use std::str::FromStr;

use crate::cli::record::{Target, check_folder};
use crate::mpi::bare::Flavour;

/// What is measured, and how often.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Measure {
    /// Sizes in bytes, doubling from MIN to MAX: 8:4MiB. K, M, G and KiB, MiB, GiB are powers of 1024.
    #[arg(
        short = 'm',
        long = "sizes",
        value_name = "MIN:MAX",
        default_value = "8:4MiB"
    )]
    pub(super) sizes: Sizes,
    /// Measured iterations.
    #[arg(short, long, value_name = "N", default_value_t = 100, value_parser = at_least_one)]
    pub(super) iterations: usize,
    /// Iterations before them, which are not counted.
    #[arg(short = 'x', long, value_name = "N", default_value_t = 10)]
    pub(super) warm_up: usize,
    /// Percentiles on the screen, separated by commas.
    #[arg(
        short = 'f',
        long,
        value_name = "LIST",
        default_value = "50,90,99",
        value_delimiter = ',',
        value_parser = percentile
    )]
    pub(super) percentiles: Vec<f64>,
    /// Which flavours: create, allocate, shared, dynamic.
    #[arg(
        long,
        value_name = "LIST",
        default_value = "create,allocate,shared,dynamic",
        value_delimiter = ',',
        value_parser = flavour
    )]
    pub(super) flavours: Vec<Flavour>,
}

/// How much goes to each peer of an exchange.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(in crate::cli) struct PeerSizes {
    /// Bytes to each peer, doubling from MIN to MAX.
    #[arg(
        short = 'm',
        long = "sizes",
        value_name = "MIN:MAX",
        default_value = "8:4MiB"
    )]
    pub(in crate::cli) sizes: Sizes,
}

fn flavour(name: &str) -> Result<Flavour, String> {
    Flavour::ALL
        .into_iter()
        .find(|flavour| flavour.name() == name)
        .ok_or_else(|| "expected create, allocate, shared or dynamic".to_owned())
}

/// Where results go.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Output {
    /// Write the result as JSON to this file; - for standard output, instead of the table.
    #[arg(long, value_name = "FILE", value_parser = |name: &str| Ok::<_, String>(Target::from(name)))]
    pub(super) json: Option<Target>,
    /// Write a latency histogram per row into this folder: .hgrm files, and all as an interval log.
    #[arg(long, value_name = "DIR")]
    pub(super) hgrm: Option<PathBuf>,
    /// Draw the medians into this file.
    #[arg(long, value_name = "FILE.svg", value_parser = svg)]
    pub(super) figure: Option<PathBuf>,
}

impl Output {
    /// Whether everything can be written.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(target) = &self.json {
            target.check()?;
        }
        if let Some(folder) = &self.hgrm {
            check_folder("--hgrm", folder)?;
        }
        if let Some(file) = &self.figure {
            let opened = std::fs::File::options()
                .append(true)
                .create(true)
                .open(file);
            opened.map_err(|error| format!("--figure {}: {error}", file.display()))?;
        }
        Ok(())
    }
}

fn svg(name: &str) -> Result<PathBuf, String> {
    if name.ends_with(".svg") {
        Ok(name.into())
    } else {
        Err("a figure is an .svg file".to_owned())
    }
}

pub(in crate::cli) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("expected a number from 1 on".to_owned()),
    }
}

fn percentile(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err("expected percentiles between 0 and 100".to_owned()),
    }
}

/// Sizes in bytes that double from the first one to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Sizes {
    first: usize,
    last: usize,
}

impl Sizes {
    pub(in crate::cli) fn iter(self) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(self.first), |size| size.checked_mul(2))
            .take_while(move |&size| size <= self.last)
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once(':').unwrap_or((text, text));
        let (first, last) = (size(first)?, size(last)?);
        if first == 0 {
            return Err("the smallest size is zero bytes".to_owned());
        }
        if first > last {
            return Err("the first size is larger than the last".to_owned());
        }
        Ok(Self { first, last })
    }
}

/// A size that is not zero.
pub(in crate::cli) fn one_size(text: &str) -> Result<usize, String> {
    match size(text)? {
        0 => Err("zero bytes".to_owned()),
        size => Ok(size),
    }
}

fn size(text: &str) -> Result<usize, String> {
    let refused = || format!("{text:?} is no size, such as 8, 64K or 4MiB");
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => return Err(refused()),
    };
    let number: usize = number.parse().map_err(|_| refused())?;
    number
        .checked_mul(1 << shift)
        .filter(|&bytes| isize::try_from(bytes).is_ok())
        .ok_or_else(|| format!("{text} is more than memory can hold"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<usize>, String> {
        text.parse::<Sizes>().map(|sizes| sizes.iter().collect())
    }

    #[test]
    fn sizes_double() {
        assert_eq!(parsed("8:64"), Ok(vec![8, 16, 32, 64]));
        assert_eq!(parsed("3:13"), Ok(vec![3, 6, 12]));
        assert_eq!(parsed("64K"), Ok(vec![65_536]));
        assert_eq!(parsed("512KiB:1M"), Ok(vec![524_288, 1_048_576]));
        assert_eq!(parsed("1G:1GiB"), Ok(vec![1 << 30]));
    }

    #[test]
    fn other_texts_are_no_sizes() {
        for text in [
            "",
            ":",
            "8:",
            "x",
            "4T",
            "-1",
            "1.5K",
            "8:4",
            "0:8",
            "0",
            "99999999999G",
        ] {
            assert!(parsed(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn percentiles_lie_in_between() {
        assert_eq!(percentile("99.9"), Ok(99.9));
        for text in ["101", "-1", "x", "nan"] {
            assert!(percentile(text).is_err(), "{text:?}");
        }
    }
}
