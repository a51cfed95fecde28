//! Medians with their quartiles, grouped by resize.

use plotters::style::text_anchor::{HPos, VPos};

use super::super::number::Unit;
use super::super::statistics::Spread;
use super::super::summary::Place;
use super::super::variant::Style;
use super::axis::Axis;
use super::{BAND, Canvas, GRAY, INK, Result, grid, svg, text_width};

/// Space beside the values: for the labels of the vertical axis, and at the right.
const LEFT: f64 = 68.0;
const RIGHT: f64 = 12.0;
/// The narrowest and the widest drawing; resizes that do not fit go into further rows.
const NARROWEST: f64 = 640.0;
const WIDEST: f64 = 1240.0;
/// The width of a point's lane, at least and at most, and the space on both sides of a resize's lanes.
const LANE: (f64, f64) = (13.0, 40.0);
const SIDES: f64 = 14.0;

/// A figure of medians.
pub(in super::super) struct Points<'a> {
    /// Read to who cannot see it.
    pub(in super::super) title: &'a str,
    /// What is drawn, without its unit.
    pub(in super::super) quantity: &'a str,
    pub(in super::super) unit: Unit,
    pub(in super::super) resizes: &'a [Place],
    pub(in super::super) series: Vec<Series<'a>>,
    /// A value with a line of its own.
    pub(in super::super) reference: Option<f64>,
}

/// The points of one variant, one per resize.
pub(in super::super) struct Series<'a> {
    pub(in super::super) style: Style,
    pub(in super::super) hollow: bool,
    pub(in super::super) values: &'a [Option<Spread>],
}

/// The resizes of one row of a drawing: its upper edge, the height of its values, the width of a resize and of a lane.
struct Row<'a> {
    top: f64,
    height: f64,
    width: f64,
    lane: f64,
    /// The first resize, and the resizes.
    first: usize,
    resizes: &'a [Place],
}

