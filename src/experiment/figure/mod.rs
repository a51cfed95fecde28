//! Figures as SVG: points with error bars, and stacked bars.

mod axis;
mod lines;
mod points;
mod stages;

use plotters::coord::Shift;
use plotters::prelude::{
    Circle, Color as _, DrawingArea, IntoDrawingArea as _, IntoFont as _, PathElement, Polygon,
    RGBColor, Rectangle, SVGBackend, WHITE,
};
use plotters::style::TextStyle;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use axis::Axis;

use super::variant::{Color, Marker, Style};
use super::{Error, Result};

pub(super) use lines::{Draw, Line, Lines};
pub(super) use points::{Points, Series};
pub(super) use stages::{Bar, Panel, name as stage_name, symbols as stage_symbols};

/// Size of a text in pixels.
const TEXT: f64 = 14.0;

const INK: Color = (34, 34, 34);
const GRAY: Color = (100, 100, 100);
const GRID: Color = (214, 214, 214);
const BAND: Color = (244, 245, 248);

/// What is drawn on: pixels from the upper left.
struct Canvas<'a>(DrawingArea<SVGBackend<'a>, Shift>);

impl Canvas<'_> {
    fn line(&self, points: &[(f64, f64)], color: Color, width: u32) -> Result<()> {
        let points: Vec<(i32, i32)> = points.iter().map(pixels).collect();
        let style = rgb(color).stroke_width(width);
        self.0.draw(&PathElement::new(points, style)).map_err(told)
    }

    fn rectangle(&self, from: (f64, f64), to: (f64, f64), color: Color) -> Result<()> {
        let corners = [pixels(&from), pixels(&to)];
        let rectangle = Rectangle::new(corners, rgb(color).filled());
        self.0.draw(&rectangle).map_err(told)
    }

    fn text(&self, text: &str, at: (f64, f64), color: Color, (h, v): (HPos, VPos)) -> Result<()> {
        // The backend divides the size by this.
        let font = ("sans-serif", TEXT * 1.24).into_font();
        let color = rgb(color);
        let style = TextStyle::from(font).color(&color).pos(Pos::new(h, v));
        self.0.draw_text(text, &style, pixels(&at)).map_err(told)
    }

    /// A point of a variant; hollow ones are drawn as outlines.
    fn marker(&self, style: Style, hollow: bool, at: (f64, f64)) -> Result<()> {
        let color = rgb(style.color);
        let outline = if hollow { color } else { RGBColor(40, 40, 40) };
        let fill = if hollow { WHITE } else { color };
        let width = if hollow { 2 } else { 1 };
        if style.marker == Marker::Circle {
            let circle = |style| Circle::new(pixels(&at), 5, style);
            self.0.draw(&circle(fill.filled())).map_err(told)?;
            let outline = circle(outline.stroke_width(width));
            return self.0.draw(&outline).map_err(told);
        }
        let corner = |&(x, y): &(f64, f64)| pixels(&(at.0 + x, at.1 + y));
        let mut corners: Vec<(i32, i32)> = corners(style.marker).iter().map(corner).collect();
        let inside = Polygon::new(corners.clone(), fill.filled());
        self.0.draw(&inside).map_err(told)?;
        corners.push(corners[0]);
        let outline = PathElement::new(corners, outline.stroke_width(width));
        self.0.draw(&outline).map_err(told)
    }
}

/// The labelled values of a vertical axis with a line across each, and one across a value of its own.
fn grid(
    canvas: &Canvas,
    axis: &Axis,
    (left, right): (f64, f64),
    reference: Option<f64>,
) -> Result<()> {
    for (value, label) in axis.ticks() {
        let y = axis.at(value);
        canvas.line(&[(left, y), (right, y)], GRID, 1)?;
        canvas.text(&label, (left - 8.0, y), INK, (HPos::Right, VPos::Center))?;
    }
    if let Some(value) = reference {
        let y = axis.at(value);
        canvas.line(&[(left, y), (right, y)], GRAY, 2)?;
    }
    Ok(())
}

/// The corners of a marker around its middle.
fn corners(marker: Marker) -> Vec<(f64, f64)> {
    match marker {
        Marker::Circle => Vec::new(),
        Marker::TriangleUp => vec![(0.0, -6.0), (6.0, 5.0), (-6.0, 5.0)],
        Marker::TriangleDown => vec![(0.0, 6.0), (6.0, -5.0), (-6.0, -5.0)],
        Marker::Square => vec![(-5.0, -5.0), (5.0, -5.0), (5.0, 5.0), (-5.0, 5.0)],
        Marker::Diamond => vec![(0.0, -7.0), (6.0, 0.0), (0.0, 7.0), (-6.0, 0.0)],
        Marker::Pentagon => vec![
            (0.0, -6.0),
            (6.0, -2.0),
            (4.0, 5.0),
            (-4.0, 5.0),
            (-6.0, -2.0),
        ],
        Marker::Plus => vec![
            (-2.0, -6.0),
            (2.0, -6.0),
            (2.0, -2.0),
            (6.0, -2.0),
            (6.0, 2.0),
            (2.0, 2.0),
            (2.0, 6.0),
            (-2.0, 6.0),
            (-2.0, 2.0),
            (-6.0, 2.0),
            (-6.0, -2.0),
            (-2.0, -2.0),
        ],
        Marker::Cross => vec![
            (-6.0, -4.0),
            (-4.0, -6.0),
            (0.0, -2.0),
            (4.0, -6.0),
            (6.0, -4.0),
            (2.0, 0.0),
            (6.0, 4.0),
            (4.0, 6.0),
            (0.0, 2.0),
            (-4.0, 6.0),
            (-6.0, 4.0),
            (-2.0, 0.0),
        ],
    }
}

