//! Every living process of the job: starting, parking, waking and releasing them.
//!
//! What is collective over the universe wakes the parked for it; they go back to sleep afterwards. Rank 0
//! of the universe is rank 0 of the job: it never leaves.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::parking::{Gate, Link, Meeting, machine, namespace};
use super::roster::{Change, Place, Roster, renumbered};
use super::starter::Spawn;
use crate::mpi::{Communicator, Environment, Intercommunicator};

/// How long a process that parks may take to connect to the root.
const ADMISSION: Duration = Duration::from_secs(30);
/// How long a parked process waits to be ended when the root is gone.
const ORPHAN: Duration = Duration::from_secs(3);
/// Tag of the communicators that a resize makes; the universe carries no other traffic.
const RESIZE_TAG: i32 = 0;

/// The communicator of every living process.
#[derive(Debug)]
pub(super) struct Universe {
    communicator: Communicator,
    /// At the root: the connections to those that sleep, by rank in the universe.
    sleeping: Vec<(usize, Link)>,
}

/// Why a parked process is woken.
#[derive(Debug, Serialize, Deserialize)]
enum Call {
    /// It is one of these members of the job from now on, by rank in the universe.
    Recall(Vec<usize>),
    /// New processes are started, which takes everybody.
    Spawn,
    /// These processes end, which takes everybody.
    Release(Vec<usize>),
    /// The job is over.
    End,
}

/// What the root tells everybody after new processes have come.
#[derive(Debug, Serialize, Deserialize)]
struct Assembly {
    before: Roster,
    change: Change,
}

/// What has become of a process that slept.
#[derive(Debug)]
pub(super) enum Woken {
    /// It is a member of the job again, with this communicator for the resize.
    Recalled { union: Communicator },
    /// It has left the job and can finalize MPI.
    Left,
}

impl Universe {
    /// The universe of a first start, and where its processes are. Collective.
    pub(super) fn first(world: &Communicator) -> Result<(Self, Vec<Place>), Error> {
        let universe = Self::new(world.duplicate()?);
        let places = universe.gather_places(true)?;
        Ok((universe, places))
    }

    fn new(communicator: Communicator) -> Self {
        Self {
            communicator,
            sleeping: Vec::new(),
        }
    }

    pub(super) fn rank(&self) -> usize {
        self.communicator.rank()
    }

    fn environment(&self) -> Environment {
        self.communicator.environment()
    }

    /// The places of those that are new, in the order of their ranks. Collective.
    fn gather_places(&self, new: bool) -> Result<Vec<Place>, Error> {
        let mine = if new {
            serde_json::to_vec(&Place::here())?
        } else {
            Vec::new()
        };
        let all = self.communicator.all_gather_bytes(&mine)?;
        let new = all.iter().filter(|text| !text.is_empty());
        Ok(new
            .map(|text| serde_json::from_slice(text))
            .collect::<Result<_, _>>()?)
    }

    /// A communicator of these members. Collective over them.
    fn subset(&self, ranks: &[usize]) -> Result<Communicator, Error> {
        let group = self.communicator.group()?.include(ranks)?;
        Ok(self.communicator.create_group(&group, RESIZE_TAG)?)
    }

    /// Makes a job larger: recalls and starts what `change` says. Returns the new roster and the
    /// communicator of the enlarged job. Collective over the active members.
    pub(super) fn grow(
        &mut self,
        before: &Roster,
        change: &Change,
        spawn: &Spawn,
    ) -> Result<(Roster, Communicator), Error> {
        if change.spawn == 0 {
            let mut roster = before.clone();
            roster.recall(&change.recall);
            self.wake(&change.recall, &Call::Recall(roster.active().to_vec()))?;
            let union = self.subset(roster.active())?;
            return Ok((roster, union));
        }
        let watchdog = (self.rank() == 0).then(|| spawn.watch(&self.environment(), change.spawn));
        self.wake_all(&Call::Spawn)?;
        let children = spawn.start(&self.communicator, change.spawn)?;
        let assembly = Assembly {
            before: before.clone(),
            change: change.clone(),
        };
        let roster = self.assemble(&children, Some(&assembly))?;
        children.disconnect()?;
        drop(watchdog);
        let union = self.subset(roster.active())?;
        Ok((roster, union))
    }

    /// What parents, and those that sleep, do when new processes come.
    fn assemble(
        &mut self,
        children: &Intercommunicator,
        assembly: Option<&Assembly>,
    ) -> Result<Roster, Error> {
        children.meet(true)?;
        let merged = children.merge(false)?;
        let old = std::mem::replace(&mut self.communicator, merged);
        old.free()?;
        self.read_assembly(assembly, false)
    }

    fn read_assembly(&self, assembly: Option<&Assembly>, new: bool) -> Result<Roster, Error> {
        let mut text = match assembly {
            Some(assembly) if self.rank() == 0 => serde_json::to_vec(assembly)?,
            _ => Vec::new(),
        };
        self.communicator.broadcast_bytes(&mut text, 0)?;
        let assembly: Assembly = serde_json::from_slice(&text)?;
        let mut roster = assembly.before;
        roster.recall(&assembly.change.recall);
        roster.add_cohort(self.gather_places(new)?);
        Ok(roster)
    }