impl Points<'_> {
    pub(in super::super) fn draw(&self) -> Result<String> {
        let lanes = self.series.len().max(1) as f64;
        let label = self
            .resizes
            .iter()
            .map(|place| text_width(&place.to_string()));
        let label = label.fold(0.0, f64::max) + 8.0;
        let least = (lanes * LANE.0 + SIDES).max(label);
        let count = self.resizes.len().max(1);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let fit = ((WIDEST - LEFT - RIGHT) / least).floor().max(1.0) as usize;
        let rows = count.div_ceil(fit);
        let per_row = count.div_ceil(rows);
        let narrowest = if rows > 1 { WIDEST } else { NARROWEST };
        let inner = (per_row as f64 * least).max(narrowest - LEFT - RIGHT);
        let width = LEFT + inner + RIGHT;
        let cell = inner / per_row as f64;
        let lane = ((cell - SIDES) / lanes).clamp(LANE.0.min(cell / lanes), LANE.1);

        let head = 4.0;
        let height = if rows > 1 { 240.0 } else { 320.0 };
        // Above the values the quantity, below them the resizes and what they are.
        let (above, below) = (30.0, 52.0);
        let total = head + rows as f64 * (above + height + below);

        svg(self.title, (width, total), |canvas| {
            let axis = self.axis();
            for (index, resizes) in self.resizes.chunks(per_row).enumerate() {
                let row = Row {
                    top: head + index as f64 * (above + height + below) + above,
                    height,
                    width: cell,
                    lane,
                    first: index * per_row,
                    resizes,
                };
                self.row(canvas, &axis, &row)?;
            }
            Ok(())
        })
    }

    fn axis(&self) -> Axis {
        let spreads = self
            .series
            .iter()
            .flat_map(|series| series.values.iter().flatten());
        let mut values: Vec<(f64, f64, f64)> = spreads
            .map(|spread| [spread.q1, spread.median, spread.q3].map(|v| v * self.unit.factor))
            .map(|[low, middle, high]| (low, middle, high))
            .collect();
        let Some(reference) = self.reference else {
            return Axis::new(&values, (0.0, 1.0));
        };
        values.push((reference, reference, reference));
        Axis::around(&values, (0.0, 1.0))
    }

    fn row(&self, canvas: &Canvas, axis: &Axis, row: &Row) -> Result<()> {
        let bottom = row.top + row.height;
        let axis = axis.along((bottom, row.top));
        let right = LEFT + row.width * row.resizes.len() as f64;
        for (index, place) in row.resizes.iter().enumerate() {
            let left = LEFT + index as f64 * row.width;
            if (row.first + index).is_multiple_of(2) {
                canvas.rectangle((left, row.top), (left + row.width, bottom), BAND)?;
            }
            let at = (left + row.width / 2.0, bottom + 8.0);
            canvas.text(&place.to_string(), at, INK, (HPos::Center, VPos::Top))?;
        }
        let reference = self.reference.map(|value| value * self.unit.factor);
        grid(canvas, &axis, (LEFT, right), reference)?;
        canvas.line(&[(LEFT, row.top), (LEFT, bottom), (right, bottom)], INK, 1)?;
        let scale = if axis.is_logarithmic() {
            ", logarithmic axis"
        } else {
            ""
        };
        let quantity = self.unit.label(self.quantity)
            + " (median; bar from quartile to quartile"
            + scale
            + ")";
        canvas.text(
            &quantity,
            (8.0, row.top - 10.0),
            INK,
            (HPos::Left, VPos::Bottom),
        )?;
        let below = (LEFT, bottom + 28.0);
        let crowded = row.resizes.iter().any(|place| place.oversubscribed);
        let ranks = if crowded {
            "resize NS→NT in ranks (* more ranks than cores)"
        } else {
            "resize NS→NT in ranks"
        };
        canvas.text(ranks, below, GRAY, (HPos::Left, VPos::Top))?;
        for index in 0..row.resizes.len() {
            self.resize(canvas, &axis, row, index)?;
        }
        Ok(())
    }

    fn resize(&self, canvas: &Canvas, axis: &Axis, row: &Row, index: usize) -> Result<()> {
        let lanes = self.series.len() as f64;
        let middle = LEFT + (index as f64 + 0.5) * row.width;
        let mut empty = true;
        for (lane, series) in self.series.iter().enumerate() {
            let Some(Some(spread)) = series.values.get(row.first + index) else {
                continue;
            };
            empty = false;
            let x = middle + (lane as f64 + 0.5 - lanes / 2.0) * row.lane;
            let at = |value: f64| axis.at(value * self.unit.factor);
            let (low, high) = (at(spread.q1), at(spread.q3));
            canvas.line(&[(x, low), (x, high)], series.style.color, 2)?;
            for y in [low, high] {
                canvas.line(&[(x - 4.0, y), (x + 4.0, y)], series.style.color, 2)?;
            }
            canvas.marker(series.style, series.hollow, (x, at(spread.median)))?;
        }
        if empty {
            let at = (middle, row.top + row.height / 2.0);
            canvas.text("–", at, GRAY, (HPos::Center, VPos::Center))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::variant;
    use super::*;

    fn place(from: usize, to: usize) -> Place {
        Place {
            from,
            to,
            oversubscribed: to > 2,
        }
    }

    fn draw(
        resizes: &[Place],
        names: &[&str],
        value: impl Fn(usize, usize) -> Option<f64>,
    ) -> String {
        let values: Vec<Vec<Option<Spread>>> = (0..names.len())
            .map(|name| {
                (0..resizes.len())
                    .map(|resize| value(name, resize).and_then(|v| Spread::of([v, v * 1.1])))
                    .collect()
            })
            .collect();
        let styles = variant::styles(names.iter().copied());
        let series = styles.iter().zip(&values);
        let series = series.map(|((_, style), values)| Series {
            style: *style,
            hollow: false,
            values,
        });
        let points = Points {
            title: "a title",
            quantity: "T_redis",
            unit: Unit::of_seconds(1.0),
            resizes,
            series: series.collect(),
            reference: None,
        };
        points.draw().expect("drawn")
    }

    const GRID: [usize; 4] = [1, 2, 4, 8];

    fn twelve() -> Vec<Place> {
        let pairs = GRID.iter().flat_map(|&from| GRID.map(|to| (from, to)));
        let pairs = pairs.filter(|(from, to)| from != to);
        pairs.map(|(from, to)| place(from, to)).collect()
    }

    /// The size that an SVG was drawn for.
    fn size(svg: &str) -> (f64, f64) {
        let (_, rest) = svg.split_once("viewBox=\"0 0 ").expect("a size");
        let (numbers, _) = rest.split_once('"').expect("a size");
        let (width, height) = numbers.split_once(' ').expect("two numbers");
        (
            width.parse().expect("a number"),
            height.parse().expect("a number"),
        )
    }

    #[test]
    fn one_resize_with_one_variant() {
        let svg = draw(&[place(1, 2)], &["col"], |_, _| Some(1.0));
        for part in [
            "1→2",
            "T_redis, s",
            "resize NS→NT in ranks",
            "<title>a title",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        assert_eq!(svg.matches("<circle").count(), 2); // filled and outlined
        assert!(!svg.contains("more ranks than cores") && !svg.contains("logarithmic"));
    }

    #[test]
    fn twelve_resizes_with_fifteen_variants_fit() {
        let names = [
            "col",
            "col-t",
            "col-nb",
            "col-wt",
            "rma1",
            "rma1-t",
            "rma1-wt",
            "rma2",
            "rma2-t",
            "rma2-wt",
            "rma1-t-unlock",
            "rma2-t-unlock",
            "p2p",
            "p2p-nb",
            "p2p-wt",
        ];
        let svg = draw(&twelve(), &names, |name, resize| {
            Some((1 + name * resize) as f64)
        });
        let (width, _) = size(&svg);
        assert!(width <= WIDEST, "{width}");
        for place in twelve() {
            assert!(svg.contains(&format!("\n{place}\n")), "{place}");
        }
        assert!(svg.contains("4→8*") && svg.contains("more ranks than cores"));
        assert!(svg.contains("logarithmic axis"));
        assert_eq!(
            svg.matches("T_redis, s").count(),
            3,
            "three rows, each with its axis"
        );
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn what_is_missing_leaves_a_gap() {
        let svg = draw(&twelve(), &["col", "rma1"], |name, resize| {
            (resize != 3 && name == 0).then_some(2.0)
        });
        assert_eq!(svg.matches("\n–\n").count(), 1, "{svg}");
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn points_lie_inside() {
        let svg = draw(&twelve(), &["col", "rma1", "rma2"], |name, resize| {
            Some(0.001 * 10_f64.powi((name + resize % 4).try_into().expect("small")))
        });
        let (width, height) = size(&svg);
        for circle in svg.split("<circle ").skip(1) {
            let number = |name: &str| -> f64 {
                let (_, rest) = circle
                    .split_once(&format!("{name}=\""))
                    .expect("an attribute");
                rest.split_once('"')
                    .expect("a value")
                    .0
                    .parse()
                    .expect("a number")
            };
            let (x, y) = (number("cx"), number("cy"));
            assert!(
                (0.0..=width).contains(&x) && (0.0..=height).contains(&y),
                "{x} {y}"
            );
        }
    }
}
