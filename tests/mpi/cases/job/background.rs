//! Jobs whose constant arrays move while they go on.

use std::time::Duration;

use malleus::job::{Checkpoint, Error as JobError, Event, Job, Moment, Options};
use malleus::mpi::{Environment, Operation};
use malleus::redistribute::{Method, Variant};

use super::{Application, is_root, resizes, script};
use crate::cases::expect;
use crate::faults;
use crate::harness::{Case, Outcome, Run};

macro_rules! each_variant {
    ($($name:literal $variant:literal),* $(,)?) => {
        [$(
            Case::ranks($name, &[1, 3], |environment| in_background(environment, $variant))
                .needs_spawn()
        ),*]
    };
}

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::ranks("job_without_progress_thread", &[2], without_progress),
        Case::ranks("job_ranks_wait_for_nobody", &[3], ranks_wait_for_nobody),
        Case::ranks("job_root_runs_ahead_col", &[1], |environment| {
            root_runs_ahead(environment, "col-wt")
        })
        .needs_spawn(),
        Case::ranks("job_root_runs_ahead_rma", &[1], |environment| {
            root_runs_ahead(environment, "rma2-wt")
        })
        .needs_spawn(),
        Case::ranks("job_queues_a_resize", &[2], queue).needs_spawn(),
        Case::ranks("job_ends_under_way", &[1, 2], an_end_under_way).needs_spawn(),
        Case::ranks("job_refuses_at_the_switch", &[2], a_clone_at_the_switch).needs_spawn(),
        Case::ranks("job_lacks_memory_under_way", &[1, 2], no_memory).needs_spawn(),
        Case::ranks("job_wrong_checksum_under_way", &[2], a_wrong_checksum).needs_spawn(),
        Case::ranks("job_moments", &[2], moments),
        Case::ranks("job_changes_its_variant", &[2], another_variant),
        Case::ranks("worker_that_drops_a_job", &[], worker_that_drops_a_job),
        Case::command("a_job_dropped_under_way_ends", a_drop_under_way),
    ];
    cases.extend(each_variant![
        "job_in_background_col_t" "col-t",
        "job_in_background_col_nb" "col-nb",
        "job_in_background_col_wt" "col-wt",
        "job_in_background_rma1_t" "rma1-t",
        "job_in_background_rma1_wt" "rma1-wt",
        "job_in_background_rma2_t" "rma2-t",
        "job_in_background_rma2_wt" "rma2-wt",
        "job_in_background_rma1_t_unlock" "rma1-t-unlock",
        "job_in_background_rma2_t_unlock" "rma2-t-unlock",
        "job_in_background_p2p_nb" "p2p-nb",
        "job_in_background_p2p_wt" "p2p-wt",
        "job_in_background_rma1_paced" "rma1-paced",
        "job_in_background_rma2_paced" "rma2-paced",
    ]);
    cases
}

/// Goes on until rank 0 has seen so many resizes.
fn run_until(application: &mut Application, count: usize) -> Outcome {
    loop {
        application.check()?;
        let mut seen = [resizes(application.job.events()).len() as u64];
        // Processes that joined have not seen all.
        let communicator = application.job.communicator();
        communicator.all_reduce(&mut seen, Operation::Maximum)?;
        if seen[0] >= count as u64 {
            return Ok(());
        }
        application.step();
        if !application.checkpoint()? {
            return Ok(());
        }
    }
}

