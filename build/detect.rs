//! Which MPICH and which libclang this crate is built with.
//!
//! Three programs ask: `build.rs`, `build/check.rs` (for `scripts/setup`, which gets what is
//! missing) and the tests. The order is the same for all of them, and so are the refusals: each
//! is one line that ends with what to do. Standard library only, since `scripts/setup` compiles
//! it with a plain `rustc`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where to look; a value, so that the tests can look elsewhere.
pub(crate) struct Search {
    /// `MPICC`: if set, nothing else is tried.
    pub(crate) mpicc: Option<OsString>,
    /// `PATH`.
    pub(crate) path: OsString,
    /// `LIBCLANG_PATH`, a folder or the file: if set, nothing else is tried.
    pub(crate) libclang: Option<OsString>,
    /// Folders where a system keeps libclang, the best first.
    pub(crate) library_dirs: Vec<PathBuf>,
    /// `.deps`, where `scripts/setup` puts what the system lacks.
    pub(crate) deps: PathBuf,
}

/// Environment variables that [`Search::from_environment`] reads.
pub(crate) const VARIABLES: [&str; 4] = ["MPICC", "PATH", "LIBCLANG_PATH", "LD_LIBRARY_PATH"];

impl Search {
    pub(crate) fn from_environment(root: &Path) -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        let path = env::var_os("PATH").unwrap_or_default();
        Self {
            mpicc: set("MPICC"),
            libclang: set("LIBCLANG_PATH"),
            library_dirs: system_library_dirs(&path),
            path,
            deps: root.join(".deps"),
        }
    }
}

/// What a build needs to know of an MPICH.
#[derive(Debug)]
pub(crate) struct Mpich {
    /// Canonical: a wheel's `mpicc` derives its prefix from the path it is called by.
    pub(crate) mpicc: PathBuf,
    /// The one beside `mpicc`; another MPICH's hangs when a program spawns.
    pub(crate) mpiexec: PathBuf,
    pub(crate) version: String,
    /// Device and netmods as `mpichversion` prints them, e.g. `ch4:ofi ucx`; the first is the default.
    pub(crate) device: String,
    /// The binary interface as `mpichversion` prints it, e.g. `16:3:4`.
    pub(crate) abi: String,
    pub(crate) flags: Flags,
    /// Something to tell the user although the build goes on.
    pub(crate) warning: Option<String>,
}

/// What `mpicc -show` says to the compiler and the linker, as far as Rust and bindgen need it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Flags {
    pub(crate) defines: Vec<String>,
    pub(crate) include_dirs: Vec<PathBuf>,
    pub(crate) library_dirs: Vec<PathBuf>,
    pub(crate) libraries: Vec<String>,
}

/// An MPICH to be linked statically.
#[derive(Debug, PartialEq)]
pub(crate) struct Archive {
    /// As in `lib{name}.a`.
    pub(crate) name: String,
    /// The shared libraries that it needs.
    pub(crate) needs: Vec<String>,
}

