//! Our own form.
//!
//! Sizes are bytes as integers, or texts such as `"64KiB"`; times are seconds. `cg.toml` shows all that is
//! commonly used.

use super::check::{Draft, ranks_exist, waits_pair};
use super::error::{Error, Problem, quote};
use super::tree::{Entry, Field, Lines, MAX_BYTES, MAX_INT, Node, Place, Table, Value};
use super::{
    Capture, Configuration, Counting, Form, GRANULARITY, Group, Management, Method, Phase,
    Placement, ReadOptions, Stage, StageKind, Strategy, Transition,
};

use ::toml::de::{DeTable, DeValue};

const ROOT_KEYS: [&str; 8] = [
    "constant", "variable", "scale", "rigid", "capture", "stage", "phase", "group",
];
const PHASE_KEYS: [&str; 2] = ["iterations", "stage"];
const FIRST_GROUP_KEYS: [&str; 3] = ["processes", "iterations", "speed_factor"];
const GROUP_KEYS: [&str; 6] = [
    "processes",
    "iterations",
    "speed_factor",
    "variant",
    "management",
    "spawn_in_background",
];

/// Reads our form.
pub(super) fn parse(text: &str, options: &ReadOptions) -> Result<Configuration, Error> {
    let mut root = tree(text)?;
    if let Some(asked) = options.proteo_numbers {
        return Err(Error::of_file(
            None,
            Problem::ContradictedNumbers {
                asked,
                evidence: "TOML, which has names in place of numbers".to_owned(),
                allowed: "only for .ini files",
            },
        ));
    }
    let scale = root
        .take("scale")
        .map_or(Ok(1.0), |field| field.number(true))?;
    let constant_bytes = size(root.take("constant"), scale)?;
    let variable_bytes = size(root.take("variable"), scale)?;
    let rigid = root
        .take("rigid")
        .map_or(Ok(false), |field| field.boolean())?;
    let capture = root.take("capture").map_or(Ok(Capture::Maximum), |field| {
        field.choice(&[
            ("max", Capture::Maximum),
            ("mean", Capture::Mean),
            ("median", Capture::Median),
        ])
    })?;
    let stages = root.take("stage");
    let phases = root.take("phase");
    let groups = root.take("group");
    root.end(&ROOT_KEYS)?;

    let (counting, mut drafts, iterations) = match (stages, phases) {
        (Some(stages), None) => (
            Counting::PerGroup,
            vec![read_stages(stages, "stage", scale)?],
            Vec::new(),
        ),
        (None, Some(phases)) => {
            let (drafts, iterations) = read_phases(phases, scale)?;
            (Counting::Sequence, drafts, iterations)
        }
        (None, None) => {
            return Err(root.missing("stage", "one [[stage]] or more, or [[phase]] with stages"));
        }
        (Some(stages), Some(phases)) => {
            return Err(phases.refuse_as(
                format!("given beside [[stage]] (line {})", stages.place.line),
                "either [[stage]] or [[phase]]",
            ));
        }
    };
    let groups = groups.ok_or_else(|| root.missing("group", "one [[group]] or more"))?;
    let groups = read_groups(groups, &iterations)?;
    ranks_exist(&drafts, &groups)?;
    for stages in &drafts {
        waits_pair(stages)?;
    }
    let groups: Vec<Group> = groups.into_iter().map(|(group, _)| group).collect();
    let iterations = match counting {
        Counting::Sequence => iterations,
        Counting::PerGroup => vec![groups.iter().map(|group| group.iterations).sum()],
    };
    Ok(Configuration {
        phases: drafts
            .drain(..)
            .zip(iterations)
            .map(|(stages, iterations)| Phase {
                iterations,
                stages: stages.into_iter().map(|draft| draft.stage).collect(),
            })
            .collect(),
        groups,
        counting,
        constant_bytes,
        variable_bytes,
        element_bytes: 1,
        rigid,
        capture,
        form: Form::Toml,
        ignored: Vec::new(),
        proteo: None,
    })
}

/// The phases' stages, and their iterations.
fn read_phases(field: Field, scale: f64) -> Result<(Vec<Vec<Draft>>, Vec<u64>), Error> {
    let empty = field.refuse_as("no phase", "one [[phase]] or more");
    let mut drafts = Vec::new();
    let mut iterations = Vec::new();
    for mut phase in field.tables(|_| "phase".to_owned())? {
        let count = phase
            .require("iterations", "an integer, 1 and above")?
            .integer(1..=MAX_INT)?;
        let stages = phase.require("stage", "one [[phase.stage]] or more")?;
        phase.end(&PHASE_KEYS)?;
        iterations.push(count);
        drafts.push(read_stages(stages, "phase.stage", scale)?);
    }
    if drafts.is_empty() {
        return Err(empty);
    }
    Ok((drafts, iterations))
}

