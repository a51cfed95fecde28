//! How much memory each rank of a job takes at most during a resize: `cargo bench --bench resize_memory`.
//!
//! The claim: beyond what a rank holds anyway (its *base*: program and MPI), its peak is the blocks that have to be there
//! at a time, and at most 64 MiB for the buffers of MPI. These blocks are
//!
//! * all its old and all its new ones;
//! * lean, those of arrays that are still to move, the new ones of arrays that have moved, and both of the array on its way.
//!   Where a rank's blocks shrink, that is at most the old blocks and the largest new one; where they grow, at most the new
//!   blocks and the largest old one.
//!
//! The base is the resident set before the rank has blocks or, on a process that joins, before [`Job::start`]. The peak is
//! reset (`5` into `/proc/self/clear_refs`) before the checkpoint that resizes, and read (`VmHWM`) after the commit. A page
//! of a file in memory that is not mapped any more is not resident, but taken all the same: so each millisecond the sizes
//! of the arenas' files are added up, and their largest sum counts where it is larger. Pages that processes of a node share
//! count in each of them: the peak is an upper bound of what a rank costs.
//!
//! Each resize is a job of its own, started several times; the table shows the largest of its peaks. A peak beyond the
//! claim is `over`, and the exit code 1. `--quick` starts each job once.

use std::error::Error;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use malleus::job::{Array, Checkpoint, ConstantArray, Job, Options, Registered, Script};
use malleus::mpi::Environment;
use malleus::redistribute::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Holds the setting of a job; the processes that it starts inherit it.
const WORKER: &str = "MALLEUS_RESIZE_MEMORY";
/// What a rank may take beyond its blocks.
const SLACK: f64 = 64.0 * MIB;
const MIB: f64 = 1024.0 * 1024.0;
const TIME_OUT: Duration = Duration::from_secs(120);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// One job.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Setting {
    method: Method,
    lean: bool,
    from: usize,
    to: usize,
    /// Of each constant array.
    constant_bytes: u64,
    variable_bytes: u64,
}

const CONSTANTS: usize = 4;

/// What a job says in the end.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    provider: String,
    thread_level: String,
    ranks: Vec<Measured>,
}

/// One rank's memory, in bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measured {
    role: Role,
    base: Resident,
    /// The rank's block of each array.
    old: Vec<u64>,
    new: Vec<u64>,
    peak: u64,
    sampled: Sampled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Role {
    Stays,
    Joins,
    Leaves,
}

