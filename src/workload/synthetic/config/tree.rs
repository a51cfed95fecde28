//! What the three languages have in common: values in tables, each with its line.

use std::ops::RangeInclusive;

use super::error::{Error, Problem, nearest, quote};

/// The largest number of bytes: MPI counts are signed.
pub(super) const MAX_BYTES: u64 = i64::MAX.cast_unsigned();
/// The largest count of anything that MPI, or Proteo, keeps in an `int`.
pub(super) const MAX_INT: u64 = i32::MAX.cast_unsigned() as u64;

/// Where something stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    /// The key with its tables.
    pub(super) key: String,
    /// The line, counted from 1.
    pub(super) line: u64,
}

impl Place {
    pub(super) fn error(&self, problem: Problem) -> Error {
        Error::at(self.line, &self.key, problem)
    }
}

/// A value of any language.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Integer(i128),
    Float(f64),
    Text(String),
    Boolean(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// What no key here can be, such as a date; in words.
    Other(&'static str),
}

impl Value {
    /// The value in a message.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Integer(value) => value.to_string(),
            Self::Float(value) => format!("{value:?}"),
            Self::Text(text) => quote(text),
            Self::Boolean(value) => value.to_string(),
            Self::List(_) => "a list".to_owned(),
            Self::Table(_) => "a table".to_owned(),
            Self::Other(what) => (*what).to_owned(),
        }
    }
}

/// A value and its line.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) line: u64,
    pub(super) value: Value,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: u64,
    pub(super) value: Node,
}

/// A key that has been taken out of its table.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) place: Place,
    pub(super) value: Value,
}

impl Field {
    /// An error here: the value, and what may be there.
    pub(super) fn refuse(&self, allowed: impl Into<String>) -> Error {
        self.refuse_as(self.value.describe(), allowed)
    }

    /// An error here, with what is wrong with the value.
    pub(super) fn refuse_as(&self, found: impl Into<String>, allowed: impl Into<String>) -> Error {
        self.place.error(Problem::Value {
            found: found.into(),
            allowed: allowed.into(),
        })
    }

    /// An integer in a range.
    pub(super) fn integer(&self, range: RangeInclusive<u64>) -> Result<u64, Error> {
        match self.value {
            Value::Integer(value) => self.in_range(value, &range),
            _ => Err(self.refuse(format!("an integer, {}", describe_range(&range)))),
        }
    }

    pub(super) fn in_range(&self, value: i128, range: &RangeInclusive<u64>) -> Result<u64, Error> {
        match u64::try_from(value) {
            Ok(value) if range.contains(&value) => Ok(value),
            _ => {
                let (least, most) = (range.start(), range.end());
                let (what, allowed) = if value < 0 {
                    ("negative", describe_range(range))
                } else if value < i128::from(*least) {
                    ("too small", describe_range(range))
                } else if *most == MAX_BYTES {
                    ("too large", format!("{least} to {most}"))
                } else {
                    ("too large", describe_range(range))
                };
                Err(self.refuse_as(format!("{value} is {what}"), allowed))
            }
        }
    }

    /// An integer that counts processes or ranks.
    pub(super) fn count(&self, least: u64) -> Result<usize, Error> {
        let count = self.integer(least..=MAX_INT)?;
        usize::try_from(count).map_err(|_| self.refuse("what fits into memory"))
    }

    /// A finite number that is not negative, or with `above_zero` not zero either.
    pub(super) fn number(&self, above_zero: bool) -> Result<f64, Error> {
        let allowed = if above_zero { "above 0" } else { "0 and above" };
        let value = match self.value {
            // As far as a float can tell them apart, which is all that a time or a factor needs.
            Value::Integer(value) => value as f64,
            Value::Float(value) => value,
            _ => return Err(self.refuse(format!("a number, {allowed}"))),
        };
        let found = self.value.describe();
        if !value.is_finite() {
            return Err(self.refuse_as(
                format!("{found} is not finite"),
                format!("a number, {allowed}"),
            ));
        }
        if value < 0.0 {
            return Err(self.refuse_as(format!("{found} is negative"), allowed));
        }
        if above_zero && value == 0.0 {
            return Err(self.refuse_as(format!("{found} is too small"), allowed));
        }
        Ok(value)
    }