/// Grows by starting and by recalling, shrinks by parking and by releasing.
fn in_background(environment: &Environment, variant: &str) -> Outcome {
    let variant: Variant = variant.parse()?;
    let options = Options::default()
        .manager(script("1:2 2:4 3:1 4:3 5:2")?)
        .variant(variant)
        .verify(true);
    let mut application = Application::start(environment, options)?;
    let root = is_root(environment, &application.job);
    run_until(&mut application, 5)?;
    let events = application.end()?;
    if root {
        let done = resizes(&events);
        let sizes: Vec<usize> = done.iter().map(|resize| resize.to).collect();
        expect("sizes", sizes, vec![2, 4, 1, 3, 2])?;
        for resize in done {
            expect("variant", resize.variant, variant)?;
            expect("verified", resize.verified, true)?;
            expect("iterations", resize.iterations_during > 0, true)?;
            expect("time", resize.background_s > 0.0, true)?;
        }
        let one_sided = [Method::RmaLock, Method::RmaLockAll].contains(&variant.method());
        // Five arrays in five resizes, each once.
        expect(
            "windows",
            faults::windows_created(),
            25 * usize::from(one_sided),
        )?;
    }
    expect(
        "windows freed",
        faults::windows_freed(),
        faults::windows_created(),
    )
}

/// Nothing holds rank 0 up: hundreds of its messages wait at the others when the ranks agree on the switch.
fn root_runs_ahead(environment: &Environment, variant: &str) -> Outcome {
    let options = Options::default()
        .manager(script("1:2 2:4 3:1")?)
        .variant(variant.parse()?);
    let mut application = Application::start(environment, options)?;
    loop {
        // A rank that gets no core for long would hold gigabytes of them.
        if application.job.iteration().is_multiple_of(500) {
            application.job.communicator().barrier()?;
        }
        let mut seen = [resizes(application.job.events()).len() as u64];
        application.job.communicator().broadcast(&mut seen, 0)?;
        if seen[0] == 3 {
            break;
        }
        if application.job.rank() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        application.step();
        if !application.checkpoint()? {
            break;
        }
    }
    application.end()?;
    Ok(())
}

/// Tests at checkpoints are enough.
fn without_progress(environment: &Environment) -> Outcome {
    for variant in ["col-nb", "col-wt", "rma1-wt", "rma2-wt"] {
        let options = Options::default()
            .manager(script("1:1")?)
            .variant(variant.parse()?)
            .progress(false)
            .verify(true);
        let mut application = Application::start(environment, options)?;
        run_until(&mut application, 1)?;
        application.end()?;
        // The other one is parked until the end.
        environment.world().barrier()?;
    }
    Ok(())
}

/// Ranks that do not communicate, and differ in speed, switch at the same iteration.
fn ranks_wait_for_nobody(environment: &Environment) -> Outcome {
    for variant in ["col-nb", "rma2-wt", "rma1-t"] {
        let options = Options::default()
            .manager(script("2:2")?)
            .variant(variant.parse()?);
        let mut job = Job::start(environment, options)?;
        let mut x = job.array::<u64>("x").constant().block(1 << 20)?;
        x.initialize(|range, values| values.copy_from_slice(&range.collect::<Vec<_>>()))?;
        let mut switched = 0;
        while switched == 0 {
            let pause = [2000, 1000, 300][environment.world().rank()];
            std::thread::sleep(Duration::from_micros(pause));
            let iteration = job.iteration() + 1;
            if let Checkpoint::Switch(switch) = job.checkpoint()? {
                let _ = switch.commit((&mut x,))?;
                switched = iteration;
            }
        }
        let right = x
            .range()
            .zip(x.iter())
            .all(|(index, &value)| index == value);
        expect("contents", right, true)?;
        drop(x);
        job.end()?;
        let mut all = [0; 3];
        environment.world().all_gather(&[switched], &mut all)?;
        expect(variant, all, [switched; 3])?;
    }
    Ok(())
}

