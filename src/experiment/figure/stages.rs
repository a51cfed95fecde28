//! The stages of a resize as stacked bars, a panel per resize.

use plotters::style::text_anchor::{HPos, VPos};

use super::super::number::Unit;
use super::super::statistics::Measure;
use super::super::variant::{BLACK, BLUE, Color, GREEN, ORANGE, PURPLE, SKY, VERMILLION, YELLOW};
use super::axis::Axis;
use super::{Canvas, GRAY, GRID, INK, Result, TEXT, icon, shortened, svg, text_width};

const WIDTH: f64 = 600.0;
const BAR: f64 = 15.0;
const ROW: f64 = 22.0;

/// What a stage is filled with, besides its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    Plain,
    Upright,
    Level,
}

/// The name, color and pattern of a stage.
fn look(stage: Measure) -> (&'static str, Color, Pattern) {
    match stage {
        Measure::Decide => ("decide", BLACK, Pattern::Plain),
        Measure::Spawn => ("spawn", SKY, Pattern::Plain),
        Measure::Merge => ("merge", PURPLE, Pattern::Level),
        Measure::Expose => ("window creation", VERMILLION, Pattern::Upright),
        Measure::Transfer => ("transfer", BLUE, Pattern::Plain),
        Measure::Release => ("free", ORANGE, Pattern::Level),
        Measure::Resume => ("resume", GREEN, Pattern::Upright),
        _ => ("", YELLOW, Pattern::Plain),
    }
}

/// What a stage is called.
pub(in super::super) fn name(stage: Measure) -> &'static str {
    look(stage).0
}

/// The bars of one resize.
pub(in super::super) struct Panel<'a> {
    /// The resize.
    pub(in super::super) title: String,
    pub(in super::super) unit: Unit,
    pub(in super::super) bars: Vec<Bar<'a>>,
}

/// The stages of one variant, in seconds.
pub(in super::super) struct Bar<'a> {
    pub(in super::super) label: &'a str,
    pub(in super::super) stages: [f64; 7],
    /// The median of the whole resize, which gets a mark.
    pub(in super::super) total: Option<f64>,
}

/// What the bars are made of: drawings and names.
pub(in super::super) fn symbols() -> Result<Vec<(String, &'static str)>> {
    let size = (24.0, 20.0);
    let mut symbols = Vec::new();
    for stage in Measure::STAGES {
        let drawn = icon(size, |canvas| {
            piece(canvas, stage, (0.0, size.0), size.1 / 2.0)
        })?;
        symbols.push((drawn, name(stage)));
    }
    let drawn = icon(size, |canvas| mark(canvas, size.0 / 2.0, size.1 / 2.0))?;
    symbols.push((drawn, "whole resize"));
    Ok(symbols)
}

impl Panel<'_> {
    pub(in super::super) fn draw(&self) -> Result<String> {
        let names = self.bars.iter().map(|bar| text_width(bar.label));
        let left = names.fold(40.0, f64::max).min(WIDTH / 3.0) + 14.0;
        let (top, bottom) = (34.0, 48.0);
        let height = self.bars.len() as f64 * ROW;
        let lengths: Vec<(f64, f64, f64)> = self
            .bars
            .iter()
            .map(|bar| bar.stages.iter().sum::<f64>().max(bar.total.unwrap_or(0.0)))
            .map(|length| (0.0, length * self.unit.factor, length * self.unit.factor))
            .collect();
        let axis = Axis::new(&lengths, (left, WIDTH - 24.0));
        let title = format!("Stages of the resize {}", self.title);
        svg(&title, (WIDTH, top + height + bottom), |canvas| {
            canvas.text(&self.title, (8.0, 8.0), INK, (HPos::Left, VPos::Top))?;
            let end = top + height;
            for (value, label) in axis.ticks() {
                let x = axis.at(value);
                canvas.line(&[(x, top - 4.0), (x, end)], GRID, 1)?;
                canvas.text(&label, (x, end + 6.0), INK, (HPos::Center, VPos::Top))?;
            }
            let quantity = self.unit.label("time (medians)");
            let below = ((left + WIDTH - 24.0) / 2.0, end + 8.0 + TEXT);
            canvas.text(&quantity, below, GRAY, (HPos::Center, VPos::Top))?;
            for (index, bar) in self.bars.iter().enumerate() {
                let y = top + (index as f64 + 0.5) * ROW;
                let at = (left - 8.0, y);
                canvas.text(
                    &shortened(bar.label, left - 12.0),
                    at,
                    INK,
                    (HPos::Right, VPos::Center),
                )?;
                let mut from = 0.0;
                for (stage, length) in Measure::STAGES.into_iter().zip(bar.stages) {
                    let to = from + length * self.unit.factor;
                    piece(canvas, stage, (axis.at(from), axis.at(to)), y)?;
                    from = to;
                }
                if let Some(total) = bar.total {
                    mark(canvas, axis.at(total * self.unit.factor), y)?;
                }
            }
            canvas.line(&[(left, top - 4.0), (left, end)], INK, 1)
        })
    }
}