fn read_stages(field: Field, name: &str, scale: f64) -> Result<Vec<Draft>, Error> {
    let empty = field.refuse_as("no stage", format!("one [[{name}]] or more"));
    let stages = field
        .tables(|_| name.to_owned())?
        .into_iter()
        .map(|stage| read_stage(stage, scale))
        .collect::<Result<Vec<_>, _>>()?;
    if stages.is_empty() {
        return Err(empty);
    }
    Ok(stages)
}

/// The kinds, with rank 0, all ranks, or identifier 0 where they have one.
const KINDS: [StageKind; 11] = [
    StageKind::Pi,
    StageKind::MatVec,
    StageKind::PointToPoint,
    StageKind::StartPointToPoint { identifier: 0 },
    StageKind::Wait { identifier: 0 },
    StageKind::Broadcast { root: 0 },
    StageKind::Allgatherv,
    StageKind::Reduce { root: 0 },
    StageKind::Allreduce,
    StageKind::FileWrite { ranks: 0 },
    StageKind::FileRead { ranks: 0 },
];

/// The keys that a stage of this kind may have.
fn stage_keys(kind: StageKind) -> Vec<&'static str> {
    let mut keys = vec!["kind"];
    keys.extend_from_slice(match kind {
        StageKind::Pi | StageKind::MatVec => &["time", "operations", "granularity"][..],
        StageKind::Wait { .. } => &["identifier"],
        StageKind::StartPointToPoint { .. } => &["bytes", "time", "operations", "identifier"],
        StageKind::PointToPoint | StageKind::Allgatherv | StageKind::Allreduce => {
            &["bytes", "time", "operations", "capped"]
        }
        StageKind::Broadcast { .. } | StageKind::Reduce { .. } => {
            &["bytes", "time", "operations", "capped", "root"]
        }
        StageKind::FileWrite { .. } | StageKind::FileRead { .. } => {
            &["bytes", "time", "operations", "capped", "ranks"]
        }
    });
    keys
}

fn read_stage(mut table: Table, scale: f64) -> Result<Draft, Error> {
    let names = KINDS.map(|kind| (kind.name(), kind));
    let all = KINDS.map(StageKind::name).join(", ");
    let kind = table.require("kind", all)?.choice(&names)?;
    let keys = stage_keys(kind);
    let mut take = |key: &str| keys.contains(&key).then(|| table.take(key)).flatten();
    let (bytes, time) = (take("bytes"), take("time"));
    let (operations, capped) = (take("operations"), take("capped"));
    let (root, ranks) = (take("root"), take("ranks"));
    let (identifier, granularity) = (take("identifier"), take("granularity"));
    table.end(&keys)?;

    let scale_bytes = if kind == StageKind::Allgatherv {
        scale
    } else {
        1.0
    };
    let bytes = size(bytes, scale_bytes)?;
    if let (Some(time), Some(operations)) = (&time, &operations) {
        return Err(operations.refuse_as(
            format!("given beside time (line {})", time.place.line),
            "either time or operations",
        ));
    }
    let time_s = time
        .as_ref()
        .map(|time| {
            let seconds = time.number(kind.is_computation())? * scale;
            if seconds.is_finite() {
                Ok(seconds)
            } else {
                Err(time.refuse("what a number can hold after it is scaled"))
            }
        })
        .transpose()?
        .unwrap_or(0.0);
    let operations = operations
        .map(|field| field.integer(1..=MAX_INT))
        .transpose()?;
    let is_capped = capped.as_ref().map_or(Ok(false), Field::boolean)?;
    if let Some(capped) = capped.filter(|_| is_capped && time_s == 0.0) {
        return Err(capped.refuse_as("true without a time", "true with time, false"));
    }
    let granularity = granularity.map_or(Ok(GRANULARITY), |field| field.integer(1..=MAX_INT))?;
    let (time_missing, bytes_missing) = (time_s == 0.0, bytes == 0);
    if kind.is_computation() && time_missing && operations.is_none() {
        return Err(table.missing("time", "a time above 0, or operations"));
    }
    let is_message = !kind.is_computation() && !matches!(kind, StageKind::Wait { .. });
    if is_message && bytes_missing && (time_missing || operations.is_some()) {
        return Err(table.missing("bytes", "bytes above 0, or a time above 0"));
    }

    let (mut rank_place, mut identifier_place) = (None, None);
    let mut count = |field: Option<Field>| -> Result<usize, Error> {
        rank_place = field.as_ref().map(|field| field.place.clone());
        field.map_or(Ok(0), |field| field.count(0))
    };
    let mut name = || -> Result<u64, Error> {
        let allowed = "an integer that the start and its wait share";
        let field = identifier
            .as_ref()
            .ok_or_else(|| table.missing("identifier", allowed))?;
        identifier_place = Some(field.place.clone());
        field.integer(0..=MAX_INT)
    };
    let kind = match kind {
        StageKind::StartPointToPoint { .. } => StageKind::StartPointToPoint {
            identifier: name()?,
        },
        StageKind::Wait { .. } => StageKind::Wait {
            identifier: name()?,
        },
        StageKind::Broadcast { .. } => StageKind::Broadcast { root: count(root)? },
        StageKind::Reduce { .. } => StageKind::Reduce { root: count(root)? },
        StageKind::FileWrite { .. } => StageKind::FileWrite {
            ranks: count(ranks)?,
        },
        StageKind::FileRead { .. } => StageKind::FileRead {
            ranks: count(ranks)?,
        },
        other => other,
    };
    // Messages that are repeated to fill a time have their size in `granularity`, as in Proteo.
    let fills_time = is_message && !time_missing;
    Ok(Draft {
        stage: Stage {
            kind,
            bytes: if fills_time { 0 } else { bytes },
            time_s,
            capped: is_capped,
            granularity: if fills_time && !bytes_missing {
                bytes
            } else {
                granularity
            },
            operations,
        },
        place: table.place,
        ranks: rank_place,
        identifier: identifier_place,
    })
}

