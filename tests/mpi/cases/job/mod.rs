//! The malleable job: resizes, processes, transactions.

use std::time::{Duration, Instant};

use malleus::job::{
    Array, Checkpoint, ConstantArray, Error as JobError, Event, Job, Options, Outcome as Switched,
    Replicated, Resize, Script, Spawn,
};
use malleus::mpi::Environment;
use malleus::mpi::window::{Assertion, Window};
use malleus::redistribute::{Method, Variant};

mod background;
mod forms;

use super::{cores, expect};
use crate::faults;
use crate::harness::{Case, Outcome, Run};

pub fn cases() -> Vec<Case> {
    let mut cases = background::cases();
    cases.extend(forms::cases());
    cases.extend([
        Case::ranks("ten_resizes_col", &[1, 3], |environment| {
            ten_resizes(environment, Method::Collective, false)
        })
        .needs_spawn(),
        Case::ranks("ten_resizes_rma1", &[1, 3], |environment| {
            ten_resizes(environment, Method::RmaLock, false)
        })
        .needs_spawn(),
        Case::ranks("ten_resizes_rma2", &[1, 3], |environment| {
            ten_resizes(environment, Method::RmaLockAll, false)
        })
        .needs_spawn(),
        Case::ranks("ten_resizes_p2p", &[1, 3], |environment| {
            ten_resizes(environment, Method::PointToPoint, false)
        })
        .needs_spawn(),
        Case::ranks("ten_resizes_col_lean", &[1, 3], |environment| {
            ten_resizes(environment, Method::Collective, true)
        })
        .needs_spawn(),
        Case::ranks("ten_resizes_rma2_lean", &[1, 3], |environment| {
            ten_resizes(environment, Method::RmaLockAll, true)
        })
        .needs_spawn(),
        Case::ranks("each_kind_three_times", &[1, 2], each_kind_three_times).needs_spawn(),
        Case::ranks("books_of_a_script", &[2], books_of_a_script).needs_spawn(),
        Case::ranks("a_window_per_array_rma1", &[1, 2], |environment| {
            a_window_per_array(environment, Method::RmaLock, 5)
        })
        .needs_spawn(),
        Case::ranks("a_window_per_array_rma2", &[1, 2], |environment| {
            a_window_per_array(environment, Method::RmaLockAll, 5)
        })
        .needs_spawn(),
        Case::ranks("no_window_col", &[2], |environment| {
            a_window_per_array(environment, Method::Collective, 0)
        })
        .needs_spawn(),
        Case::ranks("a_released_cohort_ends", &[1], a_released_cohort_ends).needs_spawn(),
        Case::ranks("a_parked_rank_sleeps", &[2], a_parked_rank_sleeps),
        Case::ranks(
            "no_resize_to_the_current_size",
            &[2],
            no_resize_to_the_current_size,
        ),
        Case::ranks(
            "a_start_that_cannot_be_is_refused",
            &[1, 2],
            a_start_that_cannot_be_is_refused,
        )
        .needs_spawn(),
        Case::ranks("no_memory_on_a_source", &[1, 2], no_memory_on_a_source).needs_spawn(),
        Case::ranks("no_memory_on_a_newcomer", &[1, 2], no_memory_on_a_newcomer).needs_spawn(),
        Case::ranks(
            "a_clone_of_the_communicator",
            &[2],
            a_clone_of_the_communicator,
        )
        .needs_spawn(),
        Case::ranks(
            "an_end_instead_of_a_commit",
            &[1, 2],
            an_end_instead_of_a_commit,
        )
        .needs_spawn(),
        Case::ranks("a_clone_at_the_end", &[2], a_clone_at_the_end),
        Case::ranks(
            "an_array_that_a_sleeper_lacks",
            &[2],
            an_array_that_a_sleeper_lacks,
        )
        .needs_spawn(),
        Case::ranks("arrays_in_another_order", &[2], arrays_in_another_order).needs_spawn(),
        Case::ranks(
            "many_start_while_one_sleeps",
            &[2],
            many_start_while_one_sleeps,
        )
        .needs_spawn(),
        Case::ranks(
            "an_array_that_is_not_passed",
            &[2],
            an_array_that_is_not_passed,
        )
        .needs_spawn(),
        Case::ranks("a_wrong_checksum_col", &[1, 2], |environment| {
            a_wrong_checksum(environment, Method::Collective)
        })
        .needs_spawn(),
        Case::ranks("a_wrong_checksum_rma1", &[1, 2], |environment| {
            a_wrong_checksum(environment, Method::RmaLock)
        })
        .needs_spawn(),
        Case::ranks("a_wrong_checksum_rma2", &[1, 2], |environment| {
            a_wrong_checksum(environment, Method::RmaLockAll)
        })
        .needs_spawn(),
        Case::ranks("worker_that_never_joins", &[], worker_that_never_joins),
        Case::ranks("worker_that_panics", &[], worker_that_panics),
        Case::ranks(
            "worker_that_panics_elsewhere",
            &[],
            worker_that_panics_elsewhere,
        ),
        Case::command(
            "a_start_that_never_joins_ends_the_job",
            a_start_that_never_joins_ends_the_job,
        )
        .needs_spawn(),
        Case::command("a_panic_ends_the_job", a_panic_ends_the_job).needs_spawn(),
        Case::command(
            "a_panic_of_a_helper_thread_ends_the_job",
            a_panic_of_a_helper_thread_ends_the_job,
        ),
    ]);
    cases
}

