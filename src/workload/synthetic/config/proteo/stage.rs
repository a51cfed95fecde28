//! The stages of Proteo's files.

use super::super::check::Draft;
use super::super::error::{Error, Problem};
use super::super::tree::{Field, MAX_INT, Place, Table};
use super::super::{GRANULARITY, Stage, StageKind};
use super::numbers::{StageType, stage_types};
use super::{Reader, number};

/// The optional keys of a stage.
struct Optional {
    granularity: Option<Field>,
    capped: Option<Field>,
    identifier: Option<Field>,
    involved: Option<Field>,
}

impl Reader {
    /// A stage and the number of its type. `granularity` is that of all stages, where there is one.
    pub(super) fn stage(
        &mut self,
        mut table: Table,
        granularity: Option<u64>,
    ) -> Result<(u64, Draft), Error> {
        let types = stage_types(self.numbers);
        let last = types.len() as u64 - 1;
        let (type_number, type_place) = self.required(&mut table, "Stage_Type", 0..=last)?;
        let stage_type = usize::try_from(type_number)
            .ok()
            .and_then(|index| types.get(index).copied())
            .unwrap_or(StageType::Pi);
        // SAM keeps it in an int.
        let (bytes, bytes_place) = self.required(&mut table, "Stage_Bytes", 0..=MAX_INT)?;
        let time = table.require("Stage_Time", "a number, 0 and above")?;
        let time_s = number(&time)?;
        let keys = Optional {
            // Without phases there is one for all stages, and this key means nothing.
            granularity: if granularity.is_none() {
                table.take("Granularity")
            } else {
                None
            },
            capped: table.take("Stage_Time_Capped"),
            identifier: table.take("Stage_Identifier"),
            involved: table.take("Stage_Involved_Procs"),
        };
        let capped = match &keys.capped {
            None => false,
            Some(field) => self.integer(field, 0..=1)? == 1,
        };
        let own_granularity = keys
            .granularity
            .as_ref()
            .map(|field| self.integer(field, 0..=MAX_INT))
            .transpose()?;
        let kind = self.kind(stage_type, &table, &keys)?;
        let stage = Stage {
            kind,
            bytes,
            time_s,
            capped,
            granularity: own_granularity.or(granularity).unwrap_or(GRANULARITY),
            operations: None,
        };
        check(&stage, &bytes_place, &time, &keys)?;
        self.without_effect(&stage, type_number, &bytes_place, &time.place, &keys);
        let draft = Draft {
            stage,
            ranks: keys.involved.map(|field| field.place),
            identifier: Some(keys.identifier.map_or(type_place, |field| field.place)),
            place: table.place.clone(),
        };
        self.ignore_rest(table);
        Ok((type_number, draft))
    }

    fn kind(
        &mut self,
        stage_type: StageType,
        table: &Table,
        keys: &Optional,
    ) -> Result<StageKind, Error> {
        let identifier = |reader: &mut Self| match &keys.identifier {
            Some(field) => reader.integer(field, 0..=MAX_INT),
            None => Err(table.missing(
                "Stage_Identifier",
                "an integer that stages of types 3 (start) and 4 (wait) share",
            )),
        };
        let ranks = |reader: &mut Self| match &keys.involved {
            None => Ok(0),
            Some(field) => usize::try_from(reader.integer(field, 0..=MAX_INT)?)
                .map_err(|_| field.refuse("what fits into memory")),
        };
        Ok(match stage_type {
            StageType::Pi => StageKind::Pi,
            StageType::MatVec => StageKind::MatVec,
            StageType::PointToPoint => StageKind::PointToPoint,
            StageType::StartPointToPoint => StageKind::StartPointToPoint {
                identifier: identifier(self)?,
            },
            StageType::Wait => StageKind::Wait {
                identifier: identifier(self)?,
            },
            StageType::Broadcast => StageKind::Broadcast { root: 0 },
            StageType::Allgatherv => StageKind::Allgatherv,
            StageType::Reduce => StageKind::Reduce { root: 0 },
            StageType::Allreduce => StageKind::Allreduce,
            StageType::FileWrite => StageKind::FileWrite {
                ranks: ranks(self)?,
            },
            StageType::FileRead => StageKind::FileRead {
                ranks: ranks(self)?,
            },
        })
    }

