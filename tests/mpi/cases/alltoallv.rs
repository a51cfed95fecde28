//! Persistent Alltoallv: every variant against MPI's own.

use malleus::alltoallv::{Error, Plan, Variant};
use malleus::mpi::collective::BlockLayout;
use malleus::mpi::{Communicator, Environment};

use super::expect;
use crate::faults;
use crate::harness::{Case, Outcome, Run};

pub fn cases() -> Vec<Case> {
    vec![
        Case::on_each("alltoallv_variants", &[1, 2, 3, 4], variants).seconds(180),
        Case::ranks("alltoallv_eight_ranks", &[8], |environment| {
            variants(&environment.world())
        })
        .seconds(180),
        Case::ranks("worker_of_alltoallv", &[], worker_on_nodes),
        Case::command("alltoallv_two_nodes", |run| on_nodes(run, 4, 2)).seconds(180),
        Case::command("alltoallv_four_nodes", |run| on_nodes(run, 8, 4)).seconds(180),
        Case::on_each("alltoallv_many_plans", &[1, 2, 3], many_plans),
        Case::on_each("alltoallv_many_starts", &[2], many_starts),
        Case::on_each("alltoallv_large_blocks", &[2, 3], large),
        Case::on_each("alltoallv_refused", &[1, 2, 3], refused),
        Case::ranks("alltoallv_windows", &[1, 2], windows),
        Case::ranks("worker_that_drops_a_started_plan", &[], drops),
        Case::command("a_started_plan_dropped_ends_the_job", dropped).seconds(120),
    ]
}

fn worker_on_nodes(environment: &Environment) -> Outcome {
    let world = environment.world();
    let nodes: usize = std::env::var(NODES)?.parse()?;
    let node = world.split_shared()?;
    expect("ranks on a node", node.size(), world.size() / nodes)?;
    node.free()?;
    variants(&world)
}

/// MPICH pretends that there are so many.
const NODES: &str = "MPIR_CVAR_NUM_CLIQUES";

fn on_nodes(run: &Run, ranks: usize, nodes: usize) -> Outcome {
    let nodes = nodes.to_string();
    let variables = [(NODES, nodes.as_str())];
    let ended = run.worker_with("worker_of_alltoallv", ranks, &variables)?;
    let said = format!("{}{}", ended.stdout, ended.stderr);
    expect(&said, ended.status.success(), true)
}

/// Who sends how much to whom.
#[derive(Clone, Copy, Debug)]
pub enum Pattern {
    /// Nobody sends anything.
    Nothing,
    /// The same to all.
    Uniform,
    /// Most pairs have nothing, one has much.
    Sparse,
    /// One rank sends to all, and no other.
    One,
    /// Only to oneself.
    Own,
}

impl Pattern {
    pub const ALL: [Self; 5] = [
        Self::Nothing,
        Self::Uniform,
        Self::Sparse,
        Self::One,
        Self::Own,
    ];

    fn count(self, from: usize, to: usize, size: usize) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Uniform => 37,
            Self::Sparse => match (from * 7 + to * 13 + size) % 5 {
                0 if from == 0 => 40_000,
                0 | 1 => 1 + (from + 2 * to) % 9,
                _ => 0,
            },
            Self::One => usize::from(from == size - 1) * (5 + to),
            Self::Own => usize::from(from == to) * 11,
        }
    }
}

/// Blocks with a gap before each, in rotated order.
pub fn layout(counts: &[usize], first: usize) -> (BlockLayout, usize) {
    let mut layout = BlockLayout::empty(counts.len());
    let mut end = 0;
    for step in 0..counts.len() {
        let rank = (first + step) % counts.len();
        end += 3;
        layout.set(rank, end, counts[rank]);
        end += counts[rank];
    }
    (layout, end + 2)
}

pub type Layouts = ((BlockLayout, usize), (BlockLayout, usize));

pub fn layouts(communicator: &Communicator, pattern: Pattern) -> Layouts {
    let (rank, size) = (communicator.rank(), communicator.size());
    let sends: Vec<_> = (0..size).map(|to| pattern.count(rank, to, size)).collect();
    let receives: Vec<_> = (0..size)
        .map(|from| pattern.count(from, rank, size))
        .collect();
    (layout(&sends, rank), layout(&receives, 0))
}

fn value(from: usize, to: usize, index: usize, start: usize) -> u32 {
    (from * 1_000_003 + to * 10_007 + index * 31 + start * 7) as u32
}

pub const POISON: u32 = u32::MAX;

/// The ranks whose block is not empty.
fn with_data(layout: &BlockLayout) -> impl Iterator<Item = usize> {
    (0..layout.counts().len()).filter(|&rank| layout.counts()[rank] > 0)
}

pub fn fill(send: &mut [u32], layout: &BlockLayout, rank: usize, start: usize) {
    for to in with_data(layout) {
        let block = &mut send[layout.block(to)];
        for (index, place) in block.iter_mut().enumerate() {
            *place = value(rank, to, index, start);
        }
    }
}

