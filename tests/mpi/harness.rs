//! The launcher of the cases, and what runs them inside a rank.

use std::error::Error;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use malleus::mpi::{Communicator, Environment, SpawnCommand};

pub type Outcome = Result<(), Box<dyn Error>>;

/// Names the case in the environment of a rank; spawned ranks inherit it.
const CASE: &str = "MALLEUS_TEST_CASE";
/// Marks every process of one run, so that those that are left can be found.
const RUN: &str = "MALLEUS_TEST_RUN";
/// How long processes may take to end after their `mpiexec`.
const GRACE: Duration = Duration::from_secs(5);

/// One test: a body that runs on every rank, or a command that is started once.
pub struct Case {
    pub name: &'static str,
    pub ranks: &'static [usize],
    pub time_out: Duration,
    pub body: Body,
    needs_spawn: bool,
    skip: fn(&Mpich) -> Option<&'static str>,
}

/// The MPICH that the cases run with, as far as some of them depend on it.
pub struct Mpich {
    /// Major and minor version.
    pub version: (u32, u32),
    /// `ofi` or `ucx`.
    pub netmod: String,
}

impl Mpich {
    pub fn of_this_run() -> Self {
        let mut numbers = malleus::MPICH_VERSION
            .split('.')
            .map(|number| number.parse().unwrap_or(0));
        // The library prefers ofi where nobody chose.
        let netmods = malleus::MPICH_DEVICE;
        let preferred = if netmods.contains("ofi") {
            "ofi"
        } else {
            "ucx"
        };
        Self {
            version: (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)),
            netmod: std::env::var("MPIR_CVAR_CH4_NETMOD").unwrap_or_else(|_| preferred.to_owned()),
        }
    }

    /// Why no process can be started.
    pub fn cannot_spawn(&self) -> Option<&'static str> {
        (self.version < (4, 3) && self.netmod == "ucx")
            .then_some("MPICH 4.0 to 4.2 can't start processes with ucx")
    }
}

pub enum Body {
    /// Runs on each rank of an `mpiexec`, and on each rank that these spawn.
    Ranks(fn(&Environment) -> Outcome),
    /// The same, on each kind of communicator: self, the world, a duplicate, a merged one.
    Each(fn(&Communicator) -> Outcome),
    /// Runs on each rank of an `mpiexec`, and initializes MPI itself.
    Bare(fn() -> Outcome),
    /// Runs in the harness; starts what it tests through [`Run`].
    Command(fn(&Run) -> Outcome),
}

impl Case {
    const fn new(name: &'static str, ranks: &'static [usize], body: Body) -> Self {
        Self {
            name,
            ranks,
            time_out: Duration::from_secs(60),
            body,
            needs_spawn: false,
            skip: |_| None,
        }
    }

    pub const fn ranks(
        name: &'static str,
        ranks: &'static [usize],
        body: fn(&Environment) -> Outcome,
    ) -> Self {
        Self::new(name, ranks, Body::Ranks(body))
    }

    /// A check for every kind of communicator. Where no process can be started, there is no merged one.
    pub const fn on_each(
        name: &'static str,
        ranks: &'static [usize],
        body: fn(&Communicator) -> Outcome,
    ) -> Self {
        Self::new(name, ranks, Body::Each(body))
    }

    pub const fn bare(name: &'static str, ranks: &'static [usize], body: fn() -> Outcome) -> Self {
        Self::new(name, ranks, Body::Bare(body))
    }

    pub const fn command(name: &'static str, body: fn(&Run) -> Outcome) -> Self {
        Self::new(name, &[0], Body::Command(body))
    }

    pub const fn seconds(mut self, seconds: u64) -> Self {
        self.time_out = Duration::from_secs(seconds);
        self
    }

    /// Skipped where no process can be started.
    pub const fn needs_spawn(mut self) -> Self {
        self.needs_spawn = true;
        self
    }

    /// Skipped where this gives a reason, which names versions of MPICH or a netmod.
    pub const fn skip_on(mut self, skip: fn(&Mpich) -> Option<&'static str>) -> Self {
        self.skip = skip;
        self
    }

    fn skipped(&self, mpich: &Mpich) -> Option<&'static str> {
        let cannot_spawn = mpich.cannot_spawn().filter(|_| self.needs_spawn);
        cannot_spawn.or_else(|| (self.skip)(mpich))
    }
}

pub fn worker_case() -> Option<String> {
    std::env::var(CASE).ok()
}

