//! Lines over places that follow each other: sizes, numbers of ranks, numbers of exchanges; or points alone.

use plotters::style::text_anchor::{HPos, VPos};

use super::super::number::Unit;
use super::super::variant::Style;
use super::axis::Axis;
use super::{Canvas, GRAY, INK, Result, grid, shortened, svg, text_width};

const LEFT: f64 = 68.0;
const RIGHT: f64 = 24.0;
const HEIGHT: f64 = 320.0;
const ABOVE: f64 = 34.0;
const BELOW: f64 = 52.0;
/// The widest drawing, and the width of a place, at least and at most.
const WIDEST: f64 = 1240.0;
const PLACE: (f64, f64) = (56.0, 120.0);

/// A figure of lines.
pub(in super::super) struct Lines<'a> {
    /// Read to who cannot see it.
    pub(in super::super) title: &'a str,
    /// What is drawn, without its unit.
    pub(in super::super) quantity: &'a str,
    pub(in super::super) unit: Unit,
    /// The places, and what they are.
    pub(in super::super) places: &'a [String],
    pub(in super::super) across: &'a str,
    pub(in super::super) lines: Vec<Line>,
    /// A value with a line of its own.
    pub(in super::super) reference: Option<f64>,
}

/// One line, with a value for each place.
pub(in super::super) struct Line {
    pub(in super::super) style: Style,
    pub(in super::super) values: Vec<Option<f64>>,
    pub(in super::super) draw: Draw,
}

/// What is drawn of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Draw {
    /// Its points, connected.
    Both,
    /// Its points.
    Points,
    /// What connects them, as a model's curve.
    Curve,
}

impl Lines<'_> {
    pub(in super::super) fn draw(&self) -> Result<String> {
        let count = self.places.len().max(1) as f64;
        let fit = (WIDEST - LEFT - RIGHT) / count;
        let label = self.places.iter().map(|place| text_width(place));
        let wanted = label.fold(PLACE.0, f64::max) + 10.0;
        let place = fit.min(wanted.clamp(PLACE.0, PLACE.1));
        // One that is too wide for its place would reach into the next.
        let shown: Vec<String> = self
            .places
            .iter()
            .map(|label| shortened(label, place - 4.0))
            .collect();
        let quantity = self.label();
        let width = (LEFT + place * count + RIGHT).max(text_width(&quantity) + 24.0);
        svg(self.title, (width, ABOVE + HEIGHT + BELOW), |canvas| {
            let at = |index: usize| LEFT + (index as f64 + 0.5) * place;
            let right = LEFT + place * count;
            let axis = self.axis();
            self.frame(canvas, &axis, right, &quantity)?;
            for (index, label) in shown.iter().enumerate() {
                let below = (at(index), ABOVE + HEIGHT + 8.0);
                canvas.text(label, below, INK, (HPos::Center, VPos::Top))?;
            }
            let below = (LEFT, ABOVE + HEIGHT + 28.0);
            canvas.text(self.across, below, GRAY, (HPos::Left, VPos::Top))?;
            for line in &self.lines {
                self.line(canvas, &axis, line, at)?;
            }
            Ok(())
        })
    }

    fn label(&self) -> String {
        let scale = if self.axis().is_logarithmic() {
            " (logarithmic axis)"
        } else {
            ""
        };
        self.unit.label(self.quantity) + scale
    }

    fn axis(&self) -> Axis {
        let lines = self.lines.iter();
        let all = lines.flat_map(|line| line.values.iter().flatten());
        let mut values: Vec<(f64, f64, f64)> = all
            .map(|value| value * self.unit.factor)
            .filter(|value| value.is_finite())
            .map(|value| (value, value, value))
            .collect();
        let pixels = (ABOVE + HEIGHT, ABOVE);
        match self.reference {
            None => Axis::new(&values, pixels),
            Some(reference) => {
                values.push((reference, reference, reference));
                Axis::around(&values, pixels)
            }
        }
    }

    fn frame(&self, canvas: &Canvas, axis: &Axis, right: f64, quantity: &str) -> Result<()> {
        let reference = self.reference.map(|value| value * self.unit.factor);
        grid(canvas, axis, (LEFT, right), reference)?;
        let bottom = ABOVE + HEIGHT;
        canvas.line(&[(LEFT, ABOVE), (LEFT, bottom), (right, bottom)], INK, 1)?;
        let above = (8.0, ABOVE - 10.0);
        canvas.text(quantity, above, INK, (HPos::Left, VPos::Bottom))
    }

    fn line(
        &self,
        canvas: &Canvas,
        axis: &Axis,
        line: &Line,
        at: impl Fn(usize) -> f64,
    ) -> Result<()> {
        let points: Vec<Option<(f64, f64)>> = line
            .values
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let value = value.filter(|value| value.is_finite())?;
                Some((at(index), axis.at(value * self.unit.factor)))
            })
            .collect();
        if line.draw != Draw::Points {
            let width = if line.draw == Draw::Curve { 1 } else { 2 };
            for run in points.split(Option::is_none) {
                let run: Vec<(f64, f64)> = run.iter().flatten().copied().collect();
                if run.len() > 1 {
                    canvas.line(&run, line.style.color, width)?;
                }
            }
        }
        if line.draw != Draw::Curve {
            for point in points.into_iter().flatten() {
                canvas.marker(line.style, false, point)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::variant;
    use super::*;

    fn draw(values: &[&[Option<f64>]], draw: Draw) -> String {
        let names = ["fence", "lock", "pscw"];
        let styles = variant::styles(names);
        let places: Vec<String> = (0..values[0].len())
            .map(|place| format!("{place} KiB"))
            .collect();
        let lines = values.iter().zip(&styles).map(|(values, (_, style))| Line {
            style: *style,
            values: values.to_vec(),
            draw,
        });
        let figure = Lines {
            title: "times",
            quantity: "time",
            unit: Unit::of_seconds(1e-3),
            places: &places,
            across: "bytes per peer",
            lines: lines.collect(),
            reference: None,
        };
        figure.draw().expect("drawn")
    }

    #[test]
    fn lines_are_interrupted_where_values_are_missing() {
        let whole = draw(&[&[Some(1e-3), Some(2e-3), Some(3e-3)]], Draw::Curve);
        let torn = draw(&[&[Some(1e-3), None, Some(3e-3)]], Draw::Curve);
        let lines = |drawn: &str| drawn.matches("<polyline").count();
        assert_eq!(lines(&whole), lines(&torn) + 1);
        assert!(whole.contains("time, ms") && whole.contains("bytes per peer"));
        let points = draw(&[&[Some(1e-3), None, Some(3e-3)]], Draw::Points);
        assert_eq!(
            lines(&points),
            lines(&torn) + points.matches("<polygon").count()
        );
    }

    #[test]
    fn a_wide_range_and_no_values_are_drawn() {
        let wide = draw(&[&[Some(1e-6), Some(1.0)], &[None, Some(2e-6)]], Draw::Both);
        assert!(wide.contains("logarithmic axis"), "{wide}");
        for values in [&[None][..], &[Some(f64::NAN)], &[Some(0.0)]] {
            assert!(draw(&[values], Draw::Both).contains("0 KiB"));
        }
    }
}
