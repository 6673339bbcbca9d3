//! The geometry of charts: numbers to coordinates, ticks with labels.

use serde::Serialize;

/// Size of a chart and room for its labels, in units of the picture.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
/// Letters are about 7 units wide, lines 13 high.
const LETTER: f64 = 7.0;
const LINE: f64 = 13.0;
/// Distance of the base's mark from the frame.
const INSIDE: f64 = 8.0;
/// Letters of a name at the end of a line.
const NAME_LETTERS: usize = 22;
const BOTTOM: f64 = 42.0;

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// Linear, from 0 where all are positive.
    Linear,
    /// Logarithmic.
    Log,
}

/// An axis: the numbers at its ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
    /// Only integers get a tick.
    is_whole: bool,
}

/// A mark on an axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Tick {
    pub at: f64,
    pub label: String,
}

impl Axis {
    /// An axis that contains all of `values`; those that are not finite, or not positive on a
    /// logarithmic axis, have no place on it.
    pub fn over(values: impl IntoIterator<Item = f64>, scale: Scale) -> Axis {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(|value| value.is_finite()) {
            if scale == Scale::Linear || value > 0.0 {
                (low, high) = (low.min(value), high.max(value));
            }
        }
        match scale {
            // Without values any axis will do.
            _ if low > high => Axis { low: 0.1, high: 1.0, scale, is_whole: false },
            Scale::Log => Axis { low: low / 1.25, high: high * 1.25, scale, is_whole: false },
            // One value, or equal ones, still need a width to divide by.
            Scale::Linear => {
                let high = if high > low { high } else { low + low.abs().max(1e-9) };
                Axis { low, high, scale, is_whole: false }
            }
        }
    }

    /// Puts ticks at integers only, for counts.
    pub fn whole(self) -> Axis {
        Axis { is_whole: true, ..self }
    }

    /// Like this, with 0 on it.
    pub fn with_zero(self) -> Axis {
        Axis { low: self.low.min(0.0), high: self.high * 1.05, ..self }
    }

    /// Like this, with a tenth more at both ends, so that points do not lie on the frame.
    pub fn widened(self) -> Axis {
        let more = (self.high - self.low) * 0.1;
        Axis { low: self.low - more, high: self.high + more, ..self }
    }

    /// Like this, with a sixth more at the upper end if `value` is beyond it, for its mark.
    pub fn with_mark_of(self, value: f64) -> Axis {
        let more = if value > self.high { (self.high - self.low) / 6.0 } else { 0.0 };
        Axis { high: self.high + more, ..self }
    }

    /// The position of a number on the axis, from 0 to 1.
    pub fn place(&self, value: f64) -> f64 {
        let on = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => libm::log(value.max(f64::MIN_POSITIVE)),
        };
        // Clamped: a value outside is drawn on the frame and not over the labels.
        ((on(value) - on(self.low)) / (on(self.high) - on(self.low))).clamp(0.0, 1.0)
    }

    /// Round numbers along the axis.
    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                // Ticks at integer multiples of a round step, about five. A billionth of a step of tolerance keeps the ends,
                // which rounding may push just outside.
                let step = round_step((self.high - self.low) / 5.0);
                let step = if self.is_whole { step.max(1.0) } else { step };
                let first = (self.low / step - 1e-9).ceil() as i64;
                let last = (self.high / step + 1e-9).floor() as i64;
                (first..=last).map(|n| n as f64 * step).collect()
            }
            Scale::Log => {
                let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
                let ticks = |steps: &[f64]| -> Vec<f64> {
                    let powers = decades.clone().map(|power| 10f64.powi(power));
                    let all = powers.flat_map(|power| steps.iter().map(move |step| step * power));
                    all.filter(|tick| (self.low..=self.high).contains(tick)).collect()
                };
                // Only powers of ten over more than two and a half decades, else 1, 2 and 5 of each. An axis of less than a
                // decade may have fewer than three of these, and then has ticks at equal distances.
                let is_wide = (self.high / self.low).log10() > 2.5;
                let powers = Some(ticks(&[1.0])).filter(|_| is_wide);
                let mut candidates = powers.into_iter().chain([ticks(&[1.0, 2.0, 5.0])]);
                let found = candidates.find(|ticks| ticks.len() >= 3);
                found.unwrap_or_else(|| Axis { scale: Scale::Linear, ..*self }.ticks())
            }
        }
    }
}

