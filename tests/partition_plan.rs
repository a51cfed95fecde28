//! Partitions and plans against models that know nothing of their arithmetic: 128-bit integers, and arrays of owners with
//! one entry per element.

use malleus::partition::Partition;
use malleus::redistribute::plan::{Error, Piece, Plan, kept_elements, moved_elements};
use proptest::prelude::*;

const RANKS: usize = 64;
const LEN: u64 = 10_000;

/// Cut points of `len` elements over 1 to `RANKS` ranks, many of them equal.
fn cuts(len: u64) -> impl Strategy<Value = Partition> {
    let inner = prop_oneof![
        3 => proptest::collection::vec(0..=len, 0..RANKS),
        // A few distinct places only: runs of empty blocks, at both ends too.
        1 => proptest::collection::vec((0..=3_u64).prop_map(move |third| len * third / 3), 0..RANKS),
    ];
    inner.prop_map(move |mut cuts| {
        cuts.sort_unstable();
        cuts.insert(0, 0);
        cuts.push(len);
        Partition::cuts(cuts).unwrap()
    })
}

fn partition(len: u64) -> impl Strategy<Value = Partition> {
    prop_oneof![
        (1..=RANKS).prop_map(move |ranks| Partition::block(len, ranks)),
        cuts(len)
    ]
}

fn lengths() -> impl Strategy<Value = u64> {
    prop_oneof![1 => 0..=200_u64, 1 => 0..=LEN]
}

fn pair() -> impl Strategy<Value = (Partition, Partition)> {
    lengths().prop_flat_map(|len| (partition(len), partition(len)))
}

/// The owner and the offset in the owner's block of every element, written down rank by rank.
fn owners(partition: &Partition) -> Vec<(usize, u64)> {
    (0..partition.ranks())
        .flat_map(|rank| {
            (0..partition.range(rank).count() as u64).map(move |offset| (rank, offset))
        })
        .collect()
}

