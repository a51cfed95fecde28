//! How the costs of windows are told.

use super::super::figure::{self, Series};
use super::super::{Failure, Result, write_json};
use super::{Arguments, Report, Row};
use crate::latency::Recorder;

impl Report {
    pub(super) fn write(&self, arguments: &Arguments) -> Result<()> {
        let output = &arguments.output;
        if let Some(folder) = &output.hgrm {
            let mut recorder = Recorder::new();
            for row in &self.rows {
                row.summary.record(&mut recorder, &row.name(), row.bytes);
            }
            recorder
                .write_files(folder)
                .map_err(|error| Failure::Fatal(format!("--hgrm {}: {error}", folder.display())))?;
        }
        if let Some(file) = &output.figure {
            let title = format!(
                "Creating a window, MPICH {}, {}",
                self.header.mpich.version,
                self.rows.first().map_or(String::new(), Row::place)
            );
            figure::draw(file, &title, &self.series()).map_err(Failure::Fatal)?;
        }
        if write_json(output.json.as_ref(), self)? {
            self.print(&arguments.measure.percentiles);
        }
        Ok(())
    }

    /// Creation on the first communicator, by flavour.
    fn series(&self) -> Vec<Series> {
        let mut series: Vec<Series> = Vec::new();
        let Some(first) = self.rows.first() else {
            return series;
        };
        let shown = |row: &&Row| row.phase == "create" && row.place() == first.place();
        for row in self.rows.iter().filter(shown) {
            let name = if row.windows > 1 {
                format!("{} × {}", row.windows, row.flavour)
            } else {
                row.flavour.to_owned()
            };
            #[allow(clippy::cast_precision_loss)]
            let point = (row.bytes as f64, row.p50_s);
            match series.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => series.push(Series {
                    name,
                    points: vec![point],
                }),
            }
        }
        series
    }

    fn print(&self, percentiles: &[f64]) {
        self.header.print(("µs", "iterations"));
        println!("# maximum over ranks per iteration; c50: the same calls from C, in turns");
        let mut place = String::new();
        for row in &self.rows {
            if row.place() != place {
                place = row.place();
                println!("\n# {place}");
                print!(
                    "{:<10} {:<9} {:<10} {:>7}",
                    "# Size", "flavour", "phase", "windows"
                );
                for percentile in percentiles {
                    print!(" {:>11}", format!("p{percentile}"));
                }
                println!(" {:>11} {:>11} {:>11}", "max", "first", "c50");
            }
            print!(
                "{:<10} {:<9} {:<10} {:>7}",
                row.bytes, row.flavour, row.phase, row.windows
            );
            for &percentile in percentiles {
                print!(" {:>11.2}", row.summary.percentile_s(percentile) * 1e6);
            }
            print!(" {:>11.2} {:>11.2}", row.max_s * 1e6, row.first_s * 1e6);
            match row.c_p50_s {
                Some(c) => println!(" {:>11.2}", c * 1e6),
                None => println!(" {:>11}", "-"),
            }
        }
        for skipped in &self.skipped {
            println!(
                "# not done: {} on {}, {} ranks: {}",
                skipped.flavour, skipped.communicator, skipped.ranks, skipped.reason
            );
        }
        if !self.c_reference {
            println!(
                "# no comparison with C everywhere: {} could not be used",
                crate::MPICC
            );
        }
    }
}

impl Row {
    fn place(&self) -> String {
        let crowded = if self.oversubscribed {
            ", oversubscribed"
        } else {
            ""
        };
        format!("{}, {} ranks{crowded}", self.communicator, self.ranks)
    }

    /// The name of its histogram.
    fn name(&self) -> String {
        format!(
            "window.{}.{}.{}.{}x{}",
            self.flavour, self.phase, self.communicator, self.ranks, self.windows
        )
    }
}
