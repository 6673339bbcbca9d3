//! Turns the measurements of `scripts/bench` into a table on stdout and a chart: `bench_report TSV SVG`.

use std::{env, fmt::Write as _, fs, io};

/// All runs of one row by one program.
struct Series {
    row: String,
    who: String,
    seconds: Vec<f64>,
    cpu: Vec<f64>,
    peak_kb: Vec<f64>,
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [tsv, svg] = arguments.as_slice() else {
        return Err(io::Error::other("usage: bench_report TSV SVG"));
    };
    let series = read(&fs::read_to_string(tsv)?)?;
    print_table(&series);
    fs::write(svg, chart(&series))
}

fn read(text: &str) -> io::Result<Vec<Series>> {
    let mut all: Vec<Series> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [row, who, numbers @ ..] = fields.as_slice() else {
            return Err(io::Error::other(format!("not a measurement: {line}")));
        };
        let numbers: Vec<f64> =
            numbers.iter().map(|n| n.parse()).collect::<Result<_, _>>().map_err(io::Error::other)?;
        let [seconds, cpu, peak_kb] = numbers[..] else {
            return Err(io::Error::other(format!("not a measurement: {line}")));
        };
        if !all.iter().any(|series| series.row == *row && series.who == *who) {
            let (row, who) = ((*row).to_owned(), (*who).to_owned());
            all.push(Series { row, who, seconds: vec![], cpu: vec![], peak_kb: vec![] });
        }
        let series = all.iter_mut().find(|series| series.row == *row && series.who == *who);
        let series = series.ok_or_else(|| io::Error::other("a series that was just added is there"))?;
        series.seconds.push(seconds);
        series.cpu.push(cpu);
        series.peak_kb.push(peak_kb);
    }
    Ok(all)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] }
}

fn of<'a>(all: &'a [Series], row: &str, who: &str) -> Option<&'a Series> {
    all.iter().find(|series| series.row == row && series.who == who)
}

fn print_table(all: &[Series]) {
    println!("| what | runs | ours | reference | ratio | peak memory, ours | reference |");
    println!("|---|---|---|---|---|---|---|");
    for ours in all.iter().filter(|series| series.who != "reference") {
        let reference = of(all, &ours.row, "reference");
        let seconds = |series: &Series| format!("{:.2} s", median(&series.seconds));
        let memory = |series: &Series| format!("{:.0} MB", median(&series.peak_kb) / 1024.0);
        println!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            ours.row,
            ours.seconds.len(),
            seconds(ours),
            reference.map_or("-".into(), seconds),
            reference.map_or("-".into(), |r| format!("{:.1} x", median(&r.seconds) / median(&ours.seconds))),
            memory(ours),
            reference.map_or("-".into(), memory),
        );
    }
}

/// Bars of seconds on a logarithmic axis, ours above the reference's.
fn chart(all: &[Series]) -> String {
    let rows: Vec<(&Series, &Series)> = all
        .iter()
        .filter(|series| series.who == "ours")
        .filter_map(|ours| Some((ours, of(all, &ours.row, "reference")?)))
        .collect();
    let height = 60 + rows.len() * 52;
    let x = |seconds: f64| 190.0 + (seconds.max(0.1) / 0.1).log10() / 3.6 * 420.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"720\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"190\" y=\"20\" fill=\"#333333\">seconds, less is better (logarithmic); \
         1.17 G parameters, 2 threads</text>\n"
    );
    for (tick, label) in [(0.1, "0.1"), (1.0, "1"), (10.0, "10"), (100.0, "100")] {
        let at = x(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.0}\" y1=\"30\" x2=\"{at:.0}\" y2=\"{}\" stroke=\"#dddddd\"/>\
             <text x=\"{at:.0}\" y=\"{}\" text-anchor=\"middle\" fill=\"#777777\">{label}</text>",
            height - 22,
            height - 8
        );
    }
    for (i, (ours, reference)) in rows.iter().enumerate() {
        let y = 38 + i * 52;
        let (a, b) = (median(&ours.seconds), median(&reference.seconds));
        let _ = writeln!(
            svg,
            "<text x=\"182\" y=\"{}\" text-anchor=\"end\" fill=\"#333333\">{}</text>",
            y + 25,
            ours.row
        );
        let labels = [
            (y, a, "#2a7f62", format!("{a:.2} s, {:.1} x", b / a)),
            (y + 20, b, "#b9b9b9", format!("{b:.1} s")),
        ];
        for (y, seconds, colour, label) in labels {
            let _ = writeln!(
                svg,
                "<rect x=\"190\" y=\"{y}\" width=\"{:.0}\" height=\"17\" fill=\"{colour}\"/>\
                 <text x=\"{:.0}\" y=\"{}\" fill=\"#333333\">{label}</text>",
                x(seconds) - 190.0,
                x(seconds) + 6.0,
                y + 13
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}