/// The next of 1, 2, 5, 10, ... from `least` on.
fn round_step(least: f64) -> f64 {
    // The power of ten below, and of its multiples 1, 2, 5 and 10 the first that is not smaller; a millionth of tolerance
    // keeps a step that rounding made slightly too small.
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= least * 0.999_999)
        .unwrap_or(power)
}

/// A number with few digits.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".to_owned()
    } else if !(1e-4..1e6).contains(&size) {
        format!("{value:.0e}")
    } else {
        // Three significant digits: 2 after the point for 1.23, 4 for 0.0123.
        let digits = (2 - size.log10().floor() as i32).clamp(0, 6) as usize;
        let text = format!("{value:.digits$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    }
}

/// A chart of lines or points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Chart {
    pub width: f64,
    pub height: f64,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    pub x_ticks: Vec<Tick>,
    pub y_ticks: Vec<Tick>,
    pub x_label: String,
    pub y_label: String,
    pub lines: Vec<Line>,
    pub points: Vec<Point>,
    /// Line through the points that no other point beats, as the attribute `points` of a `polyline`.
    pub frontier: String,
}

/// A line through points.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Line {
    pub name: String,
    pub colour: usize,
    /// As the attribute `points` of a `polyline`.
    pub points: String,
    /// Position of the name, right of the line's end.
    pub label_x: f64,
    pub label_y: f64,
}

/// A point with its name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Point {
    pub name: String,
    pub detail: String,
    pub colour: usize,
    pub x: f64,
    pub y: f64,
    /// Ends of the error bar.
    pub bar: Option<[f64; 2]>,
    /// True for the base, which has no divergence.
    pub is_base: bool,
    /// Position of the name: `label_y` is its baseline, `label_x` its `anchor` (`start`, `middle`, `end`).
    pub label_x: f64,
    pub label_y: f64,
    pub anchor: &'static str,
}

/// Rectangle of a name: left, top, right, bottom.
type Place = [f64; 4];

/// Area of the overlap of two rectangles.
fn overlap(a: &Place, b: &Place) -> f64 {
    let side = |low: usize, high: usize| (a[high].min(b[high]) - a[low].max(b[low])).max(0.0);
    side(0, 2) * side(1, 3)
}

impl Chart {
    /// An empty chart over two axes, marked if they are logarithmic. `names` are those of lines, which need room at their right
    /// ends.
    pub fn new(x: &Axis, x_label: &str, y: &Axis, y_label: &str, names: &[String]) -> Chart {
        let y_label = y_label.to_owned() + if y.scale == Scale::Log { " (log)" } else { "" };
        let letters = names.iter().map(|name| name.chars().count()).max();
        let room = letters.map_or(RIGHT, |n| n.min(NAME_LETTERS) as f64 * LETTER + RIGHT);
        let mut chart = Chart {
            width: WIDTH,
            height: HEIGHT,
            left: LEFT,
            right: WIDTH - room,
            top: TOP,
            bottom: HEIGHT - BOTTOM,
            x_ticks: vec![],
            y_ticks: vec![],
            x_label: x_label.to_owned(),
            y_label,
            lines: vec![],
            points: vec![],
            frontier: String::new(),
        };
        chart.x_ticks = x.ticks().iter().map(|&at| Tick { at: chart.x(x, at), label: short(at) }).collect();
        chart.y_ticks = y.ticks().iter().map(|&at| Tick { at: chart.y(y, at), label: short(at) }).collect();
        chart
    }

    /// Coordinates have one decimal: finer steps are invisible.
    fn x(&self, axis: &Axis, value: f64) -> f64 {
        ((self.left + axis.place(value) * (self.right - self.left)) * 10.0).round() / 10.0
    }

