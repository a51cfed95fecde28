//! What is particular to each flavour of window, and the memory behind it.

use std::ptr::NonNull;
use std::sync::Arc;

use malleus::mpi::window::{
    Assertion, DynamicWindow, FenceAssertion, Flavour, Model, Region, Window,
};
use malleus::mpi::{Communicator, Element, Environment, Error, Info};
use malleus::sys;

use super::{POISON, argument, can_share};
use crate::cases::expect;
use crate::harness::{Outcome, Run};

/// Rank r exposes r elements, in windows of each flavour.
pub fn attributes(communicator: &Communicator) -> Outcome {
    let rank = communicator.rank();
    let mut hints = Info::new(&communicator.environment())?;
    hints.set("no_locks", "true")?;
    let check = |window: &Window<u32>, flavour| -> Outcome {
        let found = window.attributes()?;
        expect("flavour", found.flavour, flavour)?;
        expect("model", found.model, Model::Unified)?;
        let length = if flavour == Flavour::Dynamic { 0 } else { rank };
        expect("bytes", found.size, 4 * length)?;
        let unit = if flavour == Flavour::Dynamic { 1 } else { 4 };
        expect("unit", found.unit, unit)?;
        expect("own length", window.memory().len(), length)?;
        if length > 0 {
            expect("base", found.base, window.memory().as_ptr().addr())?;
        }
        for other in 0..communicator.size() {
            let exposed = if flavour == Flavour::Dynamic {
                0
            } else {
                other
            };
            expect("exposed", window.exposed_by(other)?, exposed as u64)?;
        }
        argument(&window.exposed_by(communicator.size()), "rank")?;
        expect("rank", window.rank(), rank)?;
        expect("processes", window.size(), communicator.size())?;
        expect("group", window.group()?.size()?, communicator.size())?;
        expect("no name", window.name()?, String::new())?;
        window.set_name("halo")?;
        expect("name", window.name()?, "halo".to_owned())?;
        argument(&window.set_name("a\0b"), "name")?;
        let known = window.info()?.get("no_locks")?;
        expect("hint", known.as_deref(), Some("true"))?;
        let mut other = Info::new(&communicator.environment())?;
        other.set("no_locks", "false")?;
        window.set_info(&other)?;
        let known = window.info()?.get("no_locks")?;
        expect("hint that was changed", known.as_deref(), Some("false"))
    };
    let hints = Some(&hints);
    let window = Window::create(communicator, vec![0; rank], hints)?;
    check(&window, Flavour::Create)?;
    window.free()?;
    let window = Window::allocate(communicator, rank, hints)?;
    check(&window, Flavour::Allocate)?;
    window.free()?;
    if can_share(communicator) {
        let window = Window::allocate_shared(communicator, rank, hints)?;
        check(&window, Flavour::Shared)?;
        window.free()?;
    }
    let window = DynamicWindow::create(communicator, hints)?;
    check(&window, Flavour::Dynamic)?;
    window.free()?;
    Ok(())
}

/// Copies in and out, for elements of each size.
pub fn memory(communicator: &Communicator) -> Outcome {
    fn copies<T: Element>(communicator: &Communicator, values: [T; 4]) -> Outcome {
        let window = Window::create(communicator, vec![values[0]; 5], None)?;
        let memory = window.memory();
        memory.write(1, &values)?;
        let [a, b, c, d] = values;
        expect("written", memory.to_vec(), vec![a, a, b, c, d])?;
        let mut two = [a; 2];
        memory.read(3, &mut two)?;
        expect("read", two, [c, d])?;
        memory.write(5, &[])?;
        for at in [2, 5, usize::MAX] {
            argument(&memory.write(at, &values), "at")?;
            argument(&memory.read(at, &mut [a; 4]), "at")?;
        }
        memory.fill(d);
        expect("given back", window.into_memory()?, vec![d; 5])
    }
    copies(communicator, [1_u8, 2, 3, u8::MAX])?;
    copies(communicator, [1_i16, -2, 3, i16::MIN])?;
    copies(communicator, [1.5_f32, -0.25, 3.0, f32::MAX])?;
    copies(communicator, [1.5_f64, -0.25, 3.0, f64::MIN_POSITIVE])?;
    for length in [4, 0] {
        let window = Window::<f32>::allocate(communicator, length, None)?;
        let memory = window.memory();
        expect("zero at first", memory.to_vec(), vec![0.0; length])?;
        expect("empty", memory.is_empty(), length == 0)?;
        window.free()?;
    }
    Ok(())
}

