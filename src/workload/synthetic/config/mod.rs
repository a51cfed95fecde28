//! Configurations of the synthetic application: what it does in each iteration, on how many processes, and
//! how much data moves when these change.
//!
//! [`Configuration::read`] takes three forms of files: our own TOML, and both forms of Proteo's application
//! SAM, JSON and INI. It is pure: nothing here calls MPI or prints.

mod check;
mod cursor;
mod error;
mod proteo;
mod toml;
mod tree;

use std::fmt;
use std::fs;
use std::path::Path;

pub use cursor::Cursor;
pub use error::{Error, Problem};
pub use proteo::{IniGeneration, Proteo, ProteoGroup, ProteoNumbers};

/// What the synthetic application does.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Configuration {
    /// What the iterations do: each phase is a number of iterations with the same stages.
    pub phases: Vec<Phase>,
    /// The sizes that the job has, one after the other; the first is the one it starts with.
    pub groups: Vec<Group>,
    /// What the iterations of a group mean.
    pub counting: Counting,
    /// Bytes of data that do not change while the application works, over all processes: they may move in
    /// the background (Proteo's ADR × Datasize).
    pub constant_bytes: u64,
    /// Bytes of data that do change, over all processes: they move at the switch, while everybody waits
    /// (Proteo's SDR × Datasize).
    pub variable_bytes: u64,
    /// Bytes of one element of the data (Proteo's Datasize).
    pub element_bytes: u64,
    /// Whether a barrier surrounds each stage and each iteration, for exact times.
    pub rigid: bool,
    /// How the times of the ranks become one.
    pub capture: Capture,
    /// Which form of file it was.
    pub form: Form,
    /// What has no effect, or not the one it has in Proteo; by lines.
    pub ignored: Vec<Ignored>,
    /// What only Proteo's own output needs; `None` for TOML.
    pub proteo: Option<Proteo>,
}

/// A choice for reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Which table of numbers an INI file of Proteo uses, where the file itself does not tell.
    pub proteo_numbers: Option<ProteoNumbers>,
}

impl Configuration {
    /// Reads a file whose name ends in `.toml`, `.json` or `.ini`.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, with its line.
    pub fn read(path: &Path, options: &ReadOptions) -> Result<Self, Error> {
        let reader = Language::of(path)?;
        let text = fs::read_to_string(path)
            .map_err(|cause| Error::of_file(None, Problem::Open { cause }).in_file(path))?;
        reader.parse(path, &text, options)
    }

    /// Reads a text as if it were the content of a file of this name.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), but for those of the operating system.
    pub fn from_text(path: &Path, text: &str, options: &ReadOptions) -> Result<Self, Error> {
        Language::of(path)?.parse(path, text, options)
    }

    /// Which iteration runs which phase, and how many each group runs.
    #[must_use]
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self)
    }
}

/// The languages, by the names of files.
#[derive(Clone, Copy)]
enum Language {
    Toml,
    Json,
    Ini,
}

impl Language {
    fn of(path: &Path) -> Result<Self, Error> {
        let found = match path
            .extension()
            .map(|extension| extension.to_string_lossy())
        {
            None => "no extension".to_owned(),
            Some(extension) => match &*extension {
                "toml" => return Ok(Self::Toml),
                "json" => return Ok(Self::Json),
                "ini" => return Ok(Self::Ini),
                other => format!("the extension {}", error::quote(other)),
            },
        };
        Err(Error::of_file(None, Problem::Extension { found }).in_file(path))
    }

    fn parse(self, path: &Path, text: &str, options: &ReadOptions) -> Result<Configuration, Error> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::Toml => toml::parse(text, options),
            Self::Json => proteo::json::parse(text, options),
            Self::Ini => proteo::ini::parse(text, options),
        }
        .map_err(|error| error.in_file(path))
    }
}

/// The form of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Our own.
    Toml,
    /// Proteo's current form.
    ProteoJson,
    /// One of Proteo's older forms.
    ProteoIni(IniGeneration),
}

/// What the iterations of a group mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// The phases are one sequence, which the job walks through once; the last group runs to its end.
    /// Iterations that a group runs while the resize after it is under way come on top of its own.
    Sequence,
    /// There is one phase, and each group runs its iterations of it, the last one too. Iterations that run
    /// while a resize is under way count for the group after it.
    PerGroup,
}

/// How the times of the ranks become one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// The largest.
    #[default]
    Maximum,
    /// The mean.
    Mean,
    /// The median.
    Median,
}

/// Iterations with the same stages.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// How many.
    pub iterations: u64,
    /// What each does, in this order.
    pub stages: Vec<Stage>,
}

