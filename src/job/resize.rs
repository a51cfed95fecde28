//! A resize, from the decision to the new communicator.

use std::time::{Duration, Instant};

use super::array::Stored;
use super::background::{InProgress, Landed};
use super::error::Error;
use super::parking::{Gate, Meeting};
use super::registered::{EntryMut, Registered, RegisteredSet};
use super::roster::{Change, Roster};
use super::transfer::{
    Header, Message, Value, adopt, announce, find, kept_bytes, lacking, move_all, moved_bytes,
    name_of, receive, stored_of,
};
use super::universe::{Universe, Woken};
use super::{Checkpoint, Event, Job, Options, Received, Registration, Resize, Result, World};
use crate::mpi::{Communicator, Environment, Intercommunicator};

/// A resize whose processes are ready, and whose data is still where it was.
///
/// On a process that goes on or leaves, [`Switch::commit`] moves the data.
///
/// It only borrows the job, which keeps what is pending: so the job can be used again where the switch
/// was committed, in the same `match`.
#[derive(Debug)]
#[must_use = "the new processes wait for commit()"]
pub struct Switch<'job> {
    job: &'job mut Job,
}

/// What stage 2 has prepared.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) to: usize,
    change: Change,
    /// The roster when the resize is done, before those that are released are removed.
    roster: Roster,
    /// The communicator of sources and targets, where it is not the job's own.
    pub(super) union: Option<Communicator>,
    decided: Instant,
    decide_s: f64,
    processes_s: f64,
    /// What moves in the background.
    in_progress: Option<InProgress>,
}

impl Pending {
    /// Ends what moves in the background. Collective over sources and targets.
    fn land(&mut self, job: &Communicator) -> Result<Landed> {
        match self.in_progress.take() {
            None => Ok(Landed::default()),
            Some(in_progress) => in_progress.land(self.union.as_ref().unwrap_or(job)),
        }
    }
}

/// What a process is after a resize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a process that left must not go on"]
pub enum Outcome {
    /// A member of the job.
    Member(Resized),
    /// No member any more: leave the loop, and end.
    Left,
}

/// What a resize means to a process that is a member after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resized {
    /// The size before.
    pub from: usize,
    /// The size now.
    pub to: usize,
    /// Whether this process slept in between: then only what is registered is current.
    pub recalled: bool,
}

impl Job {
    /// Stage 2, and the start of stage 3 where it goes on in the background.
    pub(super) fn begin_resize(
        &mut self,
        to: usize,
        decided: Instant,
        decide_s: f64,
    ) -> Result<Checkpoint<'_>> {
        let from = self.size();
        let begun = Instant::now();
        let change = self.world().roster.change_to(to);
        let stage = tracing::info_span!("processes", rank = self.rank(), from, to).entered();
        if change.spawn > 0
            && let Some((_, reason)) = self.communicator().agree(self.check_start(change.spawn))?
        {
            tracing::warn!(reason, "resize refused");
            self.events.push(Event::Refused {
                iteration: self.iteration,
                from,
                to,
                reason,
            });
            return Ok(Checkpoint::Continue);
        }
        let (roster, union) = if to > from {
            // Those that come share the cores from the moment they start.
            let load = self.world().roster.load(self.world().universe.rank());
            self.environment
                .set_heavy_yield(load.active + to - from > load.cores)?;
            let spawn = self.spawn.clone();
            let world = self.world_mut();
            let (roster, union) = world.universe.grow(&world.roster, &change, &spawn)?;
            (roster, Some(union))
        } else {
            let mut roster = self.world().roster.clone();
            let leaving = roster.active()[to..].to_vec();
            roster.park(&leaving);
            (roster, None)
        };
        tracing::info!(
            recalled = change.recall.len(),
            spawned = change.spawn,
            "processes are ready"
        );
        let processes_s = begun.elapsed().as_secs_f64();
        let pending = Pending {
            to,
            change,
            roster,
            union,
            decided,
            decide_s,
            processes_s,
            in_progress: None,
        };
        drop(stage);
        match self.take_off(&pending) {
            Ok(None) => Ok(self.switch(pending, None)),
            Ok(Some(in_progress)) => {
                self.in_progress = Some((pending, in_progress));
                Ok(Checkpoint::InProgress)
            }
            Err(error) if error.leaves_job_whole() => {
                self.abandon(pending, &error)?;
                Ok(Checkpoint::Continue)
            }
            Err(error) => Err(error),
        }
    }

    /// Hands the switch to the application.
    pub(super) fn switch(
        &mut self,
        pending: Pending,
        in_progress: Option<InProgress>,
    ) -> Checkpoint<'_> {
        self.pending = Some(Pending {
            in_progress,
            ..pending
        });
        Checkpoint::Switch(Switch { job: self })
    }

    /// What rank 0 finds wrong before it starts processes.
    fn check_start(&self, processes: usize) -> Option<String> {
        if self.rank() != 0 {
            return None;
        }
        self.spawn.check(processes).err()
    }

    /// Starts a process that a job has started for a resize.
    pub(super) fn join(
        environment: &Environment,
        options: Options,
        parent: Intercommunicator,
    ) -> Result<Self> {
        let (universe, union) = Universe::join(parent)?;
        let mut job = Self::new(environment, options, None)?;
        job.first_start = false;
        let Some((header, (arena, blocks))) = receive(&union, |_| None)? else {
            // Not needed after all. The others go on without this cohort.
            union.disconnect()?;
            universe.leave()?;
            drop(job);
            environment.finalize_and_exit(0);
        };
        job.arena = arena;
        for (moved, block) in header.arrays.iter().zip(blocks) {
            let range = moved.to.range(union.rank());
            let block = block.expect("there is no old block to replace");
            let stored = Stored::received(moved.after(), range, block);
            job.received
                .insert(moved.before.name.clone(), Received::Array(stored));
        }
        for value in &header.values {
            let received = Received::Value {
                type_map: value.type_map.clone(),
                bytes: value.bytes.clone(),
            };
            job.received.insert(value.name.clone(), received);
        }
        job.iteration = header.iteration;
        job.queue = header.queue.into();
        job.world = Some(World {
            universe,
            roster: header.roster,
            active: union,
        });
        job.set_yield()?;
        Ok(job)
    }
}