pub fn check(received: &[u32], layout: &BlockLayout, rank: usize, start: usize) -> Outcome {
    let mut expected = vec![POISON; received.len()];
    for from in with_data(layout) {
        let block = &mut expected[layout.block(from)];
        for (index, place) in block.iter_mut().enumerate() {
            *place = value(from, rank, index, start);
        }
    }
    let wrong = received.iter().zip(&expected).position(|(a, b)| a != b);
    match wrong {
        None => Ok(()),
        Some(at) => Err(format!(
            "start {start}: {} at {at}, expected {}",
            received[at], expected[at]
        )
        .into()),
    }
}

fn variants(communicator: &Communicator) -> Outcome {
    let rank = communicator.rank();
    for pattern in Pattern::ALL {
        let ((send, send_length), (receive, receive_length)) = layouts(communicator, pattern);
        // What MPI itself makes of it.
        let (mut sent, mut received) = (vec![0; send_length], vec![POISON; receive_length]);
        fill(&mut sent, &send, rank, 0);
        communicator.all_to_all_v(&sent, &send, &mut received, &receive)?;
        check(&received, &receive, rank, 0)?;
        for variant in Variant::ALL {
            let told =
                |error: Box<dyn std::error::Error>| format!("{pattern:?}, {variant}: {error}");
            let mut plan = Plan::<u32, _>::allocate(communicator, variant, &send, &receive)?;
            expect("zero", plan.receive().iter().all(|&value| value == 0), true)?;
            for start in 1..5 {
                fill(plan.send_mut(), &send, rank, start);
                plan.receive_mut().fill(POISON);
                let mut started = plan.start()?;
                if start % 2 == 0 {
                    // It may say no for ever, but then `wait` says yes.
                    for _ in 0..3 {
                        if started.test()? {
                            break;
                        }
                    }
                }
                plan = started.wait()?;
                check(plan.receive(), &receive, rank, start).map_err(told)?;
            }
            plan.free()?;

            let buffers = (vec![0_u32; send_length], vec![POISON; receive_length]);
            let (mut plan, keeps) = (
                Plan::over(
                    communicator,
                    variant,
                    (buffers.0, &send),
                    (buffers.1, &receive),
                )?,
                send_length,
            );
            for start in 5..8 {
                fill(plan.send_mut(), &send, rank, start);
                plan.receive_mut().fill(POISON);
                plan = plan.start()?.wait()?;
                check(plan.receive(), &receive, rank, start).map_err(told)?;
            }
            let (sent, received) = plan.free()?;
            expect("given back", sent.len(), keeps)?;
            check(&received, &receive, rank, 7).map_err(told)?;
        }
    }
    Ok(())
}

/// Several at once, on two communicators.
fn many_plans(communicator: &Communicator) -> Outcome {
    let rank = communicator.rank();
    let other = communicator.duplicate()?;
    let ((send, _), (receive, _)) = layouts(communicator, Pattern::Uniform);
    let plan =
        |communicator, variant| Plan::<u32, _>::allocate(communicator, variant, &send, &receive);
    let mut plans = Vec::new();
    for variant in Variant::ALL {
        plans.push(plan(communicator, variant)?);
        plans.push(plan(&other, variant)?);
    }
    for round in 0..5 {
        let mut started = Vec::new();
        for (number, mut plan) in plans.into_iter().enumerate() {
            fill(plan.send_mut(), &send, rank, 100 * round + number);
            plan.receive_mut().fill(POISON);
            started.push(plan.start()?);
        }
        let ended = started.into_iter().map(|started| started.wait());
        plans = ended.collect::<Result<_, _>>()?;
        for (number, plan) in plans.iter().enumerate() {
            check(plan.receive(), &receive, rank, 100 * round + number)?;
        }
    }
    for plan in plans {
        plan.free()?;
    }
    Ok(other.free()?)
}

/// Blocks of several slots of a lane, the last of which is not full.
fn large(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let (send, send_length) = layout(&vec![70_000; size], rank);
    let (receive, receive_length) = layout(&vec![70_000; size], 0);
    for variant in Variant::ALL {
        let buffers = (vec![0_u32; send_length], vec![POISON; receive_length]);
        let (from, to) = ((buffers.0, &send), (buffers.1, &receive));
        let mut plan = Plan::over(communicator, variant, from, to)?;
        for start in 0..5 {
            fill(plan.send_mut(), &send, rank, start);
            plan.receive_mut().fill(POISON);
            plan = plan.start()?.wait()?;
            check(plan.receive(), &receive, rank, start)
                .map_err(|error| format!("{variant}: {error}"))?;
        }
        plan.free()?;
    }
    Ok(())
}