/// An application with one array of each kind, whose contents follow from global index and iteration.
struct Application {
    job: Job,
    constant: ConstantArray<u64>,
    variable: Array<f64>,
    weighted: Array<u16>,
    offsets: ConstantArray<u64>,
    behind: ConstantArray<i32>,
    steps: Replicated<u64>,
}

const LENGTH: u64 = 10_007;
const ROWS: u64 = 97;

fn constant_at(index: u64) -> u64 {
    index.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ index
}

/// Row `row` has `7 row mod 5` elements behind it.
fn offset_of(row: u64) -> u64 {
    (0..row).map(|row| 7 * row % 5).sum()
}

impl Application {
    fn start(environment: &Environment, options: Options) -> Result<Self, JobError> {
        let mut job = Job::start(environment, options)?;
        let size = job.size() as u64;
        let constant = job.array("constant").constant().block(LENGTH)?;
        let variable = job.array("variable").block(LENGTH)?;
        // Rank r has a share of r + 1, so that cut points differ from equal blocks.
        let total = size * (size + 1) / 2;
        let cuts = (0..=size)
            .map(|rank| LENGTH * (rank * (rank + 1) / 2) / total)
            .collect();
        let weighted = job.array("weighted").cuts(cuts)?;
        let mut offsets = job.array("offsets").constant().block(ROWS)?;
        if job.is_first_start() {
            offsets.initialize(|rows, offsets: &mut [u64]| {
                rows.zip(offsets)
                    .for_each(|(row, offset)| *offset = offset_of(row));
            })?;
        }
        let behind = job
            .array("behind")
            .constant()
            .behind(&offsets, offset_of(ROWS))?;
        let steps = job.replicated("steps", 0)?;
        let mut application = Self {
            job,
            constant,
            variable,
            weighted,
            offsets,
            behind,
            steps,
        };
        if application.job.is_first_start() {
            application.constant.initialize(|range, values| {
                range
                    .zip(values)
                    .for_each(|(index, value)| *value = constant_at(index));
            })?;
            application.behind.initialize(|range, values| {
                range
                    .zip(values)
                    .for_each(|(index, value)| *value = -(index as i32));
            })?;
        }
        Ok(application)
    }

    fn step(&mut self) {
        let range = self.variable.range();
        let steps = *self.steps as f64;
        range
            .zip(self.variable.iter_mut())
            .for_each(|(index, value)| *value = index as f64 + steps);
        let range = self.weighted.range();
        let steps = *self.steps;
        range
            .zip(self.weighted.iter_mut())
            .for_each(|(index, value)| *value = (index * 3 + steps) as u16);
        *self.steps += 1;
    }

