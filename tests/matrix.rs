//! Matrices: reading, storing, multiplying, generating them, and their halo patterns.
//!
//! Expected values come from `../shared/data/matrices` (verdicts on malformed files, and quantities
//! of well-known matrices that other programs have computed; `MALLEUS_DATA` names another place for
//! `../shared/data`), from definitions written out densely, and from arithmetic on paper.
#![cfg(feature = "cli")]

use std::path::PathBuf;

#[path = "matrix/generated.rs"]
mod generated;
#[path = "support/heap.rs"]
mod heap;
#[path = "matrix/reader.rs"]
mod reader;
#[path = "matrix/reference.rs"]
mod reference;
#[path = "matrix/rows.rs"]
mod rows;
#[path = "matrix/sample.rs"]
mod sample;

const MIB: usize = 1 << 20;

/// The folder of matrices, or nothing and a word about it.
fn data() -> Option<PathBuf> {
    let shared = std::env::var_os("MALLEUS_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    let folder = shared.join("matrices");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no folder {}", folder.display());
    None
}

const GENERAL: &str = "%%MatrixMarket matrix coordinate real general\n";

/// P blocks of rows, the remainder to the first of them.
fn block_cuts(rows: usize, blocks: usize) -> Vec<usize> {
    (0..=blocks)
        .map(|block| block * (rows / blocks) + block.min(rows % blocks))
        .collect()
}