fn main() -> ExitCode {
    if let Ok(setting) = std::env::var(WORKER) {
        return worker(&setting);
    }
    let has = |name: &str| std::env::args().any(|argument| argument == name);
    let mebibyte = 1 << 20;
    let setting = |method, lean, (from, to)| Setting {
        method,
        lean,
        from,
        to,
        constant_bytes: 64 * mebibyte,
        variable_bytes: 32 * mebibyte,
    };
    // Without `--bench` this is a test run: one small job to see that it works.
    let (rounds, settings) = if has("--bench") {
        let mut settings = Vec::new();
        for resize in [(1, 2), (2, 1), (2, 3), (3, 1)] {
            for method in Method::ALL {
                settings.extend([false, true].map(|lean| setting(method, lean, resize)));
            }
        }
        (if has("--quick") { 1 } else { 3 }, settings)
    } else {
        let small = Setting {
            constant_bytes: 4 * mebibyte,
            variable_bytes: 2 * mebibyte,
            ..setting(Method::RmaLockAll, true, (1, 2))
        };
        (1, vec![small])
    };
    match measure(rounds, &settings) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every job, and prints the table; whether the claim held everywhere.
fn measure(rounds: usize, settings: &[Setting]) -> Result<bool> {
    let mut reports: Vec<Vec<Report>> = settings.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (setting, reports) in settings.iter().zip(&mut reports) {
            reports.push(run(setting)?);
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let first = &reports[0][0];
    println!(
        "MPICH {} ({}), netmod {}, provider {}, {}, {cores} core(s), one host; {CONSTANTS} constant arrays of {} MiB \
         and a variable one of {} MiB, {rounds} start(s)",
        malleus::MPICH_VERSION,
        malleus::MPICH_DEVICE,
        netmod(),
        first.provider,
        first.thread_level,
        settings[0].constant_bytes >> 20,
        settings[0].variable_bytes >> 20,
    );
    println!(
        "memory in MiB; at a time: the blocks that have to be there; beyond: the peak without them; private: the most that had \
         no file behind it, without the base's; files: the most that the arenas' files took"
    );
    println!();
    println!(
        "| resize | > cores | method | lean | rank     | base |   old |   new | at a time |  peak (of all starts) | beyond |      | private | files |"
    );
    println!(
        "|--------|---------|--------|------|----------|-----:|------:|------:|----------:|----------------------:|-------:|------|--------:|------:|"
    );
    let mut holds = true;
    for (setting, reports) in settings.iter().zip(&reports) {
        for rank in 0..reports[0].ranks.len() {
            let starts: Vec<&Measured> = reports.iter().map(|report| &report.ranks[rank]).collect();
            holds &= print_rank(setting, cores, rank, &starts);
        }
    }
    Ok(holds)
}

/// Prints one rank's line; whether the claim held.
fn print_rank(setting: &Setting, cores: usize, rank: usize, starts: &[&Measured]) -> bool {
    let mut peaks: Vec<u64> = starts.iter().map(|start| start.increase()).collect();
    peaks.sort_unstable();
    let worst = starts
        .iter()
        .max_by_key(|start| start.increase())
        .expect("at least one start");
    let (least, peak) = (peaks[0] as f64, peaks[peaks.len() - 1] as f64);
    let blocks = worst.blocks(setting.lean) as f64;
    let is_within = peak <= blocks + SLACK;
    let mebibytes = |bytes: u64| bytes as f64 / MIB;
    println!(
        "| {} → {}  | {:7} | {:6} | {:4} | {:8} | {:4.1} | {:5.1} | {:5.1} | {:9.1} | {:7.1} ({:5.1}…{:5.1}) | {:6.1} | {:4} | {:7.1} | {:5.1} |",
        setting.from,
        setting.to,
        if setting.from.max(setting.to) > cores {
            "yes"
        } else {
            "no"
        },
        setting.method.name(),
        if setting.lean { "lean" } else { "" },
        format!("{rank}{}", worst.role.suffix()),
        mebibytes(worst.base.all),
        mebibytes(worst.old.iter().sum()),
        mebibytes(worst.new.iter().sum()),
        blocks / MIB,
        peak / MIB,
        least / MIB,
        peak / MIB,
        (peak - blocks) / MIB,
        if is_within { "OK" } else { "over" },
        mebibytes(worst.sampled.private.saturating_sub(worst.base.private)),
        mebibytes(worst.sampled.files),
    );
    is_within
}

impl Measured {
    /// The peak beyond the base.
    fn increase(&self) -> u64 {
        let resident = self.peak.saturating_sub(self.base.all);
        resident.max(self.sampled.files)
    }

    /// The most of its blocks that have to be in memory at a time.
    fn blocks(&self, lean: bool) -> u64 {
        let (old, new): (u64, u64) = (self.old.iter().sum(), self.new.iter().sum());
        if !lean {
            return old + new;
        }
        let mut held = old;
        let mut most = held;
        for (old, new) in self.old.iter().zip(&self.new) {
            held += new;
            most = most.max(held);
            held -= old;
        }
        most
    }
}

impl Role {
    fn suffix(self) -> &'static str {
        match self {
            Self::Stays => "",
            Self::Joins => " joins",
            Self::Leaves => " leaves",
        }
    }
}

/// Runs one job under the `mpiexec` of the library's MPICH.
fn run(setting: &Setting) -> Result<Report> {
    let mut child = Command::new(malleus::MPIEXEC)
        .args(["-n", &setting.from.to_string()])
        .arg(std::env::current_exe()?)
        .args(std::env::args().skip(1))
        .env(WORKER, serde_json::to_string(setting)?)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let started = Instant::now();
    // Rank 0 prints one line, which the pipe holds until it is read.
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > TIME_OUT {
            let group = format!("-{}", child.id());
            Command::new("kill")
                .args(["-KILL", "--", &group])
                .status()?;
            child.wait()?;
            return Err(format!("{setting:?}: no end after {TIME_OUT:?}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut text = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        io::Read::read_to_string(&mut stdout, &mut text)?;
    }
    if !status.success() {
        return Err(format!("{setting:?}: {status}\n{text}").into());
    }
    serde_json::from_str(&text).map_err(|error| format!("{setting:?}: {error}\n{text}").into())
}

/// One rank of a job.
fn worker(setting: &str) -> ExitCode {
    let environment = match Environment::init() {
        Ok(environment) => environment,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = resize(&environment, setting) {
        environment.abort(&error.to_string(), 1);
    }
    ExitCode::SUCCESS
}

fn resize(environment: &Environment, setting: &str) -> Result<()> {
    let setting: Setting = serde_json::from_str(setting)?;
    let own = std::process::id();
    let options = Options::default()
        .manager(Script::new([format!("1:{}", setting.to).parse()?])?)
        .method(setting.method)
        .lean(setting.lean);
    // A process that joins receives its blocks in `Job::start`.
    let base = Resident::of(own)?;
    reset_peak()?;
    let watch = Watch::start(own);
    let mut job = Job::start(environment, options)?;
    let mut mine = Measured {
        role: Role::Joins,
        base,
        old: Vec::new(),
        new: Vec::new(),
        peak: peak(own)?,
        sampled: watch.stop(),
    };
    let mut leaving = Leaving::default();
    if job.is_first_start() {
        (mine.role, mine.base) = (Role::Stays, Resident::of(own)?);
    }
    let mut data = Data::register(&mut job, &setting)?;
    if job.is_first_start() {
        data.fill()?;
        mine.old = data.blocks();
        leaving = Leaving::gather(&job, &setting, &mine)?;
        reset_peak()?;
        let watch = Watch::start(own);
        if let Checkpoint::Switch(switch) = job.checkpoint()? {
            let _ = switch.commit(data.registered())?;
        }
        (mine.peak, mine.sampled) = (peak(own)?, watch.stop());
    }
    if job.is_member() {
        mine.new = data.blocks();
        mine.old.resize(mine.new.len(), 0);
        let all = gather(&job, &mine)?;
        if job.rank() == 0 {
            let report = Report {
                provider: Environment::provider().unwrap_or_else(|| "default".to_owned()),
                thread_level: environment.thread_level().name().to_owned(),
                ranks: all.into_iter().chain(leaving.measure()?).collect(),
            };
            println!("{}", serde_json::to_string(&report)?);
        }
    }
    drop(data);
    job.end()?;
    Ok(())
}

/// What each rank of the job has to say, in rank order.
fn gather<T: Serialize + DeserializeOwned>(job: &Job, mine: &T) -> Result<Vec<T>> {
    let all = job
        .communicator()
        .all_gather_bytes(&serde_json::to_vec(mine)?)?;
    let all = all.iter().map(|text| Ok(serde_json::from_slice(text)?));
    all.collect()
}

/// Those that leave. Their commit returns when the job ends: rank 0 looks at them from outside.
#[derive(Default)]
struct Leaving(Vec<(u32, Measured, Watch)>);

impl Leaving {
    /// Collective over the job; nobody but at rank 0.
    fn gather(job: &Job, setting: &Setting, mine: &Measured) -> Result<Self> {
        let all = gather(job, &(std::process::id(), mine.clone()))?;
        if job.rank() != 0 {
            return Ok(Self::default());
        }
        let watched = all
            .into_iter()
            .skip(setting.to)
            .map(|(process, measured)| (process, measured, Watch::start(process)));
        Ok(Self(watched.collect()))
    }

    fn measure(self) -> Result<Vec<Measured>> {
        let measure = |(process, measured, watch): (u32, Measured, Watch)| {
            Ok(Measured {
                role: Role::Leaves,
                new: vec![0; measured.old.len()],
                peak: peak(process)?,
                sampled: watch.stop(),
                ..measured
            })
        };
        self.0.into_iter().map(measure).collect()
    }
}

/// The arrays of a job on one rank.
struct Data {
    constants: Vec<ConstantArray<u64>>,
    variable: Array<f64>,
}

impl Data {
    fn register(job: &mut Job, setting: &Setting) -> Result<Self> {
        let constants = (0..CONSTANTS)
            .map(|number| {
                let array = job.array(&format!("constant {number}")).constant();
                array.block(setting.constant_bytes / 8)
            })
            .collect::<std::result::Result<_, _>>()?;
        let variable = job.array("variable").block(setting.variable_bytes / 8)?;
        Ok(Self {
            constants,
            variable,
        })
    }

    /// Touches every page.
    fn fill(&mut self) -> Result<()> {
        for array in &mut self.constants {
            array.initialize(|range, values| {
                range
                    .zip(values)
                    .for_each(|(index, value)| *value = index + 1);
            })?;
        }
        self.variable.fill(1.0);
        Ok(())
    }

    /// The bytes of this rank's block of each array, in the order in which they move.
    fn blocks(&self) -> Vec<u64> {
        let constants = self.constants.iter().map(|array| size_of_val(&array[..]));
        constants
            .chain([size_of_val(&self.variable[..])])
            .map(|bytes| bytes as u64)
            .collect()
    }

    fn registered(&mut self) -> Vec<&mut dyn Registered> {
        let constants = self.constants.iter_mut();
        let mut all: Vec<&mut dyn Registered> = constants
            .map(|array| array as &mut dyn Registered)
            .collect();
        all.push(&mut self.variable);
        all
    }
}

/// What a process has in memory now, in bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Resident {
    all: u64,
    /// What no file is behind.
    private: u64,
}

impl Resident {
    fn of(process: u32) -> io::Result<Self> {
        let status = status(process)?;
        Ok(Self {
            all: entry(&status, "VmRSS:")?,
            private: entry(&status, "RssAnon:")?,
        })
    }
}

/// The most that the process had in memory since the last reset, in bytes.
fn peak(process: u32) -> io::Result<u64> {
    entry(&status(process)?, "VmHWM:")
}

fn reset_peak() -> io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}

fn status(process: u32) -> io::Result<String> {
    fs::read_to_string(format!("/proc/{process}/status"))
}

fn entry(status: &str, name: &str) -> io::Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes
        .map(|kibibytes| kibibytes * 1024)
        .ok_or_else(|| io::Error::other(format!("no {name} in /proc/PID/status")))
}

/// The largest of what was seen, in bytes, each for itself.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Sampled {
    /// Memory of the arenas' files, mapped or not.
    files: u64,
    private: u64,
}

