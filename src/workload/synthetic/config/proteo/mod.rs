//! The files of Proteo's synthetic application SAM (github.com/hpca-uji/Proteo), JSON and INI.
//!
//! Both become the same [`Tables`]; this file gives them their meaning, with SAM's defaults. SAM ignores what
//! it does not know; here that is listed in [`Configuration::ignored`].

pub(super) mod ini;
pub(super) mod json;
mod numbers;
mod stage;

use std::fmt;

use super::check::{Draft, ranks_exist, waits_pair};
use super::error::{Error, Problem};
use super::tree::{Entry, Field, MAX_BYTES, MAX_INT, Place, Table, Value, describe_range};
use super::{
    Capture, Configuration, Counting, Form, GRANULARITY, Group, Ignored, Management, Phase,
    Placement, ReadOptions, Transition,
};

/// Which table of numbers a file of Proteo uses for stages and strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProteoNumbers {
    /// The table of the first INI files: stage 3 is a broadcast, strategy 1 is none.
    Old,
    /// The table of all newer files: stage 3 starts a point-to-point exchange, strategy 0 is none.
    New,
}

impl fmt::Display for ProteoNumbers {
    /// As on the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Old => "old",
            Self::New => "new",
        })
    }
}

/// The forms of Proteo's INI files that are read, from the oldest. None says which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IniGeneration {
    /// `[stageN]`, `[resizeN]` and `Asynch_Redistribution_Type`; old numbers.
    One,
    /// With `Redistribution_Method` and `Redistribution_Strategy`, still the old numbers.
    OneB,
    /// The same keys with the new numbers.
    Two,
    /// With `[phaseN]`; new numbers.
    Three,
}

/// What only Proteo's own output needs: numbers as the file gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proteo {
    /// Which table the numbers are of.
    pub numbers: ProteoNumbers,
    /// SDR, in elements, without its fraction.
    pub synchronous: u64,
    /// ADR, in elements, without its fraction.
    pub asynchronous: u64,
    /// The granularity of all stages, in files without phases.
    pub granularity: Option<u64>,
    /// `Capture_Method`.
    pub capture_method: u64,
    /// `Stage_Type` of each stage of each phase.
    pub stage_types: Vec<Vec<u64>>,
    /// The groups.
    pub groups: Vec<ProteoGroup>,
}

/// The numbers of a group. Those of the first group have no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProteoGroup {
    /// `Redistribution_Method` (RM); 0 in files that have none.
    pub redistribution_method: u64,
    /// `Redistribution_Strategy` (RS); empty in files that have none.
    pub redistribution_strategies: Vec<u64>,
    /// `Spawn_Method` (SM).
    pub spawn_method: u64,
    /// `Spawn_Strategy` (SS).
    pub spawn_strategies: Vec<u64>,
    /// `Dist`, as the output prints it: 1 spread, 2 compact.
    pub distribution: u64,
}

/// The tables of a file, whatever its language.
struct Tables {
    form: Form,
    general: Table,
    /// One table of each phase, and those of its stages. In files without phases the first table is empty.
    phases: Vec<(Table, Vec<Table>)>,
    groups: Vec<Table>,
    ignored: Vec<Ignored>,
}

impl Tables {
    fn has_phases(&self) -> bool {
        matches!(
            self.form,
            Form::ProteoJson | Form::ProteoIni(IniGeneration::Three)
        )
    }
}

/// Takes values out of tables, and lists what is ignored meanwhile.
struct Reader {
    form: Form,
    numbers: ProteoNumbers,
    ignored: Vec<Ignored>,
}

impl Reader {
    fn ignore(&mut self, place: &Place, reason: impl Into<String>) {
        self.ignored.push(Ignored {
            key: place.key.clone(),
            line: place.line,
            reason: reason.into(),
        });
    }

    /// Everything that is left in a table.
    fn ignore_rest(&mut self, table: Table) {
        for Entry { key, line, .. } in &table.entries {
            let place = Place {
                key: table.name(key),
                line: *line,
            };
            self.ignore(&place, "not a key of Proteo here");
        }
    }