/// A drawing of this size. It shrinks with the page until its text would be too small: then what holds it scrolls.
fn svg(
    title: &str,
    (width, height): (f64, f64),
    draw: impl FnOnce(&Canvas) -> Result<()>,
) -> Result<String> {
    let ((columns, rows), inside) = drawing((width, height), draw)?;
    let least = columns * 17 / 20;
    let style = format!("width:100%;min-width:{least}px;max-width:{columns}px");
    let title = maud::html! { title { (title) } }.into_string();
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {columns} {rows}\" role=\"img\" style=\"{style}\">\n\
         {title}{inside}"
    ))
}

/// What stands for a variant in a legend. Legends are text beside the drawings: they wrap when the page is narrow, and
/// stay where they are when a drawing scrolls.
pub(super) fn symbol(style: Style) -> Result<String> {
    icon((16.0, 16.0), |canvas| {
        canvas.marker(style, false, (8.0, 8.0))
    })
}

/// A small drawing inside of text, which says what it is.
fn icon(size: (f64, f64), draw: impl FnOnce(&Canvas) -> Result<()>) -> Result<String> {
    let ((width, height), inside) = drawing(size, draw)?;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" aria-hidden=\"true\">{inside}"
    ))
}

/// The elements of a drawing of this size, and its end tag.
fn drawing(
    size: (f64, f64),
    draw: impl FnOnce(&Canvas) -> Result<()>,
) -> Result<((i32, i32), String)> {
    let mut text = String::new();
    let size = pixels(&size);
    {
        let pixels = (size.0.unsigned_abs(), size.1.unsigned_abs());
        let area = SVGBackend::with_string(&mut text, pixels).into_drawing_area();
        area.fill(&WHITE).map_err(told)?;
        let canvas = Canvas(area);
        draw(&canvas)?;
        canvas.0.present().map_err(told)?;
    }
    let inside = text.split_once('>').map(|(_, inside)| inside.to_owned());
    let inside = inside.ok_or_else(|| Error::Figure("no drawing".to_owned()))?;
    Ok((size, inside))
}

/// The width of a text, rather more than less: fonts differ from one machine to the next.
fn text_width(text: &str) -> f64 {
    text.chars().map(letter_width).sum()
}

fn letter_width(letter: char) -> f64 {
    TEXT * match letter {
        ' ' | '-' | '.' | ',' | '(' | ')' | 'i' | 'j' | 'l' | 't' | 'f' | 'r' => 0.42,
        'A'..='Z' => 0.72,
        letter if letter.is_ascii() => 0.62,
        _ => 0.85,
    }
}

/// As much of a text as fits.
fn shortened(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let mut left = width - letter_width('…');
    let fits = |letter: &char| {
        left -= letter_width(*letter);
        left >= 0.0
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

fn rgb((red, green, blue): Color) -> RGBColor {
    RGBColor(red, green, blue)
}

#[allow(clippy::cast_possible_truncation)] // it saturates, and a drawing is smaller than that
fn pixels(&(x, y): &(f64, f64)) -> (i32, i32) {
    (x.round() as i32, y.round() as i32)
}

fn told(error: impl std::fmt::Display) -> Error {
    Error::Figure(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shortened_to_fit() {
        assert_eq!(shortened("RMA1-T", 100.0), "RMA1-T");
        let short = shortened(&"RMA1-T at unlock".repeat(20), 200.0);
        assert!(
            short.ends_with('…') && text_width(&short) <= 200.0,
            "{short}"
        );
        assert_eq!(shortened("x", 0.0), "…");
    }

    #[test]
    fn a_symbol_is_a_marker_in_its_color() {
        let color = super::super::variant::VERMILLION;
        for marker in [Marker::Circle, Marker::Diamond, Marker::Cross] {
            let drawn = symbol(Style { color, marker }).expect("drawn");
            assert!(
                drawn.contains("#D55E00") && drawn.trim_end().ends_with("</svg>"),
                "{drawn}"
            );
        }
    }

    #[test]
    fn texts_and_titles_are_escaped() {
        let hostile = "<script>alert('&\"')</script>";
        let drawn = svg(hostile, (100.0, 50.0), |canvas| {
            canvas.text(hostile, (0.0, 0.0), INK, (HPos::Left, VPos::Top))
        });
        let drawn = drawn.expect("drawn");
        assert!(!drawn.contains("<script"), "{drawn}");
        assert_eq!(drawn.matches("&lt;script&gt;").count(), 2, "{drawn}");
        assert!(drawn.starts_with("<svg ") && drawn.trim_end().ends_with("</svg>"));
        assert!(drawn.contains("viewBox=\"0 0 100 50\""));
        assert!(drawn.contains("font-family=\"sans-serif\""), "{drawn}");
    }
}
