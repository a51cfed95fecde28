//! `ffi/malleus.h` is what cbindgen makes of `src/capi`; `make header` writes it.

use std::fs;
use std::path::Path;

#[test]
fn the_header_is_that_of_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config =
        cbindgen::Config::from_file(root.join("ffi/cbindgen.toml")).expect("a configuration");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in ["result", "job", "array"] {
        builder = builder.with_src(root.join(format!("src/capi/{file}.rs")));
    }
    let mut generated = Vec::new();
    builder
        .generate()
        .expect("C declarations for src/capi")
        .write(&mut generated);
    let generated = String::from_utf8(generated).expect("text");
    let file = root.join("ffi/malleus.h");
    if std::env::var_os("MALLEUS_WRITE_HEADER").is_some() {
        fs::write(&file, &generated).expect("ffi/malleus.h");
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    let differing = committed
        .lines()
        .zip(generated.lines())
        .position(|(committed, generated)| committed != generated);
    assert!(
        committed == generated,
        "ffi/malleus.h is not that of src/capi, first in line {}: run `make header`",
        differing.map_or(committed.lines().count(), |line| line + 1)
    );
}
