//! The malleable job: its processes, its arrays, and the checkpoint at which it changes its size.
//!
//! ```no_run
//! use malleus::job::{Checkpoint, Job, Options, Outcome, Script};
//! use malleus::mpi::{Environment, Operation};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = Environment::init()?;
//! let script = Script::new(["10:2".parse()?, "20:4".parse()?, "30:1".parse()?])?;
//! let mut job = Job::start(&environment, Options::default().manager(script))?;
//! let mut x = job.array::<f64>("x").block(1000)?; // newcomers receive their block
//! while job.iteration() < 40 {
//!     for value in x.iter_mut() {
//!         *value += 1.0;
//!     }
//!     if let Checkpoint::Switch(switch) = job.checkpoint()? {
//!         match switch.commit((&mut x,))? {
//!             Outcome::Member(_) => {}
//!             Outcome::Left => break,
//!         }
//!     }
//! }
//! drop(x);
//! job.end()?;
//! # Ok(())
//! # }
//! ```
//!
//! A resize has the stages of paper R (section I): 1 the decision ([`Manager`]), 2 the processes, 3 the
//! redistribution, 4 going on. It is a transaction: until every target has its data, the job is as it was,
//! and a failure leaves it so.

mod agreement;
mod array;
mod background;
mod error;
mod manager;
mod packed;
mod parking;
mod registered;
mod replicated;
mod resize;
mod roster;
mod starter;
mod transfer;
mod universe;
#[cfg(feature = "capi")]
mod untyped;
mod verify;

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use serde::Serialize;

use crate::memory::{Arena, Block};
use crate::mpi::{Communicator, Environment, Record, TypeMap};
use crate::redistribute::{self, Method, Variant};

pub use array::{Array, ArrayBuilder, ConstantArray, Moment};
pub use error::Error;
pub use manager::{Manager, Script, ScriptEntry, ScriptError};
pub use packed::{ConstantPacked, Pack, Packed, PackedBuilder, PackedElements};
pub use registered::{Registered, RegisteredSet};
pub use replicated::Replicated;
pub use resize::{Outcome, Resized, Switch};
pub use starter::Spawn;
#[cfg(feature = "capi")]
pub(crate) use untyped::Untyped;

use array::{Description, Slot, Stored};
use background::InProgress;
use resize::Pending;
use roster::Roster;
use universe::Universe;

/// Result of an operation of a job.
pub type Result<T> = std::result::Result<T, Error>;

/// How a job behaves. Every process has to start it with the same options.
#[derive(Debug)]
pub struct Options {
    manager: Box<dyn Manager>,
    variant: Variant,
    verify: bool,
    lean: bool,
    progress: bool,
    spawn: Spawn,
}

impl Default for Options {
    /// Never resized, [`Method::Collective`], without verification, not lean.
    fn default() -> Self {
        Self {
            manager: Box::new(Script::default()),
            variant: Variant::blocking(Method::Collective),
            verify: false,
            lean: false,
            progress: true,
            spawn: Spawn::default(),
        }
    }
}

impl Options {
    /// Who decides about resizes.
    #[must_use]
    pub fn manager(mut self, manager: impl Manager + 'static) -> Self {
        self.manager = Box::new(manager);
        self
    }

    /// How data moves, at the switch: the blocking variant of a method.
    #[must_use]
    pub fn method(self, method: Method) -> Self {
        self.variant(Variant::blocking(method))
    }

    /// How data moves, and when: with a variant that goes on in the background, constant arrays move while the
    /// application goes on ([`Checkpoint::InProgress`]), and everything else at the switch by the variant's
    /// method. It needs `MPI_THREAD_MULTIPLE`.
    #[must_use]
    pub fn variant(mut self, variant: Variant) -> Self {
        self.variant = variant;
        self
    }

    /// Compares a checksum of each array before and after a resize, over the global element order.
    #[must_use]
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Moves one array at a time, and frees its old block before the next: the peak of a rank's memory is
    /// its old blocks and its largest new one, instead of all old and all new ones. A failure after the
    /// first array ends the job.
    #[must_use]
    pub fn lean(mut self, lean: bool) -> Self {
        self.lean = lean;
        self
    }

