//! The C library as a C program sees it: built by `scripts/static-library`, compiled and linked by the
//! command in its header, run under `mpiexec` through resizes.
#![allow(unreachable_pub)]

// What only cases that run inside of a rank use.
#[allow(dead_code)]
#[path = "mpi/harness.rs"]
mod harness;

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use harness::{Case, Outcome, Run, mpiexec};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn main() -> ExitCode {
    harness::run_all(vec![
        Case::command("static_library_link_line", link_line).seconds(900),
        Case::command("static_library_header_stands_alone", header_stands_alone).seconds(900),
        Case::command("static_library_boundary", boundary).seconds(900),
        Case::command("static_library_parks_and_recalls", parks_and_recalls).seconds(900),
        Case::command("static_library_grows_and_shrinks", grows_and_shrinks)
            .needs_spawn()
            .seconds(900),
        Case::command("static_library_in_background", in_background),
        Case::command("static_library_forms", forms)
            .needs_spawn()
            .seconds(900),
        Case::command("static_library_joins_with_its_arguments", joins)
            .needs_spawn()
            .seconds(900),
    ])
}

/// Where the library is, built once.
fn prefix() -> Result<&'static Path, Box<dyn Error>> {
    static PREFIX: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("static-library");
        let output = Command::new(Path::new(ROOT).join("scripts/static-library"))
            .arg(&prefix)
            .arg("dev")
            .env("MPICC", malleus::MPICC)
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(prefix)
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    });
    built
        .as_ref()
        .map(PathBuf::as_path)
        .map_err(|error| error.clone().into())
}

/// What `pkg-config` says, or what the file says where there is no `pkg-config`.
fn flags() -> Result<Vec<String>, Box<dyn Error>> {
    let folder = prefix()?.join("lib/pkgconfig");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    let output = Command::new("pkg-config")
        .args(["--cflags", "--static", "--libs", "malleus"])
        .env("PKG_CONFIG_PATH", &folder)
        .output();
    match output {
        Ok(output) if output.status.success() => {
            return Ok(words(&String::from_utf8(output.stdout)?));
        }
        Ok(output) => return Err(String::from_utf8_lossy(&output.stderr).into()),
        Err(_) => {}
    }
    let prefix = prefix()?.to_str().ok_or("a path that is not text")?;
    let text = fs::read_to_string(folder.join("malleus.pc"))?;
    let flags: Vec<_> = ["Cflags: ", "Libs: ", "Libs.private: "]
        .iter()
        .filter_map(|key| text.lines().find_map(|line| line.strip_prefix(key)))
        .collect();
    let flags = flags
        .join(" ")
        .replace("${includedir}", &format!("{prefix}/include"))
        .replace("${libdir}", &format!("{prefix}/lib"));
    Ok(words(&flags))
}

/// Compiles and links a C program as a user does.
fn compile(source: &str, options: &[&str]) -> Result<PathBuf, Box<dyn Error>> {
    let source = Path::new(ROOT).join(source);
    let program = prefix()?.join(source.file_stem().ok_or("a file")?);
    let output = Command::new(malleus::MPICC)
        .args(options)
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(&source)
        .args(flags()?)
        .output()?;
    if output.status.success() {
        Ok(program)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into())
    }
}

/// Runs a program, and gives what it says on standard output.
fn say<I: AsRef<OsStr>>(
    run: &Run,
    ranks: usize,
    program: &Path,
    arguments: impl IntoIterator<Item = I>,
) -> Result<String, Box<dyn Error>> {
    let mut command = mpiexec(ranks);
    command.arg(program).args(arguments);
    let ended = run.finish(command)?;
    if ended.status.success() {
        Ok(ended.stdout)
    } else {
        Err(format!("{}\n{}{}", ended.status, ended.stdout, ended.stderr).into())
    }
}

/// `malleus.pc` names what rustc says is needed, apart from MPI, which mpicc adds.
fn link_line(_: &Run) -> Outcome {
    let needed = fs::read_to_string(prefix()?.join("lib/native-static-libs"))?;
    let needed: Vec<_> = needed
        .split_whitespace()
        .filter(|library| !["-lmpi", "-lmpich"].contains(library))
        .collect();
    let text = fs::read_to_string(prefix()?.join("lib/pkgconfig/malleus.pc"))?;
    let named: Vec<_> = text
        .lines()
        .find_map(|line| line.strip_prefix("Libs.private: "))
        .ok_or("malleus.pc has no Libs.private")?
        .split_whitespace()
        .collect();
    if needed != named {
        return Err(format!("rustc needs {needed:?}, malleus.pc names {named:?}").into());
    }
    if !text.contains(concat!("\nVersion: ", env!("CARGO_PKG_VERSION"), "\n")) {
        return Err(format!("malleus.pc has another version\n{text}").into());
    }
    Ok(())
}