/// Runs the case of this rank.
pub fn run_worker(cases: &[Case], name: &str) -> ExitCode {
    let Some(case) = cases.iter().find(|case| case.name == name) else {
        eprintln!("no case {name}");
        return ExitCode::FAILURE;
    };
    if let Body::Bare(body) = case.body {
        if let Err(error) = body() {
            eprintln!("{name}: {error}");
            std::process::exit(1);
        }
        return ExitCode::SUCCESS;
    }
    let environment = match Environment::init() {
        Ok(environment) => environment,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let rank = environment.world().rank();
    let outcome = match case.body {
        Body::Ranks(body) => body(&environment),
        Body::Each(body) => on_each_communicator(&environment, body),
        Body::Bare(_) | Body::Command(_) => Err("it does not run on ranks".into()),
    };
    if let Err(error) = outcome {
        environment.abort(&format!("rank {rank} of {name}: {error}"), 1);
    }
    if let Err(error) = environment.finalize() {
        eprintln!("rank {rank} of {name}: {error}");
        std::process::exit(1);
    }
    ExitCode::SUCCESS
}

/// Runs a check on the kinds of communicators there are: self, the world, a duplicate, and one that is
/// merged from this start's processes and one more that they spawn.
fn on_each_communicator(environment: &Environment, check: fn(&Communicator) -> Outcome) -> Outcome {
    let named = |kind: &str, communicator: &Communicator| {
        check(communicator)
            .map_err(|error| -> Box<dyn Error> { format!("on {kind}: {error}").into() })
    };
    let merged = if let Some(parent) = environment.parent()? {
        parent.join(false)?
    } else {
        let world = environment.world();
        named("self", &environment.self_communicator())?;
        named("the world", &world)?;
        let duplicate = world.duplicate()?;
        named("a duplicate", &duplicate)?;
        duplicate.free()?;
        if Mpich::of_this_run().cannot_spawn().is_some() {
            // There is no merged communicator to be had.
            return Ok(());
        }
        let program = std::env::current_exe()?;
        let program = program.to_str().ok_or("a path that is not text")?;
        let command = SpawnCommand {
            program,
            arguments: &[],
            processes: 1,
            info: None,
        };
        let children = world.spawn(&command, 0)?;
        let merged = children.join(true)?;
        environment.set_heavy_yield(merged.size() > cores())?;
        merged
    };
    named("a merged communicator", &merged)?;
    merged.disconnect()?;
    Ok(())
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub fn run_all(cases: Vec<Case>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // The cases share the machine's cores: one at a time, or their ranks starve each other.
    arguments.test_threads.get_or_insert(1);
    let mpich = Mpich::of_this_run();
    let mut trials = Vec::new();
    for case in cases {
        let skipped = case.skipped(&mpich);
        for &ranks in case.ranks {
            let name = match case.body {
                Body::Command(_) => case.name.to_owned(),
                _ => format!("{}::ranks_{ranks}", case.name),
            };
            let run = Run {
                name: name.clone(),
                time_out: case.time_out,
            };
            let (case_name, body) = (
                case.name,
                match case.body {
                    Body::Command(body) => Some(body),
                    _ => None,
                },
            );
            let trial = Trial::test(name, move || match body {
                Some(body) => body(&run).map_err(|error| Failed::from(error.to_string())),
                None => run
                    .case(case_name, ranks)
                    .map_err(|error| Failed::from(error.to_string())),
            });
            // Counted as ignored; the reason stands before the name.
            trials.push(match skipped {
                Some(reason) => trial
                    .with_kind(format!("skipped: {reason}"))
                    .with_ignored_flag(true),
                None => trial,
            });
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Starts processes for one test.
pub struct Run {
    name: String,
    time_out: Duration,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub elapsed: Duration,
}

impl Run {
    fn case(&self, case: &str, ranks: usize) -> Outcome {
        let ended = self.worker(case, ranks)?;
        if ended.status.success() {
            return Ok(());
        }
        Err(format!(
            "{}\n{}{}",
            describe(ended.status),
            ended.stdout,
            ended.stderr
        )
        .into())
    }

    /// Runs a case on some ranks, whatever comes of it.
    pub fn worker(&self, case: &str, ranks: usize) -> Result<Ended, Box<dyn Error>> {
        self.worker_with(case, ranks, &[])
    }

    /// The same, with more in the environment of the ranks.
    pub fn worker_with(
        &self,
        case: &str,
        ranks: usize,
        variables: &[(&str, &str)],
    ) -> Result<Ended, Box<dyn Error>> {
        let mut command = mpiexec(ranks);
        command.envs(variables.iter().copied());
        command.arg(std::env::current_exe()?).env(CASE, case);
        self.finish(command)
    }

    /// Runs a command to its end. A time-out, or a process that outlives it, is an error that shows the
    /// output.
    pub fn finish(&self, mut command: Command) -> Result<Ended, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let (out, err) = (folder.path().join("out"), folder.path().join("err"));
        let mark = format!("{}-{}-{:?}", self.name, std::process::id(), Instant::now());
        let started = Instant::now();
        let mut child = command
            .env(RUN, &mark)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .spawn()?;
        let mut timed_out = false;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if started.elapsed() > self.time_out {
                timed_out = true;
                for process in marked(&mark) {
                    end(process);
                }
                break child.wait()?;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let elapsed = started.elapsed();
        let left = wait_for_end(&mark);
        let ended = Ended {
            status,
            stdout: read(&out)?,
            stderr: read(&err)?,
            elapsed,
        };
        if timed_out {
            return Err(format!(
                "no end after {:?}\n{}{}",
                self.time_out, ended.stdout, ended.stderr
            )
            .into());
        }
        if !left.is_empty() {
            return Err(format!(
                "processes were left: {left:?}\n{}{}",
                ended.stdout, ended.stderr
            )
            .into());
        }
        Ok(ended)
    }
}

/// The `mpiexec` that belongs to the library's MPICH.
pub fn mpiexec(ranks: usize) -> Command {
    let mut command = Command::new(malleus::MPIEXEC);
    command.args(["-n", &ranks.to_string()]);
    command
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown end".to_owned(),
    }
}

fn read(path: &PathBuf) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The living processes that carry the mark of a run.
fn marked(mark: &str) -> Vec<i32> {
    let wanted = format!("{RUN}={mark}");
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|process| {
            let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            environment
                .split(|&byte| byte == 0)
                .any(|entry| entry == wanted.as_bytes())
        })
        .collect()
}

/// Waits until no process of the run lives; ends those that do after a while, and names them.
fn wait_for_end(mark: &str) -> Vec<i32> {
    let started = Instant::now();
    loop {
        let left = marked(mark);
        if left.is_empty() {
            return left;
        }
        if started.elapsed() > GRACE {
            left.iter().copied().for_each(end);
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn end(process: i32) {
    let _ = Command::new("kill")
        .args(["-KILL", &process.to_string()])
        .status();
}
