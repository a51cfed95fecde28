//! The application itself.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::calibrate;
use super::config::{Amount, Configuration, Group, Stage, StageKind};
use super::data::{self, Data};
use super::exchange::Started;
use super::results::{GroupResult, PhaseResult, Recorder, StageResult, median};
use super::stage::{Ready, Repetition, Work};
use super::{Error, Plan};
use crate::job::{Checkpoint, Event, Job, Manager, Outcome, Registered, Replicated};
use crate::mpi::{Communicator, Operation};

/// How long a process sleeps between two checkpoints when its iterations are over and a resize is under way.
const PAUSE: Duration = Duration::from_millis(1);

/// The manager of the job: it asks for what [`run`] asks for, on every rank alike.
#[derive(Clone, Debug, Default)]
pub struct Requests(Rc<Cell<Option<usize>>>);

impl Manager for Requests {
    fn decide(&mut self, _iteration: u64, _size: usize) -> Option<usize> {
        self.0.take()
    }
}

/// What the configuration does not say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the stages' files lie.
    pub files: PathBuf,
    /// Whether the data is compared with that of the start when all is done.
    pub verify: bool,
}

/// Where an application stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The group, counted from 0.
    pub group: usize,
    /// Processes of the job.
    pub processes: usize,
    /// Iterations done, in all.
    pub iteration: u64,
}

/// What an application came to, on rank 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The groups that were reached.
    pub groups: Vec<GroupResult>,
    /// Whether the data was compared, and was that of the start.
    pub verified: bool,
}

/// Runs a configuration in a job whose manager is `requests`; nothing on a process that leaves. `show` is told
/// before each iteration. Collective.
///
/// # Errors
///
/// Those of [`Error`]; [`Error::is_common`] tells whether the job can be ended in an orderly way.
pub fn run(
    job: &mut Job,
    requests: &Requests,
    plan: &Plan,
    settings: &Settings,
    show: &mut dyn FnMut(Position),
) -> Result<Option<Finished>, Error> {
    let configuration = &plan.configuration;
    let mut state = State {
        data: data::register(job, configuration)?,
        group: job.replicated("group", 0)?,
        position: job.replicated("position", 0)?,
        overlapped: job.replicated("overlapped", 0)?,
    };
    let mut groups = Vec::new();
    loop {
        let running = Running::prepare(job.communicator(), configuration, settings, &state)?;
        match state.work(job, requests, plan, running, &mut groups, show)? {
            Next::End => break,
            Next::Group => {}
            Next::Left => return Ok(None),
        }
    }
    let mut wrong = [if settings.verify {
        state.data.wrong()
    } else {
        0
    }];
    job.communicator().all_reduce(&mut wrong, Operation::Sum)?;
    if wrong[0] > 0 {
        return Err(Error::Data { wrong: wrong[0] });
    }
    Ok((job.rank() == 0).then_some(Finished {
        groups,
        verified: settings.verify,
    }))
}

/// What is the same on every rank, and goes along when the job changes its size.
struct State {
    data: Box<dyn Data>,
    /// The group that runs.
    group: Replicated<u64>,
    /// Iterations done.
    position: Replicated<u64>,
    /// Iterations that ran while the resize into the group was under way.
    overlapped: Replicated<u64>,
}

/// What comes after a group's iterations.
enum Next {
    /// The end of the job.
    End,
    /// The next group.
    Group,
    /// Nothing on this process, which is no member any more.
    Left,
}

impl State {
    fn group(&self) -> usize {
        usize::try_from(*self.group).unwrap_or(usize::MAX)
    }