/// Why an `mpicc` is of no use.
#[derive(Debug, PartialEq)]
pub(crate) enum Problem {
    Missing,
    Fails(String),
    NoHeader,
    Foreign(&'static str),
    Old(String),
    CannotSpawn { version: String, device: String },
}

/// Why there is nothing to build with. Its text is one line.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The `mpicc` that `MPICC` names is no good; no other is tried.
    Named(PathBuf, Problem),
    /// The `mpicc` on `PATH` is no good, and there is no private one.
    OnPath(PathBuf, Problem),
    NoMpich,
    NoLibclang,
    /// `LIBCLANG_PATH` leads to nothing.
    NotLibclang(PathBuf),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "does not exist"),
            Self::Fails(how) => write!(f, "does not work: `mpicc -show` gave {how}"),
            Self::NoHeader => write!(f, "names no folder with an mpi.h"),
            Self::Foreign(name) => write!(f, "belongs to {name}, not to MPICH"),
            Self::Old(version) => write!(f, "belongs to MPICH {version}, older than 4.0"),
            Self::CannotSpawn { version, device } => {
                write!(
                    f,
                    "belongs to MPICH {version} with {device}, which cannot start processes"
                )
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(mpicc, problem) => write!(
                f,
                "MPICC={} {problem}; set MPICC to the mpicc of an MPICH 4.0 or later, or unset it and run `make build`",
                mpicc.display()
            ),
            Self::OnPath(mpicc, problem) => write!(
                f,
                "{} (found on PATH) {problem}; run `make build`, which gets a private MPICH, or set MPICC to the mpicc of an MPICH 4.0 or later",
                mpicc.display()
            ),
            Self::NoMpich => write!(
                f,
                "there is no mpicc on PATH; run `make build`, which gets a private MPICH, or set MPICC to the mpicc of an MPICH 4.0 or later"
            ),
            Self::NoLibclang => write!(
                f,
                "there is no libclang, which bindgen needs; run `make build`, which gets a private one, or install one (Debian: libclang-dev), or set LIBCLANG_PATH to its folder"
            ),
            Self::NotLibclang(path) => write!(
                f,
                "LIBCLANG_PATH={} holds no libclang; set it to the folder of libclang.so, or unset it and run `make build`",
                path.display()
            ),
        }
    }
}

impl Mpich {
    /// `MPICC` and nothing else; or the `mpicc` on `PATH`, if it can do all we need; or the private one.
    pub(crate) fn find(search: &Search) -> Result<Self, Refusal> {
        if let Some(name) = &search.mpicc {
            let refuse = |problem| Refusal::Named(PathBuf::from(name), problem);
            let mpicc = which(name, &search.path).ok_or_else(|| refuse(Problem::Missing))?;
            let mut mpich = Self::of(&mpicc).map_err(refuse)?;
            mpich.warning = mpich.known_bad().map(|problem| {
                format!(
                    "MPICC={} {problem}; it is used because MPICC names it",
                    mpicc.display()
                )
            });
            return Ok(mpich);
        }
        let on_path = which(OsStr::new("mpicc"), &search.path).map(|mpicc| {
            let usable = Self::of(&mpicc).and_then(|mpich| match mpich.known_bad() {
                Some(problem) => Err(problem),
                None => Ok(mpich),
            });
            usable.map_err(|problem| Refusal::OnPath(mpicc, problem))
        });
        match on_path {
            Some(Ok(mpich)) => Ok(mpich),
            Some(Err(refusal)) => Self::private(search).ok_or(refusal),
            None => Self::private(search).ok_or(Refusal::NoMpich),
        }
    }

    /// The one that `scripts/setup` installed.
    fn private(search: &Search) -> Option<Self> {
        Self::of(&search.deps.join("mpich/bin/mpicc")).ok()
    }

    fn of(mpicc: &Path) -> Result<Self, Problem> {
        let mpicc = canonical(mpicc).ok_or(Problem::Missing)?;
        let flags = Flags::parse(&output(&mpicc, "-show").map_err(Problem::Fails)?);
        let header = flags.header(&mpicc).ok_or(Problem::NoHeader)?;
        let version = version(&header)?;
        let told = beside(&mpicc, "mpichversion").and_then(|program| output(&program, "").ok());
        let told = |key: &str| {
            told.as_ref()
                .and_then(|text| text.lines().find_map(|line| line.strip_prefix(key)))
                .map_or("unknown", str::trim)
                .to_owned()
        };
        let (device, abi) = (told("MPICH Device:"), told("MPICH ABI:"));
        let mpiexec = beside(&mpicc, "mpiexec")
            .or_else(|| beside(&mpicc, "mpiexec.hydra"))
            .unwrap_or_else(|| mpicc.with_file_name("mpiexec"));
        Ok(Self {
            mpicc,
            mpiexec,
            version,
            device,
            abi,
            flags,
            warning: None,
        })
    }

    /// The versions that build and then fail: not taken unless asked for.
    fn known_bad(&self) -> Option<Problem> {
        (self.version.starts_with("4.0") && self.device == "ch4:ucx").then(|| {
            Problem::CannotSpawn {
                version: self.version.clone(),
                device: self.device.clone(),
            }
        })
    }
}