    fn y(&self, axis: &Axis, value: f64) -> f64 {
        ((self.bottom - axis.place(value) * (self.bottom - self.top)) * 10.0).round() / 10.0
    }

    /// Adds a line.
    pub fn line(&mut self, name: &str, colour: usize, axes: (&Axis, &Axis), points: &[(f64, f64)]) {
        let places: Vec<String> =
            points.iter().map(|(x, y)| format!("{},{}", self.x(axes.0, *x), self.y(axes.1, *y))).collect();
        let name = if name.chars().count() > NAME_LETTERS {
            name.chars().take(NAME_LETTERS - 1).chain(['…']).collect()
        } else {
            name.to_owned()
        };
        let (label_x, label_y) =
            (self.right + 6.0, points.last().map_or(self.bottom, |(_, y)| self.y(axes.1, *y)));
        self.lines.push(Line { name, colour, points: places.join(" "), label_x, label_y });
    }

    /// Moves the names of lines apart, from their ends.
    pub fn place_line_names(&mut self) {
        let mut lines: Vec<&mut Line> = self.lines.iter_mut().collect();
        lines.sort_by(|a, b| a.label_y.total_cmp(&b.label_y));
        let gap = LINE.min((self.bottom - self.top) / lines.len().max(1) as f64);
        let mut lowest = self.top;
        for line in &mut lines {
            line.label_y = line.label_y.max(lowest);
            lowest = line.label_y + gap;
        }
        let mut highest = self.bottom;
        for line in lines.iter_mut().rev() {
            line.label_y = line.label_y.min(highest);
            highest = line.label_y - gap;
        }
        // The baseline of a name is below its middle.
        lines.into_iter().for_each(|line| line.label_y = ((line.label_y + 4.0) * 10.0).round() / 10.0);
    }

    /// Adds a point.
    pub fn point(&mut self, name: &str, detail: String, colour: usize, axes: (&Axis, &Axis), at: (f64, f64)) {
        let (x, y) = (self.x(axes.0, at.0), self.y(axes.1, at.1));
        let (label_x, label_y) = (x + 9.0, y + 4.0);
        self.points.push(Point {
            name: name.to_owned(),
            detail,
            colour,
            x,
            y,
            bar: None,
            is_base: false,
            label_x,
            label_y,
            anchor: "start",
        });
    }

    /// Adds the base, which has no divergence, inside of the lower edge. Its size may be beyond the axis.
    pub fn base(&mut self, name: &str, detail: String, x: &Axis, size: f64) {
        let axes = (x, &Axis::over([], Scale::Linear));
        let name = if size > x.high { format!("{name} →") } else { name.to_owned() };
        self.point(&name, detail, 0, axes, (size, 0.0));
        if let Some(point) = self.points.last_mut() {
            point.is_base = true;
            (point.x, point.y) = (point.x.min(self.right - INSIDE), self.bottom - INSIDE);
        }
    }

    /// Adds an error bar to the last point.
    pub fn bar(&mut self, y: &Axis, low: f64, high: f64) {
        let bar = [self.y(y, low), self.y(y, high)];
        if let Some(point) = self.points.last_mut() {
            point.bar = Some(bar);
        }
    }

    /// Draws the frontier.
    pub fn mark_frontier(&mut self) {
        let places = self.frontier_points();
        if places.len() > 1 {
            let places = places.iter().map(|(x, y)| format!("{x},{y}"));
            self.frontier = places.collect::<Vec<_>>().join(" ");
        }
    }

    /// Each point that is lower than all others at the same or a smaller x.
    fn frontier_points(&self) -> Vec<(f64, f64)> {
        let files = self.points.iter().filter(|point| !point.is_base);
        let mut places: Vec<(f64, f64)> = files.map(|point| (point.x, point.y)).collect();
        // Coordinates grow downwards: of points at the same size, the lowest first.
        places.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut lowest = f64::NEG_INFINITY;
        places.retain(|(_, y)| {
            let is_lower = *y > lowest;
            lowest = lowest.max(*y);
            is_lower
        });
        places
    }

