//! Proteo's INI files, as the library inih reads them for SAM.

use std::collections::BTreeMap;

use super::super::error::{Error, Problem, quote};
use super::super::tree::{Entry, Node, Place, Table, Value};
use super::super::{Configuration, Form, Ignored, ReadOptions};
use super::{IniGeneration, ProteoNumbers, Reader, Tables};

/// Reads Proteo's INI.
pub(in super::super) fn parse(text: &str, options: &ReadOptions) -> Result<Configuration, Error> {
    let mut notes = Vec::new();
    let sections = sections(text, &mut notes)?;
    refuse_oldest(&sections)?;
    let mut tables = arrange(sections);
    tables.ignored.append(&mut notes);
    super::read(tables, options)
}

/// Keys that SAM reads as floats.
const FLOATS: [&str; 2] = ["Stage_Time", "FactorS"];
/// Keys that hold lists.
const LISTS: [&str; 2] = ["Spawn_Strategy", "Redistribution_Strategy"];
/// Keys that SAM reads as integers.
const INTEGERS: [&str; 20] = [
    "Total_Resizes",
    "Total_Phases",
    "Total_Stages",
    "Total_Iters",
    "Granularity",
    "SDR",
    "ADR",
    "Datasize",
    "Rigid",
    "Capture_Method",
    "Stage_Type",
    "Stage_Bytes",
    "Stage_Time_Capped",
    "Stage_Identifier",
    "Stage_Involved_Procs",
    "Iters",
    "Procs",
    "Spawn_Method",
    "Redistribution_Method",
    "Asynch_Redistribution_Type",
];

/// The sections in their order, each a table with the section's name and line.
fn sections(text: &str, notes: &mut Vec<Ignored>) -> Result<Vec<Table>, Error> {
    let mut sections: Vec<Table> = Vec::new();
    let mut lines_of_names: BTreeMap<String, u64> = BTreeMap::new();
    for (line, raw) in (1..).zip(text.lines()) {
        let trimmed = raw.trim();
        if trimmed.is_empty() || trimmed.starts_with([';', '#']) {
            continue;
        }
        let syntax = |message: &str| {
            let problem = Problem::Syntax {
                language: "INI",
                message: message.to_owned(),
            };
            Error::of_file(Some(line), problem)
        };
        let has_key = sections
            .last()
            .is_some_and(|section| !section.entries.is_empty());
        if raw.starts_with(char::is_whitespace) && has_key {
            return Err(syntax(
                "an indented line continues the value above it for SAM; allowed: lines that are not indented",
            ));
        }
        let content = without_comment(trimmed);
        if let Some(name) = content.strip_prefix('[') {
            let name = name
                .strip_suffix(']')
                .ok_or_else(|| syntax("a section ends with ]; allowed: [name]"))?;
            let place = Place {
                key: name.to_owned(),
                line,
            };
            if let Some(first) = lines_of_names.insert(name.to_owned(), line) {
                return Err(place.error(Problem::Duplicate { first }));
            }
            sections.push(Table {
                place,
                entries: Vec::new(),
            });
            continue;
        }
        let (key, value) = content.split_once(['=', ':']).ok_or_else(|| {
            syntax("neither key nor section; allowed: key=value, [name], ; comment")
        })?;
        if sections.is_empty() {
            sections.push(Table {
                place: Place {
                    key: String::new(),
                    line,
                },
                entries: Vec::new(),
            });
        }
        if let Some(section) = sections.last_mut() {
            let key = key.trim_end();
            let place = Place {
                key: section.name(key),
                line,
            };
            let value = value_of(key, value.trim(), &place, notes)?;
            section.entries.push(Entry {
                key: key.to_owned(),
                line,
                value: Node { line, value },
            });
            section.no_duplicates()?;
        }
    }
    Ok(sections)
}

/// A line up to a `;` that comes after white space.
fn without_comment(line: &str) -> &str {
    let mut before = ' ';
    for (offset, letter) in line.char_indices() {
        if letter == ';' && before.is_whitespace() {
            return line[..offset].trim_end();
        }
        before = letter;
    }
    line
}

