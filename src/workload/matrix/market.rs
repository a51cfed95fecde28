//! Reader of Matrix Market files.
//!
//! Supported are coordinate files whose field is real, integer or pattern and whose symmetry is
//! general, symmetric or skew-symmetric, plain or gzip-compressed (told apart by the first two
//! bytes, not by the name). Everything else gets an error that names the line, what it holds, and
//! what is allowed there.
//!
//! Where the format leaves room, this reader does the following:
//!
//! * Blank lines and comment lines (`%`) may stand anywhere after the banner; lines may end in LF
//!   or CR LF, and hold at most [`MAX_LINE`] bytes. Keywords may be written in any case.
//! * Exponents may be written with Fortran's `D`: `1.5D2` is 150. A real value that is NaN, or so
//!   large that it would be rounded to infinity (`1e400`), is an error. Infinity spelled out
//!   (`inf`) is kept, since that is what the file means to say:
//!   [`Csr::check_finite`](super::Csr::check_finite) finds it where it would do harm.
//! * Integers are read exactly into `i64` or rejected, then rounded to the nearest `f64`. Entries
//!   of a pattern have the value 1.
//! * An entry that occurs several times counts with the sum of its values, as in finite-element
//!   assembly; the sum is made in file order, by [`Coordinate::into_csr`].
//! * A symmetric or skew-symmetric file holds one triangle. It may be the upper one, against the
//!   letter of the format, but not a mixture: in a file that lists both triangles, every entry
//!   would silently count twice. A skew-symmetric file may hold zeros on the diagonal, nothing
//!   else.
//!
//! Memory follows the entries that are really there, never the numbers in the header.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::MAX_DIMENSION;
use super::error::{Error, quote};

/// The most bytes that a line may hold, its end included.
pub const MAX_LINE: u64 = 64 * 1024;

/// What the values of a Matrix Market file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Decimal fractions.
    Real,
    /// Whole numbers within `i64`.
    Integer,
    /// No values, only positions; each stands for 1.
    Pattern,
}

/// Which entries a Matrix Market file leaves out because others imply them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symmetry {
    /// None.
    General,
    /// One triangle: A(j,i) = A(i,j).
    Symmetric,
    /// One triangle: A(j,i) = −A(i,j).
    SkewSymmetric,
}

/// An entry of a matrix; row and column are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// Row, from 0.
    pub row: u32,
    /// Column, from 0.
    pub column: u32,
    /// Value.
    pub value: f64,
}

/// A matrix as its file lists it: entries in file order, symmetric ones once, duplicates apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Coordinate {
    /// Number of rows, at most 2^32.
    pub rows: usize,
    /// Number of columns, at most 2^32.
    pub cols: usize,
    /// What the values were in the file.
    pub field: Field,
    /// Which entries are implied by others.
    pub symmetry: Symmetry,
    /// The entries, in file order.
    pub entries: Vec<Entry>,
}

/// Reads the matrix in a file, plain or gzip-compressed.
///
/// *Blocking.* Takes 16 bytes of memory for each entry; while it reads compressed data, whose
/// number of entries it cannot judge beforehand, up to three times that.
///
/// # Errors
///
/// [`Error::File`], with the reason as its cause, if the file cannot be read, is not a Matrix
/// Market file, is of an unsupported kind, or breaks the format.
pub fn read_path(path: impl AsRef<Path>) -> Result<Coordinate, Error> {
    let path = path.as_ref();
    open_and_read(path).map_err(|cause| Error::File {
        path: path.to_path_buf(),
        cause: Box::new(cause),
    })
}

fn open_and_read(path: &Path) -> Result<Coordinate, Error> {
    const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
    const SHORTEST_LINE: u64 = 4; // "1 1\n"
    let open = |cause| Error::Open { cause };
    let file = File::open(path).map_err(open)?;
    let bytes = file.metadata().map_err(open)?.len();
    let mut reader = BufReader::with_capacity(1 << 16, file);
    if reader.fill_buf().map_err(open)?.starts_with(&GZIP_MAGIC) {
        let text = BufReader::with_capacity(1 << 16, MultiGzDecoder::new(reader));
        parse(text, 0)
    } else {
        parse(reader, bytes / SHORTEST_LINE)
    }
}

/// Reads the matrix in a text that is not compressed.
///
/// *Blocking.* Reads up to the end, since nothing but blank lines and comments may follow the last
/// entry.
///
/// # Errors
///
/// As [`read_path`], without the path.
pub fn read(reader: impl BufRead) -> Result<Coordinate, Error> {
    parse(reader, 0)
}

