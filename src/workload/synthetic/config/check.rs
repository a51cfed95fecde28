//! What stages and groups have to agree about, whatever the form of the file.

use std::collections::BTreeMap;

use super::error::{Error, Problem};
use super::tree::Place;
use super::{Group, Stage, StageKind};

/// A stage with the places of what is checked later.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) stage: Stage,
    /// Where the stage begins.
    pub(super) place: Place,
    /// The key that names a rank or a number of ranks.
    pub(super) ranks: Option<Place>,
    /// The key that names a start or its wait.
    pub(super) identifier: Option<Place>,
}

impl Draft {
    fn ranks_place(&self) -> &Place {
        self.ranks.as_ref().unwrap_or(&self.place)
    }

    fn identifier_place(&self) -> &Place {
        self.identifier.as_ref().unwrap_or(&self.place)
    }
}

/// Whether every rank that a stage names exists in every group. The places are those of the groups'
/// numbers of processes.
pub(super) fn ranks_exist(phases: &[Vec<Draft>], groups: &[(Group, Place)]) -> Result<(), Error> {
    let Some((group, (smallest, place))) = groups
        .iter()
        .enumerate()
        .min_by_key(|(_, (group, _))| group.processes)
    else {
        return Ok(());
    };
    let (processes, line) = (smallest.processes, place.line);
    for draft in phases.iter().flatten() {
        let problem = match draft.stage.kind {
            StageKind::Broadcast { root: rank } | StageKind::Reduce { root: rank }
                if rank >= processes =>
            {
                Problem::NoSuchRank {
                    rank,
                    group,
                    processes,
                    line,
                }
            }
            StageKind::FileWrite { ranks } | StageKind::FileRead { ranks } if ranks > processes => {
                Problem::TooManyRanks {
                    ranks,
                    group,
                    processes,
                    line,
                }
            }
            _ => continue,
        };
        return Err(draft.ranks_place().error(problem));
    }
    Ok(())
}

/// Whether each start of a phase has one wait, after it.
pub(super) fn waits_pair(stages: &[Draft]) -> Result<(), Error> {
    let mut open: BTreeMap<u64, &Place> = BTreeMap::new();
    let mut closed: BTreeMap<u64, u64> = BTreeMap::new();
    let refuse = |place: &Place, what: String| Err(place.error(Problem::Unpaired { what }));
    for draft in stages {
        let place = draft.identifier_place();
        match draft.stage.kind {
            StageKind::StartPointToPoint { identifier } => {
                let before = open.get(&identifier).map(|place| place.line);
                if let Some(line) = before.or_else(|| closed.get(&identifier).copied()) {
                    let what =
                        format!("{identifier} is the identifier of the start in line {line}");
                    return refuse(place, what);
                }
                open.insert(identifier, place);
            }
            StageKind::Wait { identifier } => match open.remove(&identifier) {
                Some(start) => {
                    closed.insert(identifier, start.line);
                }
                None if closed.contains_key(&identifier) => {
                    return refuse(place, format!("a second wait for {identifier}"));
                }
                None => {
                    return refuse(
                        place,
                        format!("no start with identifier {identifier} before"),
                    );
                }
            },
            _ => {}
        }
    }
    match open.into_iter().min_by_key(|(_, place)| place.line) {
        None => Ok(()),
        Some((identifier, place)) => refuse(place, format!("no wait for {identifier} after it")),
    }
}
