//! A terminal small enough to read: what the escapes we write would show.

use unicode_width::UnicodeWidthChar;

/// A screen of fixed width and any height: what scrolled off is kept.
pub struct Terminal {
    columns: usize,
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

impl Terminal {
    pub fn new(columns: usize) -> Self {
        Self { columns, rows: vec![Vec::new()], row: 0, column: 0 }
    }

    /// Takes in what a program wrote. Fails on escapes it does not know: we write only few.
    pub fn feed(&mut self, text: &str) {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\r' => self.column = 0,
                '\n' => {
                    self.row += 1;
                    self.column = 0;
                    if self.row == self.rows.len() {
                        self.rows.push(Vec::new());
                    }
                }
                '\x1b' => {
                    assert_eq!(chars.next(), Some('['));
                    let mut body = String::new();
                    let last = loop {
                        match chars.next().unwrap() {
                            last @ '@'..='~' => break last,
                            c => body.push(c),
                        }
                    };
                    self.escape(&body, last);
                }
                c => self.put(c),
            }
        }
    }

    fn escape(&mut self, body: &str, last: char) {
        match (last, body) {
            ('A', n) => {
                let n: usize = n.parse().unwrap();
                assert!(n <= self.row, "moved above the first row");
                self.row -= n;
            }
            ('K', "") => self.rows[self.row].truncate(self.column),
            ('J', "") => {
                self.rows[self.row].truncate(self.column);
                self.rows.truncate(self.row + 1);
            }
            ('m', _) | ('h' | 'l', "?2026") => {}
            other => panic!("unknown escape {other:?}"),
        }
    }

    fn put(&mut self, c: char) {
        let width = c.width().unwrap_or(0);
        if self.column + width > self.columns {
            self.feed("\n");
        }
        let row = &mut self.rows[self.row];
        row.resize(row.len().max(self.column + 1), ' ');
        row[self.column] = c;
        self.column += width;
    }

    /// What stands on it, without trailing blanks.
    pub fn text(&self) -> String {
        let lines: Vec<String> =
            self.rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect();
        lines.join("\n").trim_end().to_owned()
    }
}