/// As C99 and, where there is a C++ compiler, as C++11.
fn header_stands_alone(_: &Run) -> Outcome {
    let header = prefix()?.join("include/malleus.h");
    let mut languages = vec!["-xc -std=c99"];
    if Command::new("c++").arg("--version").output().is_ok() {
        languages.push("-xc++ -std=c++11");
    }
    for language in languages {
        let output = Command::new(malleus::MPICC)
            .args(language.split(' '))
            .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
            .arg(&header)
            .output()?;
        if !output.status.success() {
            return Err(format!("{language}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
    }
    Ok(())
}

fn boundary(run: &Run) -> Outcome {
    let program = compile("tests/static/boundary.c", &["-std=c11", "-pthread"])?;
    let said = say(run, 2, &program, [""; 0])?;
    if said != "boundary: done\n" {
        return Err(said.into());
    }
    Ok(())
}

/// What the example has to say.
fn expected(iterations: u64, resizes: usize, ranks: usize) -> String {
    let sum: u64 = (0..10_007)
        .map(|index| index + iterations * (index % 13 + 1))
        .sum();
    format!("{iterations} iterations, {resizes} resizes, 0 refused, {ranks} ranks, sum {sum}\n")
}

fn example(
    run: &Run,
    start: usize,
    script: &str,
    rest: &[&str],
    (resizes, ranks): (usize, usize),
) -> Outcome {
    let program = compile("ffi/examples/grow_and_shrink.c", &["-std=c99"])?;
    let arguments = [&[script], rest].concat();
    let said = say(run, start, &program, &arguments)?;
    let expected = expected(20, resizes, ranks);
    if said != expected {
        return Err(format!("{script} {rest:?}: {said}, expected {expected}").into());
    }
    Ok(())
}

fn parks_and_recalls(run: &Run) -> Outcome {
    for method in ["0", "1", "2", "3"] {
        example(
            run,
            3,
            "3:1,6:2,9:3,12:2",
            &[method, "20", "verify"],
            (4, 2),
        )?;
    }
    example(run, 2, "", &[], (0, 2))
}

fn grows_and_shrinks(run: &Run) -> Outcome {
    for method in ["0", "1", "2", "3"] {
        for mode in ["verify", "lean"] {
            example(
                run,
                1,
                "3:2,6:4,9:1,12:3,15:2",
                &[method, "20", mode],
                (5, 2),
            )?;
        }
    }
    // Below the first size, and up again.
    example(run, 2, "2:1,5:3,8:2,11:4,14:1", &[], (5, 1))
}

/// Constant arrays move while the program goes on: the resizes come later, or not before its end.
fn in_background(run: &Run) -> Outcome {
    let program = compile("ffi/examples/grow_and_shrink.c", &["-std=c99"])?;
    for (method, strategy) in [("0", "2"), ("0", "3"), ("1", "1"), ("2", "3"), ("3", "2")] {
        let said = say(
            run,
            2,
            &program,
            ["2:1", method, "2000", "verify", strategy],
        )?;
        if said != expected(2000, 1, 1) {
            return Err(format!("method {method}, strategy {strategy}: {said}").into());
        }
    }
    Ok(())
}

/// Records and packed elements, through five resizes.
fn forms(run: &Run) -> Outcome {
    let program = compile("tests/static/forms.c", &["-std=c99"])?;
    for arguments in [["0", "0"], ["1", "0"], ["2", "3"], ["2", "4"], ["0", "2"]] {
        for ranks in [1, 3] {
            let said = say(run, ranks, &program, arguments)?;
            if said != "forms: 5 resizes, 2 ranks\n" {
                return Err(format!("{arguments:?} from {ranks} on: {said}").into());
            }
        }
    }
    Ok(())
}

/// A process that is started finds script, method and number of iterations in its own arguments.
fn joins(run: &Run) -> Outcome {
    let program = compile("ffi/examples/grow_and_shrink.c", &["-std=c99"])?;
    let said = say(run, 1, &program, ["2:3,7:2", "2", "9", "verify"])?;
    if said != expected(9, 2, 2) {
        return Err(said.into());
    }
    Ok(())
}
