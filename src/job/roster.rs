//! Who lives in the job: pure bookkeeping, without MPI.
//!
//! The *universe* is every living process, in the order of its communicator. *Active* ones run the
//! application; *parked* ones sleep. A *cohort* is what one start brought: its processes share an
//! `MPI_COMM_WORLD`, and can only finalize together.

use serde::{Deserialize, Serialize};

/// A living process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Member {
    /// Which start it came with.
    pub(super) cohort: u32,
    /// Where it runs and with which cores.
    pub(super) place: Place,
}

/// Where a process runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// Identifies the machine.
    pub(super) node: String,
    /// Identifies the network namespace on it.
    pub(super) network: String,
    /// The cores that the process may use, one bit each.
    pub(super) cores: Vec<u64>,
    /// How many cores its share of the machine is worth, where that is less than the bits.
    pub(super) quota: usize,
}

/// Every living process of the job, and which of them run the application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Roster {
    /// By rank in the universe.
    members: Vec<Member>,
    /// Ranks in the universe, by rank in the job.
    active: Vec<usize>,
    next_cohort: u32,
}

/// What a resize does to processes: all ranks are those of the universe before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Change {
    /// Parked processes that become active, in the order of their new ranks.
    pub(super) recall: Vec<usize>,
    /// How many processes to start.
    pub(super) spawn: usize,
    /// Active processes that go to sleep.
    pub(super) park: Vec<usize>,
    /// Processes, active or parked, that end with their whole cohort; ascending.
    pub(super) release: Vec<usize>,
}

impl Roster {
    /// The processes of the first start, all active.
    pub(super) fn first(places: Vec<Place>) -> Self {
        let mut roster = Self::default();
        roster.add_cohort(places);
        roster
    }

    /// Number of living processes.
    pub(super) fn living(&self) -> usize {
        self.members.len()
    }

    /// Ranks in the universe, by rank in the job.
    pub(super) fn active(&self) -> &[usize] {
        &self.active
    }

    /// Ranks in the universe of those that sleep, ascending.
    pub(super) fn parked(&self) -> Vec<usize> {
        (0..self.living())
            .filter(|rank| !self.active.contains(rank))
            .collect()
    }

    /// What it takes to have `size` active processes.
    ///
    /// Growing recalls parked processes before it starts new ones. Shrinking retires the highest ranks;
    /// a cohort without an active process left is released with its parked ones, any other that
    /// retires is parked. Rank 0 never retires, so neither is its cohort released.
    pub(super) fn change_to(&self, size: usize) -> Change {
        let mut change = Change::default();
        if size >= self.active.len() {
            let missing = size - self.active.len();
            change.recall = self.parked().into_iter().take(missing).collect();
            change.spawn = missing - change.recall.len();
            return change;
        }
        let (stay, retire) = self.active.split_at(size);
        let stays = |cohort: u32| stay.iter().any(|&rank| self.members[rank].cohort == cohort);
        change.release = (0..self.living())
            .filter(|&rank| !stays(self.members[rank].cohort))
            .collect();
        change.park = retire
            .iter()
            .copied()
            .filter(|rank| !change.release.contains(rank))
            .collect();
        change
    }

    /// Adds the processes of one more start at the end of the universe, active with the highest ranks.
    pub(super) fn add_cohort(&mut self, places: Vec<Place>) {
        let cohort = self.next_cohort;
        self.next_cohort += 1;
        for place in places {
            self.active.push(self.members.len());
            self.members.push(Member { cohort, place });
        }
    }

    /// Makes parked processes active, in this order.
    pub(super) fn recall(&mut self, ranks: &[usize]) {
        debug_assert!(ranks.iter().all(|rank| !self.active.contains(rank)));
        self.active.extend_from_slice(ranks);
    }

    /// Takes active processes out of the job without removing them from the universe.
    pub(super) fn park(&mut self, ranks: &[usize]) {
        self.active.retain(|rank| !ranks.contains(rank));
    }

    /// Removes processes; those that remain move up in the universe.
    pub(super) fn release(&mut self, ranks: &[usize]) {
        self.park(ranks);
        for rank in &mut self.active {
            *rank = renumbered(*rank, ranks).expect("a released process is not active");
        }
        let mut rank = 0;
        self.members.retain(|_| {
            rank += 1;
            !ranks.contains(&(rank - 1))
        });
    }

    /// Whether some processes can reach others over a network only.
    pub(super) fn spans_networks(&self) -> bool {
        let mut networks = self
            .members
            .iter()
            .map(|member| (&member.place.node, &member.place.network));
        let first = networks.next();
        networks.any(|network| Some(network) != first)
    }

    /// Active processes and cores of the node on which a process runs. Processes that are parked use
    /// none.
    pub(super) fn load(&self, member: usize) -> Load {
        let place = &self.members[member].place;
        let here = || {
            self.members
                .iter()
                .map(|member| &member.place)
                .filter(|other| other.node == place.node)
        };
        let words = here().map(|place| place.cores.len()).max().unwrap_or(0);
        let union: u32 = (0..words)
            .map(|word| {
                here()
                    .fold(0, |bits, place| bits | place.cores.get(word).unwrap_or(&0))
                    .count_ones()
            })
            .sum();
        let quota = here().map(|place| place.quota).min().unwrap_or(usize::MAX);
        Load {
            active: self
                .active
                .iter()
                .filter(|&&rank| self.members[rank].place.node == place.node)
                .count(),
            cores: (union as usize).min(quota).max(1),
        }
    }
}