impl Flags {
    fn parse(show: &str) -> Self {
        let mut flags = Self::default();
        let mut words = show.split_whitespace();
        words.next(); // the compiler
        while let Some(word) = words.next() {
            let Some((option, attached)) = word.split_at_checked(2) else {
                continue;
            };
            if !["-D", "-I", "-L", "-l"].contains(&option) {
                continue;
            }
            let value = if attached.is_empty() {
                words.next().unwrap_or_default()
            } else {
                attached
            };
            match option {
                "-D" => flags.defines.push(value.to_owned()),
                "-I" => push_new(&mut flags.include_dirs, value.into()),
                "-L" => push_new(&mut flags.library_dirs, value.into()),
                _ => push_new(&mut flags.libraries, value.to_owned()),
            }
        }
        flags
    }

    /// The same libraries, MPICH's own from its archive: the name of that one, and what it needs. The
    /// wrapper leaves that out for a shared library that brings it along; MPICH's pkg-config file has it.
    pub(crate) fn archive(&self) -> Result<Archive, String> {
        let found = self.library_dirs.iter().find_map(|folder| {
            let name = ["mpich", "mpi"]
                .into_iter()
                .find(|name| folder.join(format!("lib{name}.a")).is_file())?;
            Some((folder, name.to_owned()))
        });
        let Some((folder, name)) = found else {
            return Err(format!(
                "there is no libmpich.a in {}",
                self.library_dirs
                    .iter()
                    .map(|folder| folder.display().to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            ));
        };
        let file = folder.join("pkgconfig/mpich.pc");
        let text = fs::read_to_string(&file)
            .map_err(|error| format!("{} can't be read: {error}", file.display()))?;
        let needs = text
            .lines()
            .filter(|line| line.starts_with("Libs:") || line.starts_with("Libs.private:"))
            .flat_map(str::split_whitespace)
            .filter_map(|word| word.strip_prefix("-l"))
            .filter(|library| *library != name)
            .map(str::to_owned)
            .collect();
        Ok(Archive { name, needs })
    }

    /// The text of the `mpi.h` that these flags lead to.
    fn header(&self, mpicc: &Path) -> Option<String> {
        let beside = mpicc.parent()?.parent()?.join("include");
        let system = [beside, PathBuf::from("/usr/include")];
        self.include_dirs.iter().chain(&system).find_map(|folder| {
            let text = fs::read(folder.join("mpi.h")).ok()?;
            Some(String::from_utf8_lossy(&text).into_owned())
        })
    }
}

/// Lines of `mpi.h` that only another MPI has; MPICH's descendants also define `MPICH_VERSION`.
const FOREIGN: [(&str, &str); 4] = [
    ("OMPI_MAJOR_VERSION", "Open MPI"),
    ("I_MPI_NUMVERSION", "Intel MPI"),
    ("MVAPICH_VERSION", "MVAPICH"),
    ("MVAPICH2_VERSION", "MVAPICH2"),
];

fn version(header: &str) -> Result<String, Problem> {
    let defined = |name: &str| {
        header.lines().find_map(|line| {
            let mut words = line.trim_start().strip_prefix('#')?.split_whitespace();
            (words.next() == Some("define") && words.next() == Some(name)).then(|| {
                words
                    .next()
                    .unwrap_or_default()
                    .trim_matches('"')
                    .to_owned()
            })
        })
    };
    if let Some((_, name)) = FOREIGN
        .iter()
        .find(|(macro_name, _)| defined(macro_name).is_some())
    {
        return Err(Problem::Foreign(name));
    }
    let version = defined("MPICH_VERSION").ok_or(Problem::Foreign("another MPI"))?;
    let major = version
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major >= 4) {
        Ok(version)
    } else {
        Err(Problem::Old(version))
    }
}

/// Without symbolic links, unless they end at a program of another name: such a one (Open MPI's
/// `opal_wrapper`) asks under which name it was called.
fn canonical(mpicc: &Path) -> Option<PathBuf> {
    let end = fs::canonicalize(mpicc).ok()?;
    if end.file_name()?.to_str()?.starts_with("mpicc") {
        return Some(end);
    }
    Some(
        fs::canonicalize(mpicc.parent()?)
            .ok()?
            .join(mpicc.file_name()?),
    )
}

