//! Blocks behind 2^31 elements, in buffers of which next to nothing is touched.
#![allow(unsafe_code)]

use std::fmt::Debug;
use std::marker::PhantomData;

use malleus::alltoallv::{Plan, Variant};
use malleus::mpi::collective::BlockLayout;
use malleus::mpi::request::{Buffer, BufferMut};
use malleus::mpi::{Communicator, Element, Environment};
use memmap2::{MmapMut, MmapOptions};

use super::expect;
use crate::harness::{Case, Outcome};

pub fn cases() -> Vec<Case> {
    vec![
        Case::ranks(
            "alltoallv_behind_2_31_bytes",
            &[1, 2, 3],
            every_variant::<u8>,
        ),
        Case::ranks(
            "alltoallv_behind_2_31_elements",
            &[1, 2, 3],
            every_variant::<u32>,
        ),
    ]
}

/// Zeros that take memory where they are written only.
struct Sparse<T> {
    map: MmapMut,
    length: usize,
    elements: PhantomData<T>,
}

impl<T: Element> Sparse<T> {
    fn new(length: usize) -> std::io::Result<Self> {
        let map = MmapOptions::new()
            .len(length * size_of::<T>())
            .no_reserve_swap()
            .map_anon()?;
        Ok(Self {
            map,
            length,
            elements: PhantomData,
        })
    }
}

// SAFETY: the map stays where it is, and is this value's alone.
unsafe impl<T: Element> Buffer for Sparse<T> {
    type Element = T;
    fn elements(&self) -> &[T] {
        // SAFETY: so many elements lie in the map, which begins at a page; every bit pattern is one.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), self.length) }
    }
}

// SAFETY: as above.
unsafe impl<T: Element> BufferMut for Sparse<T> {
    fn elements_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the value is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().cast(), self.length) }
    }
}

const FAR: usize = 1 << 31;

/// Blocks of even ranks lie behind 2^31 elements, the others before.
fn layout(size: usize, first: usize, count: impl Fn(usize) -> usize) -> (BlockLayout, usize) {
    let mut layout = BlockLayout::empty(size);
    let mut end = 0;
    for rank in 0..size {
        let far = if rank % 2 == 0 { FAR } else { 0 };
        let start = far + first + (rank << 20);
        layout.set(rank, start, count(rank));
        end = end.max(start + count(rank));
    }
    (layout, end + 1)
}

fn count(from: usize, to: usize) -> usize {
    1000 + 100 * from + 10 * to
}

fn value<T: From<u8>>(from: usize, to: usize, index: usize, start: usize) -> T {
    T::from(((from * 101 + to * 31 + index * 7 + start * 13) % 251) as u8)
}

fn fill<T: Element + From<u8>>(send: &mut [T], layout: &BlockLayout, rank: usize, start: usize) {
    for to in 0..layout.counts().len() {
        for (index, place) in send[layout.block(to)].iter_mut().enumerate() {
            *place = value(rank, to, index, start);
        }
    }
}

/// Each block, and that nothing is written before and behind it.
fn check<T>(received: &[T], layout: &BlockLayout, rank: usize, start: usize) -> Outcome
where
    T: Element + From<u8> + PartialEq + Debug,
{
    let zeros = |range: &[T]| range.iter().all(|element| *element == T::from(0));
    for from in 0..layout.counts().len() {
        let block = layout.block(from);
        let expected: Vec<T> = (0..block.len())
            .map(|index| value(from, rank, index, start))
            .collect();
        expect("block", received[block.clone()] == expected[..], true)?;
        let (before, behind) = (&received[..block.start], &received[block.end..]);
        expect("before", zeros(&before[before.len() - 5..]), true)?;
        expect("behind", zeros(&behind[..behind.len().min(5)]), true)?;
    }
    Ok(())
}

/// What this process has in memory, of its own and shared.
fn resident() -> Result<usize, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages = text.split_whitespace().nth(1).ok_or("no second number")?;
    Ok(pages.parse::<usize>()? * malleus::memory::page_size())
}

fn every_variant<T>(environment: &Environment) -> Outcome
where
    T: Element + From<u8> + PartialEq + Debug,
{
    let world = environment.world();
    for variant in Variant::ALL {
        one::<T>(&world, variant).map_err(|error| format!("{variant}: {error}"))?;
    }
    Ok(())
}

fn one<T>(communicator: &Communicator, variant: Variant) -> Outcome
where
    T: Element + From<u8> + PartialEq + Debug,
{
    let (rank, size) = (communicator.rank(), communicator.size());
    let (send, send_length) = layout(size, 77, |to| count(rank, to));
    let (receive, receive_length) = layout(size, 5, |from| count(from, rank));
    let before = resident()?;
    let mut plan = Plan::over(
        communicator,
        variant,
        (Sparse::<T>::new(send_length)?, &send),
        (Sparse::<T>::new(receive_length)?, &receive),
    )?;
    for start in 0..2 {
        fill(plan.send_mut(), &send, rank, start);
        plan = plan.start()?.wait()?;
        check(plan.receive(), &receive, rank, start)?;
    }
    let mut grown = resident()?.saturating_sub(before);
    let (_, received) = plan.free()?;
    check(received.elements(), &receive, rank, 1)?;
    drop(received);

    // The others zero their window's memory, and a system may refuse a vector that is larger than its memory.
    let is_sparse = matches!(
        variant,
        Variant::Standard | Variant::StandardPersistent | Variant::FenceOnce | Variant::LockOnce
    );
    if is_sparse && size_of::<T>() == 1 {
        let mut plan = Plan::<T, _>::allocate(communicator, variant, &send, &receive)?;
        fill(plan.send_mut(), &send, rank, 2);
        plan = plan.start()?.wait()?;
        check(plan.receive(), &receive, rank, 2)?;
        grown = grown.max(resident()?.saturating_sub(before));
        plan.free()?;
    }
    let told = format!("{grown} bytes of memory instead of a part of {FAR}");
    expect(&told, grown < FAR / 20, true)
}