    /// Lists what the file says about the stage and nobody reads.
    fn without_effect(
        &mut self,
        stage: &Stage,
        type_number: u64,
        bytes: &Place,
        time: &Place,
        keys: &Optional,
    ) {
        let kind = stage.kind;
        let is_wait = matches!(kind, StageKind::Wait { .. });
        let is_start = matches!(kind, StageKind::StartPointToPoint { .. });
        let of_type = format!("no effect on stages of type {type_number} ({kind})");
        if stage.bytes > 0 {
            if kind.is_computation() || is_wait {
                self.ignore(bytes, of_type.as_str());
            } else if stage.capped {
                let reason = "a capped stage has operations of Granularity bytes, as in SAM";
                self.ignore(bytes, reason);
            }
        }
        let one_operation = stage.bytes > 0 && (!stage.capped || is_start);
        if stage.time_s > 0.0 {
            if is_wait && !stage.capped {
                self.ignore(time, "no effect on a wait that is not capped");
            } else if one_operation && !kind.is_computation() && !is_wait {
                let reason = "a stage with Stage_Bytes runs as often as these need, as in SAM";
                self.ignore(time, reason);
            }
        }
        if let Some(field) = &keys.capped
            && stage.capped
        {
            if kind.is_computation() {
                self.ignore(&field.place, of_type.as_str());
            } else if is_start {
                let reason = "only the wait of this start can end it, as in SAM";
                self.ignore(&field.place, reason);
            }
        }
        if let Some(field) = &keys.granularity
            && !kind.is_computation()
            && (is_wait || (stage.bytes > 0 && !stage.capped))
        {
            let reason = if is_wait {
                of_type.as_str()
            } else {
                "no effect on a stage with Stage_Bytes"
            };
            self.ignore(&field.place, reason);
        }
        if let Some(field) = &keys.identifier
            && !is_wait
            && !is_start
        {
            self.ignore(&field.place, of_type.as_str());
        }
        if let Some(field) = &keys.involved
            && !kind.is_file()
        {
            self.ignore(&field.place, of_type.as_str());
        }
    }
}

/// What Proteo's own generator of files demands, and SAM's manual calls undefined otherwise.
fn check(stage: &Stage, bytes: &Place, time: &Field, keys: &Optional) -> Result<(), Error> {
    let kind = stage.kind;
    if matches!(kind, StageKind::Wait { .. }) {
        if stage.capped && stage.time_s == 0.0 {
            return Err(time.refuse_as("0, but the wait is capped", "above 0"));
        }
        return Ok(());
    }
    let needs_time = kind.is_computation()
        || (stage.capped && !matches!(kind, StageKind::StartPointToPoint { .. }));
    if needs_time && stage.time_s == 0.0 {
        let found = if kind.is_computation() {
            format!("0, but the stage computes ({kind})")
        } else {
            "0, but the stage is capped".to_owned()
        };
        return Err(time.refuse_as(found, "above 0"));
    }
    if !kind.is_computation() && stage.bytes == 0 && stage.time_s == 0.0 {
        return Err(bytes.error(Problem::Value {
            found: format!("0, and so is Stage_Time of this stage ({kind})"),
            allowed: "Stage_Bytes or Stage_Time above 0".to_owned(),
        }));
    }
    let needs_granularity = kind.is_computation() || stage.bytes == 0 || stage.capped;
    if needs_granularity
        && stage.granularity == 0
        && let Some(field) = &keys.granularity
    {
        return Err(field.refuse_as("0 is too small", "1 to 2147483647"));
    }
    Ok(())
}