/// The value of a key, with the type that SAM gives it.
fn value_of(
    key: &str,
    text: &str,
    place: &Place,
    notes: &mut Vec<Ignored>,
) -> Result<Value, Error> {
    if !is_number(key) && !LISTS.contains(&key) {
        return Ok(Value::Text(text.to_owned()));
    }
    let number = match text.split_once('#') {
        None => text,
        Some((number, _)) => {
            notes.push(Ignored {
                key: place.key.clone(),
                line: place.line,
                reason: "# starts no comment inside a line; SAM reads the number before it"
                    .to_owned(),
            });
            number.trim_end()
        }
    };
    let as_text = || Value::Text(number.to_owned());
    if LISTS.contains(&key) {
        let items: Option<Vec<Node>> = number
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(|item| {
                Some(Node {
                    line: place.line,
                    value: Value::Integer(item.parse().ok()?),
                })
            })
            .collect();
        return Ok(items.map_or_else(as_text, Value::List));
    }
    if let Ok(integer) = number.parse() {
        return Ok(Value::Integer(integer));
    }
    let Ok(float) = number.parse() else {
        return Ok(as_text());
    };
    let is_decimal = number
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.".contains(&byte));
    if is_decimal || FLOATS.contains(&key) {
        return Ok(Value::Float(float));
    }
    Err(place.error(Problem::Value {
        found: format!(
            "{}, of which SAM reads the digits at the start only",
            quote(number)
        ),
        allowed: "an integer in digits".to_owned(),
    }))
}

fn is_number(key: &str) -> bool {
    INTEGERS.contains(&key) || FLOATS.contains(&key)
}

/// Refuses files of the oldest form.
fn refuse_oldest(sections: &[Table]) -> Result<(), Error> {
    let entries = || sections.iter().flat_map(|section| &section.entries);
    if entries().any(|entry| entry.key == "Total_Resizes") {
        return Ok(());
    }
    match entries().find(|entry| ["resizes", "matrix_tam"].contains(&entry.key.as_str())) {
        None => Ok(()),
        Some(entry) => Err(Error::at(entry.line, &entry.key, Problem::OldestForm)),
    }
}

/// What a section is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    General,
    Phase(usize),
    /// Of this phase; without phases, of phase 0.
    Stage(usize, usize),
    Group(usize),
}

impl Section {
    fn of(name: &str, has_phases: bool) -> Option<Self> {
        let index = |digits: &str| {
            digits
                .parse::<usize>()
                .ok()
                .filter(|index| index.to_string() == digits)
        };
        if name == "general" {
            return Some(Self::General);
        }
        if let Some(digits) = name.strip_prefix("resize") {
            return index(digits).map(Self::Group);
        }
        if !has_phases {
            return index(name.strip_prefix("stage")?).map(|stage| Self::Stage(0, stage));
        }
        let name = name.strip_prefix("phase")?;
        match name.split_once(".stage") {
            None => index(name).map(Self::Phase),
            Some((phase, stage)) => Some(Self::Stage(index(phase)?, index(stage)?)),
        }
    }
}

/// A count that a section gives, if it is there and makes sense.
fn count(section: &Table, key: &str) -> Option<usize> {
    let entry = section.entries.iter().find(|entry| entry.key == key)?;
    match entry.value.value {
        Value::Integer(count) => usize::try_from(count).ok(),
        _ => None,
    }
}

