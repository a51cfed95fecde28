//! The Matrix Market reader.

use std::io::{BufReader, Write as _};
use std::path::PathBuf;

use malleus::workload::matrix::{Entry, Error, market};
use proptest::prelude::*;

use crate::sample::{Sample, sample};
use crate::{GENERAL, MIB, heap};

fn refuse(text: &str) -> String {
    let error = market::read(text.as_bytes()).expect_err(text);
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

#[test]
fn errors_name_the_line_what_it_holds_and_what_it_may_hold() {
    let banner = |rest: &str| format!("%%MatrixMarket {rest}\n1 1 1\n1 1 1\n");
    let body = |rest: &str| format!("{GENERAL}% a comment\n\n{rest}");
    let long = format!("2 2 2\n1 1 1\n{}", " ".repeat(1 << 17));
    let cases = [
        (
            banner("matrix coordinate complex general"),
            "line 1: unsupported: found the field `complex`; supported: `real`",
        ),
        (
            banner("matrix coordinate real hermitian"),
            "line 1: unsupported: found the symmetry `hermitian`; supported: `gen",
        ),
        (
            banner("matrix array real general"),
            "line 1: unsupported: found the format `array`; supported: `coordinate`",
        ),
        (
            banner("vector coordinate real general"),
            "line 1: unsupported: found the object `vector`; supported: `matrix`",
        ),
        (
            banner("matrix coordinate pattern skew-symmetric"),
            "line 1: found the symmetry `skew-symmetric`; allowed: `general` or",
        ),
        (
            banner("matrix coordinate double general"),
            "line 1: found the field `double`; allowed: `real`",
        ),
        (
            banner("matrix coordinate real"),
            "line 1: found `%%MatrixMarket matrix coordinate real`; allowed: ",
        ),
        (
            banner("matrix coordinate real general x"),
            "line 1: found `%%MatrixMarket matrix coordinate real ",
        ),
        (String::new(), "line 1: found no data at all"),
        (
            "\u{7f}ELF\u{0}\u{1}\n".to_owned(),
            r"not a Matrix Market file: line 1: found `\x7fELF\x00\x01`; allowed: `%%Mat",
        ),
        (
            "x".repeat(1 << 17),
            "not a Matrix Market file: line 1: found `xxxx",
        ),
        (
            body(""),
            "line 3: found the end of the data; allowed: the size line",
        ),
        (body("2 2"), "line 4: found `2 2`; allowed: the size line"),
        (
            body("2 2 1 1"),
            "line 4: found `2 2 1 1`; allowed: the size line",
        ),
        (
            body("2 -2 1"),
            "line 4: found `2 -2 1`; allowed: the size line",
        ),
        (body("2 2 18446744073709551616"), "line 4: found `2 2 1844"),
        (
            body("4294967297 1 0"),
            "line 4: found 4294967297 rows; allowed: at most 2^32",
        ),
        (
            body("1 1099511627776 0"),
            "line 4: found 1099511627776 columns; allowed: at most 2^32",
        ),
        (
            body("2 2 1\n0 1 1"),
            "line 5: found the row `0`; allowed: a row from 1 to 2",
        ),
        (
            body("2 3 1\n1 4 1"),
            "line 5: found the column `4`; allowed: a column from 1 to 3",
        ),
        (
            body("2 3 1\n1"),
            "line 5: found `1`, where the column is missing; allowed: a column from 1 to 3",
        ),
        (
            body("2 2 1\n1 1"),
            "line 5: found `1 1`; allowed: three numbers: ROW COLUMN VALUE",
        ),
        (
            body("2 2 1\n1 1 1 1"),
            "line 5: found `1 1 1 1`; allowed: three numbers",
        ),
        (
            body("2 2 1\n1 1 nan"),
            "line 5: found the value `nan`; allowed: finite numbers",
        ),
        (
            body("2 2 1\n1 1 -1e400"),
            "line 5: found the value `-1e400`; allowed: finite numbers",
        ),
        (
            body("2 2 1\n1 1 1D400"),
            "line 5: found the value `1D400`; allowed: finite numbers",
        ),
        (
            body("2 2 1\n1 1 1d2d3"),
            "line 5: found the value `1d2d3`; allowed: a decimal number",
        ),
        (
            body("2 2 1\n1 1 1,5"),
            "line 5: found the value `1,5`; allowed: a decimal number",
        ),
        (
            body("2 2 2\n1 1 1\n"),
            "line 5: found the end of the data after 1 entries; allowed: 2 entries, as line 4 says",
        ),
        (
            body("2 2 1\n1 1 1\n\n2 2 1"),
            "line 7: found `2 2 1` after the last entry; allowed: 1 entries, as line 4 says",
        ),
        (
            body(&long),
            "line 6: found 65536 bytes without an end of line",
        ),
        (
            GENERAL.replace("general", "symmetric") + "2 3 0",
            "line 2: found 2 rows and 3 columns; allowed: as many",
        ),
        (
            GENERAL.replace("general", "symmetric") + "2 2 2\n2 1 1\n1 2 1",
            "line 4: found `1 2 1` above the diagonal, after",
        ),
        (
            GENERAL.replace("general", "skew-symmetric") + "2 2 1\n2 2 1",
            "line 3: found `2 2 1` on the diagonal; allowed: zeros",
        ),
        (
            GENERAL.replace("real", "pattern") + "2 2 1\n2 2 1",
            "line 3: found `2 2 1`; allowed: two numbers: ROW COLUMN",
        ),
        (
            GENERAL.replace("real", "integer") + "2 2 1\n2 2 1.5",
            "line 3: found the value `1.5`; allowed: a whole number from -9223",
        ),
        (
            GENERAL.replace("real", "integer") + "2 2 1\n2 2 9223372036854775808",
            "line 3: found the value `9223372036854775808`",
        ),
    ];
    for (text, expected) in cases {
        let message = refuse(&text);
        assert!(
            message.contains(expected),
            "{message}\ninstead of\n{expected}"
        );
    }
}

#[test]
fn infinity_spelled_out_is_kept_and_found() {
    let text = format!("{GENERAL}3 3 3\n1 1 1\n3 3 2\n3 2 -Inf\n");
    let matrix = market::read(text.as_bytes())
        .expect("valid")
        .into_csr()
        .expect("valid");
    assert_eq!(matrix.values, [1.0, f64::NEG_INFINITY, 2.0]);
    let error = matrix.check_finite().expect_err("an infinity");
    assert!(
        matches!(
            error,
            Error::ValueNotFinite {
                row: 2,
                column: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn files_that_hold_no_matrix_are_named_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let refuse = |path: PathBuf| market::read_path(path).expect_err("no matrix").to_string();
    let message = refuse(path("missing.mtx"));
    assert!(
        message.contains("missing.mtx: cannot be read: No such file"),
        "{message}"
    );
    let message = refuse(folder.path().to_path_buf());
    assert!(
        message.contains("cannot be read: Is a directory"),
        "{message}"
    );
    std::fs::write(path("empty.mtx"), "").expect("written");
    let message = refuse(path("empty.mtx"));
    assert!(
        message.contains("empty.mtx: not a Matrix Market file: line 1: found no data at all"),
        "{message}"
    );

    // Compression is recognized by content, whatever the name says; damage is noticed at whatever
    // place.
    let text = format!("{GENERAL}2 2 2\n1 1 1\n2 2 0.5\n");
    std::fs::write(path("plain.mtx.gz"), &text).expect("written");
    let plain = market::read_path(path("plain.mtx.gz")).expect("valid");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).expect("compressed");
    let compressed = encoder.finish().expect("compressed");
    std::fs::write(path("compressed.mtx"), &compressed).expect("written");
    assert_eq!(
        market::read_path(path("compressed.mtx")).expect("valid"),
        plain
    );
    std::fs::write(path("short.mtx.gz"), &compressed[..compressed.len() - 1]).expect("written");
    let message = refuse(path("short.mtx.gz"));
    assert!(
        message.contains("short.mtx.gz: line 5: cannot be read: "),
        "{message}"
    );
}

#[test]
fn headers_do_not_drive_memory() {
    for size in [
        "2 2 18446744073709551615",
        "4294967296 4294967296 18446744073709551615",
        "1048577 1 4000000000",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("claim.mtx");
        std::fs::write(&path, format!("{GENERAL}{size}\n1 1 1\n")).expect("written");
        let (result, peak) = heap::peak_of(|| market::read_path(&path));
        let message = result.expect_err("too few entries").to_string();
        assert!(message.contains("after 1 entries"), "{message}");
        assert!(peak < MIB, "{size}: {peak} bytes");
    }
    let text = format!("{GENERAL}4294967296 4294967296 1\n4294967296 4294967296 1\n");
    let matrix = market::read(text.as_bytes()).expect("valid");
    assert_eq!(
        matrix.entries,
        [Entry {
            row: u32::MAX,
            column: u32::MAX,
            value: 1.0
        }]
    );
    let (result, peak) = heap::peak_of(|| matrix.into_csr());
    let error = result.expect_err("nothing but empty rows");
    assert!(
        matches!(
            error,
            Error::MostlyEmpty {
                rows: 0x1_0000_0000,
                entries: 1
            }
        ),
        "{error}"
    );
    assert!(peak < MIB, "{peak} bytes");
}

fn read_back(sample: Sample) -> Result<(), TestCaseError> {
    let text = sample.write();
    let read = market::read(text.as_bytes());
    let read = read.map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
    prop_assert_eq!(&read, &sample.matrix);
    // Through a buffer of any size.
    let trickle = BufReader::with_capacity(1 + text.len() % 7, text.as_bytes());
    prop_assert_eq!(market::read(trickle).expect("as before"), sample.matrix);
    Ok(())
}

proptest! {
    #[test]
    fn what_is_written_is_read(sample in sample()) {
        read_back(sample)?;
    }
}
