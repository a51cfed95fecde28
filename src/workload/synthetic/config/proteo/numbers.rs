//! The two tables of numbers, and which of them a file uses.

use super::super::error::{Error, Problem};
use super::super::tree::{Place, Table, Value};
use super::super::{Form, Method, ReadOptions, Strategy};
use super::{IniGeneration, ProteoNumbers, Tables};

/// What a `Stage_Type` is, before ranks and identifiers are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StageType {
    Pi,
    MatVec,
    PointToPoint,
    StartPointToPoint,
    Wait,
    Broadcast,
    Allgatherv,
    Reduce,
    Allreduce,
    FileWrite,
    FileRead,
}

const OLD_TYPES: [StageType; 7] = [
    StageType::Pi,
    StageType::MatVec,
    StageType::PointToPoint,
    StageType::Broadcast,
    StageType::Allgatherv,
    StageType::Reduce,
    StageType::Allreduce,
];

const NEW_TYPES: [StageType; 11] = [
    StageType::Pi,
    StageType::MatVec,
    StageType::PointToPoint,
    StageType::StartPointToPoint,
    StageType::Wait,
    StageType::Broadcast,
    StageType::Allgatherv,
    StageType::Reduce,
    StageType::Allreduce,
    StageType::FileWrite,
    StageType::FileRead,
];

/// The types of a table, by their numbers.
pub(super) const fn stage_types(numbers: ProteoNumbers) -> &'static [StageType] {
    match numbers {
        ProteoNumbers::Old => &OLD_TYPES,
        ProteoNumbers::New => &NEW_TYPES,
    }
}

impl StageType {
    /// As [`StageKind::name`](super::super::StageKind::name).
    const fn name(self) -> &'static str {
        match self {
            Self::Pi => "pi",
            Self::MatVec => "matvec",
            Self::PointToPoint => "point-to-point",
            Self::StartPointToPoint => "start-point-to-point",
            Self::Wait => "wait",
            Self::Broadcast => "broadcast",
            Self::Allgatherv => "allgatherv",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::FileWrite => "file-write",
            Self::FileRead => "file-read",
        }
    }
}

/// The method of a `Redistribution_Method` from 0 to 3, which is the same in both tables.
pub(super) fn method(number: u64) -> Method {
    usize::try_from(number)
        .ok()
        .and_then(|index| Method::ALL.get(index).copied())
        .unwrap_or(Method::Collective)
}

/// The strategy of a `Redistribution_Strategy` list. "None" beside another strategy adds nothing.
pub(super) fn strategy(
    numbers: ProteoNumbers,
    method: Method,
    list: &[u64],
    place: &Place,
) -> Result<Strategy, Error> {
    let mut found = Strategy::Blocking;
    for &number in list {
        let strategy = match (numbers, number) {
            (ProteoNumbers::Old, 1) | (ProteoNumbers::New, 0) => Strategy::Blocking,
            (ProteoNumbers::Old, 2) | (ProteoNumbers::New, 1) => Strategy::Threading,
            (ProteoNumbers::New, 2) => Strategy::NonBlocking,
            (ProteoNumbers::New, 3) => Strategy::WaitTargets,
            _ => {
                return Err(place.error(Problem::Value {
                    found: format!("{number} is no strategy"),
                    allowed: match numbers {
                        ProteoNumbers::Old => "1 (none), 2 (threads), the old numbers",
                        ProteoNumbers::New => {
                            "0 (none), 1 (threads), 2 (wait sources), 3 (wait targets)"
                        }
                    }
                    .to_owned(),
                }));
            }
        };
        if !method.goes_with(strategy) {
            return Err(place.error(Problem::NoSuchVariant {
                method,
                strategy: format!("{number} (wait sources)"),
                allowed: "0 (none), 1 (threads), 3 (wait targets)".to_owned(),
            }));
        }
        match (found, strategy) {
            (_, Strategy::Blocking) => {}
            (Strategy::Blocking, _) => found = strategy,
            (first, second) if first == second => {}
            (first, second) => {
                return Err(place.error(Problem::SeveralStrategies { first, second }));
            }
        }
    }
    Ok(found)
}

/// What a `Spawn_Strategy` says: whether processes start in the background, and the name of a strategy that
/// does not exist here.
pub(super) fn spawn(
    numbers: ProteoNumbers,
    number: u64,
    place: &Place,
) -> Result<(bool, Option<&'static str>), Error> {
    Ok(match (numbers, number) {
        (ProteoNumbers::Old, 1) | (ProteoNumbers::New, 0) => (false, None),
        (ProteoNumbers::Old, 2) | (ProteoNumbers::New, 1) => (true, None),
        (ProteoNumbers::Old, 3) | (ProteoNumbers::New, 2) => (false, Some("single")),
        (ProteoNumbers::Old, 6) => (true, Some("all: asynchronous and single")),
        (ProteoNumbers::New, 3) => (false, Some("intercommunicator")),
        (ProteoNumbers::New, 4) => (false, Some("multiple")),
        (ProteoNumbers::New, 5) => (false, Some("parallel")),
        _ => {
            return Err(place.error(Problem::Value {
                found: format!("{number} is no strategy"),
                allowed: match numbers {
                    ProteoNumbers::Old => {
                        "1 (none), 2 (asynchronous), 3 (single), 6 (all), the old numbers"
                    }
                    ProteoNumbers::New => {
                        "0 (none), 1 (thread), 2 (single), 3 (intercommunicator), 4 (multiple), \
                         5 (parallel)"
                    }
                }
                .to_owned(),
            }));
        }
    })
}