/// The groups, each with the place of its number of processes. `phases` are the phases' iterations; without
/// any, each group says its own.
fn read_groups(field: Field, phases: &[u64]) -> Result<Vec<(Group, Place)>, Error> {
    let empty = field.refuse_as("no group", "one [[group]] or more");
    let tables = field.tables(|_| "group".to_owned())?;
    let last = tables.len().checked_sub(1).ok_or(empty)?;
    let total: u64 = phases.iter().sum();
    let mut left = total;
    let mut groups = Vec::new();
    for (index, mut table) in tables.into_iter().enumerate() {
        let processes = table.require("processes", "an integer, 1 and above")?;
        let place = processes.place.clone();
        let processes = processes.count(1)?;
        let iterations = if phases.is_empty() {
            table
                .require("iterations", "an integer, 1 and above")?
                .integer(1..=MAX_INT)?
        } else if index == last {
            if let Some(field) = table.take("iterations") {
                return Err(field.refuse_as(
                    "given for the last group, which runs until the phases end",
                    "no iterations here",
                ));
            }
            left
        } else {
            let field = table.require("iterations", "an integer, 1 and above")?;
            let iterations = field.integer(1..=MAX_INT)?;
            left = left
                .checked_sub(iterations)
                .filter(|&left| left > 0)
                .ok_or_else(|| {
                    field.refuse_as(
                        format!(
                            "{iterations} iterations, but the phases have {total}, of which {left} are left"
                        ),
                        "so many that each group has some",
                    )
                })?;
            iterations
        };
        let speed_factor = table
            .take("speed_factor")
            .map_or(Ok(1.0), |field| field.number(false))?;
        let resize = if index == 0 {
            for key in &GROUP_KEYS[FIRST_GROUP_KEYS.len()..] {
                if let Some(field) = table.take(key) {
                    return Err(field.refuse_as(
                        "given for the first group, into which no resize leads",
                        FIRST_GROUP_KEYS.join(", "),
                    ));
                }
            }
            None
        } else {
            Some(read_transition(&mut table)?)
        };
        table.end(if index == 0 {
            &FIRST_GROUP_KEYS
        } else {
            &GROUP_KEYS
        })?;
        let group = Group {
            iterations,
            processes,
            speed_factor,
            placement: Placement::Compact,
            resize,
        };
        groups.push((group, place));
    }
    Ok(groups)
}