impl Sampled {
    fn take(&mut self, process: u32) -> io::Result<()> {
        let mut files = 0;
        for descriptor in fs::read_dir(format!("/proc/{process}/fd"))? {
            let path = descriptor?.path();
            // Descriptors may be closed meanwhile.
            if let (Ok(target), Ok(metadata)) = (fs::read_link(&path), fs::metadata(&path))
                && target
                    .as_os_str()
                    .as_encoded_bytes()
                    .starts_with(b"/memfd:malleus")
            {
                files += metadata.blocks() * 512;
            }
        }
        self.files = self.files.max(files);
        self.private = self.private.max(Resident::of(process)?.private);
        Ok(())
    }
}

/// A thread that looks at a process each millisecond.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Sampled>,
}

impl Watch {
    fn start(process: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut sampled = Sampled::default();
            // A process that has ended has no more to show.
            while !stopped.load(Ordering::Relaxed) && sampled.take(process).is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
            sampled
        });
        Self { stop, thread }
    }

    fn stop(self) -> Sampled {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watch does not panic")
    }
}

fn netmod() -> String {
    let netmods = malleus::MPICH_DEVICE.rsplit(':').next().unwrap_or_default();
    let first = netmods.split([' ', ',']).next().unwrap_or_default();
    std::env::var("MPIR_CVAR_CH4_NETMOD").unwrap_or_else(|_| first.to_owned())
}
