//! What an exchange of a plan must not cost: memory, and collective calls that its variant does not need.

use malleus::alltoallv::{Plan, Variant};
use malleus::mpi::{Communicator, Environment, Operation};

use super::alltoallv::{Pattern, layouts};
use super::expect;
use crate::calls::{self, Call};
use crate::harness::{Case, Outcome};
use crate::heap::allocations_of;

pub fn cases() -> Vec<Case> {
    vec![
        Case::on_each("alltoallv_allocates_nothing", &[1, 2, 3], allocations),
        Case::ranks("alltoallv_collective_calls", &[1, 2, 3], collective_calls),
        Case::ranks("worker_that_counts_messages", &[], messages),
        Case::command("alltoallv_aggregated_messages", |run| {
            let nodes = [("MPIR_CVAR_NUM_CLIQUES", "2")];
            let ended = run.worker_with("worker_that_counts_messages", 6, &nodes)?;
            let said = format!("{}{}", ended.stdout, ended.stderr);
            expect(&said, ended.status.success(), true)
        }),
    ]
}

/// Starts whose costs are added up.
const STARTS: usize = 4;

/// Some exchanges, after a first one.
fn exchanges<K>(mut plan: Plan<u32, K>) -> malleus::alltoallv::Result<Plan<u32, K>> {
    for _ in 0..STARTS {
        plan = plan.start()?.wait()?;
    }
    Ok(plan)
}

fn allocations(communicator: &Communicator) -> Outcome {
    for variant in Variant::ALL {
        // What is set up each time is in memory.
        let is_once = matches!(variant, Variant::FenceOnce | Variant::LockOnce);
        for pattern in Pattern::ALL {
            let compare = |allocations: usize| {
                let told = format!("{variant}, {pattern:?}: none, not {allocations}");
                expect(&told, allocations == 0, !is_once)
            };
            let ((send, send_length), (receive, receive_length)) = layouts(communicator, pattern);
            let plan = Plan::<u32, _>::allocate(communicator, variant, &send, &receive)?;
            let plan = plan.start()?.wait()?;
            let (plan, allocations) = allocations_of(|| exchanges(plan));
            compare(allocations)?;
            plan?.free()?;

            let buffers = (vec![0_u32; send_length], vec![0_u32; receive_length]);
            let (send, receive) = ((buffers.0, &send), (buffers.1, &receive));
            let plan = Plan::over(communicator, variant, send, receive)?;
            let plan = plan.start()?.wait()?;
            let (plan, allocations) = allocations_of(|| exchanges(plan));
            compare(allocations)?;
            plan?.free()?;
        }
    }
    Ok(())
}

/// The collective calls of one exchange, where the definition of the variant says what they are.
fn needed(variant: Variant) -> Option<&'static [(Call, usize)]> {
    Some(match variant {
        Variant::Standard => &[(Call::Alltoallv, 1)],
        Variant::StandardPersistent => &[(Call::Start, 1)],
        Variant::Pscw | Variant::NodeShared | Variant::Aggregated => &[],
        Variant::Fence | Variant::FenceHierarchical => &[(Call::WinFence, 2)],
        Variant::Lock | Variant::LockHierarchical => &[(Call::Barrier, 2)],
        // Its window's sizes are gathered, too.
        Variant::FenceOnce => &[
            (Call::Allgather, 1),
            (Call::Alltoall, 1),
            (Call::WinFence, 2),
        ],
        Variant::LockOnce => &[
            (Call::Barrier, 1),
            (Call::Allgather, 1),
            (Call::Alltoall, 1),
        ],
        _ => return None,
    })
}

/// On two pretended nodes: a message is sent, and received, once for each exchange and direction.
fn messages(environment: &Environment) -> Outcome {
    let world = environment.world();
    for (pattern, directions) in [
        (Pattern::Uniform, 2),
        // The last rank sends to all, so that its node sends, and the other one receives.
        (Pattern::One, 1),
        (Pattern::Own, 0),
    ] {
        let ((send, _), (receive, _)) = layouts(&world, pattern);
        let plan = Plan::<u32, _>::allocate(&world, Variant::Aggregated, &send, &receive)?;
        let (plan, made) = calls::of(|| exchanges(plan));
        plan?.free()?;
        let mine = made.iter().map(|&(call, times)| match call {
            Call::Start => Ok(times as u64),
            other => Err(format!("{times} calls of {other:?}")),
        });
        let mut starts = [mine.sum::<Result<u64, _>>()?];
        world.all_reduce(&mut starts, Operation::Sum)?;
        let expected = 2 * directions * STARTS as u64;
        expect(&format!("{pattern:?}"), starts[0], expected)?;
    }
    Ok(())
}

fn collective_calls(environment: &Environment) -> Outcome {
    let world = environment.world();
    for variant in Variant::ALL {
        for pattern in [Pattern::Uniform, Pattern::One, Pattern::Nothing] {
            let ((send, _), (receive, _)) = layouts(&world, pattern);
            let plan = Plan::<u32, _>::allocate(&world, variant, &send, &receive)?;
            let Some(needed) = needed(plan.chosen()) else {
                return Err(format!("what {variant} needs is not known").into());
            };
            let needed = needed.iter();
            let all: Vec<_> = needed
                .map(|&(call, times)| (call, times * STARTS))
                .collect();
            let (plan, made) = calls::of(|| exchanges(plan));
            expect(&format!("{variant}, {pattern:?}"), &made, &all)?;
            plan?.free()?;
        }
    }
    Ok(())
}
