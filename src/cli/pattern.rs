//! `malleus pattern`: what a sparse matrix-vector product exchanges.

use std::process::ExitCode;

use serde::Serialize;

use super::bench::options::at_least_one;
use super::launch;
use super::record::Target;
use crate::partition::Partition;
use crate::workload::matrix::{Csr, Problem, pattern};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The matrix: a Matrix Market file (.mtx, .mtx.gz), poisson2d:NXxNY, poisson3d:NXxNYxNZ or hpcg:NXxNYxNZ.
    matrix: Problem,
    /// Numbers of ranks.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2,4,8,16,32,64", value_parser = at_least_one)]
    ranks: Vec<usize>,
    /// Write the result as JSON to this file; - for standard output, instead of the table.
    #[arg(long, value_name = "FILE", value_parser = |name: &str| Ok::<_, String>(Target::from(name)))]
    json: Option<Target>,
}

#[derive(Debug, Serialize)]
struct Report {
    matrix: String,
    rows: usize,
    nonzeros: usize,
    patterns: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    ranks: usize,
    /// Elements that all ranks receive before each product.
    elements: u64,
    /// Pairs of ranks between which there are some.
    messages: usize,
    /// The most that any rank receives, and from how many.
    most_elements: u64,
    most_messages: usize,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let found = arguments.matrix.load().and_then(|matrix| {
        let rows = arguments
            .ranks
            .iter()
            .map(|&ranks| Row::new(&matrix, ranks));
        let patterns = rows.collect::<Result<_, _>>()?;
        Ok(Report {
            matrix: arguments.matrix.to_string(),
            rows: matrix.rows,
            nonzeros: matrix.nonzeros(),
            patterns,
        })
    });
    match found {
        Ok(report) => Target::deliver(arguments.json.as_ref(), &report, || report.print()),
        Err(error) => launch::fail(&error.to_string(), 1),
    }
}

/// Messages between equal blocks of rows, the remainder to the first ranks.
pub(super) fn messages(
    matrix: &Csr,
    ranks: usize,
) -> Result<Vec<pattern::Message>, crate::workload::matrix::Error> {
    let partition = Partition::block(matrix.rows as u64, ranks);
    let end = |rank: usize| usize::try_from(partition.range(rank).end).unwrap_or(usize::MAX);
    let cuts: Vec<usize> = std::iter::once(0).chain((0..ranks).map(end)).collect();
    pattern::messages(matrix, &cuts)
}

impl Row {
    fn new(matrix: &Csr, ranks: usize) -> Result<Self, crate::workload::matrix::Error> {
        let messages = messages(matrix, ranks)?;
        let of = messages.chunk_by(|a, b| a.to == b.to);
        let each = of.map(|of| {
            (
                of.iter().map(|message| message.elements as u64).sum(),
                of.len(),
            )
        });
        let each: Vec<(u64, usize)> = each.collect();
        Ok(Self {
            ranks,
            elements: each.iter().map(|one| one.0).sum(),
            messages: messages.len(),
            most_elements: each.iter().map(|one| one.0).max().unwrap_or(0),
            most_messages: each.iter().map(|one| one.1).max().unwrap_or(0),
        })
    }
}

impl Report {
    fn print(&self) {
        println!(
            "{}: {} rows, {} nonzeros",
            self.matrix, self.rows, self.nonzeros
        );
        println!("ranks  elements  messages  most elements  most messages of a rank");
        for row in &self.patterns {
            println!(
                "{:>5}{:>10}{:>10}{:>15}{:>15}",
                row.ranks, row.elements, row.messages, row.most_elements, row.most_messages
            );
        }
    }
}
