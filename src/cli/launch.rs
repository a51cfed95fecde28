//! Starting ranks, and what a process can know of being one before MPI is initialized.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// Set for the ranks that this program started itself, and for those that these start.
const LAUNCHED: &str = "MALLEUS_LAUNCHED";
/// Set for them where standard error is a terminal, which their own is not.
const TERMINAL: &str = "MALLEUS_TERMINAL";

/// Whether a process manager has started this process.
pub(super) fn is_rank() -> bool {
    ["PMI_RANK", "PMI_FD", "PMI_PORT", "PMIX_RANK"]
        .iter()
        .any(|name| std::env::var_os(name).is_some())
}

/// Whether this program's own `-n` has started this process.
pub(super) fn was_launched_here() -> bool {
    std::env::var_os(LAUNCHED).is_some()
}

/// Reports an error on the first rank only, and gives the exit code on all.
pub(super) fn fail(error: &str, code: u8) -> ExitCode {
    let report = || {
        eprintln!("malleus: error: {error}");
        Ok(())
    };
    on_one_rank(report, code)
}

/// Reports something on the first rank of the first start only, and gives the exit code on all.
pub(super) fn on_one_rank(report: impl FnOnce() -> io::Result<()>, code: u8) -> ExitCode {
    let rank = ["PMI_RANK", "PMIX_RANK"]
        .iter()
        .find_map(|name| std::env::var(name).ok());
    let spawned = std::env::var_os("PMI_SPAWNED").is_some_and(|value| value == "1");
    if !spawned && rank.is_none_or(|rank| rank == "0") {
        // There is nowhere else to report to.
        let _ = report();
    }
    ExitCode::from(code)
}

/// Becomes the `mpiexec` that runs this program with the same arguments, and with these facts in the
/// environment of the ranks.
pub(super) fn start(ranks: u32, facts: &[(&str, String)]) -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            eprintln!("malleus: error: this program can't find itself: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut command = Command::new(crate::MPIEXEC);
    command
        .arg("-n")
        .arg(ranks.to_string())
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(LAUNCHED, "1");
    if io::IsTerminal::is_terminal(&io::stderr()) {
        command.env(TERMINAL, "1");
    }
    command.envs(facts.iter().map(|(name, value)| (name, value)));
    let error = command.exec();
    eprintln!(
        "malleus: error: {}: {error}; it belonged to the MPICH that malleus was built with",
        crate::MPIEXEC
    );
    ExitCode::FAILURE
}

/// Whether a person watches standard error: this process's, or that of the `mpiexec` that passes it on.
pub(super) fn is_watched() -> bool {
    if io::IsTerminal::is_terminal(&io::stderr()) {
        return true;
    }
    if was_launched_here() {
        return std::env::var_os(TERMINAL).is_some();
    }
    // mpiexec is the parent of the proxy that is the parent of a rank on its own node.
    parent(std::process::id())
        .and_then(parent)
        .filter(|&process| is_mpiexec(process))
        .and_then(|process| std::fs::read_link(format!("/proc/{process}/fd/2")).ok())
        .is_some_and(|error| error.starts_with("/dev/pts") || error.starts_with("/dev/tty"))
}

fn parent(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))?
        .trim()
        .parse()
        .ok()
}

fn is_mpiexec(process: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/comm"))
        .is_ok_and(|name| name.starts_with("mpiexec"))
}