    /// Joins a job as a process that it has started. Collective over the universe.
    pub(super) fn join(parent: Intercommunicator) -> Result<(Self, Communicator), Error> {
        parent.meet(false)?;
        let universe = Self::new(parent.merge(true)?);
        let roster = universe.read_assembly(None, true)?;
        parent.disconnect()?;
        let union = universe.subset(roster.active())?;
        Ok((universe, union))
    }

    /// Undoes [`Universe::grow`] for the active members: what was recalled sleeps again by itself, what
    /// was started is released. Collective over the universe.
    pub(super) fn undo_growth(&mut self, before: &Roster, change: &Change) -> Result<(), Error> {
        if change.spawn == 0 {
            return Ok(());
        }
        let new: Vec<usize> = (before.living()..before.living() + change.spawn).collect();
        // Those that were recalled have gone back to sleep, or are about to.
        self.wake_all(&Call::Release(new.clone()))?;
        self.release(&new)?;
        Ok(())
    }

    /// Forgets the connections to those that are recalled for good.
    pub(super) fn forget(&mut self, recalled: &[usize]) {
        self.sleeping.retain(|(rank, _)| !recalled.contains(rank));
    }

    /// Removes processes from the universe; true on one of those. Collective over the universe.
    pub(super) fn release(&mut self, ranks: &[usize]) -> Result<bool, Error> {
        if ranks.contains(&self.rank()) {
            return Ok(true);
        }
        let survivors: Vec<usize> = (0..self.communicator.size())
            .filter(|rank| !ranks.contains(rank))
            .collect();
        let remaining = self.subset(&survivors)?;
        let old = std::mem::replace(&mut self.communicator, remaining);
        old.disconnect()?;
        self.sleeping
            .retain_mut(|(rank, _)| match renumbered(*rank, ranks) {
                Some(new) => {
                    *rank = new;
                    true
                }
                None => false,
            });
        Ok(false)
    }

    /// Wakes those that sleep for a release. At the root.
    pub(super) fn wake_for_release(&mut self, ranks: &[usize]) -> Result<(), Error> {
        self.wake_all(&Call::Release(ranks.to_vec()))
    }

    fn wake_all(&mut self, call: &Call) -> Result<(), Error> {
        let all: Vec<usize> = self.sleeping.iter().map(|(rank, _)| *rank).collect();
        self.wake(&all, call)
    }

    /// Nothing, except at the root.
    fn wake(&mut self, ranks: &[usize], call: &Call) -> Result<(), Error> {
        if self.rank() != 0 {
            return Ok(());
        }
        for (_, link) in self
            .sleeping
            .iter_mut()
            .filter(|(rank, _)| ranks.contains(rank))
        {
            link.send(call)?;
        }
        Ok(())
    }

    /// Where those that park shall connect to. At the root.
    pub(super) fn open_gate(&self, roster: &Roster) -> Result<Gate, Error> {
        let host = self.environment().processor_name()?;
        Ok(Gate::open(&host, roster.spans_networks())?)
    }

    /// Admits those that park. At the root.
    pub(super) fn admit(&mut self, gate: Gate, ranks: &[usize]) -> Result<(), Error> {
        let communicator = &self.communicator;
        let progress = || communicator.progress().map_err(std::io::Error::other);
        let links = gate.admit(ranks, ADMISSION, progress)?;
        self.sleeping.extend(ranks.iter().copied().zip(links));
        Ok(())
    }

    /// Connects to the root, to be woken through the link.
    pub(super) fn park(&self, meeting: &Meeting) -> Result<Link, Error> {
        Ok(meeting.connect(self.rank())?)
    }

    /// Sleeps until this process is recalled, or leaves.
    pub(super) fn sleep(&mut self, link: &mut Link) -> Result<Woken, Error> {
        loop {
            let Some(call) = link.receive()? else {
                // The root is gone without a word. Its mpiexec ends this process, unless it is gone, too;
                // the root's own message shall come first.
                std::thread::sleep(ORPHAN);
                eprintln!("malleus: the root of the job is gone; a parked process ends");
                self.environment().end_job_without_mpi()(1)
            };
            match call {
                Call::Recall(members) => {
                    let union = self.subset(&members)?;
                    return Ok(Woken::Recalled { union });
                }
                Call::Spawn => {
                    let children = Spawn::default().start(&self.communicator, 1)?;
                    let roster = self.assemble(&children, None)?;
                    children.disconnect()?;
                    if roster.active().contains(&self.rank()) {
                        let union = self.subset(roster.active())?;
                        return Ok(Woken::Recalled { union });
                    }
                }
                Call::Release(ranks) => {
                    if self.release(&ranks)? {
                        return Ok(Woken::Left);
                    }
                }
                Call::End => return Ok(Woken::Left),
            }
        }
    }

    /// Ends the job: wakes everybody and takes the universe apart. Collective over it.
    pub(super) fn end(mut self) -> Result<(), Error> {
        self.wake_all(&Call::End)?;
        self.leave()
    }

    /// Gives up the universe, together with everybody else in it. Collective over it.
    pub(super) fn leave(self) -> Result<(), Error> {
        Ok(self.communicator.disconnect()?)
    }
}

impl Place {
    fn here() -> Self {
        let cores = Environment::core_mask();
        let allowed: u32 = cores.iter().map(|word| word.count_ones()).sum();
        // Less than the mask where a container grants a share of the machine only.
        let share = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
        let quota = if share < allowed as usize {
            share
        } else {
            usize::MAX
        };
        Self {
            node: machine(),
            network: namespace(),
            cores,
            quota,
        }
    }
}