/// A part of a bar, around `y`.
fn piece(canvas: &Canvas, stage: Measure, (from, to): (f64, f64), y: f64) -> Result<()> {
    let (_, color, pattern) = look(stage);
    let (from, to) = (from.round(), to.round());
    if to <= from {
        return Ok(());
    }
    let (top, bottom) = (y - BAR / 2.0, y + BAR / 2.0);
    canvas.rectangle((from, top), (to, bottom), color)?;
    let white = (255, 255, 255);
    match pattern {
        Pattern::Plain => {}
        Pattern::Upright => {
            let mut x = from + 4.0;
            while x < to - 1.0 {
                canvas.line(&[(x, top), (x, bottom)], white, 1)?;
                x += 5.0;
            }
        }
        Pattern::Level => {
            for part in [1.0 / 3.0, 2.0 / 3.0] {
                let y = top + BAR * part;
                canvas.line(&[(from, y), (to, y)], white, 1)?;
            }
        }
    }
    // What comes next begins with a gap, unless it would hide this.
    if to - from > 3.0 {
        canvas.line(&[(to, top), (to, bottom)], white, 1)?;
    }
    Ok(())
}

/// Where the whole resize ends.
fn mark(canvas: &Canvas, x: f64, y: f64) -> Result<()> {
    canvas.line(
        &[(x, y - ROW / 2.0 + 1.0), (x, y + ROW / 2.0 - 1.0)],
        INK,
        2,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_its_own_look() {
        let looks = Measure::STAGES.map(look);
        for (index, look) in looks.iter().enumerate() {
            for other in &looks[..index] {
                assert!(look.0 != other.0 && look.1 != other.1);
            }
        }
        let symbols = symbols().expect("drawn");
        assert_eq!(symbols.len(), 8);
        for (look, (drawn, name)) in looks.iter().zip(symbols) {
            assert!(look.0 == name && drawn.contains("<rect"), "{name}");
        }
    }

    #[test]
    fn bars_are_as_long_as_their_stages() {
        let panel = Panel {
            title: "1→2".to_owned(),
            unit: Unit::of_seconds(1.0),
            bars: vec![Bar {
                label: "COL",
                stages: [0.0, 1.0, 0.0, 0.0, 3.0, 0.0, 0.0],
                total: Some(4.0),
            }],
        };
        let drawn = panel.draw().expect("drawn");
        let widths: Vec<f64> = drawn
            .split("<rect ")
            .skip(2) // the background
            .filter_map(|rect| {
                rect.split_once("width=\"")?
                    .1
                    .split_once('"')?
                    .0
                    .parse()
                    .ok()
            })
            .collect();
        assert_eq!(widths.len(), 2);
        assert!((widths[1] / widths[0] - 3.0).abs() < 0.05, "{widths:?}");
        assert!(drawn.contains("1→2") && drawn.contains("time (medians), s"));
    }

    #[test]
    fn a_panel_without_times_is_drawn() {
        let panel = Panel {
            title: "2→1".to_owned(),
            unit: Unit::of_seconds(0.0),
            bars: vec![Bar {
                label: "a name that is much longer than there is room for in a drawing",
                stages: [0.0; 7],
                total: None,
            }],
        };
        let drawn = panel.draw().expect("drawn");
        assert!(drawn.contains("a name that is mu") && drawn.contains('…'));
        assert!(!drawn.contains("NaN"));
    }
}