    /// Whether a helper thread on each source calls MPI every 200 µs while data moves in the background, which is the
    /// default. Without it, data moves only inside of the application's own calls and checkpoints: MPICH does
    /// nothing between two calls, and a collective then moves one small piece at each.
    #[must_use]
    pub fn progress(mut self, progress: bool) -> Self {
        self.progress = progress;
        self
    }

    /// What to start when the job grows.
    #[must_use]
    pub fn spawn(mut self, spawn: Spawn) -> Self {
        self.spawn = spawn;
        self
    }
}

/// A job that can change its number of processes at its checkpoints.
///
/// [`Job::end`] on every rank is its normal end.
#[derive(Debug)]
pub struct Job {
    environment: Environment,
    manager: Box<dyn Manager>,
    variant: Variant,
    verify: bool,
    lean: bool,
    progress: bool,
    spawn: Spawn,
    iteration: u64,
    first_start: bool,
    /// `None` when the job has ended on this process.
    world: Option<World>,
    arena: Arena,
    /// A resize between its checkpoint and its commit.
    pending: Option<Pending>,
    /// A resize whose data moves in the background.
    in_progress: Option<(Pending, InProgress)>,
    /// What was received and not yet registered by the application of a process that joined.
    received: HashMap<String, Received>,
    /// What is registered, in order.
    registry: Vec<Registration>,
    /// Resizes that were asked for while another one was under way, in order.
    queue: VecDeque<usize>,
    events: Vec<Event>,
}

/// The processes of a job, as one of its active ranks sees them.
#[derive(Debug)]
struct World {
    /// Every living process.
    universe: Universe,
    roster: Roster,
    /// Those that run the application.
    active: Communicator,
}

/// What the application has registered.
#[derive(Debug)]
enum Registration {
    Array {
        description: Description,
        slot: Slot,
    },
    Value {
        name: String,
        type_map: TypeMap,
    },
}

impl Registration {
    fn name(&self) -> &str {
        match self {
            Self::Array { description, .. } => &description.name,
            Self::Value { name, .. } => name,
        }
    }

    fn array(&self) -> Option<(&Description, &Slot)> {
        match self {
            Self::Array { description, slot } => Some((description, slot)),
            Self::Value { .. } => None,
        }
    }

    /// What every rank has to have registered alike.
    fn describe(&self) -> String {
        match self {
            Self::Array { description, .. } => format!("{description:?}"),
            Self::Value { name, type_map } => format!("{name:?} {type_map:?}"),
        }
    }
}

/// What a process that joined has received.
#[derive(Debug)]
enum Received {
    Array(Stored),
    Value { type_map: TypeMap, bytes: Vec<u8> },
}

impl Received {
    fn describe(&self) -> String {
        match self {
            Self::Array(stored) => format!("array of {}", stored.description.type_map),
            Self::Value { type_map, .. } => format!("value of {type_map}"),
        }
    }
}

/// What a checkpoint came to.
#[derive(Debug)]
#[must_use = "a switch has to be committed"]
pub enum Checkpoint<'job> {
    /// The job goes on as it is.
    Continue,
    /// The same, while the data of a resize moves in the background.
    InProgress,
    /// The job changes its size now: [`Switch::commit`] it. The old communicator is still valid on every
    /// rank of it, for ending what the application built on it.
    Switch(Switch<'job>),
}

/// What happened to a job's size, in order: [`Job::events`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A resize was done.
    Resized(Resize),
    /// A resize was asked for while another one was under way. It comes after that one.
    Queued {
        /// At which iteration.
        iteration: u64,
        /// The size that was asked for.
        to: usize,
    },
    /// A resize was not done; the job went on with its old size.
    Refused {
        /// At which iteration.
        iteration: u64,
        /// The size of the job.
        from: usize,
        /// The size that was asked for.
        to: usize,
        /// Why.
        reason: String,
    },
}

