//! What can be known of a program before it is started: MPICH never returns from a spawn that cannot
//! start.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::SpawnCommand;
use crate::mpi::error::{Error, Result};
use crate::mpi::info::Info;
use crate::mpi::runtime_check::Library;

const CALL: &str = "MPI_Comm_spawn";

/// Why no process can be started with the MPI library of this process, where that is known: with netmod ucx,
/// MPICH before 4.3 refuses every `MPI_Comm_spawn`. The same on every rank of a start.
#[must_use]
pub fn cannot_spawn() -> Option<&'static str> {
    let chosen = std::env::var("MPIR_CVAR_CH4_NETMOD");
    let by_default = crate::MPICH_DEVICE.trim_start_matches("ch4:");
    let is_ucx = chosen.as_deref().unwrap_or(by_default).starts_with("ucx");
    let version = Library::at_run_time().ok()?.mpich_version()?;
    (is_ucx && version < (4, 3)).then_some("MPICH before 4.3 can't start processes with netmod ucx")
}

/// Checks commands that are sent together.
pub(super) fn check(commands: &[SpawnCommand<'_>]) -> Result<()> {
    let mut total = 0;
    for command in commands {
        total += check_one(command)?;
    }
    if total <= LONGEST {
        return Ok(());
    }
    let expected = format!("at most {LONGEST}");
    Err(Error::argument(
        CALL,
        "arguments",
        format!("{total} bytes"),
        expected,
    ))
}

/// Checks what the command says, and that its program can be started, as far as this process sees. The bytes
/// that it takes in a message.
///
/// Where the info names a host, its files may be others than those here: then the program is not looked
/// for.
fn check_one(command: &SpawnCommand<'_>) -> Result<usize> {
    if command.processes == 0 {
        return Err(Error::argument(CALL, "processes", 0, "at least 1"));
    }
    check_text("program", command.program)?;
    for argument in command.arguments {
        check_text("arguments", argument)?;
    }
    let info = match command.info {
        Some(info) => pairs(info)?,
        None => Vec::new(),
    };
    let value = |key| {
        let pair = info.iter().find(|(name, _)| name == key);
        pair.map(|(_, value)| value.as_str())
    };
    let length = length(command, &info);
    if ["host", "hosts", "hostfile"]
        .into_iter()
        .any(|key| value(key).is_some())
    {
        return Ok(length);
    }
    let folder = value("wdir");
    if let Some(folder) = folder
        && !Path::new(folder).is_dir()
    {
        return Err(Error::argument(
            CALL,
            "wdir",
            format!("{folder:?}"),
            "a folder",
        ));
    }
    let candidates = candidates(command.program, folder, value("path"));
    if candidates.iter().any(|path| can_start(path)) {
        return Ok(length);
    }
    let found = match candidates.iter().find(|path| path.exists()) {
        Some(path) => format!(
            "{:?}, which is no program that can be started",
            path.display()
        ),
        None => format!("{:?}, which does not exist", command.program),
    };
    Err(Error::argument(
        CALL,
        "program",
        found,
        "an executable file, by its path or in PATH",
    ))
}

/// A text that MPICH's process manager takes: its messages are lines of words, and one that it can't read
/// ends the job.
fn check_text(argument: &'static str, text: &str) -> Result<()> {
    if text.is_empty() || text.contains(['\0', '\n']) {
        return Err(Error::argument(
            CALL,
            argument,
            format!("{text:?}"),
            "a text that is not empty, without zero bytes and line ends",
        ));
    }
    Ok(())
}

/// The hints, checked as other texts are.
fn pairs(info: &Info) -> Result<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for key in info.keys()? {
        let value = info.get(&key)?.unwrap_or_default();
        check_text("info", &key)?;
        check_text("info", &value)?;
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// Bytes that the command takes in a message to the process manager.
fn length(command: &SpawnCommand<'_>, info: &[(String, String)]) -> usize {
    let hints = info
        .iter()
        .map(|(key, value)| key.len() + value.len() + 2 * NAME_OF_A_TEXT);
    // A backslash is sent twice.
    let sent = |text: &str| text.len() + text.matches('\\').count() + NAME_OF_A_TEXT;
    let arguments = command.arguments.iter().map(|argument| sent(argument));
    sent(command.program) + arguments.chain(hints).sum::<usize>()
}

/// What a text has before it in a message.
const NAME_OF_A_TEXT: usize = 20;
/// Hydra reads commands into 64 KiB, and ends the job where they do not fit; some of it is for what MPICH adds.
const LONGEST: usize = 60_000;

/// Where the process manager looks for the program.
fn candidates(program: &str, folder: Option<&str>, path: Option<&str>) -> Vec<PathBuf> {
    let is_path = program.contains('/');
    match (path, folder) {
        (Some(path), _) => vec![Path::new(path).join(program)],
        (None, Some(folder)) if is_path => vec![Path::new(folder).join(program)],
        (None, None) if is_path => vec![PathBuf::from(program)],
        (None, _) => {
            let variable = std::env::var_os("PATH").unwrap_or_default();
            let folders = std::env::split_paths(&variable);
            folders.map(|folder| folder.join(program)).collect()
        }
    }
}

/// Whether this user may execute the file, and the interpreter exists that a script names.
fn can_start(path: &Path) -> bool {
    let Ok(text) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: the path is a C string.
    let is_allowed = unsafe { libc::access(text.as_ptr(), libc::X_OK) } == 0;
    is_allowed && path.is_file() && interpreter(path).is_none_or(|path| path.exists())
}

/// What the first line of a script names.
fn interpreter(path: &Path) -> Option<PathBuf> {
    use std::io::Read as _;
    let mut start = Vec::new();
    fs::File::open(path)
        .ok()?
        .take(256)
        .read_to_end(&mut start)
        .ok()?;
    let line = start
        .strip_prefix(b"#!")?
        .split(|&byte| byte == b'\n')
        .next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    line.split_whitespace().next().map(PathBuf::from)
}