/// `most_entries` bounds what is reserved at once; a claim in the header alone reserves nothing.
fn parse(reader: impl BufRead, most_entries: u64) -> Result<Coordinate, Error> {
    let mut lines = Lines {
        reader,
        text: Vec::new(),
        number: 0,
    };
    let (field, symmetry) = banner(&mut lines)?;
    let size = size(&mut lines, symmetry)?;
    let mut matrix = Coordinate {
        rows: to_usize(size.rows),
        cols: to_usize(size.cols),
        field,
        symmetry,
        entries: Vec::new(),
    };
    // Saves growing step by step; where it fails, growing tells whether the memory is really
    // needed.
    let _ = matrix
        .entries
        .try_reserve_exact(to_usize(size.entries.min(most_entries)));
    let mut side = None;
    let mut read = 0_u64;
    while let Some(line) = lines.next_content()? {
        if read == size.entries {
            return Err(line.error(
                format!("{} after the last entry", quote(line.text)),
                format!("{} entries, as line {} says", size.entries, size.line),
            ));
        }
        let entry = entry(line, field, &size)?;
        if symmetry != Symmetry::General {
            check_triangle(line, &entry, symmetry, &mut side)?;
        }
        matrix.entries.push(entry);
        read += 1;
    }
    if read < size.entries {
        return Err(Error::Line {
            line: lines.number,
            found: format!("the end of the data after {read} entries"),
            allowed: format!("{} entries, as line {} says", size.entries, size.line),
        });
    }
    Ok(matrix)
}

/// The numbers of the size line.
struct Size {
    line: u64,
    rows: u64,
    cols: u64,
    entries: u64,
}

fn banner<R: BufRead>(lines: &mut Lines<R>) -> Result<(Field, Symmetry), Error> {
    const BANNER: &[u8] = b"%%MatrixMarket";
    let not_market = |found| Error::NotMatrixMarket { found };
    match lines.advance() {
        Ok(true) => {}
        Ok(false) => return Err(not_market("no data at all".to_owned())),
        // Binary data often has no line end in reach; that it is no matrix says more than the
        // length of its "line".
        Err(Error::Line { .. }) if !lines.text.starts_with(BANNER) => {
            return Err(not_market(quote(&lines.text)));
        }
        Err(error) => return Err(error),
    }
    let line = lines.current();
    let mut rest = line.text;
    if !next_token(&mut rest).eq_ignore_ascii_case(BANNER) {
        return Err(not_market(quote(line.text)));
    }
    let words: [String; 4] = std::array::from_fn(|_| {
        String::from_utf8_lossy(next_token(&mut rest)).to_ascii_lowercase()
    });
    let [object, format, field, symmetry] = words.each_ref().map(String::as_str);
    if !next_token(&mut rest).is_empty() || symmetry.is_empty() {
        return Err(line.error(
            quote(line.text),
            "`%%MatrixMarket matrix coordinate FIELD SYMMETRY`, no more and no fewer words"
                .to_owned(),
        ));
    }
    let unsupported = |what: &str, word: &str, supported| Error::Unsupported {
        line: line.number,
        found: format!("the {what} {}", quote(word.as_bytes())),
        supported,
    };
    let unknown = |what: &str, word: &str, allowed: &str| {
        line.error(
            format!("the {what} {}", quote(word.as_bytes())),
            allowed.to_owned(),
        )
    };

    match object {
        "matrix" => {}
        "vector" => return Err(unsupported("object", object, "`matrix`")),
        _ => return Err(unknown("object", object, "`matrix`")),
    }
    match format {
        "coordinate" => {}
        "array" => return Err(unsupported("format", format, "`coordinate`")),
        _ => return Err(unknown("format", format, "`coordinate`")),
    }
    const FIELDS: &str = "`real`, `integer`, `pattern`";
    let field = match field {
        "real" => Field::Real,
        "integer" => Field::Integer,
        "pattern" => Field::Pattern,
        "complex" => return Err(unsupported("field", field, FIELDS)),
        _ => return Err(unknown("field", field, FIELDS)),
    };
    const SYMMETRIES: &str = "`general`, `symmetric`, `skew-symmetric`";
    let symmetry = match symmetry {
        "general" => Symmetry::General,
        "symmetric" => Symmetry::Symmetric,
        // Without values there is nothing to negate: the format has no such combination.
        "skew-symmetric" if field == Field::Pattern => {
            return Err(unknown(
                "symmetry",
                symmetry,
                "`general` or `symmetric` with the field `pattern`",
            ));
        }
        "skew-symmetric" => Symmetry::SkewSymmetric,
        "hermitian" => return Err(unsupported("symmetry", symmetry, SYMMETRIES)),
        _ => return Err(unknown("symmetry", symmetry, SYMMETRIES)),
    };
    Ok((field, symmetry))
}