    /// A text.
    pub(super) fn text(&self, allowed: &str) -> Result<&str, Error> {
        match &self.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.refuse(allowed)),
        }
    }

    /// A truth value.
    pub(super) fn boolean(&self) -> Result<bool, Error> {
        match self.value {
            Value::Boolean(value) => Ok(value),
            _ => Err(self.refuse("true or false")),
        }
    }

    /// A text out of a list of names, each with its meaning.
    pub(super) fn choice<T: Copy>(&self, names: &[(&'static str, T)]) -> Result<T, Error> {
        let only: Vec<&'static str> = names.iter().map(|&(name, _)| name).collect();
        let allowed = only.join(", ");
        let text = self.text(&allowed)?;
        names
            .iter()
            .find(|&&(name, _)| name == text)
            .map(|&(_, value)| value)
            .ok_or_else(|| {
                let meant = nearest(text, &only)
                    .map(|name| format!(", did you mean \"{name}\"?"))
                    .unwrap_or_default();
                self.refuse_as(format!("{}{meant}", quote(text)), allowed.as_str())
            })
    }

    /// The tables of a list of tables. `name` gives each its name in messages, by its place in the list.
    pub(super) fn tables(self, name: impl Fn(usize) -> String) -> Result<Vec<Table>, Error> {
        let Value::List(nodes) = self.value else {
            return Err(self.refuse("a list of tables"));
        };
        nodes
            .into_iter()
            .enumerate()
            .map(|(index, node)| {
                let place = Place {
                    key: name(index),
                    line: node.line,
                };
                Table::new(Self {
                    place,
                    value: node.value,
                })
            })
            .collect()
    }
}

/// A table whose keys are taken out one by one.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) place: Place,
    pub(super) entries: Vec<Entry>,
}

impl Table {
    /// A table out of a value.
    pub(super) fn new(field: Field) -> Result<Self, Error> {
        match field.value {
            Value::Table(entries) => Ok(Self {
                place: field.place,
                entries,
            }),
            _ => Err(field.refuse("a table")),
        }
    }

    /// The full name of a key.
    pub(super) fn name(&self, key: &str) -> String {
        if self.place.key.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.place.key)
        }
    }

    /// Takes a key out.
    pub(super) fn take(&mut self, key: &str) -> Option<Field> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        let entry = self.entries.remove(index);
        Some(Field {
            place: Place {
                key: self.name(key),
                line: entry.line,
            },
            value: entry.value.value,
        })
    }

    /// Takes a key out that has to be there; `allowed` says what it would hold.
    pub(super) fn require(
        &mut self,
        key: &str,
        allowed: impl Into<String>,
    ) -> Result<Field, Error> {
        self.take(key)
            .ok_or_else(|| self.missing(key, allowed.into()))
    }

    /// The error for a key that is not there.
    pub(super) fn missing(&self, key: &str, allowed: impl Into<String>) -> Error {
        Error::at(
            self.place.line,
            self.name(key),
            Problem::Missing {
                allowed: allowed.into(),
            },
        )
    }

    /// Whether no key is left, or which are.
    pub(super) fn end(&self, allowed: &[&'static str]) -> Result<(), Error> {
        match self.entries.iter().min_by_key(|entry| entry.line) {
            None => Ok(()),
            Some(entry) => Err(Error::at(
                entry.line,
                self.name(&entry.key),
                Problem::UnknownKey {
                    suggestion: nearest(&entry.key, allowed),
                    allowed: allowed.to_vec(),
                },
            )),
        }
    }

    /// Whether no key is there twice.
    pub(super) fn no_duplicates(&self) -> Result<(), Error> {
        let mut seen = std::collections::HashMap::new();
        for entry in &self.entries {
            if let Some(first) = seen.insert(entry.key.as_str(), entry.line) {
                let problem = Problem::Duplicate { first };
                return Err(Error::at(entry.line, self.name(&entry.key), problem));
            }
        }
        Ok(())
    }
}

/// Ranges in messages.
pub(super) fn describe_range(range: &RangeInclusive<u64>) -> String {
    match (*range.start(), *range.end()) {
        (least, MAX_BYTES) => format!("{least} and above"),
        (0, 1) => "0 or 1".to_owned(),
        (least, most) => format!("{least} to {most}"),
    }
}

/// Finds the line of a place in a text.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    /// The lines of a text.
    pub(super) fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(offset, _)| offset).collect())
    }

    /// The line, counted from 1, of a byte offset.
    pub(super) fn at(&self, offset: usize) -> u64 {
        self.0.partition_point(|&end| end < offset) as u64 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_lie_in_lines() {
        let lines = Lines::new("ab\n\nc\n");
        let found: Vec<u64> = (0..7).map(|offset| lines.at(offset)).collect();
        assert_eq!(found, [1, 1, 1, 2, 3, 3, 4]);
        assert_eq!(Lines::new("").at(0), 1);
    }
}