    /// An integer; a fraction is cut off, as SAM does.
    fn integer(
        &mut self,
        field: &Field,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, Error> {
        let allowed = || format!("an integer, {}", describe_range(&range));
        match &field.value {
            Value::Integer(_) => field.integer(range),
            Value::Float(value) if value.abs() < 2_f64.powi(100) => {
                #[expect(clippy::cast_possible_truncation, reason = "that is what SAM does")]
                let cut = value.trunc() as i128;
                if *value < 0.0 {
                    return Err(
                        field.refuse_as(format!("{value:?} is negative"), describe_range(&range))
                    );
                }
                let result = field.in_range(cut, &range)?;
                if value.fract() != 0.0 {
                    let reason = format!("the fraction of {value:?} is cut off, as in SAM");
                    self.ignore(&field.place, reason);
                }
                Ok(result)
            }
            _ => Err(wrong_type(field, allowed())),
        }
    }

    fn required(
        &mut self,
        table: &mut Table,
        key: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<(u64, Place), Error> {
        let allowed = format!("an integer, {}", describe_range(&range));
        let field = table.require(key, allowed)?;
        Ok((self.integer(&field, range)?, field.place))
    }

    /// An integer that JSON needs and INI replaces by a default.
    fn optional_in_ini(
        &mut self,
        table: &mut Table,
        key: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, Error> {
        if self.form == Form::ProteoJson {
            return self.required(table, key, range).map(|(value, _)| value);
        }
        match table.take(key) {
            None => Ok(0),
            Some(field) => self.integer(&field, range),
        }
    }

    /// A list of strategies.
    fn list(&mut self, field: &Field) -> Result<Vec<u64>, Error> {
        const ALLOWED: &str = "a list of integers, one or more";
        match &field.value {
            Value::List(nodes) if !nodes.is_empty() => nodes
                .iter()
                .map(|node| {
                    let item = Field {
                        place: Place {
                            key: field.place.key.clone(),
                            line: node.line,
                        },
                        value: node.value.clone(),
                    };
                    self.integer(&item, 0..=MAX_INT)
                })
                .collect(),
            Value::List(_) => Err(field.refuse_as("an empty list", ALLOWED)),
            _ => Err(wrong_type(field, ALLOWED)),
        }
    }
}

/// The error for a value of a wrong type: texts are what templates have.
fn wrong_type(field: &Field, allowed: impl Into<String>) -> Error {
    match &field.value {
        Value::Text(text)
            if text.bytes().any(|byte| byte.is_ascii_digit())
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || b":,. ".contains(&byte)) =>
        {
            field.place.error(Problem::Template {
                found: field.value.describe(),
                allowed: allowed.into(),
            })
        }
        _ => field.refuse(allowed),
    }
}

/// A number as [`Field::number`] takes it.
fn number(field: &Field) -> Result<f64, Error> {
    match field.value {
        Value::Text(_) => Err(wrong_type(field, "a number, 0 and above")),
        _ => field.number(false),
    }
}

/// Gives the tables their meaning.
fn read(mut tables: Tables, options: &ReadOptions) -> Result<Configuration, Error> {
    let numbers = numbers::decide(&mut tables, options)?;
    let has_phases = tables.has_phases();
    let Tables {
        form,
        mut general,
        phases,
        groups,
        ignored,
    } = tables;
    let mut reader = Reader {
        form,
        numbers,
        ignored,
    };
    let (resizes, place) = reader.required(&mut general, "Total_Resizes", 0..=MAX_INT)?;
    expect_count(&place, groups.len(), "groups", resizes + 1, || {
        format!("one more than Total_Resizes, which is {resizes}")
    })?;
    if has_phases {
        let (total, place) = reader.required(&mut general, "Total_Phases", 1..=MAX_INT)?;
        expect_count(&place, phases.len(), "phases", total, || {
            "as Total_Phases says".to_owned()
        })?;
    }
    let (synchronous, synchronous_place) = reader.required(&mut general, "SDR", 0..=MAX_BYTES)?;
    let (asynchronous, asynchronous_place) = reader.required(&mut general, "ADR", 0..=MAX_BYTES)?;
    let element_bytes = if has_phases {
        reader.required(&mut general, "Datasize", 1..=MAX_INT)?.0
    } else {
        1
    };
    let bytes = |elements: u64, place: &Place| {
        elements
            .checked_mul(element_bytes)
            .filter(|&bytes| bytes <= MAX_BYTES)
            .ok_or_else(|| {
                place.error(Problem::Value {
                    found: format!("{elements} elements of {element_bytes} bytes are too many"),
                    allowed: format!("at most {MAX_BYTES} bytes"),
                })
            })
    };
    let variable_bytes = bytes(synchronous, &synchronous_place)?;
    let constant_bytes = bytes(asynchronous, &asynchronous_place)?;
    let rigid = reader.optional_in_ini(&mut general, "Rigid", 0..=1)? == 1;
    let capture_method = reader.optional_in_ini(&mut general, "Capture_Method", 0..=2)?;
    let granularity = if has_phases {
        None
    } else {
        let granularity = general
            .take("Granularity")
            .map(|field| reader.integer(&field, 1..=MAX_INT))
            .transpose()?;
        Some(granularity.unwrap_or(GRANULARITY))
    };

    let mut drafts = Vec::new();
    let mut iterations = Vec::new();
    let mut stage_types = Vec::new();
    for (mut phase, stages) in phases {
        if has_phases {
            iterations.push(reader.required(&mut phase, "Total_Iters", 1..=MAX_INT)?.0);
        }
        let owner = if has_phases { &mut phase } else { &mut general };
        let (total, place) = reader.required(owner, "Total_Stages", 1..=MAX_INT)?;
        expect_count(&place, stages.len(), "stages", total, || {
            "as Total_Stages says".to_owned()
        })?;
        let stages = stages
            .into_iter()
            .map(|stage| reader.stage(stage, granularity))
            .collect::<Result<Vec<_>, _>>()?;
        let (types, stages): (Vec<u64>, Vec<Draft>) = stages.into_iter().unzip();
        waits_pair(&stages)?;
        drafts.push(stages);
        stage_types.push(types);
        reader.ignore_rest(phase);
    }
    reader.ignore_rest(general);

    let places: Vec<Place> = groups.iter().map(|group| group.place.clone()).collect();
    let groups = groups
        .into_iter()
        .enumerate()
        .map(|(index, group)| reader.group(group, index == 0))
        .collect::<Result<Vec<_>, _>>()?;
    let (groups, proteo_groups): (Vec<_>, Vec<_>) = groups.into_iter().unzip();
    ranks_exist(&drafts, &groups)?;
    let groups: Vec<Group> = groups.into_iter().map(|(group, _)| group).collect();

    if !has_phases {
        iterations.push(groups.iter().map(|group| group.iterations).sum());
    }
    let mut configuration = Configuration {
        phases: drafts
            .into_iter()
            .zip(iterations)
            .map(|(stages, iterations)| Phase {
                iterations,
                stages: stages.into_iter().map(|draft| draft.stage).collect(),
            })
            .collect(),
        groups,
        counting: if has_phases {
            Counting::Sequence
        } else {
            Counting::PerGroup
        },
        constant_bytes,
        variable_bytes,
        element_bytes,
        rigid,
        capture: match capture_method {
            0 => Capture::Maximum,
            1 => Capture::Mean,
            _ => Capture::Median,
        },
        form,
        ignored: Vec::new(),
        proteo: Some(Proteo {
            numbers,
            synchronous,
            asynchronous,
            granularity,
            capture_method,
            stage_types,
            groups: proteo_groups,
        }),
    };
    for (range, place) in configuration.cursor().planned().iter().zip(&places) {
        if range.is_empty() {
            let total = configuration.cursor().iterations();
            let reason =
                format!("never reached: the phases have {total} iterations, all of groups before");
            reader.ignore(place, reason);
        }
    }
    configuration.ignored = reader.ignored;
    configuration.ignored.sort_by_key(|ignored| ignored.line);
    Ok(configuration)
}

fn expect_count(
    place: &Place,
    found: usize,
    what: &'static str,
    allowed: u64,
    because: impl FnOnce() -> String,
) -> Result<(), Error> {
    if u64::try_from(found) == Ok(allowed) {
        return Ok(());
    }
    Err(place.error(Problem::Count {
        found,
        what,
        allowed,
        because: because(),
    }))
}

/// The keys of a group that say how the job gets into it.
const TRANSITION_KEYS: [&str; 5] = [
    "Spawn_Method",
    "Spawn_Strategy",
    "Redistribution_Method",
    "Redistribution_Strategy",
    "Asynch_Redistribution_Type",
];

impl Reader {
    /// A group with the place of its number of processes, and its numbers.
    fn group(
        &mut self,
        mut table: Table,
        is_first: bool,
    ) -> Result<((Group, Place), ProteoGroup), Error> {
        if is_first {
            for entry in &table.entries {
                if TRANSITION_KEYS.contains(&entry.key.as_str()) {
                    let place = Place {
                        key: table.name(&entry.key),
                        line: entry.line,
                    };
                    self.ignore(&place, "no resize leads into the first group");
                }
            }
        }
        let (iterations, _) = self.required(&mut table, "Iters", 1..=MAX_INT)?;
        let processes = table.require("Procs", "an integer, 1 and above")?;
        let place = processes.place.clone();
        let processes = usize::try_from(self.integer(&processes, 1..=MAX_INT)?)
            .map_err(|_| processes.refuse("what fits into memory"))?;
        let speed_factor = number(&table.require("FactorS", "a number, 0 and above")?)?;
        let placement = self.placement(&mut table)?;
        let (spawn_method, _) = self.required(&mut table, "Spawn_Method", 0..=1)?;
        let spawn = table.require("Spawn_Strategy", "a list of integers")?;
        let spawn_strategies = self.list(&spawn)?;
        let (redistribution_method, redistribution) = if self.form
            == Form::ProteoIni(IniGeneration::One)
        {
            if let Some(field) = table
                .take("Asynch_Redistribution_Type")
                .filter(|_| !is_first)
            {
                let reason = "what its values mean is not documented; all data moves at the switch, by \
                                  a collective";
                self.ignore(&field.place, reason);
            }
            (0, None)
        } else {
            let (method, _) = self.required(&mut table, "Redistribution_Method", 0..=3)?;
            let strategies = table.require("Redistribution_Strategy", "a list of integers")?;
            (method, Some(strategies))
        };
        let redistribution_strategies = redistribution
            .as_ref()
            .map_or(Ok(Vec::new()), |field| self.list(field))?;
        let resize = if is_first {
            None
        } else {
            let method = numbers::method(redistribution_method);
            Some(Transition {
                management: if spawn_method == 0 {
                    Management::Baseline
                } else {
                    Management::Merge
                },
                method,
                strategy: match &redistribution {
                    None => super::Strategy::Blocking,
                    Some(field) => numbers::strategy(
                        self.numbers,
                        method,
                        &redistribution_strategies,
                        &field.place,
                    )?,
                },
                spawn_in_background: self.spawn(&spawn_strategies, &spawn.place)?,
            })
        };
        self.ignore_rest(table);
        let group = Group {
            iterations,
            processes,
            speed_factor,
            placement,
            resize,
        };
        let proteo = ProteoGroup {
            redistribution_method,
            redistribution_strategies,
            spawn_method,
            spawn_strategies,
            distribution: match placement {
                Placement::Spread => 1,
                Placement::Compact => 2,
            },
        };
        Ok(((group, place), proteo))
    }

    /// Where the processes go, which has no effect here.
    fn placement(&mut self, table: &mut Table) -> Result<Placement, Error> {
        const ALLOWED: &str = "\"compact\" or \"spread\"";
        let field = table.require("Dist", ALLOWED)?;
        let text = field.text(ALLOWED)?;
        let mut reason = "where processes go is up to the process manager".to_owned();
        let placement = match text {
            "spread" => Placement::Spread,
            "compact" => Placement::Compact,
            _ if self.form == Form::ProteoJson => return Err(field.refuse(ALLOWED)),
            _ => {
                reason = format!(
                    "{} is \"compact\" to SAM, as all but \"spread\" is; {reason}",
                    field.value.describe()
                );
                Placement::Compact
            }
        };
        self.ignore(&field.place, reason);
        Ok(placement)
    }

    /// Whether processes start in the background. The other strategies do not exist here.
    fn spawn(&mut self, strategies: &[u64], place: &Place) -> Result<bool, Error> {
        let mut in_background = false;
        for &strategy in strategies {
            let (background, other) = numbers::spawn(self.numbers, strategy, place)?;
            in_background |= background;
            if let Some(name) = other {
                let reason = format!(
                    "strategy {strategy} ({name}) does not exist here: one call starts all processes"
                );
                self.ignore(place, reason);
            }
        }
        Ok(in_background)
    }
}

#[cfg(test)]
mod tests;
