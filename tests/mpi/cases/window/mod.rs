//! Windows of every flavour, epochs of every kind, and what may be done inside.

mod epochs;
mod flavours;
mod misuse;
mod operations;

use malleus::mpi::window::{DynamicWindow, Memory, Region, Window};
use malleus::mpi::{Communicator, Error, Result};

use crate::harness::{Case, Mpich, Outcome};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    macro_rules! on_each {
        ($($name:literal => $check:expr),* $(,)?) => {
            $(cases.push(Case::on_each($name, &[1, 2, 3], $check));)*
        };
    }
    on_each! {
        "window_get" => epochs::window_get,
        "window_rget" => epochs::window_rget,
        "window_attributes" => flavours::attributes,
        "window_memory" => flavours::memory,
        "window_raw" => flavours::raw,
        "window_handles" => flavours::handles,
        "window_scope" => flavours::scope,
        "window_at_any_address" => flavours::at_any_address,
        "window_put_get" => |communicator| operations::in_each(communicator, operations::put_get),
        "window_strided" => |communicator| operations::in_each(communicator, operations::strided),
        "window_accumulate" => |communicator| operations::in_each(communicator, operations::accumulate),
        "window_get_accumulate" => |communicator| operations::in_each(communicator, operations::get_accumulate),
        "window_fetch_and_op" => |communicator| operations::in_each(communicator, operations::fetch_and_op),
        "window_compare_and_swap" => |communicator| operations::in_each(communicator, operations::compare_and_swap),
        "window_proc_null" => |communicator| operations::in_each(communicator, operations::proc_null),
        "window_requests" => operations::requests,
        "window_requests_proc_null" => operations::requests_proc_null,
        "window_fence" => epochs::fences,
        "window_start_post" => epochs::start_post,
        "window_sync_flush" => epochs::sync_flush,
        "window_at_once" => operations::at_once,
        "window_shared" => |communicator| match is_merged(communicator) {
            true => Ok(()),
            false => flavours::shared(communicator),
        },
        "window_dynamic" => flavours::dynamic,
        "window_bounds" => misuse::bounds,
        "window_one_epoch" => misuse::one_epoch,
        "window_errors" => misuse::errors,
        "window_odd_allocations" => misuse::odd_allocations,
    }
    let shared_with_children = Case::on_each(
        "window_shared_with_children",
        &[1, 2, 3],
        |communicator| match is_merged(communicator) {
            true => flavours::shared(communicator),
            false => Ok(()),
        },
    );
    cases.push(
        shared_with_children
            .needs_spawn()
            .skip_on(|mpich| (mpich.netmod != "ofi").then_some(UNSHARED)),
    );
    cases.push(Case::ranks("window_dropped_worker", &[], flavours::dropped));
    cases.push(Case::command("window_dropped", |run| {
        flavours::dropped_ends_the_job(run)
    }));
    cases
}

/// Whether the communicator joins parents and spawned children.
fn is_merged(communicator: &Communicator) -> bool {
    communicator.size() > communicator.environment().world().size()
        || std::env::var_os("PMI_SPAWNED").is_some_and(|spawned| spawned == "1")
}

const UNSHARED: &str = "MPICH 4.2 to 5.0 with ucx shares no memory with spawned processes";

/// Whether memory can be shared on the communicator.
fn can_share(communicator: &Communicator) -> bool {
    !is_merged(communicator) || Mpich::of_this_run().netmod == "ofi"
}

/// A window of some flavour with `length` elements, which are poisoned.
enum AnyWindow {
    Plain(Window<i32>),
    Dynamic(DynamicWindow<i32>, Region),
}

const POISON: i32 = -77;

impl AnyWindow {
    fn each(
        communicator: &Communicator,
        length: usize,
        check: impl Fn(&AnyWindow, &str) -> Outcome,
    ) -> Outcome {
        let created = Window::create(communicator, vec![POISON; length], None)?;
        let mut windows = vec![
            ("create", Self::Plain(created)),
            (
                "allocate",
                Self::Plain(Window::allocate(communicator, length, None)?),
            ),
        ];
        if can_share(communicator) {
            let shared = Window::allocate_shared(communicator, length, None)?;
            windows.push(("allocate_shared", Self::Plain(shared)));
        }
        let mut dynamic = DynamicWindow::create(communicator, None)?;
        let region = dynamic.attach(vec![POISON; length])?;
        dynamic.publish()?;
        windows.push(("dynamic", Self::Dynamic(dynamic, region)));
        for (name, window) in windows {
            check(&window, name).map_err(|error| -> Box<dyn std::error::Error> {
                format!("{name}: {error}").into()
            })?;
            match window {
                Self::Plain(window) => window.free()?,
                Self::Dynamic(window, _) => window.free()?,
            }
        }
        Ok(())
    }

    fn window(&self) -> &Window<i32> {
        match self {
            Self::Plain(window) => window,
            Self::Dynamic(window, _) => window,
        }
    }

    fn memory(&self) -> Memory<'_, i32> {
        match self {
            Self::Plain(window) => window.memory(),
            Self::Dynamic(window, region) => window.attached(*region).expect("it is attached"),
        }
    }

    /// Where an element of a rank is.
    fn at(&self, rank: usize, index: u64) -> u64 {
        match self {
            Self::Plain(_) => index,
            Self::Dynamic(window, _) => {
                window.regions(rank).expect("a rank")[0].displacement::<i32>(index)
            }
        }
    }
}

/// Fails unless a result is an error that names the argument.
fn argument<T: std::fmt::Debug>(result: &Result<T>, name: &str) -> Result<()> {
    match result {
        Err(Error::Argument { argument, .. }) if *argument == name => Ok(()),
        other => Err(state(&format!(
            "{other:?}, expected an error that names {name}"
        ))),
    }
}

fn state(reason: &str) -> Error {
    Error::State {
        operation: "test",
        reason: reason.to_owned(),
    }
}
