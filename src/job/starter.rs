//! Starting processes: `MPI_Comm_spawn`, and what has to be right before it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::mpi::{self, Communicator, Environment, Info, Intercommunicator, SpawnCommand};

/// What a job starts when it grows: by default the program that runs, with the same arguments, in the same
/// folder.
#[derive(Clone, Debug)]
pub struct Spawn {
    /// The program. It has to come to [`super::Job::start`].
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The folder it starts in.
    pub folder: PathBuf,
    /// How long the new processes may take until they have joined. After that the whole job is ended with
    /// a message, since MPICH's `MPI_Comm_spawn` never returns where the program can't start.
    pub time_out: Duration,
}

impl Default for Spawn {
    fn default() -> Self {
        Self {
            program: std::env::current_exe().unwrap_or_default(),
            arguments: std::env::args().skip(1).collect(),
            folder: std::env::current_dir().unwrap_or_default(),
            time_out: Duration::from_secs(30),
        }
    }
}

impl Spawn {
    /// Whether the processes can be started, as far as can be known before: program, permission, folder,
    /// limits of this process. `Err` says what is wrong.
    pub(super) fn check(&self, processes: usize) -> Result<(), String> {
        if let Some(reason) = mpi::process::cannot_spawn() {
            return Err(reason.to_owned());
        }
        let program = self.program.display();
        let metadata = fs::metadata(&self.program)
            .map_err(|error| format!("the program {program}: {error}"))?;
        if !metadata.is_file() {
            return Err(format!("the program {program} is not a file"));
        }
        if metadata.permissions().mode() & 0o111 == 0 {
            return Err(format!(
                "the program {program} is not executable: chmod +x it"
            ));
        }
        let folder = self.folder.display();
        let metadata =
            fs::metadata(&self.folder).map_err(|error| format!("the folder {folder}: {error}"))?;
        if !metadata.is_dir() {
            return Err(format!("{folder} is not a folder"));
        }
        for text in [&self.program, &self.folder] {
            if text.to_str().is_none() {
                return Err(format!("{} is not UTF-8", text.display()));
            }
        }
        check_limits(processes)
    }

    /// Starts the processes. Collective; the root's values count.
    pub(crate) fn start(
        &self,
        universe: &Communicator,
        processes: usize,
    ) -> mpi::Result<Intercommunicator> {
        let mut info = Info::new(&universe.environment())?;
        info.set("wdir", &self.folder.to_string_lossy())?;
        let command = SpawnCommand {
            program: &self.program.to_string_lossy(),
            arguments: &self.arguments,
            processes,
            info: Some(&info),
        };
        universe.spawn(&command, 0)
    }

    /// Ends the job if the new processes do not come.
    pub(super) fn watch(&self, environment: &Environment, processes: usize) -> Watchdog {
        let message = format!(
            "{processes} process(es) of {} did not join the job within {:?}; the job ends",
            self.program.display(),
            self.time_out
        );
        Watchdog::start(environment, self.time_out, message)
    }
}

/// Ends the job unless it is called off in time.
#[derive(Debug)]
pub(super) struct Watchdog {
    call_off: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    fn start(environment: &Environment, time_out: Duration, message: String) -> Self {
        let (call_off, called_off) = mpsc::channel();
        let exit = environment.end_job_without_mpi();
        let thread = std::thread::spawn(move || {
            if called_off.recv_timeout(time_out) == Err(RecvTimeoutError::Timeout) {
                eprintln!("malleus: {message}");
                // The main thread is inside MPI and may hold its lock: MPI_Abort could not go ahead.
                exit(1);
            }
        });
        Self {
            call_off,
            thread: Some(thread),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // The thread has ended where it has no receiver.
        let _ = self.call_off.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Checks the limits that a start runs into: processes of this user, descriptors of this process.
fn check_limits(processes: usize) -> Result<(), String> {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = |name: &str| -> Option<usize> {
        let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let descriptors = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    // A connection to each new process, and a few for what starts them.
    let wanted = descriptors + processes + 16;
    if limit("Max open files").is_some_and(|limit| wanted > limit) {
        return Err(format!(
            "{wanted} open files are needed, `ulimit -n` allows fewer"
        ));
    }
    // The limit of processes does not bind root.
    let user =
        fs::metadata("/proc/self").map(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata));
    if let (Ok(user), Some(limit)) = (user, limit("Max processes"))
        && user != 0
    {
        let running = threads_of(user);
        if running + processes > limit {
            return Err(format!(
                "{processes} more processes beside {running} exceed `ulimit -u` ({limit})"
            ));
        }
    }
    Ok(())
}

/// The threads of a user, which is what the limit of processes counts.
fn threads_of(user: u32) -> usize {
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    entries
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .iter()
                .all(u8::is_ascii_digit)
        })
        .filter(|entry| {
            entry
                .metadata()
                .is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == user)
        })
        .map(|entry| fs::read_dir(Path::new(&entry.path()).join("task")).map_or(0, Iterator::count))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_started_passes_and_the_rest_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let spawn = Spawn::default();
        if let Some(reason) = mpi::process::cannot_spawn() {
            assert_eq!(spawn.check(1), Err(reason.to_owned()));
            return;
        }
        assert_eq!(spawn.check(1), Ok(()));
        let refused = |change: &dyn Fn(&mut Spawn)| {
            let mut spawn = Spawn::default();
            change(&mut spawn);
            spawn.check(1).unwrap_err()
        };
        assert!(
            refused(&|spawn| spawn.program = "/no/such/program".into()).contains("No such file")
        );
        assert!(refused(&|spawn| spawn.program = folder.path().into()).contains("not a file"));
        let plain = folder.path().join("plain");
        fs::write(&plain, "#!/bin/sh\n").unwrap();
        assert!(refused(&|spawn| spawn.program = plain.clone()).contains("not executable"));
        assert!(refused(&|spawn| spawn.folder = "/no/such/folder".into()).contains("No such file"));
        assert!(refused(&|spawn| spawn.folder = plain.clone()).contains("not a folder"));
        assert!(spawn.check(100_000_000).unwrap_err().contains("ulimit"));
    }
}
