//! Axes: where a value lies, and which values are labelled.

/// The greatest median over the least from which an axis is logarithmic.
const WIDE: f64 = 20.0;

/// Values along some pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// The pixels of `low` and `high`.
    pixels: (f64, f64),
}

impl Axis {
    /// An axis for ranges and their middles; from zero, or logarithmic if the middles differ a lot.
    pub(super) fn new(values: &[(f64, f64, f64)], pixels: (f64, f64)) -> Self {
        let least = |of: fn(&(f64, f64, f64)) -> f64| values.iter().map(of).reduce(f64::min);
        let most = |of: fn(&(f64, f64, f64)) -> f64| values.iter().map(of).reduce(f64::max);
        let low = least(|value| value.0).unwrap_or(0.0);
        let high = most(|value| value.2).unwrap_or(0.0);
        let middles = least(|value| value.1).zip(most(|value| value.1));
        let wide = middles.is_some_and(|(least, most)| most > WIDE * least);
        if wide && low > 0.0 {
            return Self {
                low: low / 1.3,
                high: high * 1.3,
                logarithmic: true,
                pixels,
            };
        }
        Self {
            low: low.min(0.0),
            high: if high > 0.0 { high * 1.06 } else { 1.0 },
            logarithmic: false,
            pixels,
        }
    }

    /// The same for ratios, whose natural start is not zero: a linear axis begins a little below the least.
    pub(super) fn around(values: &[(f64, f64, f64)], pixels: (f64, f64)) -> Self {
        let axis = Self::new(values, pixels);
        let low = values.iter().map(|value| value.0).reduce(f64::min);
        let low = low.filter(|low| !axis.logarithmic && *low > 0.0);
        low.map_or(axis, |low| Self {
            low: (low - 0.1 * (axis.high - low)).max(0.0),
            ..axis
        })
    }

    pub(super) fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    /// The same values along other pixels.
    pub(super) fn along(self, pixels: (f64, f64)) -> Self {
        Self { pixels, ..self }
    }

    /// The pixel of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.pixels.0 + part * (self.pixels.1 - self.pixels.0)
    }

    /// The values that are labelled, with their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        if self.logarithmic {
            self.logarithmic_ticks()
        } else {
            self.linear_ticks()
        }
    }

    fn linear_ticks(&self) -> Vec<(f64, String)> {
        // Six of them, more or less; a step is 1, 2, 2.5 or 5 times a power of ten.
        let rough = (self.high - self.low) / 6.0;
        let power = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|&step| step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let first = (self.low / step).ceil();
        let mut ticks = Vec::new();
        let mut index = first;
        while index * step <= self.high && ticks.len() < 20 {
            ticks.push((index * step, plain(index * step)));
            index += 1.0;
        }
        ticks
    }

    fn logarithmic_ticks(&self) -> Vec<(f64, String)> {
        let decades = (self.high / self.low).log10();
        let digits: &[f64] = if decades > 3.0 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let mut ticks = Vec::new();
        let mut power = self.low.log10().floor();
        while 10_f64.powf(power) <= self.high && ticks.len() < 40 {
            let values = digits.iter().map(|digit| digit * 10_f64.powf(power));
            let shown = values.filter(|value| (self.low..=self.high).contains(value));
            ticks.extend(shown.map(|value| (value, plain(value))));
            power += 1.0;
        }
        ticks
    }
}

/// A round value without the noise of its arithmetic.
fn plain(value: f64) -> String {
    let text = format!("{value:.9}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" {
        return "0".to_owned();
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|tick| tick.1).collect()
    }

    #[test]
    fn a_narrow_range_starts_at_zero() {
        let axis = Axis::new(&[(1.0, 2.0, 3.0), (4.0, 5.0, 6.0)], (100.0, 0.0));
        assert!(!axis.is_logarithmic());
        assert_eq!(axis.at(0.0), 100.0);
        assert_eq!(axis.at(6.36).round(), 0.0);
        assert_eq!(labels(&axis), ["0", "2", "4", "6"]);
        let small = Axis::new(&[(0.1, 0.1, 0.3)], (0.0, 100.0));
        assert_eq!(labels(&small), ["0", "0.1", "0.2", "0.3"]);
    }

    #[test]
    fn a_wide_range_is_logarithmic() {
        let axis = Axis::new(&[(1.0, 1.0, 1.1), (20.0, 21.0, 25.0)], (100.0, 0.0));
        assert!(axis.is_logarithmic());
        assert_eq!(labels(&axis), ["1", "2", "5", "10", "20"]);
        assert!((axis.at(1.0) - axis.at(10.0) - (axis.at(2.0) - axis.at(20.0))).abs() < 1e-9);
        let wider = Axis::new(&[(0.01, 0.01, 0.01), (999.0, 999.0, 999.0)], (0.0, 1.0));
        assert_eq!(labels(&wider), ["0.01", "0.1", "1", "10", "100", "1000"]);
        let exactly = Axis::new(&[(1.0, 1.0, 1.0), (20.0, 20.0, 20.0)], (0.0, 1.0));
        assert!(!exactly.is_logarithmic());
    }

    #[test]
    fn a_ratio_starts_below_its_least() {
        let axis = Axis::around(&[(1.0, 1.0, 1.0), (1.2, 1.5, 2.0)], (100.0, 0.0));
        assert_eq!(labels(&axis), ["1", "1.25", "1.5", "1.75", "2"]);
        assert!((80.0..100.0).contains(&axis.at(1.0)));
        let wide = [(1.0, 1.0, 1.0), (40.0, 50.0, 60.0)];
        assert_eq!(
            Axis::around(&wide, (9.0, 0.0)),
            Axis::new(&wide, (9.0, 0.0))
        );
        assert_eq!(Axis::around(&[], (9.0, 0.0)), Axis::new(&[], (9.0, 0.0)));
    }

    #[test]
    fn zero_and_nothing_have_an_axis() {
        for values in [
            &[][..],
            &[(0.0, 0.0, 0.0)],
            &[(0.0, 0.0, 5.0), (3.0, 90.0, 95.0)],
        ] {
            let axis = Axis::new(values, (100.0, 0.0));
            assert!(!axis.is_logarithmic());
            assert!(
                axis.at(0.0).is_finite() && axis.ticks().len() > 1,
                "{values:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn values_lie_on_the_axis(values in prop::collection::vec((1e-9_f64..1e6, 0.0_f64..2.0), 1..20)) {
            let ranges: Vec<_> = values.iter().map(|&(low, more)| {
                (low, low * (1.0 + more / 2.0), low * (1.0 + more))
            }).collect();
            let axis = Axis::new(&ranges, (300.0, 10.0));
            for (low, middle, high) in ranges {
                for value in [low, middle, high] {
                    prop_assert!((10.0..=300.0).contains(&axis.at(value)));
                }
            }
            prop_assert!(axis.ticks().len() < 25);
        }
    }
}
