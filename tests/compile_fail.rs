//! Misuse of MPI that the compiler refuses: each file of `tests/compile_fail` has to fail with the errors in the `.stderr`
//! file beside it.
//!
//! The compiler's words change from version to version. They are compared under the version that wrote them; under another
//! one the test is ignored, and counted as such. After a change of the public API, or of [`COMPILER`]:
//! `TRYBUILD=overwrite cargo test --test compile_fail`, then read what changed. One file alone:
//! `cargo test --test compile_fail -- trybuild=NAME`.

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};

/// The compiler whose words the `.stderr` files hold.
const COMPILER: &str = "rustc 1.95.";

fn main() -> ExitCode {
    // `trybuild=NAME` is for trybuild, which reads it itself.
    let arguments = std::env::args().filter(|argument| !argument.starts_with("trybuild="));
    let arguments = Arguments::from_iter(arguments);
    let is_other = !version().starts_with(COMPILER);
    let misuse = Trial::test("misuse_does_not_compile", || {
        trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
        Ok(())
    });
    let misuse = misuse
        .with_kind(format!("needs {COMPILER}x"))
        .with_ignored_flag(is_other);
    libtest_mimic::run(&arguments, vec![misuse]).exit_code()
}

/// What the compiler that trybuild will use calls itself.
fn version() -> String {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler).arg("--version").output();
    output.map_or_else(
        |error| format!("no rustc: {error}"),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}
