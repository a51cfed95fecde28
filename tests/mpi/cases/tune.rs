//! What is measured once on a machine, and what chooses by it.

use std::path::Path;
use std::process::Command;

use malleus::alltoallv::{Entry, Plan, Shape, Table, Variant};
use malleus::mpi::Environment;
use malleus::mpi::collective::BlockLayout;
use serde_json::Value;

use super::expect;
use crate::harness::{Case, Ended, Outcome, Run};

pub fn cases() -> Vec<Case> {
    vec![
        Case::command("tune_alltoallv_keeps_a_table", keeps).seconds(180),
        Case::command("tune_refuses_bad_arguments", refuses).seconds(120),
        Case::ranks("worker_that_chooses", &[], chooses),
        Case::command("auto_takes_what_the_table_names", named).seconds(120),
    ]
}

/// The variable that names the folder.
const FOLDER: &str = "MALLEUS_TUNE";

fn tune(run: &Run, folder: &Path, ranks: &str, arguments: &[&str]) -> Result<Ended, Failure> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_malleus"));
    command.args(["-n", ranks, "tune", "alltoallv"]);
    command.args(arguments).env(FOLDER, folder);
    run.finish(command)
}

type Failure = Box<dyn std::error::Error>;

fn keeps(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let tuned = |ranks: &str, more: &[&str]| -> Result<(Value, Value), Failure> {
        let arguments = [&["-m", "8:64", "--trial", "1", "--json", "-"], more].concat();
        let ended = tune(run, folder.path(), ranks, &arguments)?;
        let told = format!("{}{}", ended.stdout, ended.stderr);
        expect(&told, ended.status.success(), true)?;
        let report: Value = serde_json::from_str(&ended.stdout)?;
        let table = report["table"].as_str().ok_or("no table")?;
        let table = serde_json::from_slice(&std::fs::read(table)?)?;
        Ok((report, table))
    };
    let length = |value: &Value| value["entries"].as_array().map_or(0, Vec::len);
    let (report, table) = tuned("2", &[])?;
    // Four sizes, with buffers of the plan's own and of a caller.
    expect("measured", length(&report), 8)?;
    expect("kept", &table["entries"], &report["entries"])?;
    for entry in report["entries"].as_array().ok_or("no entries")? {
        let times = entry["times"].as_array().ok_or("no times")?;
        let seconds: Vec<_> = times.iter().filter_map(|time| time[1].as_f64()).collect();
        let told = entry.to_string();
        expect(&told, seconds.is_empty(), false)?;
        expect(&told, seconds.len(), times.len())?;
        expect(&told, seconds.is_sorted() && seconds[0] > 0.0, true)?;
        expect(&told, entry["shape"]["ranks"].as_u64(), Some(2))?;
    }
    // One, and two partners. What is known of two ranks stays, and nothing is there twice.
    for _ in 0..2 {
        let (report, table) = tuned("3", &[])?;
        expect("measured", length(&report), 16)?;
        expect("kept", length(&table), 24)?;
    }
    let (_, table) = tuned("3", &["--anew", "--partners", "2"])?;
    expect("kept", length(&table), 8)?;
    let files = std::fs::read_dir(folder.path())?.count();
    expect("files", files, 1)
}

fn refuses(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let fails = |ranks: &str, arguments: &[&str], text: &str| -> Outcome {
        let ended = tune(run, folder.path(), ranks, arguments)?;
        let told = format!("{}{}", ended.stdout, ended.stderr);
        expect(&told, ended.status.success(), false)?;
        expect(&told, ended.stderr.matches(text).count(), 1)
    };
    fails("1", &[], "nothing to choose on one rank")?;
    fails("2", &["--partners", "2", "-m", "8"], "a rank has 1, not 2")?;
    fails("2", &["-m", "8:"], "--sizes")?;
    let kept = tune(run, folder.path(), "2", &["-m", "8", "--trial", "1"])?;
    let file = kept.stdout.rsplit("kept in ").next().unwrap_or_default();
    std::fs::write(file.trim(), "{\"entries\": 1}")?;
    fails("2", &["-m", "8"], "--anew forgets it")?;
    let anew = tune(run, folder.path(), "2", &["-m", "8", "--anew"])?;
    expect(&anew.stderr, anew.status.success(), true)
}

fn named(run: &Run) -> Outcome {
    let folder = tempfile::tempdir()?;
    let variables = [(FOLDER, folder.path().to_str().ok_or("a name in UTF-8")?)];
    let ended = run.worker_with("worker_that_chooses", 2, &variables)?;
    let told = format!("{}{}", ended.stdout, ended.stderr);
    expect(&told, ended.status.success(), true)
}

fn chooses(environment: &Environment) -> Outcome {
    let world = environment.world();
    let (rank, size) = (world.rank(), world.size());
    let layout = BlockLayout::packed(vec![100; size]);
    let plan = || Plan::<u32, _>::allocate(&world, Variant::Auto, &layout, &layout);
    let works = |variants: &[Variant]| -> Outcome {
        let mut plan = plan()?;
        expect("asked for", plan.variant(), Variant::Auto)?;
        let chosen = plan.chosen();
        let told = format!("{chosen} of {variants:?}");
        expect(&told, variants.contains(&chosen), true)?;
        let untouched = plan.receive().iter().all(|&element| element == 0);
        expect("zero at first", untouched, true)?;
        plan.send_mut().fill(rank as u32 + 1);
        let plan = plan.start()?.wait()?;
        let peer = 1 - rank;
        let came = &plan.receive()[100 * peer..100 * (peer + 1)];
        let right = came.iter().all(|&element| element == peer as u32 + 1);
        expect("what came", right, true)?;
        Ok(plan.free()?)
    };
    let tried = [
        Variant::Standard,
        Variant::StandardPersistent,
        Variant::Fence,
        Variant::Lock,
        Variant::Pscw,
        Variant::NodeShared,
    ];
    // Without a table, any of them; with one of another exchange as well.
    works(&tried)?;
    let shape = Shape {
        ranks: size,
        nodes: 1,
        own: true,
        partners: 1,
        bytes: 400,
        kept: 400,
    };
    let write = |shape: Shape, times: Vec<(Variant, f64)>| -> Outcome {
        if rank == 0 {
            let mut table = Table::default();
            table.add(Entry { shape, times });
            table.write(environment)?;
        }
        Ok(world.barrier()?)
    };
    let other = Shape {
        own: false,
        ..shape
    };
    write(other, vec![(Variant::Pscw, 1e-6)])?;
    works(&tried)?;
    for (at, &variant) in tried.iter().enumerate() {
        let slower = tried[(at + 1) % tried.len()];
        write(shape, vec![(variant, 1e-6), (slower, 2e-6)])?;
        works(&[variant])?;
        // Two that are near are tried.
        write(shape, vec![(variant, 1e-6), (slower, 1.1e-6)])?;
        works(&[variant, slower])?;
    }
    // One that is no table is left out, and so is a variant that is not tried.
    write(shape, vec![(Variant::FenceOnce, 1e-6)])?;
    works(&tried)?;
    if rank == 0 {
        std::fs::write(Table::default().write(environment)?, "[]")?;
    }
    world.barrier()?;
    works(&tried)
}
