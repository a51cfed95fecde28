//! What the library uses of MPI has the same values and layouts in every MPICH from 4.0 to 5.0: a binary that
//! was built with one runs with another (`src/mpi/runtime_check.rs` tells which).
//!
//! The bindings of this build are compared with the committed ones of 4.2.3; `make test-matrix` does so for each version.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const GENERATED: &str = include_str!(concat!(env!("OUT_DIR"), "/bindings.rs"));
const COMMITTED: &str = include_str!("../ffi/docs-rs-bindings.rs");

/// Values that tell one version from another.
const VERSIONS: [&str; 3] = ["MPI_VERSION", "MPI_SUBVERSION", "MPICH_VERSION"];

/// Constants and their values, as text.
fn constants(bindings: &str) -> BTreeMap<&str, String> {
    let constants = bindings.split("pub const ").skip(1);
    constants
        .filter_map(|text| {
            let (declaration, _) = text.split_once(';')?;
            let (declared, value) = declaration.split_once(" = ")?;
            let (name, _) = declared.split_once(':')?;
            Some((name, value.split_whitespace().collect::<String>()))
        })
        .collect()
}

/// A structure's text.
fn structure<'a>(bindings: &'a str, name: &str) -> Option<&'a str> {
    let begin = bindings.find(&format!("pub struct {name} {{"))?;
    let length = bindings[begin..].find('}')?;
    Some(&bindings[begin..begin + length])
}

/// The names of MPI that the code of the library mentions, and those of wrapper.h.
fn used(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("src") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            used(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(path).expect("a source");
            let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            names.extend(
                words
                    .filter(|word| word.starts_with("MPI_") || word.starts_with("MALLEUS_"))
                    .map(str::to_owned),
            );
        }
    }
}

#[test]
fn the_constants_in_use_are_those_of_4_2_3() {
    let (generated, committed) = (constants(GENERATED), constants(COMMITTED));
    let mut names = BTreeSet::new();
    used(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut names,
    );
    let differing: Vec<_> = names
        .iter()
        .map(String::as_str)
        .filter(|name| !VERSIONS.contains(name))
        .filter_map(|name| Some((name, generated.get(name)?, committed.get(name)?)))
        .inspect(|(_, _, value)| assert!(!value.is_empty()))
        .filter(|(_, generated, committed)| generated != committed)
        .collect();
    assert_eq!(differing, [], "of {}", names.len());
    let compared = names
        .iter()
        .filter(|name| {
            generated.contains_key(name.as_str()) && committed.contains_key(name.as_str())
        })
        .count();
    assert!(compared > 60, "only {compared} constants were compared");
}

/// A change of the library's source does not run bindgen again.
#[test]
fn the_build_script_watches_no_source() {
    let said = fs::read_to_string(concat!(env!("OUT_DIR"), "/../output")).expect("cargo keeps it");
    let watched: Vec<_> = said
        .lines()
        .filter_map(|line| line.split_once("rerun-if-changed=").map(|(_, file)| file))
        .collect();
    assert!(watched.contains(&"wrapper.h"), "{watched:?}");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in watched {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        assert!(
            !path.starts_with(&source) && !source.starts_with(&path),
            "{file}"
        );
    }
}

#[test]
fn the_layouts_in_use_are_those_of_4_2_3() {
    let committed = structure(COMMITTED, "MPI_Status").expect("it is in the committed bindings");
    assert_eq!(structure(GENERATED, "MPI_Status"), Some(committed));
    // Its C type differs, its size does not.
    assert_eq!(size_of::<malleus::sys::MPI_Count>(), 8);
    assert_eq!(size_of::<malleus::sys::MPI_Aint>(), 8);
    assert_eq!(size_of::<malleus::sys::MPI_Comm>(), 4);
    assert_eq!(size_of::<malleus::sys::MPI_Win>(), 4);
    assert_eq!(size_of::<malleus::sys::MPI_Request>(), 4);
    assert_eq!(size_of::<malleus::sys::MPI_Datatype>(), 4);
}
