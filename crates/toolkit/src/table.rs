//! Columns and lines of text.

/// Width of the terminal that all listings are made for.
pub const WIDTH: usize = 80;

/// The text in lines of at most [`WIDTH`] characters; as [`wrapped_to`].
pub fn wrapped(text: &str, indent: usize) -> String {
    wrapped_to(WIDTH, text, indent)
}

/// The text in lines of at most `width` characters; lines after the first are indented by `indent`. Lines end between words,
/// or after the escape `\n` of a prompt. A longer word makes a longer line.
pub fn wrapped_to(width: usize, text: &str, indent: usize) -> String {
    let body = text.trim_start_matches(' ');
    let (mut lines, mut line) = (String::new(), " ".repeat(text.len() - body.len()));
    for word in body.split(' ') {
        let (mut space, mut rest) = (" ", word);
        loop {
            let (part, after) = rest.split_at(rest.find("\\n").map_or(rest.len(), |at| at + 2));
            let is_begun = !line.trim_start().is_empty();
            if is_begun && line.chars().count() + space.len() + part.chars().count() > width {
                lines += &line;
                lines.push('\n');
                line = " ".repeat(indent) + part;
            } else {
                line += if is_begun { space } else { "" };
                line += part;
            }
            (space, rest) = ("", after);
            if rest.is_empty() {
                break;
            }
        }
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

/// [`table`], with the first cell of each row on its own line if the table is wider than [`WIDTH`].
pub fn narrow_table(rows: &[Vec<String>], right: &[usize]) -> String {
    let text = table(rows, right);
    if text.lines().all(|line| line.chars().count() <= WIDTH) {
        return text;
    }
    let rest: Vec<Vec<String>> =
        rows.iter().map(|row| [&[String::new()][..], row.get(1..).unwrap_or_default()].concat()).collect();
    let names = rows.iter().map(|row| row.first().map_or("", String::as_str));
    let lines = names.zip(table(&rest, right).lines().map(str::to_owned).collect::<Vec<_>>());
    lines.map(|(name, line)| format!("{name}\n{line}\n")).collect()
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
        assert_eq!(wrapped("  name   value", 4), "  name   value\n");
        let prompt = format!("{0}\\n{0}\\n", "p".repeat(50));
        assert_eq!(wrapped(&prompt, 2), format!("{0}\\n\n  {0}\\n\n", "p".repeat(50)));
    }

    #[test]
    fn names_of_wide_tables_have_their_own_lines() {
        let rows = |name: &str| [["file", "size"], [name, "7 MB"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(narrow_table(&rows("a"), &[1]), "file  size\na     7 MB\n");
        let long = "a".repeat(78);
        assert_eq!(narrow_table(&rows(&long), &[1]), format!("file\n  size\n{long}\n  7 MB\n"));
    }

    #[test]
    fn cells_of_any_width_are_aligned() {
        let wide = "w".repeat(70_000);
        let rows = [["a", "b", "c"], [&wide, &wide, &wide]].map(|row| row.map(str::to_owned).to_vec());
        let lines: Vec<usize> = table(&rows, &[1]).lines().map(str::len).collect();
        assert_eq!(lines, [70_000 + 2 + 70_000 + 2 + 1, 3 * 70_000 + 4]);
    }
}