    fn check(&self) -> Outcome {
        let steps = self.job.iteration();
        expect("steps", *self.steps, steps)?;
        if steps == 0 {
            return Ok(());
        }
        let steps = steps - 1;
        let size = self.job.size();
        expect(
            "partition",
            (
                self.variable.partition().ranks(),
                self.weighted.partition().ranks(),
            ),
            (size, size),
        )?;
        for (index, &value) in self.constant.range().zip(self.constant.iter()) {
            expect("constant", value, constant_at(index))?;
        }
        for (index, &value) in self.variable.range().zip(self.variable.iter()) {
            expect("variable", value, index as f64 + steps as f64)?;
        }
        for (index, &value) in self.weighted.range().zip(self.weighted.iter()) {
            expect("weighted", value, (index * 3 + steps) as u16)?;
        }
        for (row, &offset) in self.offsets.range().zip(self.offsets.iter()) {
            expect("offset", offset, offset_of(row))?;
        }
        let rows = self.offsets.range();
        expect(
            "range behind",
            self.behind.range(),
            offset_of(rows.start)..offset_of(rows.end),
        )?;
        for (index, &value) in self.behind.range().zip(self.behind.iter()) {
            expect("behind", value, -(index as i32))?;
        }
        let mut held = [
            self.variable.len() as u64,
            self.weighted.len() as u64,
            self.behind.len() as u64,
        ];
        self.job
            .communicator()
            .all_reduce(&mut held, malleus::mpi::Operation::Sum)?;
        expect(
            "elements of all ranks",
            held,
            [LENGTH, LENGTH, offset_of(ROWS)],
        )
    }

    /// Passes a checkpoint; false on a rank that has left.
    fn checkpoint(&mut self) -> Result<bool, JobError> {
        let Self {
            job,
            constant,
            variable,
            weighted,
            offsets,
            behind,
            steps,
        } = self;
        if let Checkpoint::Switch(switch) = job.checkpoint()? {
            let outcome = switch.commit((constant, variable, weighted, offsets, behind, steps))?;
            return Ok(matches!(outcome, Switched::Member(_)));
        }
        Ok(true)
    }

    fn run(&mut self, iterations: u64) -> Outcome {
        self.check()?;
        while self.job.iteration() < iterations {
            self.step();
            if !self.checkpoint()? {
                break;
            }
            self.check()?;
        }
        Ok(())
    }

    fn end(self) -> Result<Vec<Event>, JobError> {
        self.job.end()
    }
}

fn script(text: &str) -> Result<Script, Box<dyn std::error::Error>> {
    let entries = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Script::new(entries)?)
}

fn resizes(events: &[Event]) -> Vec<&Resize> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Resized(resize) => Some(resize),
            _ => None,
        })
        .collect()
}

fn is_root(environment: &Environment, job: &Job) -> bool {
    job.is_first_start() && environment.world().rank() == 0
}

fn ten_resizes(environment: &Environment, method: Method, lean: bool) -> Outcome {
    let script = script("1:2 2:4 3:1 4:3 5:2 6:5 7:1 8:2 9:4 10:1")?;
    let options = Options::default()
        .manager(script)
        .method(method)
        .verify(true)
        .lean(lean);
    let mut application = Application::start(environment, options)?;
    let root = is_root(environment, &application.job);
    application.run(12)?;
    let events = application.end()?;
    if root {
        let sizes: Vec<usize> = resizes(&events).iter().map(|resize| resize.to).collect();
        expect("sizes", sizes, vec![2, 4, 1, 3, 2, 5, 1, 2, 4, 1])?;
        expect(
            "all verified",
            resizes(&events).iter().all(|resize| resize.verified),
            true,
        )?;
        expect(
            "all by the method",
            resizes(&events)
                .iter()
                .all(|resize| resize.variant == Variant::blocking(method)),
            true,
        )?;
    }
    Ok(())
}