/// A part of an iteration: an operation, run once or repeatedly.
///
/// The fields are as in a file; [`amount`](Self::amount) and [`message_bytes`](Self::message_bytes) say what
/// follows from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The operation.
    pub kind: StageKind,
    /// Bytes of the message or the file; 0 for a stage that is measured by its time.
    pub bytes: u64,
    /// How long it takes on a group of speed factor 1, in seconds; 0 for a stage measured by bytes.
    pub time_s: f64,
    /// Whether operations are repeated until the time has passed; otherwise their number is fixed before.
    pub capped: bool,
    /// The size of the problem for computations; for others the bytes of each operation that is repeated to
    /// fill the time.
    pub granularity: u64,
    /// A fixed number of operations, which Proteo's files cannot give.
    pub operations: Option<u64>,
}

/// Proteo's granularity where a file gives none.
const GRANULARITY: u64 = 600;

/// The operation of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StageKind {
    /// Computes π by a series, with as many terms as the granularity says.
    Pi,
    /// Multiplies a dense square matrix, whose order is the granularity, with a vector.
    MatVec,
    /// Pairs of ranks exchange messages and wait for them: each with the one that is half the job away.
    PointToPoint,
    /// Pairs of ranks start to exchange messages.
    StartPointToPoint {
        /// What the matching wait names too.
        identifier: u64,
    },
    /// Waits for what the start with the same identifier has started.
    Wait {
        /// What the matching start names too.
        identifier: u64,
    },
    /// `MPI_Bcast`.
    Broadcast {
        /// The rank that sends.
        root: usize,
    },
    /// `MPI_Allgatherv`; its bytes are the total, split in blocks over the ranks.
    Allgatherv,
    /// `MPI_Reduce` of bytes with `MPI_MAX`.
    Reduce {
        /// The rank that gets the result.
        root: usize,
    },
    /// `MPI_Allreduce` of bytes with `MPI_MAX`.
    Allreduce,
    /// Each rank writes all the bytes to a file of its own.
    FileWrite {
        /// The first so many ranks; 0 for all.
        ranks: usize,
    },
    /// Each rank reads all the bytes from a file.
    FileRead {
        /// The first so many ranks; 0 for all.
        ranks: usize,
    },
}

impl StageKind {
    /// Its name in our TOML.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pi => "pi",
            Self::MatVec => "matvec",
            Self::PointToPoint => "point-to-point",
            Self::StartPointToPoint { .. } => "start-point-to-point",
            Self::Wait { .. } => "wait",
            Self::Broadcast { .. } => "broadcast",
            Self::Allgatherv => "allgatherv",
            Self::Reduce { .. } => "reduce",
            Self::Allreduce => "allreduce",
            Self::FileWrite { .. } => "file-write",
            Self::FileRead { .. } => "file-read",
        }
    }

    /// Whether it computes, without communication or files.
    #[must_use]
    pub const fn is_computation(self) -> bool {
        matches!(self, Self::Pi | Self::MatVec)
    }

    /// Whether it reads or writes files.
    #[must_use]
    pub const fn is_file(self) -> bool {
        matches!(self, Self::FileWrite { .. } | Self::FileRead { .. })
    }
}

impl fmt::Display for StageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often a stage runs its operation in one iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// So many times.
    Operations(u64),
    /// As often as fits into a time: ⌈seconds ÷ time of one operation⌉, which rank 0 measures once in each
    /// group.
    OperationTime {
        /// The time to fill.
        seconds: f64,
        /// Whether it is multiplied with the group's speed factor before.
        scaled: bool,
    },
    /// Until the time has passed, which rank 0 looks up after each operation.
    Until {
        /// The time; no speed factor applies.
        seconds: f64,
    },
}

impl Stage {
    /// The largest operation on a file: what is larger is cut into operations of this size, rounded up.
    pub const FILE_OPERATION: u64 = 1 << 20;

    /// How often the operation runs in one iteration.
    ///
    /// A wait runs once; one that is capped gives up what has not arrived when its time has passed. A start
    /// is never capped.
    #[must_use]
    pub fn amount(&self) -> Amount {
        let fill = |scaled| Amount::OperationTime {
            seconds: self.time_s,
            scaled,
        };
        let until = Amount::Until {
            seconds: self.time_s,
        };
        match self.kind {
            kind if self.operations.is_some() && !matches!(kind, StageKind::Wait { .. }) => {
                Amount::Operations(self.operations.unwrap_or_default())
            }
            StageKind::Pi | StageKind::MatVec => fill(true),
            StageKind::StartPointToPoint { .. } if self.bytes > 0 => Amount::Operations(1),
            StageKind::StartPointToPoint { .. } => fill(true),
            _ if self.capped => until,
            StageKind::Wait { .. } => Amount::Operations(1),
            StageKind::FileWrite { .. } | StageKind::FileRead { .. } if self.bytes > 0 => {
                Amount::Operations(self.bytes.div_ceil(Self::FILE_OPERATION))
            }
            StageKind::FileWrite { .. } | StageKind::FileRead { .. } => fill(false),
            StageKind::PointToPoint
            | StageKind::Broadcast { .. }
            | StageKind::Allgatherv
            | StageKind::Reduce { .. }
            | StageKind::Allreduce => {
                if self.bytes > 0 {
                    Amount::Operations(1)
                } else {
                    fill(true)
                }
            }
        }
    }

