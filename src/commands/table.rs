//! Columns of text.

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
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let gap = if column + 1 < n_columns { "  " } else { "" };
            line += &match right.contains(&column) {
                true => format!("{cell:>width$}{gap}"),
                false => format!("{cell:<width$}{gap}"),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let rows = [["name", "n", ""], ["ä", "10", "x"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows, &[1]), "name   n\nä     10  x\n");
    }
}
