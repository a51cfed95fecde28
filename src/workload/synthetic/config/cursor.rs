//! Which iteration of a job runs what.

use std::ops::Range;

use super::{Configuration, Counting};

/// Which phase each iteration of a job runs, and how many iterations each group runs.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    configuration: &'a Configuration,
    /// The iteration after each phase.
    ends: Vec<u64>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(configuration: &'a Configuration) -> Self {
        let ends = configuration
            .phases
            .iter()
            .scan(0_u64, |end, phase| {
                *end = end.saturating_add(phase.iterations);
                Some(*end)
            })
            .collect();
        Self {
            configuration,
            ends,
        }
    }

    /// The iterations of the whole job.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The phase of an iteration, both counted from 0; `None` when the job is at its end.
    ///
    /// With [`Counting::PerGroup`] every iteration is of the only phase, and the groups tell when the job is
    /// at its end.
    #[must_use]
    pub fn phase(&self, iteration: u64) -> Option<usize> {
        match self.configuration.counting {
            Counting::PerGroup => Some(0),
            Counting::Sequence => {
                let phase = self.ends.partition_point(|&end| end <= iteration);
                (phase < self.ends.len()).then_some(phase)
            }
        }
    }

    /// How many iterations a group runs before the next resize begins, or for the last one before the job
    /// ends; `None`: until the phases end. In a [`Counting::Sequence`] they can end before.
    ///
    /// `overlapped` are the iterations that the group before it has run while the resize into this group was
    /// under way.
    ///
    /// # Panics
    ///
    /// When there is no such group.
    #[must_use]
    pub fn group_iterations(&self, group: usize, overlapped: u64) -> Option<u64> {
        let groups = &self.configuration.groups;
        let iterations = groups[group].iterations;
        match self.configuration.counting {
            Counting::PerGroup => Some(iterations.saturating_sub(overlapped)),
            Counting::Sequence if group + 1 == groups.len() => None,
            Counting::Sequence => Some(iterations),
        }
    }

    /// The iterations of each group when no resize overlaps with iterations. A group that is never reached
    /// has none.
    #[must_use]
    pub fn planned(&self) -> Vec<Range<u64>> {
        let total = self.iterations();
        let mut start = 0_u64;
        (0..self.configuration.groups.len())
            .map(|group| {
                let end = self
                    .group_iterations(group, 0)
                    .map_or(total, |count| start.saturating_add(count).min(total));
                let range = start..end;
                start = end;
                range
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Capture, Form, Group, Phase, Placement};
    use super::*;

    fn configuration(counting: Counting, phases: &[u64], groups: &[u64]) -> Configuration {
        Configuration {
            phases: phases
                .iter()
                .map(|&iterations| Phase {
                    iterations,
                    stages: Vec::new(),
                })
                .collect(),
            groups: groups
                .iter()
                .map(|&iterations| Group {
                    iterations,
                    processes: 1,
                    speed_factor: 1.0,
                    placement: Placement::Compact,
                    resize: None,
                })
                .collect(),
            counting,
            constant_bytes: 0,
            variable_bytes: 0,
            element_bytes: 1,
            rigid: false,
            capture: Capture::Maximum,
            form: Form::Toml,
            ignored: Vec::new(),
            proteo: None,
        }
    }

    #[test]
    fn a_sequence_is_walked_once() {
        let configuration = configuration(Counting::Sequence, &[1, 22, 1], &[5, 10, 5]);
        let cursor = configuration.cursor();
        assert_eq!(cursor.iterations(), 24);
        let phases: Vec<_> = [0, 1, 22, 23, 24, u64::MAX]
            .into_iter()
            .map(|iteration| cursor.phase(iteration))
            .collect();
        assert_eq!(phases, [Some(0), Some(1), Some(1), Some(2), None, None]);
        assert_eq!(cursor.planned(), [0..5, 5..15, 15..24]);
        assert_eq!(cursor.group_iterations(0, 0), Some(5));
        assert_eq!(cursor.group_iterations(1, 3), Some(10));
        assert_eq!(cursor.group_iterations(2, 3), None);
    }

    #[test]
    fn a_sequence_can_end_early() {
        let configuration = configuration(Counting::Sequence, &[1], &[1, 10, 1]);
        assert_eq!(configuration.cursor().planned(), [0..1, 1..1, 1..1]);
    }

    #[test]
    fn groups_count_for_themselves() {
        let configuration = configuration(Counting::PerGroup, &[1000], &[500, 500]);
        let cursor = configuration.cursor();
        assert_eq!(cursor.iterations(), 1000);
        assert_eq!(cursor.phase(999), Some(0));
        assert_eq!(cursor.phase(1000), Some(0));
        assert_eq!(cursor.planned(), [0..500, 500..1000]);
        assert_eq!(cursor.group_iterations(1, 0), Some(500));
        assert_eq!(cursor.group_iterations(1, 3), Some(497));
        assert_eq!(cursor.group_iterations(1, 501), Some(0));
    }

    #[test]
    fn nothing_overflows() {
        let configuration = configuration(Counting::Sequence, &[u64::MAX, 2], &[u64::MAX, 1, 1]);
        let planned = configuration.cursor().planned();
        assert_eq!(planned[0], 0..u64::MAX);
        assert_eq!(planned[2], u64::MAX..u64::MAX);
    }
}