    /// Places the names of points so that they overlap other names, points and the frontier as little as possible.
    pub fn place_names(&mut self) {
        /// Places on each part of the frontier.
        const STEPS: usize = 50;
        let frame = [self.left, self.top, self.right, self.bottom];
        let around = |(x, y): (f64, f64), reach: f64| [x - reach, y - reach, x + reach, y + reach];
        let mut taken: Vec<Place> = self.points.iter().map(|point| around((point.x, point.y), 5.0)).collect();
        for two in self.frontier_points().windows(2) {
            let [(x, y), (to_x, to_y)] = [two[0], two[1]];
            let part = |step: usize| step as f64 / STEPS as f64;
            let on_line = (0..=STEPS).map(|step| (x + part(step) * (to_x - x), y + part(step) * (to_y - y)));
            taken.extend(on_line.map(|at| around(at, 2.0)));
        }
        // The base has the least room. Another name next to its mark would look like its own.
        let mut order: Vec<usize> = (0..self.points.len()).collect();
        order.sort_by_key(|index| !self.points[*index].is_base);
        for index in order {
            let (x, y) = (self.points[index].x, self.points[index].y);
            let width = self.points[index].name.chars().count() as f64 * LETTER;
            // Next to the point, then above and below it, then farther away.
            let mut candidates = vec![
                (x + 9.0, y + 4.0, "start"),
                (x - 9.0, y + 4.0, "end"),
                (x, y - 9.0, "middle"),
                (x, y + 18.0, "middle"),
            ];
            for lines in 1..=8 {
                let away = f64::from(lines) * LINE;
                for side in [-away, away] {
                    candidates.extend([(x + 9.0, y + 4.0 + side, "start"), (x - 9.0, y + 4.0 + side, "end")]);
                }
            }
            let place = |&(x, y, anchor): &(f64, f64, &str)| {
                let left = match anchor {
                    "start" => x,
                    "end" => x - width,
                    _ => x - width / 2.0,
                };
                [left, y - 10.0, left + width, y + 3.0]
            };
            let cost = |candidate: &(f64, f64, &str)| {
                let place = place(candidate);
                let outside = width * LINE - overlap(&place, &frame);
                outside.max(0.0) + taken.iter().map(|other| overlap(&place, other)).sum::<f64>()
            };
            let best = candidates.iter().min_by(|a, b| cost(a).total_cmp(&cost(b))).copied();
            if let Some(best) = best {
                let [left, top, right, bottom] = place(&best);
                // Narrow pages have larger letters.
                taken.push([left - 12.0, top, right + 12.0, bottom]);
                let point = &mut self.points[index];
                (point.label_x, point.label_y, point.anchor) = best;
                taken.extend(point.is_base.then(|| around((x, y), 14.0)));
            }
        }
    }
}