/// One resize: its stages as paper R numbers them, and what moved. Times are those of rank 0, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resize {
    /// At which iteration.
    pub iteration: u64,
    /// The size before.
    pub from: usize,
    /// The size after.
    pub to: usize,
    /// How data moved, and when.
    pub variant: Variant,
    /// Stage 1: the manager's decision.
    pub decide_s: f64,
    /// Stage 2: recalling, starting and merging, parking and releasing processes.
    pub processes_s: f64,
    /// Stage 3 at the switch, while the application waits: from the exchange of what is registered until every target
    /// has its data, verified if asked for.
    pub redistribute_s: f64,
    /// Stage 3 in the background, while the application goes on: from its start until the switch. 0 where nothing
    /// moved in the background.
    pub background_s: f64,
    /// Iterations of the application in that time.
    pub iterations_during: u64,
    /// Creating windows, at the switch and in the background.
    pub expose_s: f64,
    /// Moving data.
    pub transfer_s: f64,
    /// Freeing windows.
    pub release_s: f64,
    /// Stage 4: new communicator, old one freed, old blocks freed.
    pub resume_s: f64,
    /// From the decision until the application goes on, without what it did itself between the checkpoint and the
    /// commit of the switch.
    pub total_s: f64,
    /// Processes that were started.
    pub spawned: usize,
    /// Parked processes that were woken for good.
    pub recalled: usize,
    /// Processes that went to sleep.
    pub parked: usize,
    /// Processes that ended.
    pub released: usize,
    /// Bytes of arrays whose owner is another rank than before, over all ranks.
    pub moved_bytes: u64,
    /// Bytes of arrays whose owner is the same rank as before, over all ranks.
    pub kept_bytes: u64,
    /// Whether checksums were compared, and were equal.
    pub verified: bool,
    /// Whether a node has more active ranks than cores after the resize.
    pub oversubscribed: bool,
}

impl Job {
    /// Starts the job, or joins one: a process that a job has started for a resize finds that out here,
    /// and returns with everything that the job had registered, which it gets when it registers the same.
    /// Collective over the processes of one start.
    ///
    /// From here on a panic on any rank ends the whole job.
    ///
    /// A process whose resize is abandoned is not needed: it finalizes MPI and exits here, with status 0.
    ///
    /// # Errors
    ///
    /// The MPI error; [`Error::Memory`] if no arena can be made; [`Error::Redistribute`] for a variant that goes on in the
    /// background without `MPI_THREAD_MULTIPLE`.
    pub fn start(environment: &Environment, options: Options) -> Result<Self> {
        check_thread_level(environment, options.variant)?;
        environment.abort_on_panic();
        match environment.parent()? {
            None => Self::first(environment, options),
            Some(parent) => Self::join(environment, options, parent),
        }
    }

    fn new(environment: &Environment, options: Options, world: Option<World>) -> Result<Self> {
        Ok(Self {
            environment: environment.clone(),
            manager: options.manager,
            variant: options.variant,
            verify: options.verify,
            lean: options.lean,
            progress: options.progress,
            spawn: options.spawn,
            iteration: 0,
            first_start: true,
            world,
            arena: Arena::new("malleus")?,
            pending: None,
            in_progress: None,
            received: HashMap::new(),
            registry: Vec::new(),
            queue: VecDeque::new(),
            events: Vec::new(),
        })
    }

    fn first(environment: &Environment, options: Options) -> Result<Self> {
        let communicator = environment.world();
        let (universe, places) = Universe::first(&communicator)?;
        let roster = Roster::first(places);
        let active = communicator.duplicate()?;
        let job = Self::new(
            environment,
            options,
            Some(World {
                universe,
                roster,
                active,
            }),
        )?;
        job.set_yield()?;
        Ok(job)
    }

    fn world(&self) -> &World {
        self.world
            .as_ref()
            .expect("the job has not ended on this process")
    }

    fn world_mut(&mut self) -> &mut World {
        self.world
            .as_mut()
            .expect("the job has not ended on this process")
    }

    /// Switches MPICH's heavy yield to what this node needs.
    fn set_yield(&self) -> Result<()> {
        let world = self.world();
        let load = world.roster.load(world.universe.rank());
        Ok(self.environment.set_heavy_yield(load.is_oversubscribed())?)
    }

