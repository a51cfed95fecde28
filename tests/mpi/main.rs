//! Tests that need ranks. Each case says with how many ranks it runs; the harness starts it under the
//! `mpiexec` of the MPICH that the library was built with, under a time-out, and then looks for
//! processes that are left. `cargo test --test mpi NAME` runs one.

// Test values are small numbers.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    unreachable_pub
)]

mod calls;
mod cases;
mod coverage;
mod faults;
mod harness;
#[path = "../support/heap.rs"]
mod heap;

fn main() -> std::process::ExitCode {
    let cases = cases::all();
    match harness::worker_case() {
        Some(name) => harness::run_worker(&cases, &name),
        None => harness::run_all(cases),
    }
}