impl Switch<'_> {
    /// The size of the job after the resize.
    #[must_use]
    pub fn size(&self) -> usize {
        self.job.pending.as_ref().map_or(0, |pending| pending.to)
    }

    /// Stages 3 and 4: moves everything that is registered, which `registered` has to name, and replaces
    /// the job's communicator. Collective over the job, and blocking.
    ///
    /// On a process that leaves, the arrays are empty afterwards. If it is parked, this returns when it is
    /// recalled, with the arrays as they are then ([`Resized::recalled`]), or when the job ends.
    ///
    /// # Errors
    ///
    /// Those that [`Error::leaves_job_whole`] names leave everything as it was, on every rank; after any
    /// other the job can't go on.
    pub fn commit(self, mut registered: impl RegisteredSet) -> Result<Outcome> {
        let pending = self.job.pending.take().expect("a switch is committed once");
        let mut registered = registered.registered();
        self.job.commit(pending, &mut registered)
    }
}

/// The stages as latencies, where this thread records.
fn record_stages(report: &Resize) {
    for (stage, time_s) in [
        ("resize.decide", report.decide_s),
        ("resize.processes", report.processes_s),
        ("resize.redistribute", report.redistribute_s),
        ("resize.resume", report.resume_s),
        ("resize.total", report.total_s),
    ] {
        crate::latency::record(stage, Duration::from_secs_f64(time_s));
    }
}

