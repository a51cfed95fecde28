//! Numbers as a person reads them.

/// What a figure's numbers are shown in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit {
    /// What a value is multiplied by.
    pub(super) factor: f64,
    /// What follows the quantity's name; empty for plain numbers.
    pub(super) name: &'static str,
}

impl Unit {
    /// Of plain numbers.
    pub(super) const NONE: Self = Self {
        factor: 1.0,
        name: "",
    };

    /// Of times in seconds, the greatest of which is this.
    pub(super) fn of_seconds(greatest: f64) -> Self {
        let (factor, name) = match greatest {
            s if s >= 1.0 => (1.0, "s"),
            s if s >= 1e-3 => (1e3, "ms"),
            _ => (1e6, "µs"),
        };
        Self { factor, name }
    }

    /// A value in this unit, without its name.
    pub(super) fn show(self, value: f64) -> String {
        significant(value * self.factor)
    }

    /// A quantity with the name of its unit.
    pub(super) fn label(self, quantity: &str) -> String {
        if self.name.is_empty() {
            quantity.to_owned()
        } else {
            format!("{quantity}, {}", self.name)
        }
    }
}

/// Three significant digits; whole numbers as they are.
pub(super) fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value.fract() == 0.0 && value.abs() < 1e6 {
        return format!("{value}");
    }
    #[allow(clippy::cast_possible_truncation)] // a decimal exponent lies within ±308
    let exponent = value.abs().log10().floor() as i32;
    let digits = usize::try_from(2 - exponent).unwrap_or(0).min(9);
    format!("{value:.digits$}")
}

/// Bytes in the greatest unit that leaves a whole number or more.
pub(super) fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", significant(value), units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let values = [
            0.0,
            2.0,
            1.234_5,
            12.345,
            123.45,
            1234.5,
            0.001_234_5,
            -0.5,
            f64::NAN,
        ];
        assert_eq!(
            values.map(significant),
            [
                "0", "2", "1.23", "12.3", "123", "1234", "0.00123", "-0.500", "–"
            ]
        );
    }

    #[test]
    fn units_fit_the_greatest_value() {
        let shown = |s: f64| {
            let unit = Unit::of_seconds(s);
            (unit.show(s), unit.label("T"))
        };
        assert_eq!(shown(1.5), ("1.50".to_owned(), "T, s".to_owned()));
        assert_eq!(shown(0.015), ("15".to_owned(), "T, ms".to_owned()));
        assert_eq!(shown(2.5e-6), ("2.50".to_owned(), "T, µs".to_owned()));
        assert_eq!(Unit::NONE.label("ω"), "ω");
        assert_eq!(
            [64.0, 1.5 * 1024.0, 65.0 * 1048576.0].map(bytes),
            ["64 B", "1.50 KiB", "65 MiB"]
        );
    }
}
