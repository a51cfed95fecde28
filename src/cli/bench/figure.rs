//! Medians by size as a drawing.

use std::path::Path;

use plotters::prelude::*;

use crate::cli::record;

/// One line of a figure: its name, and times in seconds by size in bytes.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// Draws lines on logarithmic axes.
pub(super) fn draw(path: &Path, title: &str, series: &[Series]) -> Result<(), String> {
    plot(path, title, series).map_err(|error| format!("--figure {}: {error}", path.display()))
}

fn plot(path: &Path, title: &str, series: &[Series]) -> Result<(), Box<dyn std::error::Error>> {
    let points = || series.iter().flat_map(|series| &series.points);
    let (sizes, times) = (
        range(points().map(|point| point.0)),
        range(points().map(|point| point.1 * 1e6)),
    );
    let area = SVGBackend::new(path, (900, 560)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(sizes.log_scale().base(2.0), times.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("bytes per rank")
        .y_desc("median, µs")
        .x_label_formatter(&|bytes| size_label(*bytes))
        .y_label_formatter(&|time| format!("{time}"))
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    for (index, line) in series.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let points = || line.points.iter().map(|&(bytes, s)| (bytes, s * 1e6));
        chart
            .draw_series(LineSeries::new(points(), color.stroke_width(2)))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        chart.draw_series(points().map(|point| Circle::new(point, 3, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}

/// A range with room around the values; a logarithmic axis has no zero, and needs some length.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values
        .filter(|&value| value.is_finite() && value > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    if high == 0.0 {
        return 1.0..2.0;
    }
    low / 1.3..high * 1.3
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn size_label(bytes: f64) -> String {
    record::bytes(bytes.round() as u64).replace(".0 ", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_its_lines_and_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("figure.svg");
        let line = |name: &str, factor: f64| Series {
            name: name.to_owned(),
            points: vec![
                (8.0, 1e-6 * factor),
                (64.0, 2e-6 * factor),
                (512.0, 1e-5 * factor),
            ],
        };
        draw(&path, "a title", &[line("one", 1.0), line("two", 3.0)]).expect("drawn");
        let text = std::fs::read_to_string(&path).expect("written");
        for part in [
            "<svg",
            "a title",
            "one",
            "two",
            "bytes per rank",
            "<polyline",
        ] {
            assert!(text.contains(part), "{part}");
        }
        draw(&path, "nothing", &[]).expect("drawn");
    }
}
