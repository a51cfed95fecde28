//! Checksums of arrays that do not depend on how they are distributed.

/// The checksum of some elements of an array: the sum, modulo 2⁶⁴, of a hash of each element's bytes with
/// its global index. So the checksums of the parts of an array add up to that of the whole, however it is
/// cut, while an element that changed or went elsewhere changes the sum.
///
/// `first` is the global index of the first element.
pub(super) fn checksum(bytes: &[u8], element_size: usize, first: u64) -> u64 {
    // The common sizes are one word each.
    match element_size {
        1 => sum(bytes.as_chunks::<1>().0, first, |element| {
            u64::from(element[0])
        }),
        4 => sum(bytes.as_chunks::<4>().0, first, |element| {
            u64::from(u32::from_le_bytes(*element))
        }),
        8 => sum(bytes.as_chunks::<8>().0, first, |element| {
            u64::from_le_bytes(*element)
        }),
        _ => bytes
            .chunks_exact(element_size)
            .zip(first..)
            .fold(0, |sum, (element, index)| {
                let words = element.chunks(8).map(|word| {
                    let mut padded = [0; 8];
                    padded[..word.len()].copy_from_slice(word);
                    u64::from_le_bytes(padded)
                });
                sum.wrapping_add(words.fold(index, hash))
            }),
    }
}

fn sum<const SIZE: usize>(
    elements: &[[u8; SIZE]],
    first: u64,
    word: impl Fn(&[u8; SIZE]) -> u64,
) -> u64 {
    let hashes = elements
        .iter()
        .zip(first..)
        .map(|(element, index)| hash(index, word(element)));
    hashes.fold(0, u64::wrapping_add)
}

/// A hash of a word at an index: for each index a bijection of the words, and another one for each.
fn hash(index: u64, word: u64) -> u64 {
    mix(index.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ word)
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection in which each bit of the input
/// changes about half of the output's.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_add_up(bytes in prop::collection::vec(any::<u8>(), 0..400), size in 1_usize..17, cut in 0_usize..400) {
            let elements = bytes.len() / size;
            let bytes = &bytes[..elements * size];
            let cut = cut.min(elements);
            let (low, high) = bytes.split_at(cut * size);
            let sum = checksum(low, size, 0).wrapping_add(checksum(high, size, cut as u64));
            prop_assert_eq!(sum, checksum(bytes, size, 0));
        }

        #[test]
        fn a_changed_element_is_seen(mut bytes in prop::collection::vec(any::<u8>(), 8..400), at in any::<prop::sample::Index>(), flip in 1_u8..) {
            let before = checksum(&bytes, 1, 0);
            *at.get_mut(&mut bytes) ^= flip;
            prop_assert_ne!(before, checksum(&bytes, 1, 0));
        }

        #[test]
        fn exchanged_elements_are_seen(mut words in prop::collection::vec(any::<u32>(), 2..100), a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>()) {
            let sum = |words: &[u32]| checksum(crate::mpi::bytes_of(words), 4, 0);
            let (a, b) = (a.index(words.len()), b.index(words.len()));
            prop_assume!(words[a] != words[b]);
            let before = sum(&words);
            words.swap(a, b);
            prop_assert_ne!(before, sum(&words));
        }
    }
}