    /// The iterations of a group, and the resize after it.
    fn work(
        &mut self,
        job: &mut Job,
        requests: &Requests,
        plan: &Plan,
        mut running: Running,
        groups: &mut Vec<GroupResult>,
        show: &mut dyn FnMut(Position),
    ) -> Result<Next, Error> {
        let configuration = &plan.configuration;
        let cursor = configuration.cursor();
        let (group, from) = (self.group(), job.size());
        let limit = cursor.group_iterations(group, *self.overlapped);
        *self.overlapped = 0;
        // The size that was asked for.
        let mut asked = None;
        loop {
            let phase = cursor.phase(*self.position);
            let is_over = |running: &Running| {
                let done = running.recorder.iterations();
                limit.is_some_and(|limit| done >= limit)
            };
            match phase {
                Some(phase) if asked.is_some() || !is_over(&running) => {
                    show(Position {
                        group,
                        processes: from,
                        iteration: *self.position,
                    });
                    running.iterate(phase, configuration.rigid)?;
                    *self.position += 1;
                    *self.overlapped += u64::from(asked.is_some());
                }
                _ if asked.is_some() => std::thread::sleep(PAUSE),
                _ => {}
            }
            let at_end = cursor.phase(*self.position).is_none();
            if asked.is_none() && (at_end || is_over(&running)) {
                match configuration.groups.get(group + 1).filter(|_| !at_end) {
                    None => {
                        groups.extend(running.close(configuration, group, 0)?);
                        return Ok(Next::End);
                    }
                    Some(next) if next.processes == from => {
                        groups.extend(running.close(configuration, group, 0)?);
                        *self.group += 1;
                        return Ok(Next::Group);
                    }
                    Some(next) => {
                        job.set_variant(plan.variants[group + 1])?;
                        requests.0.set(Some(next.processes));
                        asked = Some(next.processes);
                    }
                }
            }
            let refused = |reason: String, to| Error::Refused {
                group: group + 1,
                from,
                to,
                reason,
            };
            match (job.checkpoint()?, asked) {
                (Checkpoint::Continue, Some(to)) => {
                    return Err(refused(why_refused(job.events()), to));
                }
                (Checkpoint::Continue | Checkpoint::InProgress, _) => {}
                (Checkpoint::Switch(switch), _) => {
                    let to = switch.size();
                    groups.extend(running.close(configuration, group, *self.overlapped)?);
                    *self.group += 1;
                    return match switch.commit(self.registered()) {
                        Ok(Outcome::Member(_)) => Ok(Next::Group),
                        Ok(Outcome::Left) => Ok(Next::Left),
                        Err(error) if error.leaves_job_whole() => {
                            Err(refused(error.to_string(), to))
                        }
                        Err(error) => Err(error.into()),
                    };
                }
            }
        }
    }

    fn registered(&mut self) -> Vec<&mut dyn Registered> {
        let mut registered = self.data.registered();
        registered.push(&mut self.group);
        registered.push(&mut self.position);
        registered.push(&mut self.overlapped);
        registered
    }
}

/// What the job says of the resize that it did not do.
fn why_refused(events: &[Event]) -> String {
    match events.last() {
        Some(Event::Refused { reason, .. }) => reason.clone(),
        _ => "the job did not begin it".to_owned(),
    }
}

/// A stage of a group, with what was measured before.
struct Prepared {
    ready: Ready,
    operation_s: Option<f64>,
    asked_s: Option<f64>,
}

/// A group that runs, on one rank.
struct Running {
    communicator: Communicator,
    /// The stages of each phase from the current one on.
    phases: BTreeMap<usize, Vec<Prepared>>,
    started: Started,
    recorder: Recorder,
    /// The times of an iteration's stages.
    stages_s: Vec<f64>,
}

impl Running {
    /// Allocates what the stages need, and measures how long their operations take. Collective.
    fn prepare(
        communicator: &Communicator,
        configuration: &Configuration,
        settings: &Settings,
        state: &State,
    ) -> Result<Self, Error> {
        let group = &configuration.groups[state.group()];
        let mut running = Self {
            communicator: communicator.clone(),
            phases: BTreeMap::new(),
            started: Started::default(),
            recorder: Recorder::default(),
            stages_s: Vec::new(),
        };
        let mut known = HashMap::new();
        let first = configuration.cursor().phase(*state.position);
        let first = first.unwrap_or(configuration.phases.len());
        for (phase, described) in configuration.phases.iter().enumerate().skip(first) {
            let mut stages = Vec::with_capacity(described.stages.len());
            for (index, stage) in described.stages.iter().enumerate() {
                let work = Work::new(stage, communicator, &settings.files);
                let problem = work.as_ref().err().cloned();
                let told = |rank, reason| Error::Stage {
                    phase,
                    stage: index,
                    kind: stage.kind.name(),
                    rank,
                    reason,
                };
                if let Some((rank, reason)) = communicator.agree(problem)? {
                    return Err(told(rank, reason));
                }
                let work = work.map_err(|reason| told(communicator.rank(), reason))?;
                stages.push(running.prepared(stage, work, group, &mut known)?);
            }
            running.phases.insert(phase, stages);
        }
        Ok(running)
    }