    /// The communicator of the job's processes; [`Communicator::clone`] gives a counted handle. It is
    /// replaced by a resize.
    ///
    /// # Panics
    ///
    /// If the job has ended on this process ([`Outcome::Left`]).
    #[must_use]
    pub fn communicator(&self) -> &Communicator {
        &self.world().active
    }

    /// This process's rank in the job.
    ///
    /// # Panics
    ///
    /// As [`Job::communicator`].
    #[must_use]
    pub fn rank(&self) -> usize {
        self.communicator().rank()
    }

    /// Number of processes of the job.
    ///
    /// # Panics
    ///
    /// As [`Job::communicator`].
    #[must_use]
    pub fn size(&self) -> usize {
        self.communicator().size()
    }

    /// Number of checkpoints that the job has passed; the same on every rank, newcomers included.
    #[must_use]
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// Whether this process was there when the job started, so that it has to fill its arrays.
    #[must_use]
    pub fn is_first_start(&self) -> bool {
        self.first_start
    }

    /// Whether this process is still part of the job.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.world.is_some()
    }

    /// Whether this rank's node has more active ranks than cores.
    ///
    /// # Panics
    ///
    /// As [`Job::communicator`].
    #[must_use]
    pub fn is_oversubscribed(&self) -> bool {
        let world = self.world();
        world.roster.load(world.universe.rank()).is_oversubscribed()
    }

    /// What happened to the job's size while this process was part of it. Rank 0 knows all.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How data moves from the next resize on, in place of what [`Options::variant`] said. Every rank has to say
    /// the same; no communication. A process that joins has its own options' variant until it says so as well.
    ///
    /// # Errors
    ///
    /// [`Error::UnderWay`] while the data of a resize moves in the background, and [`Error::NotCommitted`] between
    /// a switch and its commit; [`Error::Redistribute`] for a variant that goes on in the background without
    /// `MPI_THREAD_MULTIPLE`; [`Error::Ended`] on a process that has left.
    pub fn set_variant(&mut self, variant: Variant) -> Result<()> {
        if self.world.is_none() {
            return Err(Error::Ended);
        }
        if self.pending.is_some() {
            return Err(Error::NotCommitted);
        }
        if let Some((pending, _)) = &self.in_progress {
            let to = pending.to;
            return Err(Error::UnderWay { to });
        }
        check_thread_level(&self.environment, variant)?;
        self.variant = variant;
        Ok(())
    }

    /// Registers a distributed array: [`ArrayBuilder`] says how.
    pub fn array<T: Record>(&mut self, name: &str) -> ArrayBuilder<'_, T, Array<T>> {
        ArrayBuilder::new(self, name)
    }

    /// Ends an iteration: the only place where the job can change its size. Collective over the job;
    /// without communication where its manager decides nothing.
    ///
    /// A resize to the current size does nothing. One that is asked for while another one is under way comes after
    /// it, and is among the [`Job::events`] as well. One that can't be started (program missing and so on) is
    /// refused: it is among the [`Job::events`], and the job goes on.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] on a process that has left; [`Error::NotCommitted`] after a switch that was not
    /// committed; the MPI error otherwise.
    pub fn checkpoint(&mut self) -> Result<Checkpoint<'_>> {
        if self.world.is_none() {
            return Err(Error::Ended);
        }
        if self.pending.is_some() {
            return Err(Error::NotCommitted);
        }
        self.iteration += 1;
        let decided = Instant::now();
        if let Some(to) = self.manager.decide(self.iteration, self.size()) {
            self.ask_for(to);
        }
        let decide_s = decided.elapsed().as_secs_f64();
        if let Some((pending, mut in_progress)) = self.in_progress.take() {
            if in_progress.test(self.iteration)? {
                return Ok(self.switch(pending, Some(in_progress)));
            }
            self.in_progress = Some((pending, in_progress));
            return Ok(Checkpoint::InProgress);
        }
        while let Some(to) = self.queue.pop_front() {
            if to != self.size() {
                return self.begin_resize(to, decided, decide_s);
            }
        }
        Ok(Checkpoint::Continue)
    }

    /// Queues a resize, unless it leads to what is asked for already.
    fn ask_for(&mut self, to: usize) {
        let under_way = self.in_progress.as_ref().map(|(pending, _)| pending.to);
        let asked = self.queue.back().copied().or(under_way);
        if to == asked.unwrap_or(self.size()) {
            return;
        }
        self.queue.push_back(to);
        if asked.is_some() {
            self.events.push(Event::Queued {
                iteration: self.iteration,
                to,
            });
        }
    }

    /// Ends the job: wakes and ends those that are parked. Collective over the job; nothing on a process
    /// that has left it. The application's clones of the communicator have to be gone.
    ///
    /// # Errors
    ///
    /// [`Error::CommunicatorInUse`], on every rank, while a clone of the communicator lives; the MPI error
    /// otherwise.
    pub fn end(mut self) -> Result<Vec<Event>> {
        if self.world.is_none() {
            return Ok(self.events);
        }
        self.check_clones()?;
        // A resize may be under way, or a switch have come that nobody needs any more.
        self.give_up()?;
        if let Some(world) = self.world.take() {
            world.active.disconnect()?;
            world.universe.end()?;
        }
        Ok(self.events)
    }

    /// Whether any rank has a clone of the communicator, which would outlive it. Collective.
    fn check_clones(&self) -> Result<()> {
        let clones = self.communicator().handles() - 1;
        let problem = (clones > 0).then(|| clones.to_string());
        match self.communicator().agree(problem)? {
            None => Ok(()),
            Some((rank, handles)) => Err(Error::CommunicatorInUse { rank, handles }),
        }
    }

    fn is_registered(&self, name: &str) -> bool {
        self.registered_names().contains(&name)
    }

    fn registered_names(&self) -> Vec<&str> {
        self.registry.iter().map(Registration::name).collect()
    }

    fn is_received(&self, name: &str) -> bool {
        self.received.contains_key(name)
    }

    /// The length of an array that was received, and not yet registered here.
    fn received_length(&self, name: &str) -> Option<u64> {
        match self.received.get(name)? {
            Received::Array(stored) => Some(stored.description.partition.len()),
            Received::Value { .. } => None,
        }
    }

    /// What was received under a name, or nothing where the name is new to the job.
    fn receive_or_register(&mut self, name: &str) -> Result<Option<Received>> {
        if self.is_registered(name) {
            return Err(Error::NameTaken {
                name: name.to_owned(),
            });
        }
        if let Some(received) = self.received.remove(name) {
            return Ok(Some(received));
        }
        if self.received.is_empty() {
            return Ok(None);
        }
        let mut known: Vec<_> = self.received.keys().map(String::as_str).collect();
        known.extend(self.registered_names());
        known.sort_unstable();
        Err(Error::Unknown {
            name: name.to_owned(),
            known: known.join(", "),
        })
    }

    fn register_array(&mut self, description: Description) -> Result<Stored> {
        let name = description.name.clone();
        let stored = match self.receive_or_register(&name)? {
            Some(Received::Array(stored)) => {
                array::check_same(&description, &stored.description)?;
                stored
            }
            Some(other) => {
                return Err(Error::Mismatch {
                    name,
                    property: "type",
                    found: format!("array of {}", description.type_map),
                    expected: other.describe(),
                });
            }
            None => {
                let range = description.partition.range(self.rank());
                let block = map(&self.arena, &description, self.rank())?;
                Stored::new(description, range, block)
            }
        };
        self.registry.push(Registration::Array {
            description: stored.description.clone(),
            slot: stored.slot(),
        });
        Ok(stored)
    }
}

/// Whether helper threads may call MPI, where a variant needs them.
fn check_thread_level(environment: &Environment, variant: Variant) -> Result<()> {
    if variant.is_background() && environment.multiple().is_none() {
        return Err(redistribute::Error::ThreadLevel.into());
    }
    Ok(())
}

/// Adds an array to an arena and maps one rank's block of it. Every process adds all arrays in the same
/// order, so that all agree about where each lies.
fn map(arena: &Arena, description: &Description, rank: usize) -> Result<Block> {
    let base = arena.append(description.global_bytes())?;
    let range = description.bytes(description.partition.range(rank));
    Ok(arena.map(base, range)?)
}