/// Spawn, recall, park, release, each a first, second and third time; also below the first size.
fn each_kind_three_times(environment: &Environment) -> Outcome {
    let script = script("1:3 2:2 3:3 4:1 5:3 6:2 7:3 8:1 9:3 10:2 11:3 12:1")?;
    let options = Options::default()
        .manager(script)
        .verify(true)
        .method(Method::RmaLockAll);
    let mut application = Application::start(environment, options)?;
    let root = is_root(environment, &application.job);
    application.run(13)?;
    let events = application.end()?;
    if root {
        let first = environment.world().size();
        let resizes = resizes(&events);
        let count =
            |of: fn(&Resize) -> usize| resizes.iter().filter(|resize| of(resize) > 0).count();
        expect(
            "spawns",
            count(|resize| resize.spawned),
            if first == 1 { 3 } else { 6 },
        )?;
        expect(
            "releases",
            count(|resize| resize.released),
            if first == 1 { 3 } else { 6 },
        )?;
        expect(
            "recalls",
            count(|resize| resize.recalled),
            if first == 1 { 3 } else { 2 },
        )?;
        expect("parks", count(|resize| resize.parked), 3)?;
    }
    Ok(())
}

/// RMA1 and RMA2 create one window per array and resize; COL creates none.
fn a_window_per_array(environment: &Environment, method: Method, arrays: usize) -> Outcome {
    let options = Options::default()
        .manager(script("1:3 3:2 5:3")?)
        .method(method);
    let mut application = Application::start(environment, options)?;
    let root = is_root(environment, &application.job);
    application.run(7)?;
    let events = application.end()?;
    if root {
        expect("resizes", resizes(&events).len(), 3)?;
        expect("windows", faults::windows_created(), 3 * arrays)?;
    }
    Ok(())
}

fn books_of_a_script(environment: &Environment) -> Outcome {
    let options = Options::default()
        .manager(script("1:4 2:3 3:1 4:2 5:5 6:1")?)
        .verify(true);
    let mut application = Application::start(environment, options)?;
    let root = is_root(environment, &application.job);
    application.run(8)?;
    let events = application.end()?;
    if root {
        let books: Vec<_> = resizes(&events)
            .iter()
            .map(|resize| {
                (
                    resize.from,
                    resize.to,
                    resize.spawned,
                    resize.recalled,
                    resize.parked,
                    resize.released,
                )
            })
            .collect();
        expect(
            "from, to, spawned, recalled, parked, released",
            books,
            vec![
                (2, 4, 2, 0, 0, 0),
                (4, 3, 0, 0, 1, 0),
                // The first start's rank 1 is parked; the second cohort goes, with its parked one.
                (3, 1, 0, 0, 1, 2),
                (1, 2, 0, 1, 0, 0),
                (2, 5, 3, 0, 0, 0),
                (5, 1, 0, 0, 1, 3),
            ],
        )?;
        let first = resizes(&events)[0];
        let all = first.moved_bytes + first.kept_bytes;
        let bytes = LENGTH * (8 + 8 + 2) + ROWS * 8 + offset_of(ROWS) * 4;
        expect("bytes", all, bytes)?;
        expect("oversubscribed", first.oversubscribed, cores() < 4)?;
        let stages = first.decide_s + first.processes_s + first.redistribute_s + first.resume_s;
        expect(
            "stages fit into the whole",
            stages <= 1.01 * first.total_s + 1e-4 && stages > 0.0,
            true,
        )?;
    }
    Ok(())
}

/// Runs until a checkpoint has changed the size, and tells rank 0 the process ids that were there before.
fn processes_before(application: &mut Application) -> Result<Vec<u64>, Box<dyn std::error::Error>> {
    let communicator = application.job.communicator();
    let mut processes = vec![0_u64; communicator.size()];
    communicator.all_gather(&[u64::from(std::process::id())], &mut processes)?;
    Ok(processes)
}

fn lives(process: u64) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| !matches!(stat.rsplit(')').next().map(str::trim_start), Some(rest) if rest.starts_with(['Z', 'X'])))
}

