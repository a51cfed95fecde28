//! Sums of `f64` that do not depend on the order of their terms, so neither on how these are distributed.
//!
//! A term is an integer times a power of two. [`ExactSum`] keeps one wide integer for each power (after
//! the *large superaccumulator* of Neal, *Fast exact summation using small and large superaccumulators*,
//! arXiv:1505.05571), adds without rounding, and rounds once at the end. Across ranks, the sum travels as
//! 64-bit integers that `MPI_SUM` adds exactly. So a solver's iterates are the same to the last bit on any
//! number of ranks, and a resize changes none of them.

use crate::mpi::{self, Communicator, Operation};

/// Exponents of finite `f64`: the biased ones from 0 (subnormal) to 2046.
const EXPONENTS: usize = 2047;
const MANTISSA_BITS: u32 = 52;
/// Bits of a digit of the sum that travels.
const DIGIT_BITS: usize = 32;
/// Digits that hold any sum of 2⁶⁴ terms: 2046 + 53 + 64 bits, and one for the sign.
const DIGITS: usize = (EXPONENTS + 53 + 64) / DIGIT_BITS + 2;

/// An exact sum of `f64`.
#[derive(Clone, Debug)]
pub struct ExactSum {
    /// By exponent: the sum of the mantissas, with their signs. 2⁷⁴ terms fit.
    mantissas: Vec<i128>,
    /// What infinities and NaNs came to.
    special: f64,
}

impl Default for ExactSum {
    fn default() -> Self {
        Self::new()
    }
}

impl ExactSum {
    /// Zero.
    #[must_use]
    pub fn new() -> Self {
        Self {
            mantissas: vec![0; EXPONENTS],
            special: 0.0,
        }
    }

    /// Sets it to zero.
    pub fn clear(&mut self) {
        self.mantissas.fill(0);
        self.special = 0.0;
    }

    /// Adds one term.
    #[inline]
    pub fn add(&mut self, term: f64) {
        let bits = term.to_bits();
        // Eleven bits: no truncation.
        let exponent = ((bits >> MANTISSA_BITS) & 0x7FF) as usize;
        let Some(sum) = self.mantissas.get_mut(exponent) else {
            self.special += term;
            return;
        };
        let fraction = bits & ((1 << MANTISSA_BITS) - 1);
        // A normal number has a hidden bit.
        let mantissa = i128::from(fraction | (u64::from(exponent != 0) << MANTISSA_BITS));
        *sum += if term.is_sign_negative() {
            -mantissa
        } else {
            mantissa
        };
    }

    /// Adds the products of two vectors, each rounded once: what is summed exactly is `fl(aᵢ bᵢ)`.
    ///
    /// # Panics
    ///
    /// If the vectors differ in length.
    pub fn add_products(&mut self, a: &[f64], b: &[f64]) {
        assert_eq!(a.len(), b.len(), "lengths of the vectors");
        a.iter().zip(b).for_each(|(a, b)| self.add(a * b));
    }

    /// The sum, rounded to the nearest `f64`, ties to even.
    #[must_use]
    pub fn value(&self) -> f64 {
        if self.special != 0.0 {
            return self.special;
        }
        round(self.digits())
    }

    /// The sum over all ranks of a communicator, rounded once. Collective; `MPI_Allreduce` of 68 integers.
    ///
    /// # Errors
    ///
    /// The MPI error.
    pub fn value_over(&self, communicator: &Communicator) -> mpi::Result<f64> {
        if communicator.size() == 1 {
            return Ok(self.value());
        }
        let mut message = [0_i64; DIGITS + 3];
        let (digits, special) = message.split_at_mut(DIGITS);
        digits.copy_from_slice(&self.digits());
        special[0] = i64::from(self.special.is_nan());
        special[1] = i64::from(self.special == f64::INFINITY);
        special[2] = i64::from(self.special == f64::NEG_INFINITY);
        communicator.all_reduce(&mut message, Operation::Sum)?;
        let (digits, special) = message.split_at(DIGITS);
        Ok(match special {
            [0, 0, 0] => round(digits.try_into().expect("as many digits")),
            [0, _, 0] => f64::INFINITY,
            [0, 0, _] => f64::NEG_INFINITY,
            _ => f64::NAN,
        })
    }

