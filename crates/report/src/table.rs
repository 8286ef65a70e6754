//! Tables: columns as wide as they must be, numbers to the right.

use crate::look::Look;
use crate::palette::{Palette, Style};
use crate::text::{Drawn, fit, width};

/// A table's rows as text. Cells may hold colours; `plain` widths are measured without them.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Titles; empty: none are shown.
    pub(crate) titles: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Spaces before each row.
    pub(crate) indent: usize,
}

/// One cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
    right: bool,
    /// Columns, where the text already holds colours.
    width: usize,
}

impl Cell {
    /// Text, to the left.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::styled(Style::Plain, text)
    }

    /// Text in a style, to the left.
    pub(crate) fn styled(style: Style, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { width: width(&text), text, style, right: false }
    }

    /// A number, to the right.
    pub(crate) fn number(style: Style, text: impl Into<String>) -> Self {
        Self { right: true, ..Self::styled(style, text) }
    }

    /// Text that is painted already and takes this many columns.
    pub(crate) fn painted(text: String, width: usize) -> Self {
        Self { text, style: Style::Plain, right: false, width }
    }
}

impl Table {
    /// The table as text, each line with its newline.
    pub(crate) fn render(&self, palette: Palette) -> String {
        self.lines(palette).into_iter().map(|line| line.text + "\n").collect()
    }

    /// The table's lines: titles, if there are any, then one for each row.
    pub(crate) fn lines(&self, palette: Palette) -> Vec<Drawn> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0).max(self.titles.len());
        let widths: Vec<usize> = (0..count)
            .map(|at| {
                let title = self.titles.get(at).map_or(0, |title| width(title));
                self.rows
                    .iter()
                    .filter_map(|row| row.get(at))
                    .map(|cell| cell.width)
                    .max()
                    .unwrap_or(0)
                    .max(title)
            })
            .collect();
        let right = |at: usize| self.rows.first().and_then(|row| row.get(at)).is_some_and(|cell| cell.right);
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        if !self.titles.is_empty() {
            let titles = self.titles.iter().enumerate().map(|(at, title)| {
                let cell = Cell::styled(Style::Dim, title.clone());
                Cell { right: right(at), ..cell }
            });
            lines.push(self.line(&titles.collect::<Vec<_>>(), &widths, palette));
        }
        lines.extend(self.rows.iter().map(|row| self.line(row, &widths, palette)));
        lines
    }

    fn line(&self, row: &[Cell], widths: &[usize], palette: Palette) -> Drawn {
        let mut line = " ".repeat(self.indent);
        let mut columns_used = self.indent;
        for (at, (cell, columns)) in row.iter().zip(widths).enumerate() {
            if at > 0 {
                line.push_str("  ");
                columns_used += 2;
            }
            columns_used += columns;
            let space = " ".repeat(columns.saturating_sub(cell.width));
            let painted = palette.paint(cell.style, &cell.text);
            let (before, behind) = if cell.right { (space.as_str(), "") } else { ("", space.as_str()) };
            line.push_str(before);
            line.push_str(&painted);
            line.push_str(behind);
        }
        let text = line.trim_end().to_owned();
        // Spaces cut off at the end are one column each.
        Drawn { width: columns_used - (line.len() - text.len()), text }
    }
}

/// A table of results: titles, then rows. Columns of numbers stand to the right; cells wider than 40 are cut.
pub fn results_table(titles: &[&str], rows: &[Vec<String>], look: Look) -> String {
    let palette = Palette::new(&look);
    let is_number = |at: usize| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .all(|cell| cell.is_empty() || cell.trim().parse::<f64>().is_ok())
    };
    let numbers: Vec<bool> = (0..titles.len()).map(is_number).collect();
    let cell = |(at, text): (usize, &String)| {
        let text = fit(text, 40, palette.dots());
        if numbers.get(at) == Some(&true) { Cell::number(Style::Plain, text) } else { Cell::text(text) }
    };
    let table = Table {
        titles: titles.iter().map(|title| (*title).to_owned()).collect(),
        rows: rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect(),
        indent: 2,
    };
    table.render(palette)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right() {
        let rows = [["train/a", "0.25", "ok"], ["train/long", "12", ""]];
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect();
        let expected = ["  job         loss  note", "  train/a     0.25  ok", "  train/long    12", ""];
        assert_eq!(results_table(&["job", "loss", "note"], &rows, Look::PLAIN), expected.join("\n"));
    }
}
