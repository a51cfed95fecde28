//! What can be wrong with a configuration.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::{Method, ProteoNumbers, Strategy};

/// Something is wrong with a configuration; the message is one line, such as
/// `cg.toml:12: stage.bytes: -8 is negative; allowed: 0 and above`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Error {
    /// The file, as it was named by the caller.
    pub path: PathBuf,
    /// The line, counted from 1; `None` for what concerns no line or all of them.
    pub line: Option<u64>,
    /// The key, with the tables it lies in; `None` where no key is to blame.
    pub key: Option<String>,
    /// What is wrong.
    pub problem: Box<Problem>,
}

impl Error {
    /// An error at a key. The file is filled in last, by the function that knows it.
    pub(super) fn at(line: u64, key: impl Into<String>, problem: Problem) -> Self {
        Self {
            path: PathBuf::new(),
            line: Some(line),
            key: Some(key.into()),
            problem: Box::new(problem),
        }
    }

    /// An error that concerns a line, or the whole file, and no key.
    pub(super) fn of_file(line: Option<u64>, problem: Problem) -> Self {
        Self {
            path: PathBuf::new(),
            line,
            key: None,
            problem: Box::new(problem),
        }
    }

    /// The same error, of this file.
    pub(super) fn in_file(self, path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            ..self
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        self.problem.fmt(f)
    }
}

impl std::error::Error for Error {}

/// What is wrong, without the place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The operating system refuses to give the file's content, or it is no UTF-8.
    #[error("cannot be read: {cause}")]
    Open {
        /// The system's reason.
        cause: io::Error,
    },
    /// The file's name does not tell its form.
    #[error("found {found}; allowed: a file name that ends in .toml, .json or .ini")]
    Extension {
        /// The extension, in words.
        found: String,
    },
    /// The text is not of the language that the file's name promises.
    #[error("not {language}: {message}")]
    Syntax {
        /// TOML, JSON or INI.
        language: &'static str,
        /// The parser's reason.
        message: String,
    },
    /// A key that means nothing here.
    #[error(
        "unknown key{}; allowed: {}",
        suggestion.map(|key| format!(", did you mean `{key}`?")).unwrap_or_default(),
        allowed.join(", ")
    )]
    UnknownKey {
        /// The key that was probably meant.
        suggestion: Option<&'static str>,
        /// Every key that may stand here.
        allowed: Vec<&'static str>,
    },
    /// A key that is needed and is not there.
    #[error("missing; allowed: {allowed}")]
    Missing {
        /// What has to be given.
        allowed: String,
    },
    /// A key or section is there twice.
    #[error("given again, after line {first}; allowed: once")]
    Duplicate {
        /// The line that gave it first.
        first: u64,
    },
    /// A value of the wrong type or size.
    #[error("{found}; allowed: {allowed}")]
    Value {
        /// What is there, and where that does not say it, what is wrong with it.
        found: String,
        /// What may be there.
        allowed: String,
    },
    /// A count does not agree with what it counts.
    #[error("found {found} {what}; allowed: {allowed}, {because}")]
    Count {
        /// How many there are.
        found: usize,
        /// Of what.
        what: &'static str,
        /// How many there have to be.
        allowed: u64,
        /// Who says so.
        because: String,
    },
    /// A stage names a rank that a group does not have.
    #[error(
        "rank {rank} does not exist in group {group}, which has {processes} processes (line {line}); \
         allowed: 0 to {}",
        processes.saturating_sub(1)
    )]
    NoSuchRank {
        /// The rank.
        rank: usize,
        /// The smallest group, counted from 0.
        group: usize,
        /// The group's processes.
        processes: usize,
        /// The line that says so.
        line: u64,
    },
    /// A stage wants more ranks than a group has.
    #[error(
        "{ranks} ranks, but group {group} has {processes} processes (line {line}); \
         allowed: 0 (all) to {processes}"
    )]
    TooManyRanks {
        /// How many ranks shall take part.
        ranks: usize,
        /// The smallest group, counted from 0.
        group: usize,
        /// The group's processes.
        processes: usize,
        /// The line that says so.
        line: u64,
    },
    /// A point-to-point start without its wait, or the other way round.
    #[error(
        "{what}; allowed: for each identifier one start, and after it in the same phase one wait"
    )]
    Unpaired {
        /// What is there and what is not.
        what: String,
    },
    /// A method and a strategy that do not go together.
    #[error(
        "{strategy} does not go with the one-sided method {method}: the targets read, so no request tells \
         a source when its data has left; allowed: {allowed}"
    )]
    NoSuchVariant {
        /// The method's name.
        method: Method,
        /// The strategy, as the file says it.
        strategy: String,
        /// What goes with the method.
        allowed: String,
    },
    /// A list of strategies that contradict each other.
    #[error("{first:?} and {second:?} at once; allowed: one strategy")]
    SeveralStrategies {
        /// One.
        first: Strategy,
        /// The other.
        second: Strategy,
    },
    /// An INI file of Proteo that may use either table of numbers.
    #[error(
        "nothing here tells whether the numbers are Proteo's old or new ones (a stage above 6, Capture_Method, \
         or a strategy 0, 4 or 5 would show the new, Asynch_Redistribution_Type the old): the stages are \
         {old} by the old, {new} by the new; allowed: with --proteo-numbers old or --proteo-numbers new"
    )]
    AmbiguousNumbers {
        /// The stages by the old table.
        old: String,
        /// The stages by the new table.
        new: String,
    },
    /// The caller's choice of numbers cannot be right.
    #[error("--proteo-numbers {asked} contradicts {evidence}; allowed: {allowed}")]
    ContradictedNumbers {
        /// What the caller chose.
        asked: ProteoNumbers,
        /// What the file shows.
        evidence: String,
        /// What is left.
        allowed: &'static str,
    },
    /// A file that uses both tables of numbers.
    #[error("{old}, but {new}; allowed: one table of numbers in one file")]
    MixedNumbers {
        /// What shows the old table.
        old: String,
        /// What shows the new table.
        new: String,
    },
    /// A file of Proteo's first form.
    #[error(
        "the oldest form of Proteo's files, without stages, is not supported; allowed: files with \
         Total_Resizes and [stage0] or [phase0]"
    )]
    OldestForm,
    /// A file that stands for many.
    #[error(
        "{found} is a text, as in a template (\"Multi\") file, which stands for many configurations: expand \
         it with Proteo's GenConfig first; allowed: {allowed}"
    )]
    Template {
        /// The text, in quotes.
        found: String,
        /// What may be there.
        allowed: String,
    },
}

