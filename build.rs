//! Finds the MPICH (`build/detect.rs`), generates the bindings with bindgen, says how to link.

#[path = "build/detect.rs"]
mod detect;

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use detect::{Mpich, Search};

/// Links MPICH's archive instead of its shared library, if set to 1.
const STATIC: &str = "MALLEUS_MPICH_STATIC";

/// An error ends the build in one line. Cargo fails for that line alone; were the exit code a
/// failure too, cargo would also print all that this program has said.
fn main() {
    if let Err(error) = run() {
        println!("cargo::error={}", one_line(&error.to_string()));
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let root =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo sets CARGO_MANIFEST_DIR")?);
    let bindings =
        PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?).join("bindings.rs");
    for variable in detect::VARIABLES.iter().chain(&["DOCS_RS", STATIC]) {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    for file in ["build.rs", "build/detect.rs", "wrapper.h"] {
        println!("cargo::rerun-if-changed={file}");
    }

    let search = Search::from_environment(&root);
    let mpich = match Mpich::find(&search) {
        Ok(mpich) => mpich,
        Err(_) if env::var_os("DOCS_RS").is_some() => return document_only(&root, &bindings),
        Err(refusal) => return Err(refusal.to_string().into()),
    };
    if let Some(warning) = &mpich.warning {
        println!("cargo::warning={warning}");
    }
    println!("cargo::rerun-if-changed={}", mpich.mpicc.display());
    load_libclang(&search)?;
    generate(&mpich, &bindings)?;
    link(&mpich)?;
    bake(
        &mpich.version,
        &mpich.device,
        &mpich.abi,
        &mpich.mpicc,
        &mpich.mpiexec,
    );
    Ok(())
}

/// On docs.rs there is no MPICH: 4.2.3's bindings stand in, for the documentation and nothing
/// else. Their values are wrong for other versions, so no other build may use them.
fn document_only(root: &Path, bindings: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=ffi/docs-rs-bindings.rs");
    fs::copy(root.join("ffi/docs-rs-bindings.rs"), bindings)?;
    bake(
        "none: documentation only",
        "none",
        "unknown",
        Path::new("mpicc"),
        Path::new("mpiexec"),
    );
    Ok(())
}

/// bindgen panics without a libclang; loading it first gives a line of text instead.
fn load_libclang(search: &Search) -> Result<(), Box<dyn Error>> {
    let file = detect::libclang(search).map_err(|refusal| refusal.to_string())?;
    // SAFETY: the build script has one thread. clang-sys reads the variable and has no other way
    // to be told which file to load.
    #[allow(unsafe_code)]
    unsafe {
        env::set_var("LIBCLANG_PATH", &file);
    }
    clang_sys::load().map_err(|error| {
        let file = file.display();
        format!("libclang cannot be loaded from {file} ({error}); set LIBCLANG_PATH to the folder of another one")
    })?;
    Ok(())
}

fn generate(mpich: &Mpich, bindings: &Path) -> Result<(), Box<dyn Error>> {
    let out_dir = bindings.parent().ok_or("OUT_DIR is no folder")?;
    let defines = mpich
        .flags
        .defines
        .iter()
        .map(|define| format!("-D{define}"));
    let includes = mpich
        .flags
        .include_dirs
        .iter()
        .map(|folder| format!("-I{}", folder.display()));
    bindgen::Builder::default()
        .header("wrapper.h")
        .clang_args(defines)
        .clang_args(includes)
        .clang_args(compiler_headers())
        .clang_macro_fallback()
        .clang_macro_fallback_build_dir(out_dir)
        .allowlist_function("MPI_.*")
        .allowlist_type("MPI_.*|MPIR_(Win_flavor|Win_model|Topo_type|Combiner_enum|T_.*_t)")
        .allowlist_var("(MPI|MALLEUS)_.*|MPICH_(NUM)?VERSION")
        .blocklist_item(untyped_handles(&fs::read_to_string("wrapper.h")?))
        .blocklist_item("[PQ]MPI_.*")
        .default_macro_constant_type(bindgen::MacroTypeVariation::Signed)
        .prepend_enum_name(false)
        .generate_comments(false)
        .layout_tests(false)
        .formatter(bindgen::Formatter::Prettyplease)
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .generate()
        .map_err(|error| {
            format!(
                "bindgen cannot read mpi.h of {}: {error}",
                mpich.mpicc.display()
            )
        })?
        .write_to_file(bindings)?;
    Ok(())
}

/// The macros that `wrapper.h` gives a type to, as a pattern: bindgen's own reading of them would
/// be a second name for the same handle, of the wrong type.
fn untyped_handles(wrapper: &str) -> String {
    let handle = |line: &str| {
        Some(
            line.strip_prefix("static const ")?
                .strip_suffix(';')?
                .rsplit(' ')
                .next()?
                .to_owned(),
        )
    };
    wrapper
        .lines()
        .filter_map(handle)
        .collect::<Vec<_>>()
        .join("|")
}

/// A libclang from a wheel lacks clang's own headers (`stddef.h` and others): the C compiler's
/// stand in. Last in the search order, they count only where libclang has none.
fn compiler_headers() -> Vec<String> {
    let Ok(compiler) = cc::Build::new().cargo_metadata(false).try_get_compiler() else {
        return Vec::new();
    };
    let output = Command::new(compiler.path())
        .arg("-print-file-name=include")
        .output();
    let folder = match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => return Vec::new(),
    };
    if Path::new(&folder).is_dir() {
        vec!["-idirafter".to_owned(), folder]
    } else {
        Vec::new()
    }
}

/// The link line, a run path so that no `LD_LIBRARY_PATH` is needed, and the same for dependents
/// (`DEP_MPI_ROOT`, `DEP_MPI_LIBDIR`): cargo passes a link argument to this package's targets only.
fn link(mpich: &Mpich) -> Result<(), Box<dyn Error>> {
    for folder in &mpich.flags.library_dirs {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-arg=-Wl,-rpath,{}", folder.display());
    }
    if env::var_os(STATIC).is_some_and(|value| value == "1") {
        let mpicc = mpich.mpicc.display();
        let archive = mpich.flags.archive().map_err(|problem| {
            format!("{STATIC}=1, but {problem} ({mpicc}); unset it, or set MPICC to an MPICH with an archive (Debian: libmpich-dev)")
        })?;
        // Not bundled into our own library: it stays the site's.
        println!("cargo::rustc-link-lib=static:-bundle={}", archive.name);
        for library in &archive.needs {
            println!("cargo::rustc-link-lib={library}");
        }
    } else {
        for library in &mpich.flags.libraries {
            println!("cargo::rustc-link-lib={library}");
        }
    }
    if let Some(root) = mpich.mpicc.parent().and_then(Path::parent) {
        println!("cargo::metadata=root={}", root.display());
    }
    if let Some(folder) = mpich.flags.library_dirs.first() {
        println!("cargo::metadata=libdir={}", folder.display());
    }
    Ok(())
}

/// What the program says about the MPICH it was built with, and starts its jobs with.
fn bake(version: &str, device: &str, abi: &str, mpicc: &Path, mpiexec: &Path) {
    println!("cargo::rustc-env=MALLEUS_MPICH_VERSION={version}");
    println!("cargo::rustc-env=MALLEUS_MPICH_DEVICE={device}");
    println!("cargo::rustc-env=MALLEUS_MPICH_ABI={abi}");
    println!("cargo::rustc-env=MALLEUS_MPICC={}", mpicc.display());
    println!("cargo::rustc-env=MALLEUS_MPIEXEC={}", mpiexec.display());
}

/// cargo takes an error up to the end of the line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