/// The pieces of every target, found element by element: a piece goes on as long as source and target stay the same.
fn model(from: &Partition, to: &Partition) -> Vec<Vec<Piece>> {
    let mut plans: Vec<Vec<Piece>> = vec![Vec::new(); to.ranks()];
    for ((source, source_offset), (target, target_offset)) in
        owners(from).into_iter().zip(owners(to))
    {
        match plans[target].last_mut() {
            Some(piece) if piece.peer == source => piece.len += 1,
            _ => plans[target].push(Piece {
                peer: source,
                source_offset,
                target_offset,
                len: 1,
            }),
        }
    }
    plans
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The blocks lie one after the other and cover the array.
    #[test]
    fn blocks_cover_the_array(partition in lengths().prop_flat_map(partition)) {
        let mut next = 0;
        for rank in 0..partition.ranks() {
            let range = partition.range(rank);
            prop_assert_eq!(range.start, next);
            prop_assert!(range.end >= range.start);
            next = range.end;
        }
        prop_assert_eq!(next, partition.len());
        prop_assert_eq!(partition.range(partition.ranks()), next..next);
    }

    #[test]
    fn owners_agree_with_the_ranges(partition in lengths().prop_flat_map(partition)) {
        let model = owners(&partition);
        for (index, &(owner, _)) in (0..).zip(&model) {
            prop_assert_eq!(partition.owner(index), Some(owner));
        }
        prop_assert_eq!(partition.owner(partition.len()), None);
    }

    #[test]
    fn owners_of_a_range_are_tight(
        (partition, start, end) in lengths().prop_flat_map(|len| (partition(len), 0..=len + 5, 0..=len + 5)),
    ) {
        let overlapping: Vec<usize> = (0..partition.ranks())
            .filter(|&rank| {
                let block = partition.range(rank);
                block.start.max(start) < block.end.min(end)
            })
            .collect();
        let expected = match (overlapping.first(), overlapping.last()) {
            (Some(&first), Some(&last)) => first..last + 1,
            _ => 0..0,
        };
        prop_assert_eq!(partition.owners(start..end), expected);
    }

    /// Any length and any number of ranks, against the formula in 128 bits.
    #[test]
    fn blocks_of_any_size_do_not_overflow(
        len in prop_oneof![Just(u64::MAX), Just(u64::MAX / 2), any::<u64>()],
        ranks in prop_oneof![1..=100_usize, Just(usize::MAX), 1..=usize::MAX],
        pick in any::<(usize, u64)>(),
    ) {
        let partition = Partition::block(len, ranks);
        let start = |rank: usize| {
            let (len, ranks, rank) = (u128::from(len), ranks as u128, rank as u128);
            len / ranks * rank + rank.min(len % ranks)
        };
        for rank in [0, pick.0 % ranks, ranks - 1] {
            let range = partition.range(rank);
            prop_assert_eq!(u128::from(range.start), start(rank));
            prop_assert_eq!(u128::from(range.end), start(rank) + u128::from(len) / ranks as u128
                + u128::from((rank as u128) < u128::from(len) % ranks as u128));
            prop_assert!(rank < ranks - 1 || range.end == len);
        }
        if len > 0 {
            for index in [0, pick.1 % len, len - 1] {
                let owner = partition.owner(index).unwrap();
                prop_assert!(owner < ranks);
                prop_assert!(partition.range(owner).contains(&index));
            }
        }
    }

    #[test]
    fn cuts_of_any_size_do_not_overflow(
        inner in proptest::collection::vec(0..=u64::MAX / 2, 0..20),
        index in 0..u64::MAX / 2,
        ranks in 1..=40_usize,
    ) {
        let mut cuts = inner;
        cuts.sort_unstable();
        cuts.insert(0, 0);
        cuts.push(u64::MAX / 2);
        let partition = Partition::cuts(cuts.clone()).unwrap();
        let owner = partition.owner(index).unwrap();
        prop_assert!(partition.range(owner).contains(&index));
        prop_assert_eq!(partition.owners(index..index + 1), owner..owner + 1);

        // The curve through the old cut points at `cut * old / ranks`, in 128 bits.
        let old = partition.ranks();
        let recut = partition.recut(ranks);
        for cut in 0..ranks {
            let (segment, part) = (cut * old / ranks, (cut * old % ranks) as u128);
            let (low, high) = (u128::from(cuts[segment]), u128::from(cuts[segment + 1]));
            let expected = low + (high - low) * part / ranks as u128;
            prop_assert_eq!(u128::from(recut.range(cut).start), expected);
        }
        prop_assert_eq!(recut.len(), partition.len());
    }

    /// Enough ranks that the search goes through the sample of the cut points.
    #[test]
    fn owners_among_many_cut_points(
        sizes in proptest::collection::vec(0..100_u64, 1..1500),
        picks in proptest::collection::vec(any::<proptest::sample::Index>(), 20),
    ) {
        // Half of the blocks empty, a few long.
        let blocks: Vec<u64> = sizes
            .iter()
            .map(|&size| match size {
                0..50 => 0,
                50..95 => size % 4,
                _ => size,
            })
            .collect();
        let mut cuts = vec![0];
        for block in &blocks {
            cuts.push(cuts[cuts.len() - 1] + block);
        }
        let len = cuts[cuts.len() - 1];
        prop_assume!(len > 0);
        let partition = Partition::cuts(cuts.clone()).unwrap();
        let owners: Vec<usize> = (0..)
            .zip(&blocks)
            .flat_map(|(rank, &block)| (0..block).map(move |_| rank))
            .collect();
        let owner = |index: u64| owners[usize::try_from(index).unwrap()];
        let picks = picks.iter().map(|pick| pick.index(owners.len()) as u64);
        // And the first element of a block beside each of the sampled points.
        let seams = cuts.iter().skip(255).step_by(256).copied().filter(|&cut| cut < len);
        for index in picks.chain(seams).chain([0, len - 1]) {
            prop_assert_eq!(partition.owner(index), Some(owner(index)));
            let end = (index + 50).min(len);
            prop_assert_eq!(partition.owners(index..end), owner(index)..owner(end - 1) + 1);
        }
    }

    #[test]
    fn recut_keeps_length_and_shape(partition in lengths().prop_flat_map(partition), ranks in 1..=RANKS) {
        let recut = partition.recut(ranks);
        prop_assert_eq!(recut.len(), partition.len());
        prop_assert_eq!(recut.ranks(), ranks);
        prop_assert_eq!(&partition.recut(partition.ranks()), &partition);
        // To a multiple and back: every old cut point is one of the new ones, so nothing is lost.
        prop_assert_eq!(&partition.recut(3 * partition.ranks()).recut(partition.ranks()), &partition);
        for rank in 0..ranks {
            prop_assert!(recut.range(rank).start <= recut.range(rank).end);
        }
    }

    #[test]
    fn serialized_partitions_come_back(partition in lengths().prop_flat_map(partition)) {
        let text = serde_json::to_string(&partition).unwrap();
        prop_assert_eq!(serde_json::from_str::<Partition>(&text).unwrap(), partition);
    }

    /// Every target's plan is the one found element by element.
    #[test]
    fn target_plans_agree_with_the_model((from, to) in pair()) {
        for (target, expected) in model(&from, &to).into_iter().enumerate() {
            let plan = Plan::for_target(&from, &to, target).unwrap();
            let pieces: Vec<Piece> = plan.pieces().collect();
            prop_assert_eq!(plan.first_source(), expected.first().map(|piece| piece.peer));
            prop_assert_eq!(plan.last_source(), expected.last().map(|piece| piece.peer + 1));
            prop_assert_eq!(plan.first_index(), expected.first().map_or(0, |piece| piece.source_offset));
            prop_assert_eq!(plan.len(), expected.iter().map(|piece| piece.len).sum::<u64>());
            let (low, high) = plan.pieces().size_hint();
            prop_assert!(low <= expected.len() && expected.len() <= high.unwrap());
            prop_assert_eq!(pieces, expected);
        }
        prop_assert!(Plan::for_target(&from, &to, to.ranks()).unwrap().pieces().next().is_none());
    }

    /// What the sources send is what the targets receive.
    #[test]
    fn both_sides_agree((from, to) in pair()) {
        let mut sent = Vec::new();
        for source in 0..from.ranks() {
            let plan = Plan::for_source(&from, &to, source).unwrap();
            let mut end = 0;
            for piece in &plan {
                prop_assert_eq!(piece.source_offset, end);
                end += piece.len;
                sent.push((source, piece.peer, piece.source_offset, piece.target_offset, piece.len));
            }
            prop_assert_eq!(end, plan.len());
            if end > 0 {
                prop_assert_eq!((plan.first_source(), plan.last_source()), (Some(source), Some(source + 1)));
                prop_assert_eq!(plan.peers().start, plan.pieces().next().unwrap().peer);
                prop_assert_eq!(plan.peers().end, plan.pieces().last().unwrap().peer + 1);
            }
        }
        let mut received = Vec::new();
        for target in 0..to.ranks() {
            for piece in &Plan::for_target(&from, &to, target).unwrap() {
                received.push((piece.peer, target, piece.source_offset, piece.target_offset, piece.len));
            }
        }
        // Both lists are in the order of the elements.
        prop_assert_eq!(sent, received);
    }

    /// Elements carried piece by piece arrive where a second look at the partition says, each exactly once.
    #[test]
    fn every_element_arrives_once((from, to) in pair()) {
        let whole: Vec<u64> = (0..from.len()).collect();
        let block = |partition: &Partition, rank| {
            let range = partition.range(rank);
            whole[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()].to_vec()
        };
        let place = |offset: u64, len: u64| {
            usize::try_from(offset).unwrap()..usize::try_from(offset + len).unwrap()
        };
        let sources: Vec<Vec<u64>> = (0..from.ranks()).map(|rank| block(&from, rank)).collect();
        for target in 0..to.ranks() {
            let expected = block(&to, target);
            let mut arrived = vec![None; expected.len()];
            for piece in &Plan::for_target(&from, &to, target).unwrap() {
                prop_assert!(piece.len > 0);
                let data = &sources[piece.peer][place(piece.source_offset, piece.len)];
                for (slot, &value) in arrived[place(piece.target_offset, piece.len)].iter_mut().zip(data) {
                    prop_assert_eq!(slot.replace(value), None);
                }
            }
            let expected: Vec<Option<u64>> = expected.into_iter().map(Some).collect();
            prop_assert_eq!(arrived, expected);
        }
    }

    #[test]
    fn kept_and_moved_elements_are_counted((from, to) in pair()) {
        let kept = owners(&from)
            .into_iter()
            .zip(owners(&to))
            .filter(|((source, _), (target, _))| source == target)
            .count() as u64;
        prop_assert_eq!(kept_elements(&from, &to), Ok(kept));
        prop_assert_eq!(moved_elements(&from, &to), Ok(from.len() - kept));
    }
}

#[test]
fn a_resize_neither_makes_nor_loses_elements() {
    let (from, to) = (Partition::block(10, 2), Partition::block(9, 2));
    let error = Error::LengthsDiffer { from: 10, to: 9 };
    assert_eq!(Plan::for_target(&from, &to, 0).unwrap_err(), error);
    assert_eq!(
        error.to_string(),
        "`from` partitions 10 elements and `to` 9: they must be of one length"
    );
}

#[test]
fn bad_serialized_partitions_are_refused() {
    for text in [
        r#"{"block":{"len":10,"ranks":0}}"#,
        r#"{"cuts":[]}"#,
        r#"{"cuts":[1,2]}"#,
        r#"{"cuts":[0,5,4]}"#,
    ] {
        assert!(serde_json::from_str::<Partition>(text).is_err(), "{text}");
    }
    let text = r#"{"block":{"len":10,"ranks":4}}"#;
    assert_eq!(
        serde_json::from_str::<Partition>(text).unwrap(),
        Partition::block(10, 4)
    );
}
