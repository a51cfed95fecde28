//! Starting processes (MPI standard, chapter 11.8).

use std::borrow::Cow;
use std::ffi::{CString, c_char, c_int};

use super::check::{cannot_spawn, check};
use crate::mpi::communicator::Communicator;
use crate::mpi::datatype::int;
use crate::mpi::error::{Error, Result, check as check_code, mpi};
use crate::mpi::info::{Info, c_string};
use crate::mpi::intercommunicator::Intercommunicator;
use crate::sys;

/// What [`Communicator::spawn`] starts.
#[derive(Clone, Copy, Debug)]
pub struct SpawnCommand<'a> {
    /// The program. A path with a slash is one from this process's folder, or from that of the info key
    /// `wdir`; a name without one is looked for in `PATH`, or in the folder of the info key `path`.
    pub program: &'a str,
    /// Its arguments, without the program's name.
    pub arguments: &'a [String],
    /// How many processes.
    pub processes: usize,
    /// Hints. MPICH's hydra reads `path`, `wdir`, `host`/`hosts` and `hostfile`.
    pub info: Option<&'a Info>,
}

/// What [`Communicator::spawn_multiple`] has started.
#[derive(Debug)]
pub struct Spawned {
    /// The new processes are its remote group.
    pub children: Intercommunicator,
    /// For every process that was asked for, whether it was started.
    pub processes: Vec<Result<()>>,
}

impl Communicator {
    /// Starts processes, which find the intercommunicator to these ones in
    /// [`Environment::parent`](crate::mpi::Environment::parent). Collective and blocking, until they have
    /// initialized MPI; the root's command counts. `MPI_Comm_spawn`.
    ///
    /// MPICH never returns where a program can't be started or ends before it initializes MPI. So the root
    /// looks for the program before; it does not where the info names a host, whose files may be others.
    ///
    /// # Errors
    ///
    /// On every rank, [`Error::Argument`] for a program that is missing or that this user may not execute,
    /// a `wdir` that does not exist, texts that are empty, with zero bytes or line ends, or longer together
    /// than the process manager takes (60,000 bytes), no processes, or a root that is not in the
    /// communicator; [`Error::State`] where this MPICH can't start any ([`super::cannot_spawn`]); the MPI error
    /// otherwise.
    pub fn spawn(&self, command: &SpawnCommand<'_>, root: usize) -> Result<Intercommunicator> {
        Ok(self.spawn_with_codes(command, root)?.children)
    }

    /// As [`Communicator::spawn`], and says of every process whether it was started.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::spawn`].
    pub fn spawn_with_codes(&self, command: &SpawnCommand<'_>, root: usize) -> Result<Spawned> {
        const CALL: &str = "MPI_Comm_spawn";
        if let Some(reason) = cannot_spawn() {
            return Err(Error::state(CALL, reason));
        }
        let (total, prepared) =
            self.agree_with_root(CALL, root, || Prepared::new(CALL, &[*command]))?;
        let mut prepared = prepared.unwrap_or_default();
        let (program, arguments, processes, info) = prepared.first();
        self.spawn_with(CALL, total, root, |root, raw, codes| {
            // SAFETY: at the root, the program is a C string, and its arguments end with a null; they
            // do not count elsewhere. There is room for the code of every process that the root starts.
            unsafe {
                mpi!(MPI_Comm_spawn(
                    program,
                    arguments,
                    processes,
                    info,
                    root,
                    self.as_raw(),
                    raw,
                    codes
                ))
            }
        })
    }

