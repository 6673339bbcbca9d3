//! Size against cost as a self-contained picture.

use std::fmt::Write;

use super::chart::{Axis, Chart, Scale};

/// A file in the plot: its name, its bytes, and what it costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Plotted {
    /// Label of the point.
    pub name: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Its divergence from the base, in nats, or another number of which less is better.
    pub cost: f64,
}

/// Colors for bright and dark pages: an image in a page uses the browser's preference, and has its own
/// background either way.
const STYLE: &str = "<style>.paper{fill:#fff}.rule{stroke:#dfe3e8}.front{stroke:#8a949e}.faint{fill:#5a636d}.ink{fill:#22262b;stroke:#fff;stroke-width:3;stroke-linejoin:round;paint-order:stroke}.point{fill:#1f6feb}\
    @media (prefers-color-scheme:dark){.paper{fill:#16191c}.rule{stroke:#343a41}.front{stroke:#7d8790}.faint{fill:#98a2ac}.ink{fill:#e4e7ea;stroke:#16191c}\
    .point{fill:#6cb0ff}}</style>\n";

/// An SVG picture of sizes (across) and costs (up, logarithmic): no scripts, no fonts from elsewhere.
pub fn size_plot(files: &[Plotted], cost_label: &str) -> String {
    let largest = files.iter().map(|file| file.bytes).max().unwrap_or(0);
    let (unit, x_label) = if largest < 1_000_000_000 { (1e6, "size (MB)") } else { (1e9, "size (GB)") };
    let size = |file: &Plotted| file.bytes as f64 / unit;
    // Sizes differ by a factor of a few, costs by thousands.
    let x = Axis::over(files.iter().map(size), Scale::Linear).widened();
    let y = Axis::over(files.iter().map(|file| file.cost), Scale::Log);
    let mut chart = Chart::new(&x, x_label, &y, cost_label, &[]);
    // A file that predicts infinities has no place in a picture; the table names it.
    for file in files.iter().filter(|file| file.cost.is_finite()) {
        chart.point(&file.name, String::new(), 0, (&x, &y), (size(file), file.cost));
    }
    chart.place_names();
    chart.mark_frontier();
    let Chart { width, height, left, right, top, bottom, .. } = chart;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         {STYLE}<rect width=\"{width}\" height=\"{height}\" class=\"paper\"/>\n"
    );
    // Writing to a string cannot fail.
    for tick in &chart.x_ticks {
        let _ = writeln!(
            svg,
            "<path d=\"M{0} {top}V{bottom}\" class=\"rule\"/><text x=\"{0}\" y=\"{1}\" text-anchor=\"middle\" class=\"faint\">{2}</text>",
            tick.at,
            bottom + 16.0,
            escaped(&tick.label)
        );
    }
    for tick in &chart.y_ticks {
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {0}H{right}\" class=\"rule\"/><text x=\"{1}\" y=\"{2}\" text-anchor=\"end\" class=\"faint\">{3}</text>",
            tick.at,
            left - 6.0,
            tick.at + 4.0,
            escaped(&tick.label)
        );
    }
    if !chart.frontier.is_empty() {
        let line = &chart.frontier;
        let _ = writeln!(
            svg,
            "<polyline points=\"{line}\" class=\"front\" fill=\"none\" stroke-dasharray=\"4 4\"/>"
        );
    }
    for point in &chart.points {
        let _ = writeln!(
            svg,
            "<circle cx=\"{}\" cy=\"{}\" r=\"4\" class=\"point\"/><text x=\"{}\" y=\"{}\" text-anchor=\"{}\" class=\"ink\">{}</text>",
            point.x,
            point.y,
            point.label_x,
            point.label_y,
            point.anchor,
            escaped(&point.name)
        );
    }
    // Outside of the frame, away from names of points.
    let (across, up) = ((left + right) / 2.0, (top + bottom) / 2.0);
    let _ = writeln!(
        svg,
        "<text x=\"{across}\" y=\"{}\" text-anchor=\"middle\" class=\"faint\">{}</text>\n\
         <text transform=\"translate(13 {up}) rotate(-90)\" text-anchor=\"middle\" class=\"faint\">{}</text>\n</svg>",
        height - 6.0,
        escaped(&chart.x_label),
        escaped(&chart.y_label)
    );
    svg
}

/// Text in XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plot_escapes_names_and_bounds_points() {
        let file = |name: &str, bytes, cost| Plotted { name: name.to_owned(), bytes, cost };
        let svg = size_plot(&[file("Q2_K", 1_000_000, 0.3), file("a<b", 2_000_000, 0.001)], "divergence");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
        let (bright, dark) = STYLE.split_once("@media (prefers-color-scheme:dark)").unwrap();
        let n_classes = |style: &str| style.matches('.').count();
        assert!(n_classes(bright) == n_classes(dark) && !svg.contains("fill=\"#"), "{svg}");
        // The title of the axis is left of the frame, which starts at the first tick: no name reaches it.
        assert!(
            svg.contains("<text transform=\"translate(13 ") && svg.contains(">divergence (log)</text>"),
            "{svg}"
        );
        assert!(svg.contains(">size (MB)</text>"), "{svg}");
        assert!(svg.contains(">Q2_K</text>") && svg.contains(">a&lt;b</text>"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
        // Values that cannot be drawn are left out, and an empty plot is valid.
        assert_eq!(size_plot(&[file("x", 1, f64::NAN)], "").matches("<circle").count(), 0);
        assert!(size_plot(&[], "").contains("</svg>"));
    }
}