    /// The sum in digits of 32 bits, least significant first, in units of 2⁻¹⁰⁷⁴; all but the last are
    /// not negative.
    fn digits(&self) -> [i64; DIGITS] {
        let mut digits = [0_i128; DIGITS];
        for (exponent, &mantissas) in self
            .mantissas
            .iter()
            .enumerate()
            .filter(|(_, sum)| **sum != 0)
        {
            // Subnormal numbers and the smallest normal ones have the same unit.
            let position = exponent.max(1) - 1;
            let (first, shift) = (position / DIGIT_BITS, position % DIGIT_BITS);
            // 2⁸⁴ for 2³¹ terms, shifted by less than 32 bits: no overflow up to 2⁴² terms.
            let mut rest = mantissas << shift;
            for digit in &mut digits[first..] {
                *digit += rest & i128::from(u32::MAX);
                rest >>= DIGIT_BITS;
                if rest == 0 {
                    break;
                }
            }
            // A negative number has ones for ever: they end in the last digit's sign.
            if rest == -1 {
                digits[DIGITS - 1] -= i128::from(u32::MAX) + 1;
            }
        }
        normalize(digits)
    }
}

/// Carries, so that all digits but the last lie in 0..2³².
fn normalize<T: Into<i128> + Copy>(digits: [T; DIGITS]) -> [i64; DIGITS] {
    let mut carry = 0_i128;
    let mut normal = [0_i64; DIGITS];
    for (position, (digit, normal)) in digits.into_iter().zip(&mut normal).enumerate() {
        let sum = digit.into() + carry;
        if position == DIGITS - 1 {
            *normal = i64::try_from(sum).expect("the last digit has room for the sign");
        } else {
            *normal = i64::try_from(sum & i128::from(u32::MAX)).expect("32 bits");
            carry = sum >> DIGIT_BITS;
        }
    }
    normal
}

/// The nearest `f64` to a number in digits, which may not be normalized.
fn round(digits: [i64; DIGITS]) -> f64 {
    let digits = normalize(digits);
    let negative = digits[DIGITS - 1] < 0;
    let digits = if negative {
        normalize(digits.map(|digit| -digit))
    } else {
        digits
    };
    let Some(top) = digits.iter().rposition(|&digit| digit != 0) else {
        return 0.0;
    };
    // The three highest digits have 65 bits or more, of which 53 count; what is below only breaks ties.
    let digit =
        |position: usize| u128::try_from(digits[position]).expect("digits of a positive number");
    let bottom = top.saturating_sub(2);
    let mut high = (bottom..=top).rev().fold(0_u128, |high, position| {
        (high << DIGIT_BITS) | digit(position)
    });
    let sticky = digits[..bottom].iter().any(|&digit| digit != 0);
    let width = 128 - high.leading_zeros();
    // The last bit of the result: 2^(excess) in units of the lowest bit of `high`.
    let excess = width.saturating_sub(53);
    let mut scale = bottom * DIGIT_BITS;
    if excess > 0 {
        let rest = high & ((1 << excess) - 1);
        let half = 1_u128 << (excess - 1);
        high >>= excess;
        scale += excess as usize;
        if rest > half || (rest == half && (sticky || high & 1 == 1)) {
            high += 1;
        }
    }
    // At most 53 bits, or 2⁵³ itself: exact.
    let mantissa = u64::try_from(high).expect("53 bits") as f64;
    let magnitude = scaled(mantissa, scale);
    if negative { -magnitude } else { magnitude }
}