fn a_released_cohort_ends(environment: &Environment) -> Outcome {
    let mut application = Application::start(
        environment,
        Options::default().manager(script("1:3 3:1 5:2 7:1")?),
    )?;
    let mut before = Vec::new();
    application.check()?;
    while application.job.iteration() < 8 {
        if application.job.size() > 1 {
            before = processes_before(&mut application)?;
        }
        application.step();
        if !application.checkpoint()? {
            break;
        }
        application.check()?;
        if application.job.size() == 1 && !before.is_empty() {
            let started = Instant::now();
            while before[1..].iter().any(|&process| lives(process)) {
                if started.elapsed() > Duration::from_secs(10) {
                    return Err(format!("of {before:?} some still live").into());
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            before.clear();
        }
    }
    application.end()?;
    Ok(())
}

fn a_parked_rank_sleeps(environment: &Environment) -> Outcome {
    const BIG: u64 = 8 << 20;
    let mut job = Job::start(environment, Options::default().manager(script("1:1 2:2")?))?;
    let mut big = job.array::<f64>("big").block(2 * BIG)?;
    big.fill(1.0);
    let mut processes = vec![0_u64; 2];
    job.communicator()
        .all_gather(&[u64::from(std::process::id())], &mut processes)?;
    let (root, mut recalled) = (job.rank() == 0, false);
    while job.iteration() < 2 {
        if let Checkpoint::Switch(switch) = job.checkpoint()? {
            match switch.commit((&mut big,))? {
                Switched::Member(change) => recalled |= change.recalled,
                Switched::Left => break,
            }
        }
        if job.size() == 1 {
            let parked = processes[1];
            std::thread::sleep(Duration::from_millis(200));
            let memory = status_kib(parked, "RssShmem:")?;
            if memory > 16 << 10 {
                return Err(format!("{memory} KiB of its 64 MiB are left").into());
            }
            let before = processor_ticks(parked)?;
            std::thread::sleep(Duration::from_secs(2));
            let used = processor_ticks(parked)? - before;
            // A tick is 10 ms: 1 % of two seconds are two of them.
            expect("less than 1 % of a core", used < 2, true)?;
        }
    }
    expect("the parked rank was recalled", recalled, !root)?;
    expect(
        "its data came back",
        big.iter().all(|&value| value == 1.0) && big.len() as u64 == BIG,
        true,
    )?;
    drop(big);
    job.end()?;
    Ok(())
}

fn status_kib(process: u64, key: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .ok_or("no such line")?;
    Ok(value.trim().trim_end_matches("kB").trim().parse()?)
}

fn processor_ticks(process: u64) -> Result<u64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .ok_or("no fields")?
        .split_whitespace()
        .collect();
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}

fn no_resize_to_the_current_size(environment: &Environment) -> Outcome {
    let mut application =
        Application::start(environment, Options::default().manager(script("1:2 2:2")?))?;
    application.run(3)?;
    expect("events", application.end()?, vec![])
}

fn a_start_that_cannot_be_is_refused(environment: &Environment) -> Outcome {
    let spawn = Spawn {
        program: "/no/such/program".into(),
        ..Spawn::default()
    };
    let options = Options::default().manager(script("2:5")?).spawn(spawn);
    let mut application = Application::start(environment, options)?;
    let size = environment.world().size();
    application.run(4)?;
    let events = application.end()?;
    let [
        Event::Refused {
            iteration: 2,
            from,
            to: 5,
            reason,
        },
    ] = &events[..]
    else {
        return Err(format!("{events:?}").into());
    };
    expect("size", *from, size)?;
    expect(
        "the reason names the program",
        reason.contains("/no/such/program"),
        true,
    )
}

/// Runs while new mappings of more than a little fail.
fn without_memory<R>(limited: bool, body: impl FnOnce() -> R) -> R {
    let old = faults::address_space_limit();
    if limited {
        faults::limit_address_space(Some(16 << 20));
    }
    let result = body();
    faults::restore_address_space(old);
    result
}

/// Rank 0 has no room for its new block: growing by a start, growing by a recall, shrinking. Each time the
/// job goes on as it was, and the next resize works.
fn no_memory_on_a_source(environment: &Environment) -> Outcome {
    const SPARSE: u64 = 1 << 24;
    let options = Options::default().manager(script("1:3 2:3 3:2 4:3 5:3 6:1 7:1")?);
    let mut job = Job::start(environment, options)?;
    let mut sparse = job.array::<f64>("sparse").block(SPARSE)?;
    if job.is_first_start() {
        sparse
            .iter_mut()
            .step_by(1 << 20)
            .for_each(|value| *value = 5.0);
    }
    let root = is_root(environment, &job);
    let mut failures = Vec::new();
    while job.iteration() < 8 {
        let next = job.iteration() + 1;
        // Without memory at iterations 1 (start), 4 (recall) and 6 (shrink).
        let limited = root && [1, 4, 6].contains(&next);
        let before = job.size();
        if let Checkpoint::Switch(switch) = job.checkpoint()? {
            match without_memory(limited, || switch.commit((&mut sparse,))) {
                Ok(Switched::Member(_)) => {}
                Ok(Switched::Left) => break,
                Err(error @ JobError::Abandoned { .. }) => {
                    expect("the old size", job.size(), before)?;
                    expect(
                        "the error says why",
                        error.to_string().contains("rank 0: mmap"),
                        true,
                    )?;
                    failures.push(job.iteration());
                }
                Err(error) => return Err(error.into()),
            }
        }
        expect(
            "the job's data is whole",
            sparse.partition().ranks(),
            job.size(),
        )?;
    }
    if root {
        expect("failures", failures, vec![1, 4, 6])?;
        let touched = sparse
            .iter()
            .step_by(1 << 20)
            .filter(|&&value| value == 5.0)
            .count();
        expect("contents", touched as u64, SPARSE >> 20)?;
    }
    drop(sparse);
    job.end()?;
    Ok(())
}

/// Newcomers never have room: the job stays at its size, and they end.
fn no_memory_on_a_newcomer(environment: &Environment) -> Outcome {
    const SPARSE: u64 = 1 << 28;
    if std::env::var_os("PMI_SPAWNED").is_some() {
        faults::limit_address_space(Some(256 << 20));
    }
    let size = environment.world().size();
    let mut job = Job::start(
        environment,
        Options::default().manager(script("1:3 2:4 3:3")?),
    )?;
    expect(
        "only the first processes get here",
        job.is_first_start(),
        true,
    )?;
    let mut sparse = job.array::<f64>("sparse").block(SPARSE)?;
    let mut failures = 0;
    while job.iteration() < 4 {
        if let Checkpoint::Switch(switch) = job.checkpoint()? {
            let Err(JobError::Abandoned { reason, .. }) = switch.commit((&mut sparse,)) else {
                return Err("a resize without memory was not abandoned".into());
            };
            expect(
                "the reason names a newcomer",
                reason.starts_with(&format!("rank {size}: mmap")),
                true,
            )?;
            failures += 1;
        }
        expect("size", job.size(), size)?;
    }
    expect("failures", failures, 3)?;
    drop(sparse);
    job.end()?;
    Ok(())
}

fn a_clone_of_the_communicator(environment: &Environment) -> Outcome {
    let mut job = Job::start(
        environment,
        Options::default().manager(script("1:3 2:1 3:3")?),
    )?;
    let mut x = job.array::<u8>("x").block(10)?;
    let mut clone = (job.rank() == 1 && job.is_first_start()).then(|| job.communicator().clone());
    let mut refused = 0;
    while job.iteration() < 4 {
        if let Checkpoint::Switch(switch) = job.checkpoint()? {
            match switch.commit((&mut x,)) {
                Ok(Switched::Member(_)) => {}
                Ok(Switched::Left) => break,
                Err(JobError::CommunicatorInUse { rank: 1, .. }) => refused += 1,
                Err(error) => return Err(error.into()),
            }
        }
        if job.iteration() == 2 {
            clone = None;
        }
    }
    if job.is_first_start() {
        expect(
            "refused while the clone lives, for a start and for a shrink",
            refused,
            2,
        )?;
        expect("then it goes through", job.size(), 3)?;
    }
    drop((clone, x));
    job.end()?;
    Ok(())
}

/// An application whose last iteration is that of a resize: what was prepared is taken back.
fn an_end_instead_of_a_commit(environment: &Environment) -> Outcome {
    let size = environment.world().size();
    let to = if size == 1 { 3 } else { 1 };
    let mut job = Job::start(
        environment,
        Options::default().manager(script(&format!("1:{to}"))?),
    )?;
    let x = job.array::<u8>("x").block(10)?;
    expect(
        "a switch",
        matches!(job.checkpoint()?, Checkpoint::Switch(_)),
        true,
    )?;
    expect(
        "another checkpoint",
        matches!(job.checkpoint(), Err(JobError::NotCommitted)),
        true,
    )?;
    drop(x);
    let events = job.end()?;
    expect(
        "told",
        matches!(&events[..], [Event::Refused { iteration: 1, .. }]),
        true,
    )
}

/// Every rank gets the error, so that none waits for the one with the clone.
fn a_clone_at_the_end(environment: &Environment) -> Outcome {
    let job = Job::start(environment, Options::default())?;
    let clone = (job.rank() == 1).then(|| job.communicator().clone());
    let error = job.end().unwrap_err();
    expect(
        "refused",
        matches!(error, JobError::CommunicatorInUse { rank: 1, .. }),
        true,
    )?;
    // The communicators of the job were left behind: this process can't end in an orderly way.
    drop(clone);
    std::process::exit(0)
}

fn an_array_that_a_sleeper_lacks(environment: &Environment) -> Outcome {
    let mut job = Job::start(
        environment,
        Options::default().manager(script("1:1 3:2 5:3")?),
    )?;
    let root = is_root(environment, &job);
    let mut x = job.array::<u8>("x").block(10)?;
    let mut y = None;
    let mut reasons = Vec::new();
    while job.iteration() < 6 {
        if let Checkpoint::Switch(switch) = job.checkpoint()? {
            let mut set: Vec<&mut dyn malleus::job::Registered> = vec![&mut x];
            if let Some(y) = &mut y {
                set.push(y);
            }
            match switch.commit(set) {
                Ok(Switched::Member(_)) => {}
                Ok(Switched::Left) => break,
                Err(JobError::Abandoned { reason, .. }) => reasons.push(reason),
                Err(error) => return Err(error.into()),
            }
        }
        if job.iteration() == 2 {
            y = Some(job.array::<u8>("y").block(10)?);
        }
    }
    if root {
        let reason = "rank 1: \"y\" was registered while this process slept".to_owned();
        expect("reasons", reasons, vec![reason.clone(), reason])?;
        expect("the old size", job.size(), 1)?;
    }
    drop((x, y));
    job.end()?;
    Ok(())
}

fn arrays_in_another_order(environment: &Environment) -> Outcome {
    let mut job = Job::start(environment, Options::default().manager(script("1:1")?))?;
    let names = if job.rank() == 0 {
        ["x", "y"]
    } else {
        ["y", "x"]
    };
    let mut first = job.array::<u8>(names[0]).block(10)?;
    let mut second = job.array::<u8>(names[1]).block(10)?;
    let Checkpoint::Switch(switch) = job.checkpoint()? else {
        return Err("no switch".into());
    };
    let refused = matches!(
        switch.commit((&mut first, &mut second)),
        Err(JobError::Registry { rank: 1, .. })
    );
    expect("refused", refused, true)?;
    drop((first, second));
    job.end()?;
    Ok(())
}

/// Those that sleep take part in the start of any number of processes.
fn many_start_while_one_sleeps(environment: &Environment) -> Outcome {
    let mut application = Application::start(
        environment,
        Options::default()
            .manager(script("1:1 2:8 3:1 4:2")?)
            .verify(true),
    )?;
    application.run(5)?;
    application.end()?;
    Ok(())
}

fn an_array_that_is_not_passed(environment: &Environment) -> Outcome {
    let mut job = Job::start(environment, Options::default().manager(script("1:3 2:1")?))?;
    let mut x = job.array::<u8>("x").block(10)?;
    let mut y = job.array::<u8>("y").block(10)?;
    for _ in 0..2 {
        let Checkpoint::Switch(switch) = job.checkpoint()? else {
            return Err("no switch".into());
        };
        let Err(JobError::Registry { problem, .. }) = switch.commit((&mut x,)) else {
            return Err("a commit without y went through".into());
        };
        expect(
            "the problem names the array",
            problem.contains("\"y\""),
            true,
        )?;
    }
    expect("twice", job.array::<u8>("y").block(10).is_err(), true)?;
    y[0] = 1;
    drop((x, y));
    job.end()?;
    Ok(())
}

/// Flips a byte of what a target has received, between the library and MPI.
fn a_wrong_checksum(environment: &Environment, method: Method) -> Outcome {
    let options = Options::default()
        .manager(script("1:3 2:1 3:3 4:1")?)
        .verify(true)
        .method(method);
    let mut application = Application::start(environment, options)?;
    let (first, root) = (
        application.job.is_first_start(),
        is_root(environment, &application.job),
    );
    let mut wrong = Vec::new();
    application.check()?;
    while application.job.iteration() < 5 {
        application.step();
        let next = application.job.iteration() + 1;
        let size = application.job.size();
        faults::corrupt_received(next <= 2 && root);
        match application.checkpoint() {
            Ok(true) => application.check()?,
            Ok(false) => break,
            Err(JobError::Verification { array, rank, .. }) => {
                expect("array and rank", (array.as_str(), rank), ("constant", 0))?;
                expect("the old size", application.job.size(), size)?;
                application.check()?;
                wrong.push(next);
            }
            Err(error) => return Err(error.into()),
        }
        faults::corrupt_received(false);
    }
    if first {
        let expected = if environment.world().size() == 1 {
            vec![1]
        } else {
            vec![1, 2]
        };
        expect("wrong at", wrong, expected)?;
    }
    application.end()?;
    Ok(())
}

fn worker_that_never_joins(environment: &Environment) -> Outcome {
    let spawn = Spawn {
        program: "/bin/true".into(),
        time_out: Duration::from_secs(2),
        ..Spawn::default()
    };
    let mut application = Application::start(
        environment,
        Options::default().manager(script("1:3")?).spawn(spawn),
    )?;
    application.run(2)
}

fn a_start_that_never_joins_ends_the_job(run: &Run) -> Outcome {
    let ended = run.worker("worker_that_never_joins", 2)?;
    expect("fails", ended.status.success(), false)?;
    expect("in time", ended.elapsed < Duration::from_secs(10), true)?;
    expect(
        "the message comes once",
        ended
            .stderr
            .matches("did not join the job within 2s")
            .count(),
        1,
    )
}

fn worker_that_panics(environment: &Environment) -> Outcome {
    let mut application =
        Application::start(environment, Options::default().manager(script("1:3 2:2")?))?;
    application.run(3)?;
    assert!(
        application.job.rank() != 1,
        "rank 1 panics while another sleeps"
    );
    application.run(4)
}

fn a_panic_ends_the_job(run: &Run) -> Outcome {
    let ended = run.worker("worker_that_panics", 1)?;
    expect("fails", ended.status.success(), false)?;
    expect("in time", ended.elapsed < Duration::from_secs(10), true)?;
    expect(
        "the message is shown",
        ended.stderr.contains("rank 1 panics while another sleeps"),
        true,
    )
}

/// The main thread waits inside MPI, with its lock, for a rank that sleeps.
fn worker_that_panics_elsewhere(environment: &Environment) -> Outcome {
    let job = Job::start(environment, Options::default())?;
    let world = environment.world();
    let memory = vec![7_u8; 1 << 20];
    let window = Window::create(&world, memory, None)?;
    world.barrier()?;
    if world.rank() == 1 {
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            panic!("a helper thread panics");
        });
        let mut copy = vec![0_u8; 1 << 19];
        window.lock_all(Assertion::None, |epoch| epoch.get(&mut copy, 0, 0))?;
    } else {
        std::thread::sleep(Duration::from_secs(20));
    }
    window.free()?;
    job.end()?;
    Ok(())
}

fn a_panic_of_a_helper_thread_ends_the_job(run: &Run) -> Outcome {
    let ended = run.worker("worker_that_panics_elsewhere", 2)?;
    expect("fails", ended.status.success(), false)?;
    expect("in time", ended.elapsed < Duration::from_secs(10), true)?;
    expect(
        "the message is shown",
        ended.stderr.contains("a helper thread panics"),
        true,
    )
}