/// Which table a file uses. An INI file that could be of either is refused unless the caller chooses.
pub(super) fn decide(tables: &mut Tables, options: &ReadOptions) -> Result<ProteoNumbers, Error> {
    let asked = options.proteo_numbers;
    let always_new = match tables.form {
        Form::ProteoIni(IniGeneration::Three) => Some("[phase0], which only new files have"),
        Form::ProteoIni(_) => None,
        Form::ProteoJson | Form::Toml => Some("JSON, which always has the new numbers"),
    };
    if let Some(evidence) = always_new {
        return match asked {
            Some(asked @ ProteoNumbers::Old) => Err(contradicted(None, asked, evidence.to_owned())),
            _ => Ok(ProteoNumbers::New),
        };
    }
    let new = new_evidence(tables);
    let old = old_evidence(tables);
    let numbers = match (old, new, asked) {
        (Some((line, old)), Some((_, new)), _) => {
            return Err(Error::of_file(
                Some(line),
                Problem::MixedNumbers { old, new },
            ));
        }
        (Some((line, evidence)), None, Some(asked @ ProteoNumbers::New))
        | (None, Some((line, evidence)), Some(asked @ ProteoNumbers::Old)) => {
            return Err(contradicted(Some(line), asked, evidence));
        }
        (Some(_), None, _) => ProteoNumbers::Old,
        (None, Some(_), _) => ProteoNumbers::New,
        (None, None, Some(asked)) => asked,
        (None, None, None) => {
            return Err(Error::of_file(
                None,
                Problem::AmbiguousNumbers {
                    old: stage_names(tables, ProteoNumbers::Old),
                    new: stage_names(tables, ProteoNumbers::New),
                },
            ));
        }
    };
    if tables.form == Form::ProteoIni(IniGeneration::OneB) && numbers == ProteoNumbers::New {
        tables.form = Form::ProteoIni(IniGeneration::Two);
    }
    Ok(numbers)
}

fn contradicted(line: Option<u64>, asked: ProteoNumbers, evidence: String) -> Error {
    Error::of_file(
        line,
        Problem::ContradictedNumbers {
            asked,
            evidence,
            allowed: match asked {
                ProteoNumbers::Old => "--proteo-numbers new, or none",
                ProteoNumbers::New => "--proteo-numbers old, or none",
            },
        },
    )
}

/// The integers of a key, with its line.
fn integers(table: &Table, key: &str) -> Vec<(u64, i128)> {
    let Some(entry) = table.entries.iter().find(|entry| entry.key == key) else {
        return Vec::new();
    };
    let integer = |value: &Value| match value {
        Value::Integer(value) => Some((entry.line, *value)),
        _ => None,
    };
    match &entry.value.value {
        Value::List(nodes) => nodes
            .iter()
            .filter_map(|node| integer(&node.value))
            .collect(),
        value => integer(value).into_iter().collect(),
    }
}

fn stages(tables: &Tables) -> impl Iterator<Item = &Table> {
    tables.phases.iter().flat_map(|(_, stages)| stages)
}

/// What shows the new table, with its line.
fn new_evidence(tables: &Tables) -> Option<(u64, String)> {
    let say = |key: &str, line: u64, number: i128| {
        (
            line,
            format!("{key} {number} in line {line}, which only the new numbers have"),
        )
    };
    let types = stages(tables)
        .flat_map(|stage| integers(stage, "Stage_Type"))
        .filter(|(_, number)| *number > 6)
        .map(|(line, number)| say("Stage_Type", line, number));
    let capture = tables
        .general
        .entries
        .iter()
        .filter(|entry| entry.key == "Capture_Method")
        .map(|entry| {
            let line = entry.line;
            (
                line,
                format!(
                    "Capture_Method in line {line}, which only files with the new numbers have"
                ),
            )
        });
    let strategies = tables.groups.iter().flat_map(|group| {
        [
            ("Spawn_Strategy", &[0, 4, 5][..]),
            ("Redistribution_Strategy", &[0, 3]),
        ]
        .into_iter()
        .flat_map(|(key, only_new)| {
            integers(group, key)
                .into_iter()
                .filter(|(_, number)| only_new.contains(number))
                .map(move |(line, number)| say(key, line, number))
        })
    });
    types.chain(capture).chain(strategies).next()
}

/// What shows the old table, with its line.
fn old_evidence(tables: &Tables) -> Option<(u64, String)> {
    tables.groups.iter().find_map(|group| {
        let entry = |key: &str| group.entries.iter().find(|entry| entry.key == key);
        if let Some(entry) = entry("Asynch_Redistribution_Type") {
            let line = entry.line;
            return Some((
                line,
                format!("Asynch_Redistribution_Type in line {line}, which only files with the old numbers have"),
            ));
        }
        let line = integers(group, "Spawn_Strategy")
            .into_iter()
            .find(|(_, number)| *number == 6)?
            .0;
        Some((
            line,
            format!("Spawn_Strategy 6 in line {line}, which only the old numbers have"),
        ))
    })
}

/// The stages as a table of numbers reads them.
fn stage_names(tables: &Tables, numbers: ProteoNumbers) -> String {
    const SHOWN: usize = 8;
    let types = stage_types(numbers);
    let mut names: Vec<&str> = stages(tables)
        .flat_map(|stage| integers(stage, "Stage_Type"))
        .map(|(_, number)| {
            usize::try_from(number)
                .ok()
                .and_then(|number| types.get(number))
                .map_or("unknown", |kind| kind.name())
        })
        .collect();
    if names.len() > SHOWN {
        names.truncate(SHOWN);
        names.push("…");
    }
    names.join(", ")
}
