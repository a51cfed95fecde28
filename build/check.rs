//! What `scripts/setup` asks: is there something to build with?
//!
//! Prints `mpich` and `libclang`, a line each, for what is missing and can be had privately; a
//! refusal that only the user can mend is one line on standard error and a failure.

// build.rs reads the details of an MPICH; here only its being there counts.
#[allow(dead_code)]
#[path = "detect.rs"]
mod detect;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use detect::{Mpich, Refusal, Search};

fn main() -> ExitCode {
    let root = env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from("."), PathBuf::from);
    let search = Search::from_environment(&root);
    let asked = [
        ("mpich", Mpich::find(&search).err()),
        ("libclang", detect::libclang(&search).err()),
    ];
    for (name, refusal) in asked {
        match refusal {
            None => {}
            Some(Refusal::NoMpich | Refusal::NoLibclang) => println!("{name}"),
            Some(Refusal::OnPath(mpicc, problem)) => {
                eprintln!("note: {} {problem}", mpicc.display());
                println!("{name}");
            }
            Some(refusal @ (Refusal::Named(..) | Refusal::NotLibclang(_))) => {
                eprintln!("error: {refusal}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