/// Resizes that are asked for while another one is under way come after it, also where the process that asks has
/// joined in between.
fn queue(environment: &Environment) -> Outcome {
    let options = Options::default()
        .manager(script("1:3 2:3 3:1 4:1 5:4")?)
        .variant("rma2-wt".parse()?);
    let mut application = Application::start(environment, options)?;
    let root = is_root(environment, &application.job);
    // The first resize is under way until everybody has passed its last entry.
    while application.job.iteration() < 6 {
        application.check()?;
        application.step();
        application.checkpoint()?;
    }
    run_until(&mut application, 3)?;
    let events = application.end()?;
    if root {
        let sizes: Vec<usize> = resizes(&events).iter().map(|resize| resize.to).collect();
        expect("sizes", sizes, vec![3, 1, 4])?;
        let queued = |event: &Event| match event {
            Event::Queued { iteration, to } => Some((*iteration, *to)),
            _ => None,
        };
        let queued: Vec<_> = events.iter().filter_map(queued).collect();
        let asked = [(3, 1), (5, 4)];
        expect(
            "what was queued was asked for",
            queued.iter().all(|one| asked.contains(one)),
            true,
        )?;
    }
    Ok(())
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// The job ends while data moves: nothing is left behind.
fn an_end_under_way(environment: &Environment) -> Outcome {
    for variant in [
        "col-t", "col-nb", "col-wt", "rma1-t", "rma1-wt", "rma2-t", "rma2-wt",
    ] {
        let before = threads();
        let options = Options::default()
            .manager(script("1:3")?)
            .variant(variant.parse()?);
        let mut application = Application::start(environment, options)?;
        application.step();
        let Checkpoint::InProgress = application.job.checkpoint()? else {
            return Err(format!("{variant} is not under way").into());
        };
        let events = application.end()?;
        expect(
            variant,
            matches!(
                events[..],
                [Event::Refused {
                    iteration: 1,
                    to: 3,
                    ..
                }]
            ),
            true,
        )?;
        expect(
            "windows",
            faults::windows_freed(),
            faults::windows_created(),
        )?;
        expect("threads", threads(), before)?;
    }
    Ok(())
}

/// An error at the switch leaves the job whole, and nothing behind; the next resize is done.
fn a_clone_at_the_switch(environment: &Environment) -> Outcome {
    for variant in ["col-t", "col-wt", "rma2-t", "rma2-wt"] {
        let options = Options::default()
            .manager(script("1:3 40:1")?)
            .variant(variant.parse()?)
            .verify(true);
        let mut application = Application::start(environment, options)?;
        let before = threads();
        let mut clone = Some(application.job.communicator().clone());
        let mut refused = 0;
        while refused == 0 || application.job.iteration() < 40 {
            application.step();
            match application.checkpoint() {
                Ok(true) => {}
                Err(JobError::CommunicatorInUse { .. }) => {
                    refused += 1;
                    expect("threads", threads(), before)?;
                    clone = None;
                }
                other => return Err(format!("{variant}: {other:?}").into()),
            }
            expect("size", application.job.size(), 2)?;
            application.check()?;
        }
        drop(clone);
        expect("refused", refused, 1)?;
        run_until(&mut application, 1)?;
        application.end()?;
        expect(
            "windows",
            faults::windows_freed(),
            faults::windows_created(),
        )?;
        environment.world().barrier()?;
    }
    Ok(())
}

/// Newcomers have no room for what is to come in the background: the job goes on.
fn no_memory(environment: &Environment) -> Outcome {
    if std::env::var_os("PMI_SPAWNED").is_some() {
        faults::limit_address_space(Some(256 << 20));
    }
    let size = environment.world().size();
    let options = Options::default()
        .manager(script("1:3 3:4")?)
        .variant("rma2-wt".parse()?);
    let mut job = Job::start(environment, options)?;
    expect(
        "only the first processes get here",
        job.is_first_start(),
        true,
    )?;
    let mut sparse = job.array::<f64>("sparse").constant().block(1 << 28)?;
    sparse.initialize(|_, _| ())?;
    while job.iteration() < 4 {
        expect(
            "goes on",
            matches!(job.checkpoint()?, Checkpoint::Continue),
            true,
        )?;
        expect("size", job.size(), size)?;
    }
    let refused = |event: &Event| match event {
        Event::Refused { reason, .. } => reason.contains(&format!("rank {size}: mmap")),
        _ => false,
    };
    expect(
        "refused",
        job.events().iter().filter(|event| refused(event)).count(),
        2,
    )?;
    drop(sparse);
    job.end()?;
    Ok(())
}

/// What has come in the background is verified as well.
fn a_wrong_checksum(environment: &Environment) -> Outcome {
    let options = Options::default()
        .manager(script("1:3")?)
        .variant("rma2-t-unlock".parse()?)
        .verify(true);
    let mut application = Application::start(environment, options)?;
    faults::corrupt_received(application.job.is_first_start());
    loop {
        application.step();
        match application.checkpoint() {
            Ok(_) => application.check()?,
            Err(JobError::Verification { array, .. }) => {
                expect("array", array.as_str(), "constant")?;
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    faults::corrupt_received(false);
    application.check()?;
    expect("size", application.job.size(), 2)?;
    application.end()?;
    Ok(())
}

/// Each resize has the variant that was set before it; none changes under way.
fn another_variant(environment: &Environment) -> Outcome {
    let options = Options::default().manager(script("1:1")?).verify(true);
    let mut job = Job::start(environment, options)?;
    let mut x = job.array::<u64>("x").constant().block(1 << 16)?;
    x.initialize(|range, values| values.copy_from_slice(&range.collect::<Vec<_>>()))?;
    let variant: Variant = "rma2-wt".parse()?;
    job.set_variant("col-t".parse()?)?;
    job.set_variant(variant)?;
    loop {
        if let Checkpoint::Switch(switch) = job.checkpoint()? {
            let _ = switch.commit((&mut x,))?;
            break;
        }
        let refused = job.set_variant(Variant::blocking(Method::Collective));
        let found = matches!(refused, Err(JobError::UnderWay { to: 1 }));
        expect("under way", found, true)?;
    }
    expect("member", job.is_member(), environment.world().rank() == 0)?;
    if job.is_member() {
        let variants: Vec<_> = resizes(job.events())
            .iter()
            .map(|resize| (resize.variant, resize.verified))
            .collect();
        expect("variants", variants, vec![(variant, true)])?;
        job.set_variant(Variant::blocking(Method::Collective))?;
    } else {
        let refused = job.set_variant(variant);
        let found = matches!(refused, Err(JobError::Ended));
        expect("ended", found, true)?;
    }
    drop(x);
    job.end()?;
    Ok(())
}

/// Constant arrays may move at the switch; others may not move in the background.
fn moments(environment: &Environment) -> Outcome {
    let options = Options::default()
        .manager(script("1:1")?)
        .variant("rma2-wt".parse()?)
        .verify(true);
    let mut job = Job::start(environment, options)?;
    let refused = job.array::<u8>("v").moves(Moment::Background).block(10);
    let is_refused = matches!(refused, Err(JobError::VariableInBackground { .. }));
    expect("a variable array in the background", is_refused, true)?;
    let mut late = job
        .array::<u8>("late")
        .constant()
        .moves(Moment::Switch)
        .block(99)?;
    late.initialize(|_, bytes| bytes.fill(7))?;
    // Nothing moves before the switch.
    let Checkpoint::Switch(switch) = job.checkpoint()? else {
        return Err("no switch".into());
    };
    let _ = switch.commit((&mut late,))?;
    expect("contents", late.iter().all(|&byte| byte == 7), true)?;
    drop(late);
    job.end()?;
    Ok(())
}

fn worker_that_drops_a_job(environment: &Environment) -> Outcome {
    let options = Options::default()
        .manager(script("1:1")?)
        .variant("col-nb".parse()?);
    let mut application = Application::start(environment, options)?;
    application.step();
    let under_way = matches!(application.job.checkpoint()?, Checkpoint::InProgress);
    expect("under way", under_way, true)?;
    let before = threads();
    drop(application);
    expect("helper threads", threads() < before, true)
}

fn a_drop_under_way(run: &Run) -> Outcome {
    let ended = run.worker("worker_that_drops_a_job", 2)?;
    expect("fails", ended.status.success(), false)?;
    expect("in time", ended.elapsed < Duration::from_secs(10), true)?;
    expect("tells", ended.stderr.contains("dropped"), true)
}