/// Means over the neighbours on both sides, which show a trend among single values.
pub(super) fn smoothed(values: &[f64], reach: usize) -> Vec<f64> {
    let mean = |at: usize| {
        // At both ends there are fewer neighbours; the mean is over those that exist, not over zeros.
        let near = &values[at.saturating_sub(reach)..(at + reach + 1).min(values.len())];
        near.iter().sum::<f64>() / near.len() as f64
    };
    (0..values.len()).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_on_axis() {
        let labels = |axis: Axis| axis.ticks().into_iter().map(short).collect::<Vec<_>>();
        let linear = Axis::over([0.013, 0.094], Scale::Linear).with_zero();
        assert_eq!(labels(linear), ["0", "0.02", "0.04", "0.06", "0.08"]);
        assert_eq!(labels(Axis::over([256.0, 510.0], Scale::Linear)), ["300", "400", "500"]);
        assert_eq!(
            labels(Axis::over([0.003, 0.2], Scale::Log)),
            ["0.005", "0.01", "0.02", "0.05", "0.1", "0.2"]
        );
        // Values that differ by less than a decade have three labels, too.
        assert_eq!(labels(Axis::over([0.005], Scale::Log)), ["0.004", "0.0045", "0.005", "0.0055", "0.006"]);
        assert_eq!(labels(Axis::over([1e-7, 0.2], Scale::Log)).first().map(String::as_str), Some("1e-7"));
    }

    #[test]
    fn points_lie_inside_the_chart() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [vec![], vec![0.0], vec![3.0], vec![1.0, 2.0], vec![f64::NAN, 1.0, f64::INFINITY]] {
                let axis = Axis::over(values.iter().copied(), scale);
                for value in values.iter().copied().filter(|value| value.is_finite()) {
                    assert!((0.0..=1.0).contains(&axis.place(value)), "{scale:?} {values:?}");
                }
                assert!(axis.ticks().len() < 50);
            }
        }
    }

    #[test]
    fn count_axes_have_integer_ticks() {
        let axis = Axis::over([1.0, 2.0], Scale::Linear).whole();
        assert_eq!(axis.ticks(), [1.0, 2.0]);
    }

    /// Rectangles of names of six letters.
    fn names(chart: &Chart) -> Vec<Place> {
        let place = |point: &Point| {
            let left = match point.anchor {
                "start" => point.label_x,
                "end" => point.label_x - 42.0,
                _ => point.label_x - 21.0,
            };
            [left, point.label_y - 10.0, left + 42.0, point.label_y + 3.0]
        };
        chart.points.iter().map(place).collect()
    }

    #[test]
    fn frontier_leaves_out_points_that_others_beat() {
        let axis = Axis::over([0.0, 10.0], Scale::Linear);
        let mut chart = Chart::new(&axis, "x", &axis, "y", &[]);
        // Sizes and costs: the third is larger and worse than the second.
        for at in [(0.0, 10.0), (5.0, 5.0), (6.0, 6.0), (10.0, 0.0)] {
            chart.point("Q4_K_M", String::new(), 0, (&axis, &axis), at);
        }
        chart.base("base", String::new(), &axis, 20.0);
        chart.mark_frontier();
        assert_eq!(chart.frontier, "64,12 404,125 744,238");
        // No name lies on this straight line.
        chart.place_names();
        let places = names(&chart);
        for x in 64..744 {
            let (x, y) = (f64::from(x), 12.0 + (f64::from(x) - 64.0) / 3.0);
            assert!(places.iter().all(|place| overlap(place, &[x, y, x + 1.0, y + 0.5]) == 0.0), "{x}");
        }
    }

    #[test]
    fn labels_of_near_points_do_not_overlap() {
        let axis = Axis::over([0.0, 100.0], Scale::Linear);
        let mut chart = Chart::new(&axis, "x", &axis, "y", &[]);
        for index in 0..8 {
            let at = 50.0 + f64::from(index);
            chart.point("Q4_K_M", String::new(), 0, (&axis, &axis), (at, at));
        }
        chart.place_names();
        let places = names(&chart);
        for (index, place) in places.iter().enumerate() {
            assert!(places[..index].iter().all(|other| overlap(place, other) == 0.0), "{index}");
        }
    }

    #[test]
    fn names_of_lines_are_apart_and_inside() {
        let axis = Axis::over([0.0, 100.0], Scale::Linear);
        let names = vec!["q4_0".to_owned(); 12];
        let mut chart = Chart::new(&axis, "x", &axis, "y", &names);
        for name in &names {
            chart.line(name, 0, (&axis, &axis), &[(0.0, 50.0), (100.0, 1.0)]);
        }
        chart.place_line_names();
        let mut ends: Vec<f64> = chart.lines.iter().map(|line| line.label_y - 4.0).collect();
        ends.sort_by(f64::total_cmp);
        assert!(ends.windows(2).all(|two| two[1] - two[0] > 12.8), "{ends:?}");
        assert!(ends[0] >= chart.top && ends[11] <= chart.bottom && chart.right + 34.0 < chart.width);
    }

    #[test]
    fn smoothing_averages_neighbors() {
        assert_eq!(smoothed(&[0.0, 3.0, 0.0, 3.0], 1), [1.5, 1.0, 2.0, 1.5]);
    }
}
