//! What the cases cover, row by row. The rows are those of mpi4py's test suite and what this library has beyond
//! it; `docs/coverage.md` is written from them (`make coverage`), and a case compares it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use crate::cases;
use crate::harness::{Body, Case, Outcome, Run};

/// A chapter, and its rows: what is covered, and by which cases.
type Chapter = (
    &'static str,
    &'static [(&'static str, &'static [&'static str])],
);

const CHAPTERS: &[Chapter] = &[
    (
        "Windows",
        &[
            (
                "attributes base, size, unit, flavour, model: create",
                &["window_attributes"],
            ),
            ("the same: allocate", &["window_attributes"]),
            ("the same: allocate_shared", &["window_attributes"]),
            ("the same: dynamic", &["window_attributes"]),
            ("group, name, info", &["window_attributes"]),
            (
                "exposed memory, copied in and out, each element type",
                &["window_memory"],
            ),
            (
                "borrowed memory, freed whatever happens",
                &["window_scope", "window_at_any_address"],
            ),
            (
                "raw handles, and sizes that are known",
                &["window_handles", "window_raw"],
            ),
            (
                "shared memory of other ranks (shared_query)",
                &["window_shared", "window_shared_with_children"],
            ),
            ("attach, detach, addresses", &["window_dynamic"]),
            ("a window that is not freed", &["window_dropped"]),
        ],
    ),
    (
        "One-sided operations, in windows of each flavour and epochs of each kind",
        &[
            ("put, get", &["window_put_get", "window_get"]),
            ("put, get of strided blocks", &["window_strided"]),
            ("accumulate", &["window_accumulate"]),
            ("get_accumulate", &["window_get_accumulate"]),
            ("fetch_and_op", &["window_fetch_and_op", "window_at_once"]),
            (
                "compare_and_swap",
                &["window_compare_and_swap", "window_at_once"],
            ),
            ("put to PROC_NULL", &["window_proc_null"]),
            ("get from PROC_NULL", &["window_proc_null"]),
            ("accumulate, replace, on PROC_NULL", &["window_proc_null"]),
            ("accumulate, sum, on PROC_NULL", &["window_proc_null"]),
            ("get_accumulate on PROC_NULL", &["window_proc_null"]),
            ("fetch_and_op on PROC_NULL", &["window_proc_null"]),
            ("compare_and_swap on PROC_NULL", &["window_proc_null"]),
            ("rput, rget", &["window_requests", "window_rget"]),
            ("raccumulate, rget_accumulate", &["window_requests"]),
            (
                "the four request-based forms on PROC_NULL",
                &["window_requests_proc_null"],
            ),
            ("zero counts", &["window_put_get", "window_requests"]),
            (
                "rank, displacement, length out of range",
                &["window_bounds", "window_errors", "window_odd_allocations"],
            ),
        ],
    ),
    (
        "Epochs",
        &[
            ("fence, with asserts", &["window_fence"]),
            ("start, complete, post, wait", &["window_start_post"]),
            ("start, complete, post, test", &["window_start_post"]),
            ("lock, lock_all, several locks", &["window_get"]),
            (
                "flush, flush_all, flush_local, flush_local_all",
                &["window_sync_flush"],
            ),
            ("sync", &["window_sync_flush"]),
            ("epochs that stay open over calls", &["window_reading"]),
            ("one epoch at a time", &["window_one_epoch"]),
        ],
    ),
    (
        "Processes",
        &[
            ("spawn, with arguments", &["spawn_with_arguments"]),
            (
                "spawn, error codes",
                &["spawn_with_arguments", "spawn_multiple"],
            ),
            ("spawn, many times", &["spawn_many_times"]),
            ("spawn_multiple", &["spawn_multiple"]),
            (
                "spawn, info keys path and wdir, search in PATH",
                &["spawn_found_by_name"],
            ),
            ("spawn from a part of the world", &["spawn_from_a_part"]),
            ("spawn of what can't start", &["spawn_refused"]),
            ("ports: accept, connect", &["ports"]),
            ("ports: bad names", &["ports_refused"]),
            (
                "publish, look up, unpublish",
                &["published_name", "published_without_a_server"],
            ),
            (
                "intercommunicators: create, merge, disconnect",
                &["intercommunicators"],
            ),
        ],
    ),
    (
        "Communicators, groups, info, topologies",
        &[
            (
                "dup, dup_with_info, name, info, compare",
                &["communicator_properties"],
            ),
            (
                "split, split_type, create, create_group",
                &["communicator_properties", "subsets"],
            ),
            ("group operations", &["groups"]),
            ("info", &["info"]),
            ("raw handles", &["communicators_as_raw"]),
            (
                "cartesian: dims_create, coordinates, shift, sub",
                &["cartesian"],
            ),
            ("cartesian: neighbour collectives", &["cartesian_neighbors"]),
            (
                "distributed graph, neighbour alltoallv",
                &["distributed_graph"],
            ),
        ],
    ),
    (
        "Point to point and requests",
        &[
            ("send, ssend, receive, sendrecv, probe", &["point_to_point"]),
            (
                "errors: truncation, bad rank, bad tag",
                &["point_to_point_errors"],
            ),
            ("messages of other elements", &["other_elements"]),
            ("a status after the end of MPI", &["a_status_outlives_mpi"]),
            (
                "wait, test, cancel",
                &["requests_in_a_scope", "request_errors"],
            ),
            (
                "waitall, waitany, waitsome, testall, testany, testsome",
                &["request_sets"],
            ),
            ("buffers that the operation owns", &["owned_requests"]),
            ("raw handles", &["requests_as_raw"]),
            (
                "a request that is dropped",
                &["a_request_dropped_ends_the_job"],
            ),
            (
                "a request that is forgotten",
                &["a_request_forgotten_is_an_error"],
            ),
            (
                "a scope that panics, or fails",
                &[
                    "a_panic_in_a_scope_ends_the_job",
                    "a_scope_that_fails_and_cannot_end_ends_the_job",
                ],
            ),
        ],
    ),
    (
        "Collectives, also in place",
        &[
            (
                "barrier, bcast, gather(v), scatter(v)",
                &["collectives", "collectives_rooted"],
            ),
            (
                "reduce, allreduce, scan, exscan, reduce_scatter(_block)",
                &["collectives_reductions"],
            ),
            (
                "allgather(v), alltoall, alltoallv, alltoallw",
                &["collectives_gathers"],
            ),
            ("zero counts", &["collectives_empty"]),
            ("lengths that do not fit", &["collectives_refused"]),
            (
                "non-blocking",
                &["collectives_in_a_scope", "owned_requests"],
            ),
        ],
    ),
    (
        "Persistent operations, also in place",
        &[
            ("send, receive, startall", &["persistent_point_to_point"]),
            (
                "barrier, bcast, gather(v), scatter(v)",
                &["persistent_rooted"],
            ),
            (
                "reduce, allreduce, scan, exscan, reduce_scatter(_block)",
                &["persistent_reductions"],
            ),
            ("allgather(v)", &["persistent_gathers"]),
            ("alltoall, alltoallv, alltoallw", &["persistent_exchanges"]),
            ("neighbour alltoallv", &["persistent_exchanges"]),
            ("zero counts", &["persistent_empty"]),
            ("handles and info", &["persistent_handles"]),
            (
                "an active operation that is dropped",
                &["an_active_operation_dropped_ends_the_job"],
            ),
        ],
    ),
    (
        "Environment, threads, error handlers",
        &[
            (
                "MPI that the application initialized; its error handlers",
                &["attached_environment", "attached_below_multiple"],
            ),
            ("MPI_THREAD_FUNNELED", &["funneled"]),
            ("MPI on two threads", &["thread_communicators"]),
            (
                "MPI does not end on another thread",
                &["mpi_does_not_end_on_another_thread"],
            ),
            ("errors: class, code, text, argument", &["errors"]),
        ],
    ),
    (
        "Redistributions in the background",
        &[
            (
                "every variant, the sources going on",
                &["background_redistributions"],
            ),
            ("waited for at once", &["background_without_waiting"]),
            ("what does not fit together", &["background_refused"]),
        ],
    ),
    (
        "Latencies",
        &[
            ("every MPI call, by size", &["latency_of_mpi_calls"]),
            (
                "merged over ranks, collected at a root",
                &["latency_merges_over_ranks", "latency_collects_at_a_root"],
            ),
            (
                "stages of resizes, ranks that leave",
                &["latency_of_a_solve_with_resizes"],
            ),
        ],
    ),
];