fn many_starts(communicator: &Communicator) -> Outcome {
    let rank = communicator.rank();
    let ((send, _), (receive, _)) = layouts(communicator, Pattern::Sparse);
    for variant in Variant::ALL {
        let mut plan = Plan::<u32, _>::allocate(communicator, variant, &send, &receive)?;
        for start in 0..200 {
            fill(plan.send_mut(), &send, rank, start);
            plan.receive_mut().fill(POISON);
            plan = plan.start()?.wait()?;
            check(plan.receive(), &receive, rank, start)?;
        }
        plan.free()?;
    }
    Ok(())
}

/// Every rank gets the same error, and can go on.
fn refused(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let last = size - 1;
    let plan = |send: &BlockLayout, receive: &BlockLayout| {
        Plan::<f64, _>::allocate(communicator, Variant::Fence, send, receive)?.free()
    };
    let good = BlockLayout::packed(vec![4; size]);
    let mut more = good.clone();
    if rank == last {
        more.set(0, 4 * size, 9);
    }
    match plan(&more, &good) {
        Err(Error::Counts {
            from,
            to,
            sent,
            expected,
        }) => expect("counts", (from, to, sent, expected), (last, 0, 9, 4))?,
        other => return Err(format!("{other:?}").into()),
    }
    let mut overlapping = good.clone();
    if rank == last && size > 1 {
        overlapping.set(1, 2, 4);
    }
    let other_size = BlockLayout::packed(vec![4; size + 1]);
    let wrong = if rank == last { &other_size } else { &good };
    for (result, text, applies) in [
        (plan(&good, &overlapping), "ranks 0 and 1 overlap", size > 1),
        (plan(wrong, &good), "blocks to send", true),
        (plan(&good, wrong), "blocks to receive", true),
        (
            Plan::over(
                communicator,
                Variant::Lock,
                (vec![0_u8; 4 * size], &good),
                (vec![0_u8; 4 * size - usize::from(rank == last)], &good),
            )
            .map(drop),
            "a receive buffer of",
            true,
        ),
    ] {
        match result {
            Err(Error::Layout { rank, problem }) => {
                expect("rank", rank, last)?;
                expect(&problem, problem.contains(text), true)?;
            }
            Ok(()) if !applies => {}
            other => return Err(format!("{text}: {other:?}").into()),
        }
    }
    Ok(())
}

/// How many windows the variants need, all of which are freed.
fn windows(environment: &Environment) -> Outcome {
    let world = environment.world();
    let layout = BlockLayout::packed(vec![8; world.size()]);
    for (variant, at_init, each_time) in [
        (Variant::Standard, 0, 0),
        (Variant::StandardPersistent, 0, 0),
        (Variant::Fence, 1, 0),
        (Variant::Lock, 1, 0),
        (Variant::Pscw, 1, 0),
        (Variant::FenceOnce, 0, 1),
        (Variant::LockOnce, 0, 1),
    ] {
        let before = faults::windows_created();
        let buffers = (vec![1_u8; 8 * world.size()], vec![0_u8; 8 * world.size()]);
        let (send, receive) = ((buffers.0, &layout), (buffers.1, &layout));
        let mut plan = Plan::over(&world, variant, send, receive)?;
        let name = variant.name();
        expect(name, faults::windows_created() - before, at_init)?;
        for _ in 0..3 {
            plan = plan.start()?.wait()?;
        }
        let during = faults::windows_created() - before - at_init;
        expect(name, during, 3 * each_time)?;
        plan.free()?;
        expect(name, faults::windows_freed(), faults::windows_created())?;
    }
    Ok(())
}

/// Which variant a worker drops, and whether every rank does.
const DROPPED: &str = "MALLEUS_TEST_DROPPED";
const BY_ALL: &str = "MALLEUS_TEST_DROPPED_BY_ALL";

/// A message, and neither a time-out nor a signal.
fn dropped(run: &Run) -> Outcome {
    for variant in Variant::ALL {
        for by_all in ["yes", "no"] {
            let worker = "worker_that_drops_a_started_plan";
            let variables = [(DROPPED, variant.name()), (BY_ALL, by_all)];
            let ended = run.worker_with(worker, 2, &variables)?;
            let said = format!("{variant}, all: {by_all}: {}{}", ended.stdout, ended.stderr);
            expect(&said, ended.status.success(), false)?;
            expect(&said, said.contains("dropped without free()"), true)?;
            for sign in ["SIGNAL", "signal", "Segmentation", "panicked"] {
                expect(&said, said.contains(sign), false)?;
            }
        }
    }
    Ok(())
}

fn drops(environment: &Environment) -> Outcome {
    let world = environment.world();
    let variant = std::env::var(DROPPED)?.parse()?;
    let by_all = std::env::var(BY_ALL)? == "yes";
    let layout = BlockLayout::packed(vec![8; world.size()]);
    let plan = Plan::<f32, _>::allocate(&world, variant, &layout, &layout)?;
    let started = plan.start()?;
    if by_all || world.rank() == 0 {
        drop(started);
    } else {
        started.wait()?.free()?;
    }
    Ok(())
}
