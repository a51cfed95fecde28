//! `malleus tune`: measures this machine for what chooses by such numbers.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;

use super::bench::options::{PeerSizes, at_least_one};
use super::failure::Failure;
use super::record::{Mpich, Target, bytes as human, cores, print_table, seconds};
use crate::alltoallv::{Entry, Table, measure};
use crate::mpi::collective::BlockLayout;
use crate::mpi::{Communicator, Environment};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    /// Persistent Alltoallv: what each variant takes on so many ranks, for the variant auto.
    Alltoallv(Alltoallv),
}

#[derive(Debug, clap::Args)]
struct Alltoallv {
    #[command(flatten)]
    each: PeerSizes,
    /// Partners of each rank [default: 1, 2, 4 … and all, which is measured with what a rank sends to itself].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = at_least_one)]
    partners: Vec<usize>,
    /// How long the variants are tried for each size, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    trial: u64,
    /// Forget what was measured before, also on other numbers of ranks.
    #[arg(long)]
    anew: bool,
    /// Write what was measured as JSON to this file as well; - for standard output, instead of the table.
    #[arg(long, value_name = "FILE", value_parser = |name: &str| Ok::<_, String>(Target::from(name)))]
    json: Option<Target>,
}

#[derive(Debug, Serialize)]
struct Report {
    mpich: Mpich,
    ranks: usize,
    cores: usize,
    /// Where the table is.
    table: PathBuf,
    entries: Vec<Entry>,
}

pub(super) fn run(environment: &Environment, arguments: &Arguments) -> ExitCode {
    let Subject::Alltoallv(arguments) = &arguments.subject;
    match alltoallv(environment, arguments) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(report)) => Target::deliver(arguments.json.as_ref(), &report, || print(&report)),
        Err(failure) => failure.end(environment),
    }
}

/// Each rank sends so much to the next ones; and to itself, where these are all.
fn layouts(communicator: &Communicator, partners: usize, bytes: usize) -> [BlockLayout; 2] {
    let (rank, size) = (communicator.rank(), communicator.size());
    let counts = |towards: fn(usize, usize, usize) -> usize| {
        let mut counts = vec![0; size];
        let first = usize::from(partners + 1 < size);
        for step in first..=partners {
            counts[towards(rank, step, size)] = bytes;
        }
        BlockLayout::packed(counts)
    };
    [
        counts(|rank, step, size| (rank + step) % size),
        counts(|rank, step, size| (rank + size - step) % size),
    ]
}

/// One, two, four, and so on, and all others.
fn doubling(others: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |&partners: &usize| partners.checked_mul(2));
    let mut list: Vec<usize> = powers.take_while(|&partners| partners < others).collect();
    list.push(others);
    list
}

fn alltoallv(environment: &Environment, arguments: &Alltoallv) -> Result<Option<Report>, Failure> {
    let world = environment.world();
    let others = world.size() - 1;
    if others == 0 {
        return Err(Failure::Common(
            "there is nothing to choose on one rank: -n".to_owned(),
        ));
    }
    let partners = if arguments.partners.is_empty() {
        doubling(others)
    } else {
        arguments.partners.clone()
    };
    if let Some(many) = partners.iter().find(|&&partners| partners > others) {
        return Err(Failure::Common(format!(
            "--partners: a rank has {others}, not {many}"
        )));
    }
    // What can't be kept is found out before the work.
    let mut table = Table::default();
    let prepare = || -> Result<Table, String> {
        arguments.json.as_ref().map_or(Ok(()), Target::check)?;
        let table = if arguments.anew {
            Table::default()
        } else {
            Table::read(environment).map_err(|error| format!("{error}; --anew forgets it"))?
        };
        table
            .write(environment)
            .map_err(|error| error.to_string())?;
        Ok(table)
    };
    let problem = if world.rank() == 0 {
        match prepare() {
            Ok(found) => {
                table = found;
                None
            }
            Err(problem) => Some(problem),
        }
    } else {
        None
    };
    if let Some((_, problem)) = world.agree(problem)? {
        return Err(Failure::Common(problem));
    }

    let trial = Duration::from_millis(arguments.trial);
    let mut entries = Vec::new();
    for partners in partners {
        for size in arguments.each.sizes.iter() {
            let [send, receive] = layouts(&world, partners, size);
            for own in [true, false] {
                let entry = measure::<u8>(&world, &send, &receive, own, trial)?;
                table.add(entry.clone());
                entries.push(entry);
            }
        }
    }
    if world.rank() != 0 {
        return Ok(None);
    }
    let written = table.write(environment);
    Ok(Some(Report {
        mpich: Mpich::of(environment),
        ranks: world.size(),
        cores: cores(),
        table: written.map_err(|error| Failure::Fatal(error.to_string()))?,
        entries,
    }))
}

fn print(report: &Report) {
    report
        .mpich
        .print(report.cores, report.ranks > report.cores);
    println!(
        "{} ranks; start and wait, the longest of any rank; what took more than 1.25 times the best was left out early",
        report.ranks
    );
    let mut rows = vec![
        [
            "bytes", "partners", "buffers", "fastest", "takes", "then", "takes",
        ]
        .map(str::to_owned),
    ];
    for entry in &report.entries {
        let shape = &entry.shape;
        let place = |at: usize| match entry.times.get(at) {
            Some((variant, time)) => [variant.name().to_owned(), seconds(*time)],
            None => ["-", "-"].map(str::to_owned),
        };
        let ([first, first_time], [second, second_time]) = (place(0), place(1));
        rows.push([
            human(shape.bytes / shape.partners.max(1) as u64),
            shape.partners.to_string(),
            if shape.own { "own" } else { "caller" }.to_owned(),
            first,
            first_time,
            second,
            second_time,
        ]);
    }
    print_table(&rows);
    println!("kept in {}", report.table.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partners_double_up_to_all() {
        assert_eq!(doubling(1), [1]);
        assert_eq!(doubling(2), [1, 2]);
        assert_eq!(doubling(7), [1, 2, 4, 7]);
        assert_eq!(doubling(8), [1, 2, 4, 8]);
    }
}
