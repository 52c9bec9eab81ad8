//! Text tables: columns are as wide as their content, and numbers are right-aligned.

/// Rows of cells; the first row is the heading.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self {
            rows: vec![heading.iter().map(ToString::to_string).collect()],
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The heading and the rows below it.
    pub(crate) fn parts(&self) -> (&[String], &[Vec<String>]) {
        match self.rows.split_first() {
            Some((heading, rows)) => (heading, rows),
            None => (&[], &[]),
        }
    }

    /// The table as text; the first column is left-aligned, the others right-aligned.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
                if column == 0 {
                    line.push_str(cell);
                    line.push_str(&pad);
                } else {
                    line.push_str("  ");
                    line.push_str(&pad);
                    line.push_str(cell);
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
            if index == 0 {
                text.push_str(
                    &"-".repeat(widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1)),
                );
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_content() {
        let mut table = Table::new(&["name", "n"]);
        table.row(vec!["a".into(), "1000".into()]);
        assert_eq!(table.render(), "name     n\n----------\na     1000\n");
    }
}