/// `mantissa` × 2^(scale − 1074), for a scale that is 0 or leaves the result normal: exact or infinite.
fn scaled(mantissa: f64, scale: usize) -> f64 {
    let power = |exponent: usize| f64::from_bits((exponent as u64) << MANTISSA_BITS);
    // In steps, since neither 2⁻¹⁰⁷⁴ as a factor nor 2⁺²⁰⁰⁰ is in reach: 2^-1074 = 2^-537 × 2^-537.
    let mut value = mantissa;
    let mut exponent = i64::try_from(scale).expect("a few thousand") - 1074;
    while exponent > 0 {
        let step = exponent.min(1000);
        value *= power(usize::try_from(step + 1023).expect("positive"));
        exponent -= step;
    }
    while exponent < 0 {
        let step = (-exponent).min(1000);
        value *= power(usize::try_from(1023 - step).expect("positive"));
        exponent += step;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(terms: &[f64]) -> f64 {
        let mut sum = ExactSum::new();
        terms.iter().for_each(|&term| sum.add(term));
        sum.value()
    }

    #[test]
    fn known_sums() {
        assert_eq!(sum(&[]), 0.0);
        assert_eq!(sum(&[1e300, 1.0, -1e300]), 1.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
        assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(sum(&[-f64::MAX, -f64::MAX]), f64::NEG_INFINITY);
        let tiny = f64::from_bits(1);
        assert_eq!(sum(&[tiny, tiny, tiny]), f64::from_bits(3));
        assert_eq!(sum(&[f64::MIN_POSITIVE, -tiny]), f64::MIN_POSITIVE - tiny);
        assert_eq!(sum(&[1.0, f64::INFINITY]), f64::INFINITY);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
        assert!(sum(&[1.0, f64::NAN]).is_nan());
        // Ties go to even; whatever is below a tie decides it.
        let half = f64::EPSILON / 2.0;
        assert_eq!(sum(&[1.0, half]), 1.0);
        assert_eq!(sum(&[1.0 + f64::EPSILON, half]), 1.0 + 2.0 * f64::EPSILON);
        assert_eq!(sum(&[1.0, half, 1e-300]), 1.0 + f64::EPSILON);
        assert_eq!(sum(&[-1.0, -half, -1e-300]), -1.0 - f64::EPSILON);
        assert_eq!(sum(&[1.0, half, -1e-300]), 1.0);
    }

    /// Any finite number: every exponent is as likely as any other.
    fn finite() -> impl Strategy<Value = f64> {
        any::<u64>()
            .prop_map(f64::from_bits)
            .prop_filter("finite", |value| value.is_finite())
    }

    proptest! {
        #[test]
        fn one_term_is_itself(term in finite()) {
            prop_assert_eq!(sum(&[term]), term);
        }

        /// One addition of IEEE 754 is correctly rounded as well.
        #[test]
        fn two_terms_are_rounded_as_the_processor_does(a in finite(), b in finite(), near in -60_i32..60) {
            prop_assert_eq!(sum(&[a, b]), a + b);
            let near = a * 2_f64.powi(near) * 1.1;
            prop_assume!(near.is_finite());
            prop_assert_eq!(sum(&[a, near]), a + near);
            prop_assert_eq!(sum(&[a, -near]), a - near);
        }

        /// Integers add without rounding in i128.
        #[test]
        fn many_terms_are_exact(terms in prop::collection::vec(any::<i64>().prop_map(|term| term >> 11), 0..300)) {
            let expected: i128 = terms.iter().map(|&term| i128::from(term)).sum();
            let terms: Vec<f64> = terms.into_iter().map(|term| term as f64).collect();
            prop_assert_eq!(sum(&terms), expected as f64);
        }

        #[test]
        fn order_and_grouping_do_not_matter(mut terms in prop::collection::vec(finite(), 0..100), cut in any::<prop::sample::Index>()) {
            let whole = sum(&terms);
            // Grouped, as ranks do it: the digits of each part added.
            let cut = cut.index(terms.len() + 1);
            let digits = |terms: &[f64]| {
                let mut sum = ExactSum::new();
                terms.iter().for_each(|&term| sum.add(term));
                sum.digits()
            };
            let (low, high) = (digits(&terms[..cut]), digits(&terms[cut..]));
            let mut both = [0; DIGITS];
            (0..DIGITS).for_each(|digit| both[digit] = low[digit] + high[digit]);
            prop_assert_eq!(round(both).to_bits(), whole.to_bits());
            terms.reverse();
            prop_assert_eq!(sum(&terms).to_bits(), whole.to_bits());
        }
    }
}
