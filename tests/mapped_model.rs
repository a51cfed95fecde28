//! Redistribution by mapping pages, as arithmetic: many resizes against plain copies, with files whose pages can be given
//! back; and the order of processes that keeps most, against every order.

#![allow(clippy::cast_possible_truncation)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use malleus::partition::Partition;
use malleus::redistribute::adoption::{Adoption, Extents, Run, Way};
use malleus::redistribute::placement::{keep_most, kept_elements};
use proptest::prelude::*;

const PAGE: u64 = 16;

/// Files of pages; what was never written or was given back is not there.
#[derive(Default)]
struct Files {
    pages: BTreeMap<(u64, u64), [u8; PAGE as usize]>,
    made: u64,
}

impl Files {
    fn make(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    fn write(&mut self, file: u64, at: u64, byte: u8) {
        let page = self.pages.entry((file, at / PAGE)).or_default();
        page[(at % PAGE) as usize] = byte;
    }

    /// A hole under a mapping reads as zeros, silently: here it is found.
    fn read(&self, file: u64, at: u64) -> u8 {
        let page = self.pages.get(&(file, at / PAGE));
        page.expect("a page that was given back is read")[(at % PAGE) as usize]
    }

    fn punch(&mut self, file: u64, bytes: Range<u64>) {
        assert_eq!((bytes.start % PAGE, bytes.end % PAGE), (0, 0));
        for page in bytes.start / PAGE..bytes.end / PAGE {
            let held = self.pages.remove(&(file, page));
            assert!(held.is_some(), "page {page} of {file} is given back twice");
        }
    }
}

struct World {
    files: Files,
    blocks: Vec<Extents>,
    partition: Partition,
    element: u64,
}

struct Counts {
    adopted_pages: u64,
    copied_pages: u64,
    compacted_blocks: u64,
}

impl World {
    fn new(partition: Partition, element: u64, data: &[u8]) -> Self {
        let mut files = Files::default();
        let blocks = (0..partition.ranks()).map(|rank| {
            let file = files.make();
            let elements = partition.range(rank);
            let bytes = elements.start * element..elements.end * element;
            for at in bytes.clone() {
                files.write(file, at, data[at as usize]);
            }
            Extents::whole(file, bytes)
        });
        let blocks = blocks.collect();
        Self {
            files,
            blocks,
            partition,
            element,
        }
    }

    fn resize(&mut self, to: Partition) -> Counts {
        let adoption = Adoption::new(&self.partition, &to, self.element, PAGE).unwrap();
        let mut counts = Counts {
            adopted_pages: 0,
            copied_pages: 0,
            compacted_blocks: 0,
        };
        let mut blocks = Vec::new();
        let mut adopted = vec![Vec::new(); self.partition.ranks()];
        for target in 0..to.ranks() {
            let file = self.files.make();
            let mut runs = adoption.runs(target);
            let of_source = |source: usize| &self.blocks[source];
            let mut block = Extents::after(&runs, file, of_source);
            if block.is_scattered() {
                counts.compacted_blocks += 1;
                runs = adoption.copies(target);
                block = Extents::after(&runs, file, of_source);
                assert_eq!(block.len(), 1, "a compacted block");
            }
            let mut copied = BTreeSet::new();
            for Run { way, source, bytes } in runs {
                match way {
                    Way::Copy => {
                        for at in bytes {
                            let byte = self.byte(source, at);
                            self.files.write(file, at, byte);
                            copied.insert(at / PAGE);
                        }
                    }
                    Way::Adopt => {
                        counts.adopted_pages += (bytes.end - bytes.start).div_ceil(PAGE);
                        adopted[source].push(bytes);
                    }
                }
            }
            counts.copied_pages += copied.len() as u64;
            blocks.push(block);
        }
        for (block, adopted) in self.blocks.iter().zip(&adopted) {
            for extent in block.given_back(adopted, PAGE) {
                self.files.punch(extent.file, extent.bytes);
            }
        }
        (self.blocks, self.partition) = (blocks, to);
        counts
    }

    fn byte(&self, rank: usize, at: u64) -> u8 {
        let mut extents = self.blocks[rank].part(at..at + 1);
        let extent = extents.next().expect("a byte of the block");
        assert!(extents.next().is_none());
        self.files.read(extent.file, at)
    }

    /// Each block is whole and right, each page has one owner, and no other page is left.
    fn check(&self, data: &[u8]) {
        let mut owned = BTreeSet::new();
        for (rank, block) in self.blocks.iter().enumerate() {
            let elements = self.partition.range(rank);
            let mut next = elements.start * self.element;
            for extent in block.iter() {
                assert_eq!(extent.bytes.start, next, "a gap in the block of {rank}");
                next = extent.bytes.end;
                for at in extent.bytes.clone() {
                    let found = self.files.read(extent.file, at);
                    assert_eq!(found, data[at as usize], "rank {rank}, byte {at}");
                }
                for page in extent.bytes.start / PAGE..extent.bytes.end.div_ceil(PAGE) {
                    let is_new = owned.insert((extent.file, page));
                    assert!(is_new, "two owners of page {page} of {}", extent.file);
                }
            }
            assert_eq!(next, elements.end * self.element, "the block of {rank}");
        }
        let left: BTreeSet<_> = self.files.pages.keys().copied().collect();
        assert_eq!(left, owned, "memory in use, and memory that is owned");
    }
}

fn bytes(len: u64) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251 + 1) as u8).collect()
}