/// Quotes a text for a message: printable, on one line, cut short.
pub(super) fn quote(text: &str) -> String {
    const SHOWN: usize = 40;
    let mut characters = text.chars();
    let cut: String = characters.by_ref().take(SHOWN).collect();
    let more = if characters.next().is_some() {
        "…"
    } else {
        ""
    };
    format!("\"{}{more}\"", cut.escape_debug())
}

/// The name that is nearest to a wrong one, if it is near enough to have been meant.
pub(super) fn nearest(wrong: &str, names: &[&'static str]) -> Option<&'static str> {
    let wrong: Vec<char> = wrong
        .chars()
        .take(64)
        .flat_map(char::to_lowercase)
        .collect();
    names
        .iter()
        .map(|name| (distance(&wrong, &name.to_lowercase()), *name))
        .filter(|&(distance, name)| distance <= (name.len() / 3).max(1))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

/// The number of letters to insert, remove or replace (Levenshtein).
fn distance(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (above, letter) in from.iter().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found() {
        let names = ["bytes", "time", "operations", "kind"];
        for (wrong, expected) in [
            ("byte", Some("bytes")),
            ("Bytes", Some("bytes")),
            ("tmie", None),
            ("tim", Some("time")),
            ("opertions", Some("operations")),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, &names), expected, "{wrong}");
        }
    }

    #[test]
    fn quotes_are_short_and_on_one_line() {
        assert_eq!(quote("a\nb\""), r#""a\nb\"""#);
        assert_eq!(quote(&"ä".repeat(41)), format!("\"{}…\"", "ä".repeat(40)));
    }
}