/// A program with the same suffix in the same folder (Debian has `mpicc.mpich` and
/// `mpiexec.mpich` beside another MPI's), or without the suffix.
fn beside(mpicc: &Path, program: &str) -> Option<PathBuf> {
    let name = mpicc.file_name()?.to_str()?;
    let suffix = name.strip_prefix("mpicc").unwrap_or_default();
    [format!("{program}{suffix}"), program.to_owned()]
        .into_iter()
        .map(|file| mpicc.with_file_name(file))
        .find(|file| file.is_file())
}

/// Standard output, or in one line what went wrong.
fn output(program: &Path, argument: &str) -> Result<String, String> {
    let mut command = Command::new(program);
    if !argument.is_empty() {
        command.arg(argument);
    }
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("no message")
        .trim();
    Err(format!("{} ({first})", output.status))
}

/// As the shell does: a name without a slash is looked up on `PATH`.
fn which(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return Some(PathBuf::from(name)).filter(|file| file.is_file());
    }
    env::split_paths(path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, value: T) {
    if !list.contains(&value) {
        list.push(value);
    }
}

/// The libclang to load: the file. The system's, else the private one.
pub(crate) fn libclang(search: &Search) -> Result<PathBuf, Refusal> {
    if let Some(named) = search.libclang.as_deref().map(Path::new) {
        let file = if named.is_file() {
            Some(named.to_owned())
        } else {
            libclang_in(named)
        };
        return file.ok_or_else(|| Refusal::NotLibclang(named.to_owned()));
    }
    let wheels = folders(&search.deps.join("libclang/lib"), "python3");
    let private = wheels
        .iter()
        .map(|python| python.join("site-packages/clang/native"));
    let mut dirs = search.library_dirs.iter().cloned().chain(private);
    dirs.find_map(|folder| libclang_in(&folder))
        .ok_or(Refusal::NoLibclang)
}

/// `libclang.so` if it is there, else the newest versioned name; not `libclang-cpp`.
fn libclang_in(folder: &Path) -> Option<PathBuf> {
    let plain = folder.join("libclang.so");
    if plain.is_file() {
        return Some(plain);
    }
    let versioned = |name: &str| {
        !name.starts_with("libclang-cpp")
            && (name.starts_with("libclang.so.")
                || name.starts_with("libclang-") && name.contains(".so"))
    };
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| {
            file.file_name()
                .and_then(OsStr::to_str)
                .is_some_and(versioned)
                && file.is_file()
        })
        .collect();
    files.sort();
    files.pop()
}

fn system_library_dirs(path: &OsStr) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> =
        env::split_paths(&env::var_os("LD_LIBRARY_PATH").unwrap_or_default()).collect();
    if let Some(libdir) =
        which(OsStr::new("llvm-config"), path).and_then(|program| output(&program, "--libdir").ok())
    {
        dirs.push(libdir.trim().into());
    }
    for (parent, prefix) in [
        ("/usr/lib", "llvm"),
        ("/usr/lib64", "llvm"),
        ("/usr/local", "llvm"),
    ] {
        dirs.extend(
            folders(Path::new(parent), prefix)
                .into_iter()
                .map(|llvm| llvm.join("lib")),
        );
    }
    dirs.push(Path::new("/usr/lib").join(format!("{}-linux-gnu", env::consts::ARCH)));
    dirs.extend(["/usr/local/lib", "/usr/lib64", "/usr/lib"].map(PathBuf::from));
    dirs
}

/// The folders in `parent` whose name starts with `prefix`, the highest number first.
fn folders(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let number = |path: &PathBuf| -> u32 {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.chars()
            .filter(char::is_ascii_digit)
            .collect::<String>()
            .parse()
            .unwrap_or(0)
    };
    let mut found: Vec<PathBuf> = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .and_then(OsStr::to_str)
                .is_some_and(|name| name.starts_with(prefix))
        })
        .collect();
    found.sort_by_key(|path| std::cmp::Reverse(number(path)));
    found
}