/// How busy a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) active: usize,
    pub(super) cores: usize,
}

impl Load {
    pub(super) fn is_oversubscribed(self) -> bool {
        self.active > self.cores
    }
}

/// The rank that a process has when others have been released; `None` for one of those.
pub(super) fn renumbered(rank: usize, released: &[usize]) -> Option<usize> {
    (!released.contains(&rank))
        .then(|| rank - released.iter().filter(|&&other| other < rank).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places(count: usize) -> Vec<Place> {
        vec![
            Place {
                node: "n".into(),
                network: "0".into(),
                cores: vec![0b11],
                quota: usize::MAX
            };
            count
        ]
    }

    #[test]
    fn a_cohort_that_leaves_is_released_and_a_single_rank_is_parked() {
        let mut roster = Roster::first(places(2));
        assert_eq!(
            roster.change_to(4),
            Change {
                spawn: 2,
                ..Change::default()
            }
        );
        roster.add_cohort(places(2));
        // One of the second cohort leaves: parked.
        let change = roster.change_to(3);
        assert_eq!(
            change,
            Change {
                park: vec![3],
                ..Change::default()
            }
        );
        roster.park(&change.park);
        // The rest of it leaves: released with the parked one. The first cohort's rank 1 is parked.
        let change = roster.change_to(1);
        assert_eq!(
            change,
            Change {
                park: vec![1],
                release: vec![2, 3],
                ..Change::default()
            }
        );
        roster.park(&change.park);
        roster.release(&change.release);
        assert_eq!(
            (roster.living(), roster.active(), roster.parked()),
            (2, &[0][..], vec![1])
        );
        // Recalled before any other is started.
        assert_eq!(
            roster.change_to(3),
            Change {
                recall: vec![1],
                spawn: 1,
                ..Change::default()
            }
        );
    }

    #[test]
    fn the_middle_cohort_can_be_released() {
        let mut roster = Roster::first(places(1));
        roster.add_cohort(places(1));
        roster.add_cohort(places(1));
        roster.release(&[1]);
        assert_eq!((roster.living(), roster.active()), (2, &[0, 1][..]));
        assert_eq!(roster.members[1].cohort, 2);
        assert_eq!(renumbered(2, &[1]), Some(1));
        assert_eq!(renumbered(1, &[1]), None);
    }

    #[test]
    fn load_counts_active_ranks_and_the_union_of_cores() {
        let pinned = |core: u32| Place {
            node: "a".into(),
            network: "0".into(),
            cores: vec![1 << core],
            quota: usize::MAX,
        };
        let mut roster = Roster::first(vec![pinned(0), pinned(1)]);
        assert_eq!(
            roster.load(0),
            Load {
                active: 2,
                cores: 2
            }
        );
        assert!(!roster.load(0).is_oversubscribed());
        assert!(!roster.spans_networks());
        roster.add_cohort(vec![
            pinned(1),
            Place {
                node: "b".into(),
                ..pinned(0)
            },
        ]);
        assert_eq!(
            roster.load(1),
            Load {
                active: 3,
                cores: 2
            }
        );
        assert!(roster.load(1).is_oversubscribed());
        assert!(roster.spans_networks());
        assert_eq!(
            roster.load(3),
            Load {
                active: 1,
                cores: 1
            }
        );
        roster.park(&[2]);
        assert_eq!(
            roster.load(0),
            Load {
                active: 2,
                cores: 2
            }
        );
    }

    proptest! {
        /// Through any sequence of resizes: the size is the one asked for, rank 0 stays, survivors keep
        /// their order, nobody that is parked is left in a cohort without active ones.
        #[test]
        fn resizes_keep_the_books(start in 1_usize..6, sizes in prop::collection::vec(1_usize..12, 1..20)) {
            let mut roster = Roster::first(places(start));
            for size in sizes {
                let before = roster.clone();
                let change = roster.change_to(size);
                prop_assert!(change.recall.is_empty() && change.spawn == 0 || change.park.is_empty() && change.release.is_empty());
                prop_assert!(change.spawn == 0 || change.recall.len() == before.parked().len());
                roster.recall(&change.recall);
                if change.spawn > 0 {
                    roster.add_cohort(places(change.spawn));
                }
                roster.park(&change.park);
                roster.release(&change.release);
                prop_assert_eq!(roster.active().len(), size);
                prop_assert_eq!(roster.active()[0], 0);
                prop_assert_eq!(roster.members[0].cohort, 0);
                let stay = before.active().len().min(size);
                for rank in 0..stay {
                    prop_assert_eq!(Some(roster.active()[rank]), renumbered(before.active()[rank], &change.release));
                }
                for rank in roster.parked() {
                    let cohort = roster.members[rank].cohort;
                    prop_assert!(roster.active().iter().any(|&other| roster.members[other].cohort == cohort));
                }
            }
        }
    }
}
