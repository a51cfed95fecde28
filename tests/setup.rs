//! Which MPICH and which libclang a build takes, and what it says when there is none.
//!
//! `build/detect.rs` is the code that `build.rs` runs. The installations here are fakes: a folder
//! with an `mpi.h` and an `mpicc` that answers `-show` as the real one does.

// What only build.rs uses is not called here.
#[allow(dead_code)]
#[path = "../build/detect.rs"]
mod detect;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use detect::{Mpich, Refusal, Search};

const OPEN_MPI: &str = "#define OMPI_MAJOR_VERSION 4\n#define OPEN_MPI 1\n";
const INTEL_MPI: &str = "#define I_MPI_VERSION \"2021.10\"\n#define I_MPI_NUMVERSION 20211000000\n";
const MVAPICH: &str = "#define MVAPICH2_VERSION \"2.3.7\"\n#define MPICH_VERSION \"3.2.1\"\n";

fn mpich(version: &str) -> String {
    format!("/* MPICH_VERSION is the version string. */\n#define MPICH_VERSION \"{version}\"\n")
}

/// A folder to put installations in. Starting a script while another thread has one open for
/// writing fails ("text file busy"), so one at a time.
struct Machine {
    root: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Machine {
    fn new() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        Self {
            _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner),
            root: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        // Canonical, since the answers are.
        fs::canonicalize(self.root.path())
            .expect("the temporary folder")
            .join(name)
    }