    /// Measures a stage's operation, unless the group has another stage like it.
    fn prepared(
        &mut self,
        stage: &Stage,
        mut work: Work,
        group: &Group,
        known: &mut HashMap<(StageKind, u64, u64), f64>,
    ) -> Result<Prepared, Error> {
        let mut operation_s = None;
        let (repetition, asked_s) = match stage.amount() {
            Amount::Operations(count) => (Repetition::Times(count), None),
            Amount::Until { seconds } => (Repetition::Until(seconds), Some(seconds)),
            Amount::OperationTime { seconds, scaled } => {
                let asked_s = if scaled {
                    seconds * group.speed_factor
                } else {
                    seconds
                };
                let like = (stage.kind, stage.granularity, stage.message_bytes());
                let time_s = match known.get(&like) {
                    Some(&time_s) => time_s,
                    None => calibrate::operation(
                        stage.kind,
                        &mut work,
                        &self.communicator,
                        &mut self.started,
                    )?,
                };
                known.insert(like, time_s);
                operation_s = Some(time_s);
                let count = calibrate::repetitions(asked_s, time_s);
                (Repetition::Times(count), Some(asked_s))
            }
        };
        let ready = Ready {
            kind: stage.kind,
            work,
            repetition,
        };
        Ok(Prepared {
            ready,
            operation_s,
            asked_s,
        })
    }

    /// One iteration.
    fn iterate(&mut self, phase: usize, is_rigid: bool) -> Result<(), Error> {
        let communicator = &self.communicator;
        let barrier = || match is_rigid {
            true => communicator.barrier(),
            false => Ok(()),
        };
        self.stages_s.clear();
        barrier()?;
        let begun = Instant::now();
        for stage in self.phases.get_mut(&phase).into_iter().flatten() {
            let stage_begun = Instant::now();
            stage.ready.run(communicator, &mut self.started)?;
            barrier()?;
            self.stages_s.push(stage_begun.elapsed().as_secs_f64());
        }
        let iteration_s = begun.elapsed().as_secs_f64();
        self.recorder.record(phase, iteration_s, &self.stages_s);
        Ok(())
    }

    /// Ends the group: its results, on rank 0. Collective.
    fn close(
        self,
        configuration: &Configuration,
        group: usize,
        overlapped: u64,
    ) -> Result<Option<GroupResult>, Error> {
        self.started.finish()?;
        let captured = self
            .recorder
            .captured(&self.communicator, configuration.capture)?;
        let Some(times) = captured else {
            return Ok(None);
        };
        let stages_of = |phase: usize| self.phases.get(&phase).map_or(0, Vec::len);
        let mut alone = Vec::new();
        let mut phases = Vec::new();
        for (phase, overlapped, starts) in self.recorder.by_phase(overlapped, stages_of) {
            let column = |offset: usize| -> Vec<f64> {
                starts.iter().map(|&start| times[start + offset]).collect()
            };
            let undisturbed = starts.len()
                - usize::try_from(overlapped).map_or(0, |count| count.min(starts.len()));
            let iterations_s = column(0);
            alone.extend_from_slice(&iterations_s[..undisturbed]);
            let stages = self.phases.get(&phase).into_iter().flatten().enumerate();
            let stages = stages.map(|(index, stage)| {
                let times_s = column(1 + index);
                let median_s = median(&times_s[..undisturbed]);
                let asked_s = stage.asked_s;
                // Its time ends in another stage.
                let is_start = matches!(stage.ready.kind, StageKind::StartPointToPoint { .. });
                StageResult {
                    stage: index,
                    kind: stage.ready.kind.name(),
                    operation_s: stage.operation_s,
                    repetitions: match stage.ready.repetition {
                        Repetition::Times(count) => Some(count),
                        Repetition::Until(_) => None,
                    },
                    asked_s,
                    median_s,
                    ratio: median_s
                        .zip(asked_s.filter(|&asked_s| asked_s > 0.0 && !is_start))
                        .map(|(median_s, asked_s)| median_s / asked_s),
                    times_s,
                }
            });
            phases.push(PhaseResult {
                phase,
                overlapped,
                stages: stages.collect(),
                iterations_s,
            });
        }
        Ok(Some(GroupResult {
            group,
            processes: self.communicator.size(),
            iterations: self.recorder.iterations(),
            overlapped,
            iteration_median_s: median(&alone),
            phases,
        }))
    }
}