    /// Bytes of one operation: of one message, of the whole gathered vector, or of one rank's read or write.
    /// 0 for computations and waits.
    #[must_use]
    pub fn message_bytes(&self) -> u64 {
        let bytes = if self.bytes > 0 && !self.capped {
            self.bytes
        } else {
            self.granularity
        };
        match self.kind {
            StageKind::Pi | StageKind::MatVec | StageKind::Wait { .. } => 0,
            StageKind::FileWrite { .. } | StageKind::FileRead { .. }
                if self.operations.is_none() =>
            {
                bytes.min(Self::FILE_OPERATION)
            }
            _ => bytes,
        }
    }
}

/// A size that the job has for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Iterations before the resize to the next group, see [`Counting`]; [`Cursor::group_iterations`] tells
    /// what a runner does.
    pub iterations: u64,
    /// Processes.
    pub processes: usize,
    /// What multiplies the times of stages.
    pub speed_factor: f64,
    /// Where the processes go.
    pub placement: Placement,
    /// The resize into this group; `None` for the first.
    pub resize: Option<Transition>,
}

/// How processes are placed on nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// On as few nodes as possible.
    #[default]
    Compact,
    /// Over all nodes.
    Spread,
}

/// How the job gets from one group to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// What becomes of the processes.
    pub management: Management,
    /// How the data moves.
    pub method: Method,
    /// When the constant data moves.
    pub strategy: Strategy,
    /// Whether new processes start while the old ones work on.
    pub spawn_in_background: bool,
}

impl Transition {
    /// Method and strategy as one name, such as `rma1-wt`.
    #[must_use]
    pub fn variant(&self) -> String {
        format!("{}{}", self.method, self.strategy.suffix())
    }
}

/// What becomes of the processes of a resize.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Management {
    /// All are new, and all the old ones end.
    Baseline,
    /// Those that are in both groups go on.
    #[default]
    Merge,
}

/// How the data of a resize moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// One `MPI_Alltoallv`.
    Collective,
    /// Messages.
    PointToPoint,
    /// One-sided reads, with a lock for each source.
    RmaLock,
    /// One-sided reads, with one lock for all.
    RmaLockAll,
}

impl Method {
    /// Every method, by Proteo's numbers.
    pub const ALL: [Self; 4] = [
        Self::Collective,
        Self::PointToPoint,
        Self::RmaLock,
        Self::RmaLockAll,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Collective => "col",
            Self::PointToPoint => "p2p",
            Self::RmaLock => "rma1",
            Self::RmaLockAll => "rma2",
        }
    }

    /// Whether a strategy goes with it: one-sided methods have no [`Strategy::NonBlocking`].
    #[must_use]
    pub fn goes_with(self, strategy: Strategy) -> bool {
        strategy != Strategy::NonBlocking || matches!(self, Self::Collective | Self::PointToPoint)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// When the constant data of a resize moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// At the switch, as the variable data does.
    Blocking,
    /// A thread of each source moves it in the background.
    Threading,
    /// In the background, until the sources have sent theirs: Proteo's "wait sources".
    NonBlocking,
    /// In the background, until the targets have theirs.
    WaitTargets,
}

impl Strategy {
    /// Every strategy, by Proteo's new numbers.
    pub const ALL: [Self; 4] = [
        Self::Blocking,
        Self::Threading,
        Self::NonBlocking,
        Self::WaitTargets,
    ];

    /// What it adds to the name of a method.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Blocking => "",
            Self::Threading => "-t",
            Self::NonBlocking => "-nb",
            Self::WaitTargets => "-wt",
        }
    }
}

/// Something in a file that has no effect, or not the one it has in Proteo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The key, with the tables it lies in.
    pub key: String,
    /// Its line, counted from 1.
    pub line: u64,
    /// Why, and what happens in its place.
    pub reason: String,
}

impl fmt::Display for Ignored {
    /// One line, such as `line 12: groups[1].Dist: ...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.key, self.reason)
    }
}

#[cfg(test)]
mod tests;
