//! Files with a row for each thing that was measured, which grow while it is measured.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::row::Run;
use super::{Error, Result};

/// A row of such a file: a structure without inner ones.
pub trait Line: Clone + Serialize + DeserializeOwned {
    /// One without content, which has every column.
    fn empty() -> Self;

    /// Its texts, which may have line breaks.
    fn texts(&mut self) -> Vec<&mut String>;
}

/// What a file of rows holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows<T = Run> {
    /// Its complete rows, in order.
    pub runs: Vec<T>,
    /// A last row whose writing was interrupted, and which is left out.
    pub torn: Option<Torn>,
}

/// A row whose writing was interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Its line, from 1.
    pub line: usize,
    /// What there is of it.
    pub text: String,
}

impl std::fmt::Display for Torn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {} is incomplete and left out", self.line)
    }
}

/// Adds rows to a file, which it makes and heads if need be.
///
/// A last row whose writing was interrupted is cut off first. Line breaks inside of texts become spaces, so that one
/// row is one line.
///
/// # Errors
///
/// [`Error::Header`] if the file has other columns, [`Error::File`] if it cannot be written.
pub fn append<T: Line>(path: &Path, lines: &[T]) -> Result<()> {
    let told = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(path).map_err(told)?;
    let end = end_of_last_row(&mut file).map_err(told)?;
    if end > 0 {
        let mut head = String::new();
        file.rewind().map_err(told)?;
        BufReader::new(&file).read_line(&mut head).map_err(told)?;
        check_head::<T>(path, &parse_head(&head))?;
    }
    let mut writer = csv::WriterBuilder::new()
        .has_headers(end == 0)
        .from_writer(Vec::new());
    for line in lines {
        let mut line = line.clone();
        for text in line.texts() {
            *text = text.replace(['\r', '\n'], " ");
        }
        let written = writer.serialize(line);
        written.map_err(|error| told(std::io::Error::other(error)))?;
    }
    let text = writer
        .into_inner()
        .map_err(|error| told(error.into_error()))?;
    file.set_len(end).map_err(told)?;
    file.seek(SeekFrom::Start(end)).map_err(told)?;
    file.write_all(&text).map_err(told)
}

/// Where the last complete row ends: each ends with a line break, which is written with it.
fn end_of_last_row(file: &mut File) -> std::io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    if length == 0 {
        return Ok(0);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    if last == *b"\n" {
        return Ok(length);
    }
    let mut text = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut text)?;
    Ok(end_of_last_line(&text) as u64)
}

fn end_of_last_line(text: &[u8]) -> usize {
    let last = text.iter().rposition(|&byte| byte == b'\n');
    last.map_or(0, |last| last + 1)
}

/// Reads a file of rows. A last row without its line break is left out and reported: its writing was interrupted.
///
/// # Errors
///
/// [`Error::Header`] if the file has other columns, [`Error::Row`] if a complete row is wrong, [`Error::File`] if it
/// cannot be read.
pub fn read<T: Line>(path: &Path) -> Result<Rows<T>> {
    let text = std::fs::read(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })?;
    let (whole, rest) = text.split_at(end_of_last_line(&text));
    let torn = (!rest.is_empty()).then(|| Torn {
        line: whole.iter().filter(|&&byte| byte == b'\n').count() + 1,
        text: String::from_utf8_lossy(rest).into_owned(),
    });
    let mut runs = Vec::new();
    if !whole.is_empty() {
        let mut reader = csv::Reader::from_reader(whole);
        let head = reader
            .headers()
            .map_err(|error| bad_row::<T>(path, &error))?;
        check_head::<T>(path, &head.iter().map(str::to_owned).collect::<Vec<_>>())?;
        for run in reader.deserialize() {
            runs.push(run.map_err(|error| bad_row::<T>(path, &error))?);
        }
    }
    Ok(Rows { runs, torn })
}

fn bad_row<T: Line>(path: &Path, error: &csv::Error) -> Error {
    let reason = match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => {
            let index = err.field().and_then(|index| usize::try_from(index).ok());
            match index.and_then(|index| columns::<T>().into_iter().nth(index)) {
                Some(column) => format!("{column}: {}", err.kind()),
                None => err.to_string(),
            }
        }
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("{len} columns, expected {expected_len}"),
        _ => error.to_string(),
    };
    Error::Row {
        path: path.to_owned(),
        line: error.position().map_or(1, csv::Position::line),
        reason,
    }
}

/// The names of a row's fields, in order.
pub(super) fn columns<T: Line>() -> Vec<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = writer.serialize(T::empty());
    let text = written.ok().and_then(|()| writer.into_inner().ok());
    parse_head(&String::from_utf8_lossy(&text.unwrap_or_default()))
}

fn parse_head(text: &str) -> Vec<String> {
    let head = text.lines().next().unwrap_or_default();
    head.split(',').map(str::to_owned).collect()
}

fn check_head<T: Line>(path: &Path, found: &[String]) -> Result<()> {
    let expected = columns::<T>();
    let length = found.len().max(expected.len());
    let differing = (0..length).find(|&index| found.get(index) != expected.get(index));
    differing.map_or(Ok(()), |index| {
        let quoted = |names: &[String], missing: &str| {
            let name = names.get(index).map(|name| format!("`{name}`"));
            name.unwrap_or_else(|| missing.to_owned())
        };
        Err(Error::Header {
            path: path.to_owned(),
            column: index + 1,
            found: quoted(found, "missing"),
            expected: quoted(&expected, "no more"),
        })
    })
}