fn size<R: BufRead>(lines: &mut Lines<R>, symmetry: Symmetry) -> Result<Size, Error> {
    const ALLOWED: &str =
        "the size line: ROWS COLUMNS ENTRIES, three whole numbers of at most 2^64 - 1";
    let Some(line) = lines.next_content()? else {
        return Err(Error::Line {
            line: lines.number,
            found: "the end of the data".to_owned(),
            allowed: ALLOWED.to_owned(),
        });
    };
    let wrong = || line.error(quote(line.text), ALLOWED.to_owned());
    let mut rest = line.text;
    let mut number = || whole(next_token(&mut rest)).ok_or_else(wrong);
    let size = Size {
        line: line.number,
        rows: number()?,
        cols: number()?,
        entries: number()?,
    };
    if !next_token(&mut rest).is_empty() {
        return Err(wrong());
    }
    for (found, what) in [(size.rows, "rows"), (size.cols, "columns")] {
        if found > MAX_DIMENSION {
            return Err(Error::Dimension {
                line: line.number,
                found,
                what,
            });
        }
    }
    if symmetry != Symmetry::General && size.rows != size.cols {
        return Err(line.error(
            format!("{} rows and {} columns", size.rows, size.cols),
            "as many rows as columns in a symmetric or skew-symmetric matrix".to_owned(),
        ));
    }
    Ok(size)
}

#[inline]
fn entry(line: Line<'_>, field: Field, size: &Size) -> Result<Entry, Error> {
    let mut rest = line.text;
    let row =
        index(&mut rest, size.rows).ok_or_else(|| wrong_index(line, rest, "row", size.rows))?;
    let column =
        index(&mut rest, size.cols).ok_or_else(|| wrong_index(line, rest, "column", size.cols))?;
    let value = match field {
        Field::Pattern => 1.0,
        Field::Real => real(line, next_token(&mut rest))?,
        Field::Integer => integer(line, next_token(&mut rest))?,
    };
    if !next_token(&mut rest).is_empty() {
        return Err(wrong_count(line, field));
    }
    Ok(Entry { row, column, value })
}

#[cold]
fn wrong_index(line: Line<'_>, mut rest: &[u8], what: &str, last: u64) -> Error {
    let token = next_token(&mut rest);
    let found = if token.is_empty() {
        format!("{}, where the {what} is missing", quote(line.text))
    } else {
        format!("the {what} {}", quote(token))
    };
    line.error(found, format!("a {what} from 1 to {last}"))
}

#[cold]
fn wrong_count(line: Line<'_>, field: Field) -> Error {
    let allowed = match field {
        Field::Pattern => "two numbers: ROW COLUMN",
        Field::Real | Field::Integer => "three numbers: ROW COLUMN VALUE",
    };
    line.error(quote(line.text), allowed.to_owned())
}

/// Takes a row or column number off the text, and counts it from 0 instead of from 1; if there is
/// none, or one that is too large, the text stays as it is.
#[inline]
fn index(text: &mut &[u8], last: u64) -> Option<u32> {
    const DIGITS_WITHOUT_OVERFLOW: usize = 19;
    let rest = text.trim_ascii_start();
    let mut number = 0_u64;
    let mut digits = 0;
    for byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        digits += 1;
    }
    let (_, rest) = rest.split_at(digits);
    let ends = rest.first().is_none_or(u8::is_ascii_whitespace);
    if !ends || digits > DIGITS_WITHOUT_OVERFLOW || number > last {
        return None;
    }
    let index = u32::try_from(number.checked_sub(1)?).ok()?;
    *text = rest;
    Some(index)
}

