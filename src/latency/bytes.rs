//! Recorders as bytes, for other processes: each histogram with its name and size class, in
//! HdrHistogram's V2 encoding.

use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};

use super::operation::{Operation, SizeClass};
use super::recorder::Recorder;

/// Bytes that are no recorder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are no recorded latencies: {0}")]
pub struct Malformed(String);

/// Instead of a size class, where there is none.
const NO_SIZE: u8 = u8::MAX;

impl Recorder {
    /// Everything that is recorded, for [`Recorder::from_bytes`] of another process.
    ///
    /// # Panics
    ///
    /// If memory is exhausted.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for time in [self.begun, self.ended] {
            bytes.extend(since_epoch_ns(time).to_le_bytes());
        }
        let mut serializer = V2Serializer::new();
        let mut encoded = Vec::new();
        for row in self.rows() {
            encoded.clear();
            serializer
                .serialize(row.histogram, &mut encoded)
                .expect("a vector takes everything");
            for part in [row.name.as_bytes(), &encoded] {
                bytes.extend((part.len() as u64).to_le_bytes());
                bytes.extend(part);
            }
            let class = row.size.map(|size| size.index());
            bytes.push(class.map_or(NO_SIZE, |class| u8::try_from(class).expect("at most 64")));
        }
        bytes
    }

    /// What [`Recorder::to_bytes`] made.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for anything else.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, Malformed> {
        let mut recorder = Self::unborn();
        recorder.begun = time(number(&mut bytes)?);
        recorder.ended = time(number(&mut bytes)?);
        let mut deserializer = Deserializer::new();
        while !bytes.is_empty() {
            let name = std::str::from_utf8(part(&mut bytes)?).map_err(malformed)?;
            let mut encoded = part(&mut bytes)?;
            let class = match take(&mut bytes, 1)?[0] {
                NO_SIZE => None,
                class => Some(
                    SizeClass::from_index(class.into()).ok_or_else(|| malformed("a size class"))?,
                ),
            };
            let histogram = deserializer.deserialize(&mut encoded).map_err(malformed)?;
            recorder.add(Operation::named(name), class, &histogram);
        }
        Ok(recorder)
    }
}

fn malformed(reason: impl std::fmt::Display) -> Malformed {
    Malformed(reason.to_string())
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let (head, tail) = bytes
        .split_at_checked(count)
        .ok_or_else(|| malformed("the end is missing"))?;
    *bytes = tail;
    Ok(head)
}

fn number(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let number = take(bytes, size_of::<u64>())?;
    Ok(u64::from_le_bytes(number.try_into().expect("eight bytes")))
}

fn part<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let length = usize::try_from(number(bytes)?).map_err(malformed)?;
    take(bytes, length)
}

/// A time as a number; zero for none.
fn since_epoch_ns(time: Option<SystemTime>) -> u64 {
    time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok())
        .and_then(|since| u64::try_from(since.as_nanos()).ok())
        .unwrap_or(0)
}

fn time(since_epoch_ns: u64) -> Option<SystemTime> {
    (since_epoch_ns > 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_nanos(since_epoch_ns))
}
