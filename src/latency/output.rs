//! Recorders as text: percentile table, percentile distributions, interval log.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};

use super::recorder::{Recorder, Row};

/// The quantiles of a percentile table, and what heads their columns.
const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];
/// Lines per halving of the distance to 100 % in a percentile distribution: what HdrHistogram's own tools
/// take.
const TICKS_PER_HALF: u32 = 5;

impl Row<'_> {
    /// Name and size class in one word, such as `MPI_Get:64KiB`.
    #[must_use]
    pub fn label(&self) -> String {
        match self.size {
            None => self.name.to_owned(),
            Some(size) => format!("{}:{size}", self.name),
        }
    }

    /// The percentile distribution in HdrHistogram's text form, values in µs. Tools that plot `.hgrm` files
    /// take it.
    #[must_use]
    pub fn percentile_distribution(&self) -> String {
        distribution(self.histogram)
    }
}

impl Recorder {
    /// A table of percentiles, in µs, by operation and size class.
    #[must_use]
    pub fn table(&self) -> String {
        let rows = self.rows();
        let label = |row: &Row<'_>| row.label().chars().count();
        let width = rows.iter().map(label).max().unwrap_or(0).max(9);
        let mut text = format!("{:<width$} {:>10}", "operation", "count");
        for (_, heading) in QUANTILES {
            let _ = write!(text, " {heading:>12}");
        }
        let _ = writeln!(text, " {:>12}", "max µs");
        for row in &rows {
            let _ = write!(text, "{:<width$} {:>10}", row.label(), row.histogram.len());
            for (quantile, _) in QUANTILES {
                let _ = write!(
                    text,
                    " {:>12.3}",
                    micros(row.histogram.value_at_quantile(quantile))
                );
            }
            let _ = writeln!(text, " {:>12.3}", micros(row.histogram.max()));
        }
        text
    }

    /// Writes one `.hgrm` file per histogram into a folder, and all of them as an interval log,
    /// `latency.hlog`. The folder is made if there is none.
    ///
    /// # Errors
    ///
    /// Where a file can't be written.
    pub fn write_files(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        for row in self.rows() {
            let path = folder.join(format!("{}.hgrm", file_name(&row.label())));
            std::fs::write(path, row.percentile_distribution())?;
        }
        let mut log = io::BufWriter::new(std::fs::File::create(folder.join("latency.hlog"))?);
        self.write_log(&mut log)?;
        log.flush()
    }

    /// Writes an HdrHistogram interval log: one interval, the recorder's whole time, with one tagged
    /// histogram per operation and size class, in ns; the column of maxima is in µs.
    ///
    /// # Errors
    ///
    /// What the writer reports.
    pub fn write_log(&self, writer: &mut impl Write) -> io::Result<()> {
        let begun = self.begun.unwrap_or(SystemTime::UNIX_EPOCH);
        let ended = self.ended.unwrap_or_else(SystemTime::now);
        let duration = ended.duration_since(begun).unwrap_or(Duration::ZERO);
        let mut serializer = V2DeflateSerializer::new();
        let mut log = IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment(&format!(
                "[malleus {}: latencies in ns]",
                env!("CARGO_PKG_VERSION")
            ))
            .with_start_time(begun)
            .with_base_time(begun)
            .with_max_value_divisor(1e3)
            .begin_log_with(writer, &mut serializer)?;
        for row in self.rows() {
            // A tag ends at a space or comma.
            let tag = row.label().replace([',', ' ', '\n', '\r'], "_");
            log.write_histogram(row.histogram, Duration::ZERO, duration, Tag::new(&tag))
                .map_err(|error| match error {
                    IntervalLogWriterError::IoError(error) => error,
                    IntervalLogWriterError::SerializeError(error) => {
                        io::Error::other(error.to_string())
                    }
                })?;
        }
        Ok(())
    }
}

/// A label as the name of a file.
fn file_name(label: &str) -> String {
    label
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "._-+".contains(c) {
                c
            } else {
                '.'
            }
        })
        .collect()
}

#[allow(clippy::cast_precision_loss)]
fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// What `outputPercentileDistribution` of the Java library writes, scaled to µs.
fn distribution(histogram: &Histogram<u64>) -> String {
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut total = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF) {
        total += step.count_since_last_iteration();
        let quantile = step.quantile_iterated_to();
        let value = micros(histogram.highest_equivalent(step.value_iterated_to()));
        let _ = write!(text, "{value:>12.3} {quantile:>2.12} {total:>10}");
        if quantile < 1.0 {
            let _ = write!(text, " {:>14.2}", 1.0 / (1.0 - quantile));
        }
        text.push('\n');
    }
    let sub_buckets = (2 * 10_u64.pow(histogram.sigfig().into())).next_power_of_two();
    let _ = writeln!(
        text,
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]",
        histogram.mean() / 1e3,
        histogram.stdev() / 1e3
    );
    let _ = writeln!(
        text,
        "#[Max     = {:>12.3}, Total count    = {:>12}]",
        micros(histogram.max()),
        histogram.len()
    );
    let _ = writeln!(
        text,
        "#[Buckets = {:>12}, SubBuckets     = {:>12}]",
        histogram.buckets(),
        sub_buckets
    );
    text
}
