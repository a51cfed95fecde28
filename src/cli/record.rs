//! What every result says about where it comes from, and how results are written.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::mpi::Environment;

/// The MPI and the machine of a result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Mpich {
    pub(super) version: &'static str,
    pub(super) device: &'static str,
    /// The netmod that was asked for, or the device's first.
    pub(super) netmod: String,
    /// The libfabric provider that was asked for.
    pub(super) provider: String,
    pub(super) thread_level: &'static str,
}

impl Mpich {
    pub(super) fn of(environment: &Environment) -> Self {
        let netmods = crate::MPICH_DEVICE.rsplit(':').next().unwrap_or_default();
        let first = netmods.split([' ', ',']).next().unwrap_or_default();
        Self {
            version: crate::MPICH_VERSION,
            device: crate::MPICH_DEVICE,
            netmod: std::env::var("MPIR_CVAR_CH4_NETMOD").unwrap_or_else(|_| first.to_owned()),
            provider: Environment::provider().unwrap_or_else(|| "default".to_owned()),
            thread_level: environment.thread_level().name(),
        }
    }

    /// One line, with the cores.
    pub(super) fn print(&self, cores: usize, oversubscribed: bool) {
        println!(
            "MPICH {} ({}), netmod {}, provider {}, {}, {cores} cores{}",
            self.version,
            self.device,
            self.netmod,
            self.provider,
            self.thread_level,
            if oversubscribed {
                ", oversubscribed at times"
            } else {
                ""
            }
        );
    }
}

/// Cores that this process may use.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Where `--json` writes.
#[derive(Clone, Debug)]
pub(super) enum Target {
    StandardOutput,
    File(PathBuf),
}

impl From<&str> for Target {
    fn from(name: &str) -> Self {
        if name == "-" {
            Self::StandardOutput
        } else {
            Self::File(Path::new(name).to_owned())
        }
    }
}

impl Target {
    /// Whether the file can be written, before hours of work depend on it.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self::File(path) = self else {
            return Ok(());
        };
        let opened = File::options().append(true).create(true).open(path);
        opened
            .map(drop)
            .map_err(|error| format!("--json {}: {error}", path.display()))
    }

    /// Writes a result where `--json` says, and prints it as well unless that is standard output.
    pub(super) fn deliver(
        target: Option<&Self>,
        result: &impl Serialize,
        print: impl FnOnce(),
    ) -> ExitCode {
        let written = target.map_or(Ok(()), |target| target.write(result));
        if let Err(error) = written {
            eprintln!("malleus: error: {error}");
            return ExitCode::FAILURE;
        }
        if !matches!(target, Some(Self::StandardOutput)) {
            print();
        }
        ExitCode::SUCCESS
    }

    pub(super) fn write(&self, result: &impl Serialize) -> Result<(), String> {
        let mut text = serde_json::to_string_pretty(result).map_err(|error| error.to_string())?;
        text.push('\n');
        let (written, name) = match self {
            Self::StandardOutput => (io::stdout().write_all(text.as_bytes()), "-".to_owned()),
            Self::File(path) => (std::fs::write(path, text), path.display().to_string()),
        };
        written.map_err(|error| format!("--json {name}: {error}"))
    }
}

/// Makes the folder that an option names, before hours of work depend on it.
pub(super) fn check_folder(option: &str, folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("{option} {}: {error}", folder.display()))
}

/// Rows of cells as a table, aligned to the right.
pub(super) fn print_table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:>width$}"))
            .collect();
        println!("{}", cells.join("  "));
    }
}

/// Bytes as a person reads them.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// Seconds as a person reads them.
pub(super) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            [0, 1023, 1024, 1 << 20, 3 << 29].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1.5 GiB"]
        );
        assert_eq!(
            [2.0, 0.0125, 3e-6].map(seconds),
            ["2.00 s", "12.5 ms", "3.0 µs"]
        );
    }
}