/// A number of decimal digits only.
#[inline]
fn whole(token: &[u8]) -> Option<u64> {
    if token.is_empty() {
        return None;
    }
    token.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[inline]
fn real(line: Line<'_>, token: &[u8]) -> Result<f64, Error> {
    let text = str::from_utf8(token).ok();
    match text
        .and_then(|text| text.parse().ok())
        .or_else(|| fortran(token))
    {
        Some(value) if f64::is_finite(value) => Ok(value),
        // Spelled out, infinity is the file's own word; with digits, it is what rounding has made
        // of a number.
        Some(value) if value.is_infinite() && !token.iter().any(u8::is_ascii_digit) => Ok(value),
        Some(_) => Err(Error::NotFinite {
            line: line.number,
            found: quote(token),
        }),
        None if token.is_empty() => Err(wrong_count(line, Field::Real)),
        None => Err(line.error(
            format!("the value {}", quote(token)),
            "a decimal number, as in `-1.5`, `2e-3`, `2D-3`".to_owned(),
        )),
    }
}

/// A number whose exponent has Fortran's `D`.
#[cold]
fn fortran(token: &[u8]) -> Option<f64> {
    let mut token = token.to_vec();
    let letter = token.iter_mut().find(|byte| matches!(byte, b'd' | b'D'))?;
    *letter = b'e';
    str::from_utf8(&token).ok()?.parse().ok()
}

#[inline]
fn integer(line: Line<'_>, token: &[u8]) -> Result<f64, Error> {
    let text = str::from_utf8(token).unwrap_or_default();
    match text.parse::<i64>() {
        Ok(number) => match i32::try_from(number) {
            Ok(number) => Ok(f64::from(number)),
            // The text of a whole number is also the text of a real one, and that way it is rounded
            // to the nearest.
            Err(_) => real(line, token),
        },
        Err(_) if token.is_empty() => Err(wrong_count(line, Field::Integer)),
        Err(_) => Err(line.error(
            format!("the value {}", quote(token)),
            format!("a whole number from {} to {}", i64::MIN, i64::MAX),
        )),
    }
}

/// The side of the diagonal that the entries of a symmetric file are on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Below,
    Above,
}

fn check_triangle(
    line: Line<'_>,
    entry: &Entry,
    symmetry: Symmetry,
    seen: &mut Option<Side>,
) -> Result<(), Error> {
    let side = match entry.row.cmp(&entry.column) {
        std::cmp::Ordering::Greater => Side::Below,
        std::cmp::Ordering::Less => Side::Above,
        std::cmp::Ordering::Equal if symmetry == Symmetry::SkewSymmetric && entry.value != 0.0 => {
            return Err(line.error(
                format!("{} on the diagonal", quote(line.text)),
                "zeros on the diagonal of a skew-symmetric matrix".to_owned(),
            ));
        }
        std::cmp::Ordering::Equal => return Ok(()),
    };
    if *seen.get_or_insert(side) == side {
        return Ok(());
    }
    let [here, before] = match side {
        Side::Below => ["below", "above"],
        Side::Above => ["above", "below"],
    };
    Err(line.error(
        format!(
            "{} {here} the diagonal, after entries {before} it",
            quote(line.text)
        ),
        "one triangle in a symmetric or skew-symmetric file, since the other is implied".to_owned(),
    ))
}

/// A line without its end.
#[derive(Clone, Copy)]
struct Line<'a> {
    number: u64,
    text: &'a [u8],
}

impl Line<'_> {
    #[cold]
    fn error(&self, found: String, allowed: String) -> Error {
        Error::Line {
            line: self.number,
            found,
            allowed,
        }
    }
}

/// The lines of a reader, one at a time in one buffer.
struct Lines<R> {
    reader: R,
    text: Vec<u8>,
    /// Of the line in the buffer, from 1.
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// Goes on to the next line; false at the end.
    #[inline]
    fn advance(&mut self) -> Result<bool, Error> {
        self.text.clear();
        match self
            .reader
            .by_ref()
            .take(MAX_LINE)
            .read_until(b'\n', &mut self.text)
        {
            Ok(0) => return Ok(false),
            Ok(_) => self.number += 1,
            Err(cause) => {
                return Err(Error::Read {
                    line: self.number + 1,
                    cause,
                });
            }
        }
        if self.text.last() == Some(&b'\n') {
            self.text.pop();
        } else if self.text.len() as u64 == MAX_LINE {
            return Err(self.current().error(
                format!(
                    "{MAX_LINE} bytes without an end of line, from {}",
                    quote(&self.text)
                ),
                "shorter lines".to_owned(),
            ));
        }
        Ok(true)
    }

    #[inline]
    fn current(&self) -> Line<'_> {
        Line {
            number: self.number,
            text: &self.text,
        }
    }

    /// The next line that is neither blank nor a comment.
    #[inline]
    fn next_content(&mut self) -> Result<Option<Line<'_>>, Error> {
        while self.advance()? {
            if !matches!(self.text.trim_ascii_start().first(), None | Some(b'%')) {
                return Ok(Some(self.current()));
            }
        }
        Ok(None)
    }
}

/// Takes the next word off the text; an empty one if there is none.
#[inline]
fn next_token<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let rest = text.trim_ascii_start();
    let end = rest
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(rest.len());
    let (token, rest) = rest.split_at(end);
    *text = rest;
    token
}

/// Only for numbers known to be at most 2^32, or at most a file's length.
fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("a 64-bit machine")
}
