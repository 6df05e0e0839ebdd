//! Plots of lines over logarithmic axes, side by side, as SVG.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use std::path::Path;

/// One chart.
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Below it: what goes from left to right.
    pub across: String,
    /// What is shown.
    pub lines: Vec<Line>,
}

/// A line of a chart.
pub struct Line {
    /// In the legend.
    pub name: &'static str,
    /// From left to right. On axes like these there is no nought and nothing
    /// below: such points are left out.
    pub points: Vec<(f64, f64)>,
}

/// Pixels of a chart.
const SIZE: (u32, u32) = (420, 320);

const COLOURS: [RGBColor; 3] = [
    RGBColor(0x1f, 0x77, 0xb4),
    RGBColor(0xd6, 0x27, 0x28),
    RGBColor(0x2c, 0xa0, 0x2c),
];

/// Writes charts to a file.
///
/// # Errors
///
/// The file cannot be written, or a chart has no point.
pub fn draw(path: &Path, title: &str, charts: &[Chart]) -> Result<()> {
    let count = u32::try_from(charts.len().max(1))?;
    let area = SVGBackend::new(path, (SIZE.0 * count, SIZE.1 + 30)).into_drawing_area();
    let failed = |what: String| anyhow!("failed to plot {}: {what}", path.display());
    area.fill(&WHITE)
        .map_err(|error| failed(error.to_string()))?;
    let area = area
        .titled(title, ("sans-serif", 18))
        .map_err(|error| failed(error.to_string()))?;
    for (chart, area) in charts.iter().zip(area.split_evenly((1, charts.len()))) {
        one(chart, &area).map_err(failed)?;
    }
    area.present().map_err(|error| failed(error.to_string()))
}

fn shown(line: &Line) -> impl Iterator<Item = (f64, f64)> + '_ {
    let points = line.points.iter().copied();
    points.filter(|(x, y)| *x > 0.0 && *y > 0.0)
}

fn one(
    chart: &Chart,
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
) -> Result<(), String> {
    let points: Vec<(f64, f64)> = chart.lines.iter().flat_map(shown).collect();
    let range = |numbers: &dyn Fn(&(f64, f64)) -> f64| {
        let least = points.iter().map(numbers).fold(f64::INFINITY, f64::min);
        let most = points.iter().map(numbers).fold(0.0, f64::max);
        (least, most)
    };
    let ((left, right), (bottom, top)) = (range(&|point| point.0), range(&|point| point.1));
    if points.is_empty() {
        return Err(format!("{} has no points", chart.title));
    }
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut builder = ChartBuilder::on(area);
    let mut drawn = builder
        .margin(10)
        .caption(&chart.title, ("sans-serif", 15))
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(
            (left..right * 1.1).log_scale(),
            (bottom * 0.8..top * 1.25).log_scale(),
        )
        .map_err(|error| text(&error))?;
    drawn
        .configure_mesh()
        .x_desc(&chart.across)
        .x_label_formatter(&|number| label(*number))
        .y_label_formatter(&|number| label(*number))
        .light_line_style(WHITE)
        .draw()
        .map_err(|error| text(&error))?;
    for (line, colour) in chart.lines.iter().zip(COLOURS) {
        drawn
            .draw_series(LineSeries::new(shown(line), colour.stroke_width(2)).point_size(2))
            .map_err(|error| text(&error))?
            .label(line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    drawn
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()
        .map_err(|error| text(&error))
}

/// Without digits that say nothing.
fn label(number: f64) -> String {
    if number >= 1.0 {
        format!("{number:.0}")
    } else {
        format!("{number:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_become_a_file_and_empty_ones_an_error() {
        let folder = std::env::temp_dir().join(format!("ringfence-plots-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let chart = |points| Chart {
            title: "a title".into(),
            across: "launches".into(),
            lines: vec![Line {
                name: "host",
                points,
            }],
        };
        let path = folder.join("plot.svg");
        draw(
            &path,
            "a device",
            &[chart(vec![(1.0, 3.0), (2.0, -1.0), (4.0, 9.0)])],
        )
        .unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        assert!(
            svg.contains("a title") && svg.contains("a device") && svg.contains("polyline"),
            "{svg}"
        );
        assert!(draw(&path, "a device", &[chart(vec![(1.0, 0.0)])]).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