    /// Starts processes of several programs, which share one `MPI_COMM_WORLD`. Collective and blocking, as
    /// [`Communicator::spawn`] is. `MPI_Comm_spawn_multiple`.
    ///
    /// # Errors
    ///
    /// As for [`Communicator::spawn`]; [`Error::Argument`] for no command at all.
    pub fn spawn_multiple(&self, commands: &[SpawnCommand<'_>], root: usize) -> Result<Spawned> {
        const CALL: &str = "MPI_Comm_spawn_multiple";
        if let Some(reason) = cannot_spawn() {
            return Err(Error::state(CALL, reason));
        }
        let (total, prepared) =
            self.agree_with_root(CALL, root, || Prepared::new(CALL, commands))?;
        let mut prepared = prepared.unwrap_or_default();
        let count = int(CALL, "commands", prepared.processes.len())?;
        let mut programs = prepared.program_pointers();
        self.spawn_with(CALL, total, root, |root, raw, codes| {
            // SAFETY: at the root, each list has `count` entries, as for `spawn`; they do not count
            // elsewhere. There is room for the code of every process that the root starts.
            unsafe {
                mpi!(MPI_Comm_spawn_multiple(
                    count,
                    programs.as_mut_ptr(),
                    prepared.argument_lists.as_mut_ptr(),
                    prepared.processes.as_ptr(),
                    prepared.infos.as_ptr(),
                    root,
                    self.as_raw(),
                    raw,
                    codes
                ))
            }
        })
    }

    /// Makes room for the codes, on every rank as many as the root starts processes, since MPICH writes
    /// that many everywhere.
    fn spawn_with(
        &self,
        operation: &'static str,
        total: u64,
        root: usize,
        call: impl FnOnce(c_int, *mut sys::MPI_Comm, *mut c_int) -> Result<()>,
    ) -> Result<Spawned> {
        let total = usize::try_from(total).expect("the root checked that it is an int");
        let mut codes = vec![0; total];
        let mut raw = sys::MALLEUS_COMM_NULL;
        call(
            int(operation, "root", root)?,
            &raw mut raw,
            codes.as_mut_ptr(),
        )?;
        let children = Intercommunicator::adopt(raw, &self.environment())?;
        let processes = codes.into_iter();
        Ok(Spawned {
            children,
            processes: processes.map(|code| check_code(operation, code)).collect(),
        })
    }
}

/// The root's commands as MPI takes them.
#[derive(Default)]
struct Prepared {
    programs: Vec<CString>,
    /// Owns what `argument_lists` points to.
    _arguments: Vec<Vec<CString>>,
    /// Owns the lists, each ending with a null.
    _pointers: Vec<Vec<*mut c_char>>,
    argument_lists: Vec<*mut *mut c_char>,
    processes: Vec<c_int>,
    infos: Vec<sys::MPI_Info>,
}

impl Prepared {
    /// With how many processes there are in all.
    fn new(operation: &'static str, commands: &[SpawnCommand<'_>]) -> Result<(u64, Self)> {
        if commands.is_empty() {
            return Err(Error::argument(operation, "commands", "none", "at least 1"));
        }
        check(commands)?;
        let total = commands.iter().map(|command| command.processes as u64);
        let total = total.fold(0, u64::saturating_add);
        if c_int::try_from(total).is_err() {
            let expected = format!("at most {}", c_int::MAX);
            return Err(Error::argument(operation, "processes", total, expected));
        }
        let program = |command: &SpawnCommand<'_>| {
            let program = place_of(command)?;
            c_string(operation, "program", &as_sent(&program))
        };
        let programs = commands.iter().map(program).collect::<Result<_>>()?;
        let list = |command: &SpawnCommand<'_>| {
            let arguments = command.arguments.iter();
            arguments
                .map(|argument| c_string(operation, "arguments", &as_sent(argument)))
                .collect::<Result<Vec<_>>>()
        };
        let arguments = commands.iter().map(list).collect::<Result<Vec<_>>>()?;
        // MPI only reads them.
        let with_end = |list: &Vec<CString>| -> Vec<*mut c_char> {
            let texts = list.iter().map(|text| text.as_ptr().cast_mut());
            texts.chain([std::ptr::null_mut()]).collect()
        };
        let mut pointers: Vec<_> = arguments.iter().map(with_end).collect();
        let info =
            |command: &SpawnCommand<'_>| command.info.map_or(sys::MALLEUS_INFO_NULL, Info::as_raw);
        let prepared = Self {
            programs,
            _arguments: arguments,
            argument_lists: pointers.iter_mut().map(Vec::as_mut_ptr).collect(),
            _pointers: pointers,
            processes: commands
                .iter()
                .map(|command| int(operation, "processes", command.processes))
                .collect::<Result<_>>()?,
            infos: commands.iter().map(info).collect(),
        };
        Ok((total, prepared))
    }

    fn program_pointers(&self) -> Vec<*mut c_char> {
        let programs = self.programs.iter();
        programs.map(|text| text.as_ptr().cast_mut()).collect()
    }

    /// The arguments of `MPI_Comm_spawn`; those of a rank that is not the root do not count.
    fn first(&mut self) -> (*const c_char, *mut *mut c_char, c_int, sys::MPI_Info) {
        let program = self
            .programs
            .first()
            .map_or(c"".as_ptr(), |text| text.as_ptr());
        let arguments = self.argument_lists.first().copied();
        (
            program,
            arguments.unwrap_or(sys::argv_null()),
            self.processes.first().copied().unwrap_or(0),
            self.infos
                .first()
                .copied()
                .unwrap_or(sys::MALLEUS_INFO_NULL),
        )
    }
}

/// The program by a path that is the same for the process manager, which runs in the folder of `mpiexec`.
fn place_of<'a>(command: &SpawnCommand<'a>) -> Result<Cow<'a, str>> {
    let has = |key| command.info.map_or(Ok(None), |info| info.get(key));
    let is_relative = command.program.contains('/') && !command.program.starts_with('/');
    if !is_relative || has("wdir")?.is_some() || has("path")?.is_some() {
        return Ok(Cow::Borrowed(command.program));
    }
    let place = std::path::absolute(command.program).unwrap_or_default();
    match place.to_str() {
        Some(place) => Ok(Cow::Owned(place.to_owned())),
        None => Err(Error::argument(
            "MPI_Comm_spawn",
            "program",
            format!("{:?}", place.display()),
            "a path that is UTF-8",
        )),
    }
}

/// A text as hydra (PMI-1) reads it: a backslash takes the next character as it is, and is gone.
fn as_sent(text: &str) -> Cow<'_, str> {
    let is_hydra = std::env::var_os("PMI_FD").is_some();
    if is_hydra && text.contains('\\') {
        return Cow::Owned(text.replace('\\', "\\\\"));
    }
    Cow::Borrowed(text)
}