    fn script(&self, name: &str, body: &str) -> PathBuf {
        let file = self.file(name, &format!("#!/bin/sh\n{body}\n"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a mode");
        file
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.path(name);
        fs::create_dir_all(file.parent().expect("a parent")).expect("a folder");
        fs::write(&file, text).expect("a file");
        file
    }

    /// An MPI under `prefix`; gives its `mpicc`.
    fn mpi(&self, prefix: &str, header: &str) -> PathBuf {
        self.file(&format!("{prefix}/include/mpi.h"), header);
        self.script(&format!("{prefix}/bin/mpiexec"), "exit 0");
        let prefix_path = self.path(prefix);
        let prefix_path = prefix_path.display();
        let show = format!(
            "gcc -I{prefix_path}/include -L{prefix_path}/lib -Wl,-rpath -Wl,{prefix_path}/lib -lmpi"
        );
        self.script(
            &format!("{prefix}/bin/mpicc"),
            &format!("[ \"$1\" = -show ] && echo '{show}'"),
        )
    }

    /// An MPICH that knows its device.
    fn mpich(&self, prefix: &str, version: &str, device: &str) -> PathBuf {
        let says =
            format!("echo 'MPICH Version:      {version}'; echo 'MPICH Device:       {device}'");
        self.script(&format!("{prefix}/bin/mpichversion"), &says);
        self.mpi(prefix, &mpich(version))
    }

    /// Nothing named, `path/bin` on PATH, `deps` for the private ones.
    fn search(&self) -> Search {
        Search {
            mpicc: None,
            path: self.path("path/bin").into_os_string(),
            libclang: None,
            library_dirs: vec![self.path("system/lib")],
            deps: self.path("deps"),
        }
    }

    fn search_named(&self, mpicc: impl Into<OsString>) -> Search {
        Search {
            mpicc: Some(mpicc.into()),
            ..self.search()
        }
    }
}

/// The text of a refusal, which must be one line and end with what to do.
fn refused<T>(result: Result<T, Refusal>, advice: &str) -> String {
    let Err(refusal) = result else {
        panic!("accepted")
    };
    let text = refusal.to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.contains("; ") && text.contains(advice),
        "no advice: {text}"
    );
    text
}

#[test]
fn a_named_mpi_that_is_no_mpich_is_refused_by_name() {
    let machine = Machine::new();
    for (header, name) in [
        (OPEN_MPI, "belongs to Open MPI, not to MPICH"),
        (INTEL_MPI, "belongs to Intel MPI, not to MPICH"),
        (MVAPICH, "belongs to MVAPICH2, not to MPICH"),
        (
            "#define MPI_VERSION 4\n",
            "belongs to another MPI, not to MPICH",
        ),
    ] {
        let mpicc = machine.mpi("mpi", header);
        let text = refused(
            Mpich::find(&machine.search_named(&mpicc)),
            "set MPICC to the mpicc of an MPICH 4.0",
        );
        assert!(
            text.starts_with(&format!("MPICC={} {name};", mpicc.display())),
            "{text}"
        );
    }
}

#[test]
fn an_old_mpich_is_refused_by_version() {
    let machine = Machine::new();
    for version in ["3.4.3", "3.4a2", "1.5"] {
        let mpicc = machine.mpi("old", &mpich(version));
        let text = refused(Mpich::find(&machine.search_named(mpicc)), "set MPICC");
        assert!(
            text.contains(&format!("belongs to MPICH {version}, older than 4.0")),
            "{text}"
        );
    }
    for version in ["4.0", "4.2.3", "5.0.0rc1", "10.1"] {
        let mpicc = machine.mpi("new", &mpich(version));
        let found = Mpich::find(&machine.search_named(mpicc)).expect("4.0 or later");
        assert_eq!(found.version, version);
    }
}

#[test]
fn an_mpicc_that_fails_is_refused_with_its_first_words() {
    let machine = Machine::new();
    let mpicc = machine.script(
        "bad/bin/mpicc",
        "echo >&2; echo 'no licence for icc' >&2; echo 'see the manual' >&2; exit 3",
    );
    let text = refused(Mpich::find(&machine.search_named(mpicc)), "set MPICC");
    assert!(
        text.contains("`mpicc -show` gave exit status: 3 (no licence for icc)"),
        "{text}"
    );
    assert!(!text.contains("manual"), "{text}");

    let not_executable = machine.file("bad/bin/mpicc2", "");
    let text = refused(
        Mpich::find(&machine.search_named(not_executable)),
        "set MPICC",
    );
    assert!(text.contains("does not work"), "{text}");
}

#[test]
fn an_mpicc_without_a_header_is_refused() {
    let machine = Machine::new();
    let mpicc = machine.mpi("runtime", "");
    fs::remove_file(machine.path("runtime/include/mpi.h")).expect("the header");
    let text = refused(Mpich::find(&machine.search_named(mpicc)), "set MPICC");
    // A machine whose own /usr/include has an mpi.h is asked about that one.
    assert!(
        text.contains("names no folder with an mpi.h") || Path::new("/usr/include/mpi.h").exists(),
        "{text}"
    );
}

#[test]
fn what_mpicc_names_is_never_replaced() {
    let machine = Machine::new();
    machine.mpich("path", "4.2.3", "ch4:ofi");
    machine.mpich("deps/mpich", "4.2.3", "ch4:ofi");
    for name in [
        machine.path("nowhere/mpicc").into_os_string(),
        OsString::from("mpicc-of-nobody"),
    ] {
        let text = refused(Mpich::find(&machine.search_named(&name)), "set MPICC");
        assert!(
            text.starts_with(&format!("MPICC={} does not exist;", name.display())),
            "{text}"
        );
    }
    let open_mpi = machine.mpi("other", OPEN_MPI);
    refused(Mpich::find(&machine.search_named(open_mpi)), "set MPICC");
    // A name without a folder is looked up on PATH, as the shell does.
    let found = Mpich::find(&machine.search_named("mpicc")).expect("the mpicc on PATH");
    assert_eq!(found.mpicc, machine.path("path/bin/mpicc"));
}

#[test]
fn the_mpich_on_path_comes_before_the_private_one() {
    let machine = Machine::new();
    machine.mpich("deps/mpich", "4.2.3", "ch4:ofi ucx");
    assert_eq!(
        Mpich::find(&machine.search())
            .expect("the private one")
            .mpicc,
        machine.path("deps/mpich/bin/mpicc")
    );
    machine.mpich("path", "4.3.2", "ch4:ucx ofi");
    let found = Mpich::find(&machine.search()).expect("the one on PATH");
    assert_eq!(found.mpicc, machine.path("path/bin/mpicc"));
    assert_eq!(
        (found.version.as_str(), found.device.as_str()),
        ("4.3.2", "ch4:ucx ofi")
    );
}

#[test]
fn a_useless_mpicc_on_path_gives_way_to_the_private_mpich() {
    let machine = Machine::new();
    refused(
        Mpich::find(&machine.search()),
        "run `make build`, which gets a private MPICH, or set MPICC",
    );
    for header in [OPEN_MPI, &mpich("3.3.2")] {
        let mpicc = machine.mpi("path", header);
        let text = refused(
            Mpich::find(&machine.search()),
            "run `make build`, which gets a private MPICH, or set MPICC",
        );
        assert!(
            text.starts_with(&format!("{} (found on PATH) belongs to", mpicc.display())),
            "{text}"
        );
    }
    machine.mpich("deps/mpich", "4.2.3", "ch4:ofi ucx");
    assert_eq!(
        Mpich::find(&machine.search())
            .expect("the private one")
            .mpicc,
        machine.path("deps/mpich/bin/mpicc")
    );
}

#[test]
fn an_mpich_that_cannot_spawn_is_used_only_by_name_and_with_a_warning() {
    let machine = Machine::new();
    let mpicc = machine.mpich("path", "4.0.2", "ch4:ucx");
    let text = refused(Mpich::find(&machine.search()), "run `make build`");
    assert!(
        text.contains("belongs to MPICH 4.0.2 with ch4:ucx, which cannot start processes"),
        "{text}"
    );
    let found = Mpich::find(&machine.search_named(mpicc)).expect("named");
    let warning = found.warning.expect("a warning");
    assert!(
        warning.contains("cannot start processes") && warning.lines().count() == 1,
        "{warning}"
    );

    for (version, device) in [
        ("4.0.2", "ch4:ofi"),
        ("4.1.2", "ch4:ucx"),
        ("5.0.2", "ch4:ucx ofi"),
    ] {
        machine.mpich("path", version, device);
        let found = Mpich::find(&machine.search()).expect("a good one");
        assert_eq!(found.warning, None, "{version} {device}");
    }
}

#[test]
fn the_path_is_canonical_and_mpiexec_is_the_one_beside_it() {
    let machine = Machine::new();
    let mpicc = machine.mpich("opt/mpich", "4.2.3", "ch4:ofi");
    fs::create_dir_all(machine.path("path/bin")).expect("a folder");
    symlink(&mpicc, machine.path("path/bin/mpicc")).expect("a link");
    machine.script("path/bin/mpiexec", "exit 1");
    let found = Mpich::find(&machine.search()).expect("through the link");
    assert_eq!(found.mpicc, mpicc);
    assert_eq!(found.mpiexec, machine.path("opt/mpich/bin/mpiexec"));

    // As Debian installs it: the plain name is another MPI's.
    let debian = machine.path("opt/mpich/bin/mpicc.mpich");
    fs::rename(&mpicc, &debian).expect("renamed");
    machine.script("opt/mpich/bin/mpiexec.mpich", "exit 0");
    let found = Mpich::find(&machine.search_named(&debian)).expect("named");
    assert_eq!(found.mpiexec, machine.path("opt/mpich/bin/mpiexec.mpich"));
}

#[test]
fn a_link_to_a_wrapper_is_called_by_the_name_of_the_link() {
    let machine = Machine::new();
    let mpicc = machine.mpi("opt", OPEN_MPI);
    let wrapper = machine.path("opt/bin/opal_wrapper");
    fs::rename(&mpicc, &wrapper).expect("renamed");
    let body = fs::read_to_string(&wrapper).expect("the script");
    let body = body.replace("#!/bin/sh", "[ \"${0##*/}\" = mpicc ] || exit 1");
    machine.script("opt/bin/opal_wrapper", &body);
    fs::create_dir_all(machine.path("path/bin")).expect("a folder");
    symlink(&wrapper, machine.path("path/bin/mpicc")).expect("a link");
    let text = refused(Mpich::find(&machine.search()), "run `make build`");
    assert!(text.contains("belongs to Open MPI"), "{text}");
}

#[test]
fn the_link_line_keeps_what_rust_needs() {
    let machine = Machine::new();
    let mpicc = machine.mpich("opt", "4.2.3", "ch4:ofi");
    let opt = machine.path("opt");
    let include = opt.join("include");
    let show = format!(
        "gcc -O2 -Wl,-z,relro -DWITH=1 -D PLAIN -I{0} -I {0} -I/usr/include/x -L/a -L /b -L/a -pthread -Wl,-rpath,/a -lmpich -l m -lmpich",
        include.display()
    );
    machine.script("opt/bin/mpicc", &format!("echo '{show}'"));
    let flags = Mpich::find(&machine.search_named(mpicc))
        .expect("named")
        .flags;
    assert_eq!(flags.defines, ["WITH=1", "PLAIN"]);
    assert_eq!(
        flags.include_dirs,
        [include, PathBuf::from("/usr/include/x")]
    );
    assert_eq!(
        flags.library_dirs,
        [PathBuf::from("/a"), PathBuf::from("/b")]
    );
    assert_eq!(flags.libraries, ["mpich", "m"]);
}

#[test]
fn libclang_is_the_systems_else_the_private_one() {
    let machine = Machine::new();
    let search = machine.search();
    let text = refused(
        detect::libclang(&search),
        "run `make build`, which gets a private one",
    );
    assert!(text.starts_with("there is no libclang"), "{text}");

    machine.file("system/lib/libclang-cpp.so.14", "");
    refused(detect::libclang(&search), "run `make build`");
    let private = machine.file(
        "deps/libclang/lib/python3.11/site-packages/clang/native/libclang.so",
        "",
    );
    assert_eq!(detect::libclang(&search).expect("the private one"), private);
    let versioned = machine.file("system/lib/libclang-14.so.14.0.6", "");
    assert_eq!(detect::libclang(&search).expect("the system's"), versioned);
    let plain = machine.file("system/lib/libclang.so", "");
    assert_eq!(detect::libclang(&search).expect("the plain name"), plain);

    let named = |path: PathBuf| Search {
        libclang: Some(path.into_os_string()),
        ..machine.search()
    };
    assert_eq!(
        detect::libclang(&named(versioned.clone())).expect("a file"),
        versioned
    );
    let folder = private.parent().expect("a folder").to_owned();
    assert_eq!(detect::libclang(&named(folder)).expect("a folder"), private);
    let text = refused(
        detect::libclang(&named(machine.path("nowhere"))),
        "set it to the folder of libclang.so",
    );
    assert!(text.starts_with("LIBCLANG_PATH="), "{text}");
}

/// `scripts/setup` in a copy of the tree that has nothing but it and the question it asks.
fn setup(machine: &Machine, variables: &[(&str, &Path)]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in [
        "build/detect.rs",
        "build/check.rs",
        "scripts/setup",
        "scripts/mpich.txt",
        "scripts/libclang.txt",
    ] {
        let copy = machine.path("tree").join(file);
        fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
        fs::copy(root.join(file), copy).expect("a copy");
    }
    Command::new(machine.path("tree/scripts/setup"))
        .env_remove("MPICC")
        .env_remove("LIBCLANG_PATH")
        .envs(variables.iter().copied())
        .output()
        .expect("scripts/setup runs")
}

#[test]
fn setup_refuses_in_the_same_words() {
    let machine = Machine::new();
    let mpicc = machine.mpi("mpi", OPEN_MPI);
    let refusal = refused(Mpich::find(&machine.search_named(&mpicc)), "set MPICC");
    let output = setup(&machine, &[("MPICC", &mpicc)]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        format!("error: {refusal}\n")
    );
    assert_eq!(output.stdout, b"");
}

#[test]
fn setup_does_nothing_where_there_is_everything() {
    let machine = Machine::new();
    let mpicc = machine.mpich("mpi", "4.2.3", "ch4:ofi");
    let libclang = machine.file("lib/libclang.so", "");
    for _ in 0..2 {
        let output = setup(&machine, &[("MPICC", &mpicc), ("LIBCLANG_PATH", &libclang)]);
        assert!(output.status.success());
        assert_eq!((output.stdout, output.stderr), (Vec::new(), Vec::new()));
    }
    let made: Vec<_> = fs::read_dir(machine.path("tree/.deps"))
        .expect(".deps")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(made, ["check"]);
}

/// docs.rs documents from a committed copy, which must not fall behind `wrapper.h` and `build.rs`.
#[test]
fn the_bindings_for_docs_rs_have_every_name() {
    let generated = include_str!(concat!(env!("OUT_DIR"), "/bindings.rs"));
    let committed = include_str!("../ffi/docs-rs-bindings.rs");
    let names = |text: &str| -> Vec<String> {
        let name = |line: &str| {
            let item = line.trim_start().strip_prefix("pub ")?;
            let (kind, rest) = item.split_once(' ')?;
            let name = rest
                .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .next()?;
            (["const", "fn", "type", "struct"].contains(&kind) && name.starts_with("M"))
                .then(|| name.to_owned())
        };
        text.lines().filter_map(name).collect()
    };
    let committed = names(committed);
    assert!(committed.len() > 500, "only {} names", committed.len());
    let ours =
        |name: &&String| name.starts_with("MALLEUS_") || env!("MALLEUS_MPICH_VERSION") == "4.2.3";
    let missing: Vec<_> = names(generated)
        .into_iter()
        .filter(|name| ours(&name) && !committed.contains(name))
        .collect();
    assert!(
        missing.is_empty(),
        "run `make docs-rs-bindings`: {missing:?}"
    );
}