/// Lengths that the caller knows take the place of an exchange. They are checked as far as one process can.
#[allow(unsafe_code)]
pub fn raw(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let next = (rank + 1) % size;
    // Rank r exposes r + 1 elements.
    let mut memory = vec![rank as u8; rank + 1];
    let base = NonNull::new(memory.as_mut_ptr()).ok_or("no memory")?;
    let lengths: Arc<[u64]> = (1..=size as u64).collect();
    let create = |lengths: &[u64], length| {
        // SAFETY: the memory lives longer than the window, there is no reference to it, and the lengths are
        // true or refused.
        unsafe { Window::create_raw(communicator, base, length, Some(lengths.into()), None) }
    };
    argument(&create(&lengths[1..], rank + 1), "lengths")?;
    argument(&create(&vec![9; size], rank + 1), "lengths")?;
    let window = create(&lengths, rank + 1)?;
    let mut copy = vec![99; next + 1];
    let mut beyond = [99];
    window.lock_all(Assertion::None, |epoch| {
        epoch.get(&mut copy, next, 0)?;
        let refused = epoch.get(&mut beyond, next, next as u64 + 1);
        argument(&refused, "displacement")
    })?;
    expect("read", copy, vec![next as u8; next + 1])?;
    communicator.barrier()?;
    window.free()?;
    expect("own memory", memory, vec![rank as u8; rank + 1])
}

/// A window is given away, used through raw calls, taken over again, and still knows its bounds.
#[allow(unsafe_code)]
pub fn handles(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let window = Window::create(communicator, vec![rank as i64; rank + 2], None)?;
    let (raw, base, length) = window.into_raw();
    expect("length", length, rank + 2)?;
    let mut name = [0_u8; sys::MPI_MAX_OBJECT_NAME as usize];
    let mut written = 0;
    // SAFETY: the window is ours; its memory lives, and nobody has a reference to it.
    let window = unsafe {
        let code = sys::MPI_Win_set_name(raw, c"given away".as_ptr());
        expect("code", code, sys::MPI_SUCCESS)?;
        let code = sys::MPI_Win_get_name(raw, name.as_mut_ptr().cast(), &raw mut written);
        expect("code", code, sys::MPI_SUCCESS)?;
        Window::from_raw(raw, communicator, base, length)?
    };
    expect("name", window.name()?, "given away".to_owned())?;
    let next = (rank + 1) % size;
    let mut copy = [-1];
    let read = |copy: &mut [i64], displacement| {
        window.lock_all(Assertion::None, |epoch| {
            epoch.get_now(copy, next, displacement)
        })
    };
    read(&mut copy, next as u64 + 1)?;
    expect("read from the next", copy, [next as i64])?;
    argument(&read(&mut copy, next as u64 + 2), "displacement")?;
    communicator.barrier()?;
    expect("nothing to give", window.into_memory()?, vec![])
}

/// Memory at any address of an element: each rank at another one, and none accesses what lies before.
pub fn at_any_address(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let next = (rank + 1) % size;
    let none = FenceAssertion::NONE;
    let mut memory = [POISON as i16; 32];
    let own = [rank as i16];
    for offset in 0..16 {
        memory.fill(POISON as i16);
        let start = (offset + rank) % 16;
        let mut read = [-1];
        Window::scope(
            communicator,
            &mut memory[start..start + 4],
            None,
            |window| {
                window.fence(none, none, |epoch| epoch.put(&own, next, 1))?;
                window.fence(none, none, |epoch| epoch.get(&mut read, next, 1))
            },
        )?;
        let mut expected = [POISON as i16; 32];
        expected[start + 1] = ((rank + size - 1) % size) as i16;
        expect("memory", memory, expected)?;
        expect("read", read, own)?;
    }
    // Allocated ones lie behind each other where they are shared.
    let window = Window::<i16>::allocate(communicator, rank + 1, None)?;
    window.fence(none, none, |epoch| epoch.put(&own, next, next as u64))?;
    let mut expected = vec![0; rank + 1];
    expected[rank] = ((rank + size - 1) % size) as i16;
    expect("allocated", window.memory().to_vec(), expected)?;
    window.free()?;
    Ok(())
}

/// Borrowed memory has what the others wrote when the scope is over; the window is freed on an error, too.
pub fn scope(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let next = (rank + 1) % size;
    let previous = (rank + size - 1) % size;
    let mut memory = [POISON; 3];
    let own = [rank as i32];
    let none = FenceAssertion::NONE;
    Window::scope(communicator, &mut memory, None, |window| {
        window.fence(none, none, |epoch| epoch.put(&own, next, 1))
    })?;
    expect("written", memory, [POISON, previous as i32, POISON])?;
    let failed: Outcome = Window::scope(communicator, &mut memory, None, |window| {
        window.fence(none, none, |epoch| epoch.put(&own, next, 2))?;
        Err("an error of the body".into())
    });
    expect(
        "the body's error",
        failed.unwrap_err().to_string(),
        "an error of the body".to_owned(),
    )?;
    let previous = previous as i32;
    expect("written all the same", memory, [POISON, previous, previous])
}