/// The example of the design: 17 pages adopted and 4 copied, and on the way back 17 and 5.
#[test]
fn the_worked_example() {
    let (three, two) = (Partition::block(10_001, 3), Partition::block(10_001, 2));
    for (from, to, expected) in [(&three, &two, (17, 4)), (&two, &three, (17, 5))] {
        let adoption = Adoption::new(from, to, 8, 4096).unwrap();
        let mut found = (0, 0);
        for target in 0..to.ranks() {
            let mut copied = BTreeSet::new();
            for run in adoption.runs(target) {
                let pages = run.bytes.start / 4096..run.bytes.end.div_ceil(4096);
                match run.way {
                    Way::Adopt => found.0 += pages.count(),
                    Way::Copy => copied.extend(pages),
                }
            }
            found.1 += copied.len();
        }
        assert_eq!(found, expected);
    }
}

#[test]
fn a_scattered_block_is_copied_as_a_whole() {
    // From 160 ranks to 2, each target would map 80 files.
    let data = bytes(160 * 4 * PAGE);
    let mut world = World::new(Partition::block(160 * PAGE, 160), 4, &data);
    let counts = world.resize(Partition::block(160 * PAGE, 2));
    world.check(&data);
    assert_eq!(counts.adopted_pages, 0);
    assert_eq!(counts.copied_pages, 640);
    assert!(world.blocks.iter().all(|block| block.len() == 1));
}

fn partition(len: u64, ranks: usize) -> impl Strategy<Value = Partition> {
    let cuts = proptest::collection::vec(0..=len, 0..ranks).prop_map(move |mut cuts| {
        cuts.sort_unstable();
        cuts.insert(0, 0);
        cuts.push(len);
        Partition::cuts(cuts).unwrap()
    });
    prop_oneof![
        (1..=ranks).prop_map(move |ranks| Partition::block(len, ranks)),
        cuts
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// A hundred resizes, each checked byte by byte and page by page.
    #[test]
    fn a_hundred_resizes(
        (element, len, partitions) in (1..=12_u64, 0..900_u64).prop_flat_map(|(element, len)| {
            let partitions = proptest::collection::vec(partition(len, 9), 101);
            (Just(element), Just(len), partitions)
        })
    ) {
        let data = bytes(len * element);
        let mut partitions = partitions.into_iter();
        let mut world = World::new(partitions.next().unwrap(), element, &data);
        world.check(&data);
        for to in partitions {
            let (sources, targets) = (world.partition.ranks() as u64, to.ranks() as u64);
            let large = |partition: &Partition| {
                (0..partition.ranks()).all(|rank| {
                    let block = partition.range(rank);
                    (block.end - block.start) * element >= 2 * PAGE
                })
            };
            let are_large = large(&world.partition) && large(&to);
            let counts = world.resize(to);
            world.check(&data);
            if are_large && counts.compacted_blocks == 0 {
                let most = sources - 1 + 2 * (targets - 1);
                prop_assert!(counts.copied_pages <= most, "{} copied", counts.copied_pages);
            }
        }
    }

    /// No order keeps more.
    #[test]
    fn the_order_that_keeps_most(
        (from, to) in (0..200_u64).prop_flat_map(|len| (partition(len, 7), partition(len, 7)))
    ) {
        let order = keep_most(&from, &to).unwrap();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..to.ranks()).collect::<Vec<_>>());
        let kept = kept_elements(&from, &to, &order).unwrap();
        let mut best = 0;
        for_each_order(&mut (0..to.ranks()).collect(), 0, &mut |order| {
            best = best.max(kept_elements(&from, &to, order).unwrap());
        });
        prop_assert_eq!(kept, best, "{:?}", order);
    }
}

fn for_each_order(order: &mut Vec<usize>, fixed: usize, look: &mut impl FnMut(&[usize])) {
    if fixed == order.len() {
        return look(order);
    }
    for next in fixed..order.len() {
        order.swap(fixed, next);
        for_each_order(order, fixed + 1, look);
        order.swap(fixed, next);
    }
}

/// Half of the data moves where twice as many ranks share it, instead of three quarters and seven eighths.
#[test]
fn a_doubling_moves_half() {
    for ranks in [2, 4, 8] {
        let (from, to) = (
            Partition::block(1 << 20, ranks),
            Partition::block(1 << 20, 2 * ranks),
        );
        let order = keep_most(&from, &to).unwrap();
        assert_eq!(kept_elements(&from, &to, &order).unwrap(), 1 << 19);
        let paper: Vec<usize> = (0..2 * ranks).collect();
        let kept = kept_elements(&from, &to, &paper).unwrap();
        assert_eq!(
            kept,
            (1 << 20) / ranks as u64 / 2,
            "{ranks} ranks in the paper's order"
        );
    }
}