fn read_transition(table: &mut Table) -> Result<Transition, Error> {
    let (method, strategy) = table
        .take("variant")
        .map_or(Ok((Method::Collective, Strategy::Blocking)), |field| {
            variant(&field)
        })?;
    let management = table
        .take("management")
        .map_or(Ok(Management::Merge), |field| {
            field.choice(&[
                ("baseline", Management::Baseline),
                ("merge", Management::Merge),
            ])
        })?;
    let spawn_in_background = table
        .take("spawn_in_background")
        .map_or(Ok(false), |field| field.boolean())?;
    Ok(Transition {
        management,
        method,
        strategy,
        spawn_in_background,
    })
}

/// A method and a strategy by their common name.
fn variant(field: &Field) -> Result<(Method, Strategy), Error> {
    let all = || {
        Method::ALL
            .into_iter()
            .flat_map(|method| Strategy::ALL.map(|strategy| (method, strategy)))
    };
    let name = |(method, strategy): (Method, Strategy)| format!("{method}{}", strategy.suffix());
    let names = |only: Option<Method>| {
        all()
            .filter(|&(method, strategy)| {
                method.goes_with(strategy) && only.is_none_or(|only| only == method)
            })
            .map(name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let text = field.text(&names(None))?;
    match all().find(|&pair| name(pair) == text) {
        Some((method, strategy)) if method.goes_with(strategy) => Ok((method, strategy)),
        Some((method, _)) => Err(field.place.error(Problem::NoSuchVariant {
            method,
            strategy: quote(text),
            allowed: names(Some(method)),
        })),
        None => Err(field.refuse(names(None))),
    }
}

/// Bytes, multiplied with a scale and rounded up; 0 where there is no key.
fn size(field: Option<Field>, scale: f64) -> Result<u64, Error> {
    const ALLOWED: &str = "bytes, or a text with B, KiB, MiB, GiB or TiB such as \"64KiB\"";
    let Some(field) = field else {
        return Ok(0);
    };
    let bytes = match &field.value {
        Value::Integer(value) => field.in_range(*value, &(0..=MAX_BYTES))?,
        Value::Text(text) => in_units(text).ok_or_else(|| field.refuse(ALLOWED))?,
        _ => return Err(field.refuse(ALLOWED)),
    };
    scaled(bytes, scale).ok_or_else(|| {
        field.refuse_as(
            format!("{bytes} bytes times the scale {scale:?} are too many"),
            format!("at most {MAX_BYTES} after scaling"),
        )
    })
}

fn in_units(text: &str) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start() {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number
        .checked_mul(1 << shift)
        .filter(|&bytes| bytes <= MAX_BYTES)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked before"
)]
fn scaled(bytes: u64, scale: f64) -> Option<u64> {
    if scale == 1.0 {
        return Some(bytes);
    }
    let product = (bytes as f64 * scale).ceil();
    (product < MAX_BYTES as f64).then_some(product as u64)
}

/// The document as a tree.
fn tree(text: &str) -> Result<Table, Error> {
    let lines = Lines::new(text);
    let document = DeTable::parse(text).map_err(|error| {
        let problem = Problem::Syntax {
            language: "TOML",
            message: error.message().lines().collect::<Vec<_>>().join(", "),
        };
        Error::of_file(error.span().map(|span| lines.at(span.start)), problem)
    })?;
    Ok(Table {
        place: Place {
            key: String::new(),
            line: 1,
        },
        entries: entries(document.get_ref(), &lines),
    })
}

fn entries(table: &DeTable<'_>, lines: &Lines) -> Vec<Entry> {
    table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            line: lines.at(key.span().start),
            value: node(lines.at(value.span().start), value.get_ref(), lines),
        })
        .collect()
}

fn node(line: u64, value: &DeValue<'_>, lines: &Lines) -> Node {
    let value = match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => i128::from_str_radix(integer.as_str(), integer.radix())
            .map_or(
                Value::Other("an integer of more than 127 bits"),
                Value::Integer,
            ),
        DeValue::Float(float) => float
            .as_str()
            .parse()
            .map_or(Value::Other("a float that cannot be read"), Value::Float),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(_) => Value::Other("a date or time"),
        DeValue::Array(list) => Value::List(
            list.iter()
                .map(|item| node(lines.at(item.span().start), item.get_ref(), lines))
                .collect(),
        ),
        DeValue::Table(table) => Value::Table(entries(table, lines)),
    };
    Node { line, value }
}

#[cfg(test)]
mod tests;