pub fn shared(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    // Rank r exposes r elements.
    let window = Window::<u16>::allocate_shared(communicator, rank, None)?;
    let none = FenceAssertion::NONE;
    window.fence(none, none, |_| Ok(()))?;
    for other in 0..size {
        let memory = window.shared(other)?;
        expect("what a rank shares", memory.len(), other)?;
        expect("zero at first", memory.to_vec(), vec![0; other])?;
    }
    window.fence(none, none, |_| Ok(()))?;
    // Everybody stores to an element of each rank that has one for it.
    for other in rank + 1..size {
        window
            .shared(other)?
            .write(rank, &[(10 * rank + other) as u16])?;
    }
    window.fence(none, none, |_| Ok(()))?;
    let expected: Vec<u16> = (0..rank).map(|from| (10 * from + rank) as u16).collect();
    expect("stored by the others", window.memory().to_vec(), expected)?;
    let error = window.shared(size);
    argument(&error, "rank")?;
    window.free()?;
    let window = Window::create(communicator, vec![0_u8; 3], None)?;
    expect(
        "memory that is not shared",
        matches!(window.shared(0), Err(Error::State { .. })),
        true,
    )?;
    window.free()?;
    Ok(())
}

pub fn dynamic(communicator: &Communicator) -> Outcome {
    let (rank, size) = (communicator.rank(), communicator.size());
    let next = (rank + 1) % size;
    let previous = (rank + size - 1) % size;
    let mut window = DynamicWindow::<f64>::create(communicator, None)?;
    expect("no regions", window.regions(next)?.len(), 0)?;
    let small = window.attach(vec![1.5; 2])?;
    let large = window.attach(vec![rank as f64; 5])?;
    argument(&window.attach(Vec::new()), "memory")?;

    // Until it is published, nobody can access it: not even who attached it.
    let mut copy = [-1.0; 2];
    window.lock_all(Assertion::None, |epoch| {
        argument(
            &epoch.get(&mut copy, rank, small.displacement::<f64>(0)),
            "displacement",
        )
    })?;
    window.publish()?;
    let regions = window.regions(next)?.to_vec();
    expect(
        "lengths",
        regions
            .iter()
            .map(Region::elements::<f64>)
            .collect::<Vec<_>>(),
        vec![2, 5],
    )?;
    let at = |index| regions[1].displacement::<f64>(index);
    let values = [10.0 + rank as f64; 3];
    let mut copies = [[-1.0; 2]; 3];
    let [first, second, third] = &mut copies;
    window.fence(FenceAssertion::NONE, FenceAssertion::NONE, |epoch| {
        epoch.get(first, next, regions[0].displacement::<f64>(0))?;
        epoch.put(&values, next, at(2))?;
        // Over the end, before the start, between elements, and where no region is.
        argument(&epoch.put(&values, next, at(3)), "displacement")?;
        argument(&epoch.get(second, next, at(0) - 8), "displacement")?;
        argument(&epoch.get(third, next, at(0) + 4), "displacement")?;
        argument(&epoch.put(&values, next, 0), "displacement")?;
        argument(&epoch.put(&values, next, u64::MAX), "displacement")?;
        epoch.put(&[], next, 0)
    })?;
    expect("read", copies, [[1.5; 2], [-1.0; 2], [-1.0; 2]])?;
    let (own, from) = (rank as f64, 10.0 + previous as f64);
    expect(
        "written by the previous",
        window.attached(large)?.to_vec(),
        vec![own, own, from, from, from],
    )?;

    expect(
        "detached while others know it",
        matches!(window.detach(large), Err(Error::State { .. })),
        true,
    )?;
    window.withdraw(large)?;
    window.publish()?;
    let memory = window.detach(large)?;
    expect("given back", memory, vec![own, own, from, from, from])?;
    expect("regions left", window.regions(next)?.len(), 1)?;
    argument(&window.detach(large), "region")?;
    argument(&window.withdraw(large), "region")?;
    argument(&window.attached(large), "region")?;
    window.lock_all(Assertion::None, |epoch| {
        argument(&epoch.put(&values, next, at(2)), "displacement")
    })?;
    // What was attached is detached again, without the others.
    let brief = window.attach(vec![3.0; 4])?;
    expect("never published", window.detach(brief)?, vec![3.0; 4])?;
    argument(
        &window.start(&window.group()?, Assertion::NoCheck, |_| Ok(())),
        "assertion",
    )?;
    window.free()?;
    Ok(())
}

/// A window that is not freed stays exposed: its memory is not given to anybody else, and the job ends.
pub fn dropped(environment: &Environment) -> Outcome {
    let world = environment.world();
    let window = Window::create(&world, vec![0_u8; 8], None)?;
    if world.rank() == 0 {
        window.free()?;
    } else {
        drop(window);
    }
    Ok(())
}

pub fn dropped_ends_the_job(run: &Run) -> Outcome {
    let ended = run.worker("window_dropped_worker", 2)?;
    expect("fails", ended.status.success(), false)?;
    expect(
        "the message is shown",
        ended.stderr.contains("a window was dropped without free()"),
        true,
    )
}