pub fn cases() -> Vec<Case> {
    vec![Case::command("coverage_table", table_is_up_to_date)]
}

fn table_is_up_to_date(_: &Run) -> Outcome {
    let table = table(&cases::all())?;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/coverage.md");
    if std::env::var_os("MALLEUS_WRITE_COVERAGE").is_some() {
        std::fs::write(&file, &table)?;
    }
    if std::fs::read_to_string(&file)? == table {
        Ok(())
    } else {
        Err("docs/coverage.md is not that of the cases: make coverage".into())
    }
}

fn table(cases: &[Case]) -> Result<String, Box<dyn std::error::Error>> {
    let mut text = "# What is tested\n\n\
        Written by `make coverage` from the cases of `tests/mpi`, after mpi4py's list. A tick under self, world, dup\n\
        and merged: the case runs on that communicator, the last one joined from parents and spawned children;\n\
        \u{201c}own\u{201d}: it makes its own. The case's name runs it: `cargo test --test mpi NAME`.\n"
        .to_owned();
    let mut named = BTreeSet::new();
    for (chapter, rows) in CHAPTERS {
        write!(
            text,
            "\n## {chapter}\n\n\
             | what | self | world | dup | merged | ranks | cases |\n|---|---|---|---|---|---|---|\n"
        )?;
        for (what, names) in *rows {
            let mut ranks = BTreeSet::<usize>::new();
            let mut on_each = true;
            for name in *names {
                let case = cases.iter().find(|case| case.name == *name);
                let case = case.ok_or_else(|| format!("{what}: there is no case {name}"))?;
                named.insert(*name);
                on_each &= matches!(case.body, Body::Each(_));
                ranks.extend(case.ranks.iter().filter(|&&ranks| ranks > 0));
            }
            let ticks = if on_each {
                "✓ | ✓ | ✓ | ✓"
            } else {
                "own | | |"
            };
            let ranks: Vec<_> = ranks.iter().map(ToString::to_string).collect();
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            writeln!(
                text,
                "| {what} | {ticks} | {} | {} |",
                ranks.join(", "),
                names.join(", ")
            )?;
        }
    }
    let others: Vec<_> = cases
        .iter()
        .filter(|case| !case.ranks.is_empty() && !named.contains(case.name))
        .map(|case| format!("`{}`", case.name))
        .collect();
    write!(
        text,
        "\n## Other cases\n\nThe job, the solver, the command line: {}.\n",
        others.join(", ")
    )?;
    Ok(text)
}