/// Puts sections where the tables of JSON are.
fn arrange(sections: Vec<Table>) -> Tables {
    let has_phases = sections.iter().any(|section| {
        let name = section.place.key.as_str();
        let is_general = name == "general";
        (is_general
            && section
                .entries
                .iter()
                .any(|entry| entry.key == "Total_Phases"))
            || matches!(
                Section::of(name, true),
                Some(Section::Phase(_) | Section::Stage(..))
            )
    });
    let is_first_form = sections.iter().any(|section| {
        matches!(
            Section::of(&section.place.key, false),
            Some(Section::Group(_))
        ) && section
            .entries
            .iter()
            .any(|entry| entry.key == "Asynch_Redistribution_Type")
    });
    let form = Form::ProteoIni(match (has_phases, is_first_form) {
        (true, _) => IniGeneration::Three,
        (false, true) => IniGeneration::One,
        // Which of the two it is depends on its numbers.
        (false, false) => IniGeneration::OneB,
    });
    let mut reader = Reader {
        form,
        numbers: ProteoNumbers::New,
        ignored: Vec::new(),
    };
    list_what_sam_skips(&sections, has_phases, &mut reader);

    let mut general = Table {
        place: Place {
            key: "general".to_owned(),
            line: 1,
        },
        entries: Vec::new(),
    };
    let mut phases: BTreeMap<usize, Table> = BTreeMap::new();
    let mut stages: BTreeMap<usize, BTreeMap<usize, Table>> = BTreeMap::new();
    let mut groups: BTreeMap<usize, Table> = BTreeMap::new();
    for section in sections {
        match Section::of(&section.place.key, has_phases) {
            Some(Section::General) => general = section,
            Some(Section::Phase(phase)) => {
                phases.insert(phase, section);
            }
            Some(Section::Stage(phase, stage)) => {
                stages.entry(phase).or_default().insert(stage, section);
            }
            Some(Section::Group(group)) => {
                groups.insert(group, section);
            }
            None if section.place.key.is_empty() => reader.ignore_rest(section),
            None => reader.ignore(&section.place, "not a section of Proteo here"),
        }
    }
    if !has_phases {
        phases.insert(
            0,
            Table {
                place: general.place.clone(),
                entries: Vec::new(),
            },
        );
    }
    let mut keep = |tables: BTreeMap<usize, Table>, total: Option<usize>, says: &str| {
        let mut kept = Vec::new();
        for (index, table) in tables {
            if total.is_some_and(|total| index >= total) {
                reader.ignore(&table.place, format!("beyond the number that {says} gives"));
            } else {
                kept.push((index, table));
            }
        }
        kept
    };
    let resizes = count(&general, "Total_Resizes");
    let groups = keep(
        groups,
        resizes.map(|resizes| resizes.saturating_add(1)),
        "Total_Resizes",
    );
    let total = if has_phases {
        count(&general, "Total_Phases")
    } else {
        None
    };
    let phases = keep(phases, total, "Total_Phases")
        .into_iter()
        .map(|(index, phase)| {
            let owner = if has_phases { &phase } else { &general };
            let total = count(owner, "Total_Stages");
            let stages = keep(
                stages.remove(&index).unwrap_or_default(),
                total,
                "Total_Stages",
            );
            (phase, without_index(stages))
        })
        .collect();
    for section in stages.into_values().flat_map(BTreeMap::into_values) {
        reader.ignore(&section.place, "a stage of a phase that is not there");
    }
    Tables {
        form,
        general,
        phases,
        groups: without_index(groups),
        ignored: reader.ignored,
    }
}

fn without_index(tables: Vec<(usize, Table)>) -> Vec<Table> {
    tables.into_iter().map(|(_, table)| table).collect()
}

/// Lists what SAM does not read because of its place: it expects sections in the order of their numbers, and
/// is done with one when it has read `Stage_Time` or `Spawn_Strategy`.
fn list_what_sam_skips(sections: &[Table], has_phases: bool, reader: &mut Reader) {
    let (mut next_phase, mut next_stage, mut next_group) = (0, 0, 0);
    let mut stages_of_phase = None;
    for section in sections {
        let kind = Section::of(&section.place.key, has_phases);
        for entry in &section.entries {
            let key = entry.key.as_str();
            let is_read = match kind {
                Some(Section::Phase(phase)) => {
                    if phase == next_phase && key == "Total_Stages" {
                        next_stage = 0;
                        stages_of_phase = count(section, key);
                    }
                    phase == next_phase
                }
                Some(Section::Stage(phase, stage)) => {
                    let is_next = phase == next_phase && stage == next_stage;
                    if is_next && key == "Stage_Time" {
                        next_stage += 1;
                        if has_phases && Some(next_stage) == stages_of_phase {
                            next_phase += 1;
                        }
                    }
                    is_next
                }
                Some(Section::Group(group)) => {
                    let is_next = group == next_group;
                    if is_next && key == "Spawn_Strategy" {
                        next_group += 1;
                    }
                    is_next
                }
                Some(Section::General) | None => true,
            };
            let is_known = is_number(key) || LISTS.contains(&key) || key == "Dist";
            if is_known && !is_read {
                let place = Place {
                    key: section.name(key),
                    line: entry.line,
                };
                let reason = "read here, but SAM skips it: it expects sections in order, and Stage_Time or \
                              Spawn_Strategy as the last key of each";
                reader.ignore(&place, reason);
            }
        }
    }
}
