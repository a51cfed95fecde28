//! The `malleus` command; `malleus --help` says what it does.

fn main() -> std::process::ExitCode {
    malleus::cli::main()
}
