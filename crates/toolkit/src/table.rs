//! Columns and lines of text.

/// Width of the terminal that all listings are made for.
pub const WIDTH: usize = 80;

/// The text in lines of at most [`WIDTH`] characters; lines after the first are indented by `indent`. Words are never
/// split, so that a longer word makes a longer line.
pub fn wrapped(text: &str, indent: usize) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.trim_start().is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines += &line;
            lines.push('\n');
            line = " ".repeat(indent) + word;
            continue;
        }
        if !line.trim_start().is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines + &line + "\n"
}

/// Rows under a header row, columns as wide as their widest cell and two spaces apart. Columns
/// in `right` are flushed right; the last column is not padded.
pub fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..n_columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let start = text.len();
        for (column, cell) in row.iter().enumerate() {
            // Not `{cell:>width$}`: a width above 65535 is a panic of `format!`.
            let padding = " ".repeat(widths[column] - cell.chars().count());
            let is_last = column + 1 == n_columns;
            if right.contains(&column) {
                text.extend([&padding, cell.as_str()])
            } else if is_last {
                text += cell;
            } else {
                text.extend([cell.as_str(), &padding])
            }
            text += if is_last { "" } else { "  " };
        }
        text.truncate(start + text[start..].trim_end().len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["name", "n", ""], ["ä", "10", "x"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows, &[1]), "name   n\nä     10  x\n");
    }

    #[test]
    fn long_lines_break_between_words() {
        let text = format!("[1] {} {}", "a".repeat(70), "b".repeat(90));
        assert_eq!(wrapped(&text, 4), format!("[1] {}\n    {}\n", "a".repeat(70), "b".repeat(90)));
        assert_eq!(wrapped("short", 4), "short\n");
    }

    #[test]
    fn cells_of_any_width_are_aligned() {
        let wide = "w".repeat(70_000);
        let rows = [["a", "b", "c"], [&wide, &wide, &wide]].map(|row| row.map(str::to_owned).to_vec());
        let lines: Vec<usize> = table(&rows, &[1]).lines().map(str::len).collect();
        assert_eq!(lines, [70_000 + 2 + 70_000 + 2 + 1, 3 * 70_000 + 4]);
    }
}
