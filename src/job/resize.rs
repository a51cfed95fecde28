//! A resize, from the decision to the new communicator.

use std::time::{Duration, Instant};

use super::array::{Distribution, EntryMut, Registered, RegisteredSet, Stored};
use super::error::Error;
use super::parking::{Gate, Meeting};
use super::roster::{Change, Roster};
use super::transfer::{
    Header, Message, Move, Value, adopt, announce, find, kept_bytes, lacking, move_all,
    moved_bytes, name_of, receive, stored_of,
};
use super::universe::{Universe, Woken};
use super::{Checkpoint, Event, Job, Options, Received, Resize, Result, World};
use crate::mpi::{Communicator, Environment, Intercommunicator, Operation};
use crate::partition::Partition;

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
    to: usize,
    change: Change,
    /// The roster when the resize is done, before those that are released are removed.
    roster: Roster,
    /// The communicator of sources and targets, where it is not the job's own.
    union: Option<Communicator>,
    decided: Instant,
    decide_s: f64,
    processes_s: f64,
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
    /// Stages 1 and 2.
    pub(super) fn begin_resize(&mut self) -> Result<Checkpoint<'_>> {
        let decided = Instant::now();
        let from = self.size();
        let Some(to) = self
            .manager
            .decide(self.iteration, from)
            .filter(|&to| to != from)
        else {
            return Ok(Checkpoint::Continue);
        };
        let decide_s = decided.elapsed().as_secs_f64();
        let begun = Instant::now();
        let change = self.world().roster.change_to(to);
        let _stage = tracing::info_span!("processes", rank = self.rank(), from, to).entered();
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
        };
        self.pending = Some(pending);
        Ok(Checkpoint::Switch(Switch { job: self }))
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
            let stored = Stored {
                description: moved.after(),
                block,
                range,
                initialized: true,
            };
            job.received
                .insert(moved.before.name.clone(), Received::Array(stored));
        }
        for value in &header.values {
            let received = Received::Value {
                kind: value.kind,
                bytes: value.bytes.clone(),
            };
            job.received.insert(value.name.clone(), received);
        }
        job.iteration = header.iteration;
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
        pending: Pending,
        registered: &mut [&mut dyn Registered],
    ) -> Result<Outcome> {
        let begun = Instant::now();
        let (from, to) = (self.size(), pending.to);
        let stage = tracing::info_span!("redistribute", rank = self.rank(), from, to).entered();
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
        let moved = move_all(union, &header, &mut stored_of(&header, registered), None);
        let (arena, blocks) = match moved {
            Ok(blocks) => blocks,
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
        adopt(&header, arena, blocks, registered, rank, &mut self.arena);
        let mut report = Resize {
            iteration: self.iteration,
            from,
            to,
            method: header.method,
            decide_s: pending.decide_s,
            processes_s: pending.processes_s,
            redistribute_s,
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
        report.total_s = pending.decide_s + pending.processes_s + begun.elapsed().as_secs_f64();
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
            );
            self.iteration = header.iteration;
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
        let Some(pending) = self.pending.take() else {
            return Ok(());
        };
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
        &self,
        pending: &Pending,
        registered: &mut [&mut dyn Registered],
        gate: &mut Option<Gate>,
    ) -> Result<Header> {
        let communicator = self.communicator();
        self.check_clones()?;
        let expected = self.registry_of_root(registered)?;
        let problem = self.registry_problem(registered).or_else(|| {
            let differs = self.describe_registry(registered) != expected;
            differs.then(|| "rank 0 has registered something else, or in another order".to_owned())
        });
        if let Some((rank, problem)) = communicator.agree(problem)? {
            return Err(Error::Registry { rank, problem });
        }
        let mut arrays = Vec::new();
        let mut values = Vec::new();
        for name in &self.registry {
            match find(registered, name) {
                Some(EntryMut::Array(stored)) => arrays.push(stored.description.clone()),
                Some(EntryMut::Value { name, kind, bytes }) => {
                    values.push(Value {
                        name: name.to_owned(),
                        kind,
                        bytes: bytes.to_vec(),
                    });
                }
                None => unreachable!("what is registered was found before"),
            }
        }
        let mut moves: Vec<Move> = Vec::new();
        for before in arrays {
            let to = match &before.distribution {
                Distribution::Block => Partition::block(before.partition.len(), pending.to),
                Distribution::Cuts => before.partition.recut(pending.to),
                Distribution::Behind { offsets } => {
                    let offsets = moves.iter().find(|moved| moved.before.name == *offsets);
                    let offsets =
                        offsets.expect("offsets are registered before what lies behind them");
                    self.cuts_behind(offsets, before.partition.len(), registered)?
                }
            };
            moves.push(Move { before, to });
        }
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
        if park && let Some((_, reason)) = communicator.agree(opened)? {
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
            method: self.method,
            verify: self.verify,
            lean: self.lean,
            change: pending.change.clone(),
            roster: pending.roster.clone(),
            arrays: moves,
            values,
            meeting: gate.as_ref().map(|gate| gate.meeting().clone()),
        })
    }

    /// What rank 0 has registered, in its order. Collective over the old members.
    fn registry_of_root(&self, registered: &mut [&mut dyn Registered]) -> Result<String> {
        let mut text = if self.rank() == 0 {
            self.describe_registry(registered).into_bytes()
        } else {
            Vec::new()
        };
        self.communicator().broadcast_bytes(&mut text, 0)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn describe_registry(&self, registered: &mut [&mut dyn Registered]) -> String {
        let describe = |name: &String| match find(registered, name) {
            Some(EntryMut::Array(stored)) => format!("{:?}", stored.description),
            Some(EntryMut::Value { name, kind, .. }) => format!("{name:?} {kind:?}"),
            None => String::new(),
        };
        self.registry
            .iter()
            .map(describe)
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn registry_problem(&self, registered: &mut [&mut dyn Registered]) -> Option<String> {
        if let Some(name) = self.received.keys().next() {
            return Some(format!("{name:?} was received and never registered"));
        }
        let names: Vec<String> = registered
            .iter_mut()
            .map(|one| name_of(&one.entry()).to_owned())
            .collect();
        for (position, name) in names.iter().enumerate() {
            if !self.registry.contains(name) {
                return Some(format!("{name:?} belongs to another job"));
            }
            if names[..position].contains(name) {
                return Some(format!("{name:?} was passed twice"));
            }
        }
        let missing = self.registry.iter().find(|name| !names.contains(name))?;
        Some(format!("{missing:?} is registered and was not passed"))
    }

    /// The new cut points of an array that lies behind another one: the offsets at the other's new cut
    /// points. Each is known where its element is; rank 0's answer counts in the end.
    fn cuts_behind(
        &self,
        offsets: &Move,
        len: u64,
        registered: &mut [&mut dyn Registered],
    ) -> Result<Partition> {
        let Some(EntryMut::Array(stored)) = find(registered, &offsets.before.name) else {
            unreachable!("what is registered was found before")
        };
        let known: &[u64] =
            crate::mpi::elements_of(stored.block.as_bytes()).expect("offsets are u64");
        let mut cuts = vec![0_u64; offsets.to.ranks() + 1];
        for (rank, cut) in cuts.iter_mut().enumerate() {
            let element = if rank == 0 {
                0
            } else {
                offsets.to.range(rank - 1).end
            };
            if stored.range.contains(&element) {
                let index =
                    usize::try_from(element - stored.range.start).expect("an index into a block");
                *cut = known[index];
            } else if element == offsets.to.len() && self.rank() == 0 {
                *cut = len;
            }
        }
        self.communicator()
            .all_reduce(&mut cuts, Operation::Maximum)?;
        Ok(Partition::cuts(cuts)?)
    }
}