impl Job {
    fn commit(
        &mut self,
        mut pending: Pending,
        registered: &mut [&mut dyn Registered],
    ) -> Result<Outcome> {
        let begun = Instant::now();
        let (from, to) = (self.size(), pending.to);
        let stage = tracing::info_span!("redistribute", rank = self.rank(), from, to).entered();
        let landed = pending.land(self.communicator())?;
        let (times, background, iterations) = (landed.times, landed.time, landed.iterations);
        let mut gate = None;
        let header = match self.prepare(&pending, registered, &mut gate) {
            Ok(header) => header,
            Err(error) if error.leaves_job_whole() => {
                let reason = error.to_string();
                if let Some(union) = &pending.union {
                    announce(union, Some(&Message::Abandon(reason)))?;
                }
                self.abandon(pending, &error)?;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        let union = pending.union.as_ref().unwrap_or(self.communicator());
        let Message::Go(header) = announce(union, Some(&Message::Go(Box::new(header))))? else {
            return Err(Error::NotCommitted);
        };
        let mut stored = stored_of(&header, registered);
        let moved = move_all(union, &header, &mut stored, landed, None);
        for stored in stored.into_iter().flatten() {
            stored.publish();
        }
        let ((arena, blocks), times) = match moved {
            Ok((blocks, at_switch)) => (blocks, times + at_switch),
            Err(error) if error.leaves_job_whole() => {
                self.abandon(pending, &error)?;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        let redistribute_s = begun.elapsed().as_secs_f64();
        drop(stage);

        // The point of no return: every target has its data and has said so.
        let _stage = tracing::info_span!("resume", rank = self.rank(), from, to).entered();
        let resuming = Instant::now();
        let rank = self.rank();
        adopt(&header, arena, blocks, registered, rank, &mut self.arena)?;
        self.adopt_registry(&header);
        let mut report = Resize {
            iteration: self.iteration,
            from,
            to,
            variant: header.variant,
            decide_s: pending.decide_s,
            processes_s: pending.processes_s,
            redistribute_s,
            background_s: background.as_secs_f64(),
            iterations_during: iterations,
            expose_s: times.expose.as_secs_f64(),
            transfer_s: times.transfer.as_secs_f64(),
            release_s: times.release.as_secs_f64(),
            resume_s: 0.0,
            total_s: 0.0,
            spawned: pending.change.spawn,
            recalled: pending.change.recall.len(),
            parked: pending.change.park.len(),
            released: pending.change.release.len(),
            moved_bytes: moved_bytes(&header)?,
            kept_bytes: kept_bytes(&header)?,
            verified: header.verify,
            oversubscribed: false,
        };
        let leaves = rank >= to;
        let active = match pending.union {
            Some(union) => Some(union),
            None if leaves => None,
            None => {
                let stay: Vec<usize> = (0..to).collect();
                let group = self.communicator().group()?.include(&stay)?;
                Some(self.communicator().create_group(&group, 0)?)
            }
        };
        let mut world = self.world.take().expect("a member commits");
        world.active.disconnect()?;
        let resume_s = resuming.elapsed().as_secs_f64();

        let ending = Instant::now();
        world.universe.forget(&pending.change.recall);
        let mut roster = pending.roster;
        let released = &pending.change.release;
        if !released.is_empty() {
            world.universe.wake_for_release(released)?;
            if world.universe.release(released)? {
                world.universe.leave()?;
                return Ok(Outcome::Left);
            }
            roster.release(released);
        }
        let Some(active) = active else {
            let meeting = header.meeting.ok_or(Error::Ended)?;
            return self.sleep(world.universe, &meeting, registered);
        };
        if let Some(gate) = gate {
            let parked: Vec<usize> = pending
                .change
                .park
                .iter()
                .filter_map(|&rank| super::roster::renumbered(rank, released))
                .collect();
            world.universe.admit(gate, &parked)?;
        }
        let end_s = ending.elapsed().as_secs_f64();

        self.world = Some(World {
            universe: world.universe,
            roster,
            active,
        });
        self.set_yield()?;
        report.resume_s = resume_s;
        report.processes_s += end_s;
        report.oversubscribed = self.is_oversubscribed();
        report.total_s = report.decide_s
            + pending.processes_s
            + report.background_s
            + begun.elapsed().as_secs_f64();
        record_stages(&report);
        tracing::info!(?report, "resized");
        tracing::debug!(
            since_decision_s = pending.decided.elapsed().as_secs_f64(),
            "application goes on"
        );
        self.events.push(Event::Resized(report));
        Ok(Outcome::Member(Resized {
            from,
            to,
            recalled: false,
        }))
    }

    /// Parks this process, and returns when it is recalled or the job ends.
    fn sleep(
        &mut self,
        mut universe: Universe,
        meeting: &Meeting,
        registered: &mut [&mut dyn Registered],
    ) -> Result<Outcome> {
        let mut link = universe.park(meeting)?;
        loop {
            tracing::info!(rank = universe.rank(), "parked");
            let Woken::Recalled { union } = universe.sleep(&mut link)? else {
                universe.leave()?;
                return Ok(Outcome::Left);
            };
            let Some((header, (arena, blocks))) =
                receive(&union, |header| lacking(header, registered))?
            else {
                // The root calls again if the universe has to be taken back as well.
                union.disconnect()?;
                continue;
            };
            adopt(
                &header,
                arena,
                blocks,
                registered,
                union.rank(),
                &mut self.arena,
            )?;
            self.iteration = header.iteration;
            self.queue = header.queue.clone().into();
            self.adopt_registry(&header);
            let (from, to) = (header.from, header.to);
            self.world = Some(World {
                universe,
                roster: header.roster,
                active: union,
            });
            self.set_yield()?;
            return Ok(Outcome::Member(Resized {
                from,
                to,
                recalled: true,
            }));
        }
    }

    /// Takes back a resize that was prepared and not committed, if there is one. Collective.
    pub(super) fn give_up(&mut self) -> Result<()> {
        let in_progress = self.in_progress.take();
        let in_progress = in_progress.map(|(pending, in_progress)| Pending {
            in_progress: Some(in_progress),
            ..pending
        });
        let Some(mut pending) = in_progress.or_else(|| self.pending.take()) else {
            return Ok(());
        };
        pending.land(self.communicator())?;
        if let Some(union) = &pending.union {
            announce(
                union,
                Some(&Message::Abandon(Error::NotCommitted.to_string())),
            )?;
        }
        self.abandon(pending, &Error::NotCommitted)
    }

    /// Leaves the job as it was before a resize.
    fn abandon(&mut self, pending: Pending, error: &Error) -> Result<()> {
        let reason = error.to_string();
        tracing::warn!(reason, "resize abandoned");
        self.events.push(Event::Refused {
            iteration: self.iteration,
            from: self.size(),
            to: pending.to,
            reason,
        });
        if let Some(union) = pending.union {
            union.disconnect()?;
            let world = self.world_mut();
            world.universe.undo_growth(&world.roster, &pending.change)?;
        }
        self.set_yield()
    }

    /// Checks what the application passed, and computes where everything goes. Collective over the old
    /// members.
    fn prepare(
        &mut self,
        pending: &Pending,
        registered: &mut [&mut dyn Registered],
        gate: &mut Option<Gate>,
    ) -> Result<Header> {
        self.check_clones()?;
        let differs = self.differs_from_root()?;
        let differs =
            differs.then_some("rank 0 has registered something else, or in another order");
        let problem = self.registry_problem(registered);
        let problem = problem.or_else(|| differs.map(str::to_owned));
        if let Some((rank, problem)) = self.communicator().agree(problem)? {
            return Err(Error::Registry { rank, problem });
        }
        self.pack(registered, pending.to)?;
        let mut values = Vec::new();
        for name in self.registered_names() {
            match find(registered, name) {
                Some(EntryMut::Value {
                    name,
                    type_map,
                    bytes,
                }) => values.push(Value {
                    name: name.to_owned(),
                    type_map,
                    bytes: bytes.to_vec(),
                }),
                Some(EntryMut::Array(_)) => {}
                None => unreachable!("what is registered was found before"),
            }
        }
        let arrays = self.registry.iter().filter_map(Registration::array);
        let names: Vec<_> = arrays.map(|(description, _)| &description.name).collect();
        let moves = self.moves(pending.to, &self.published()?)?;
        let moves = moves.into_iter().zip(names).map(|(moved, name)| {
            moved.ok_or_else(|| Error::Registry {
                rank: 0,
                problem: format!("{name:?} lies behind offsets that have no contents"),
            })
        });
        let moves = moves.collect::<Result<_>>()?;
        let park = !pending.change.park.is_empty();
        let opened = if park && self.rank() == 0 {
            match self.world().universe.open_gate(&self.world().roster) {
                Ok(opened) => {
                    *gate = Some(opened);
                    None
                }
                Err(error) => Some(error.to_string()),
            }
        } else {
            None
        };
        if park && let Some((_, reason)) = self.communicator().agree(opened)? {
            return Err(Error::Abandoned {
                from: self.size(),
                to: pending.to,
                reason,
            });
        }
        Ok(Header {
            from: self.size(),
            to: pending.to,
            iteration: self.iteration,
            variant: self.variant,
            verify: self.verify,
            lean: self.lean,
            change: pending.change.clone(),
            roster: pending.roster.clone(),
            arrays: moves,
            values,
            queue: self.queue.iter().copied().collect(),
            meeting: gate.as_ref().map(|gate| gate.meeting().clone()),
        })
    }

    /// Whether this rank has registered something else than rank 0, or in another order. Collective over the job.
    pub(super) fn differs_from_root(&self) -> Result<bool> {
        let described: Vec<_> = self.registry.iter().map(Registration::describe).collect();
        let mine = described.join("\n").into_bytes();
        let mut roots = if self.rank() == 0 {
            mine.clone()
        } else {
            Vec::new()
        };
        self.communicator().broadcast_bytes(&mut roots, 0)?;
        Ok(mine != roots)
    }

    /// What is registered is distributed in another way now.
    fn adopt_registry(&mut self, header: &Header) {
        let arrays = self.registry.iter_mut().filter_map(|one| match one {
            Registration::Array { description, .. } => Some(description),
            Registration::Value { .. } => None,
        });
        for (description, moved) in arrays.zip(&header.arrays) {
            *description = moved.after();
        }
    }

    fn registry_problem(&self, registered: &mut [&mut dyn Registered]) -> Option<String> {
        if let Some(name) = self.received.keys().next() {
            return Some(format!("{name:?} was received and never registered"));
        }
        let names: Vec<String> = registered
            .iter_mut()
            .flat_map(|one| one.entries())
            .map(|entry| name_of(&entry).to_owned())
            .collect();
        for (position, name) in names.iter().enumerate() {
            if !self.is_registered(name) {
                return Some(format!("{name:?} belongs to another job"));
            }
            if names[..position].contains(name) {
                return Some(format!("{name:?} was passed twice"));
            }
        }
        let missing = self.registered_names().into_iter();
        let missing = missing
            .into_iter()
            .find(|name| !names.iter().any(|given| given == name))?;
        Some(format!("{missing:?} is registered and was not passed"))
    }
}
