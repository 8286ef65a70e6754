//! `gpulane gpus --watch`: the table drawn over itself on a terminal, printed again and again elsewhere.

use std::io::{self, Write};

use gpulane_model::Millis;

use crate::clean::json_text;
use crate::gpus_seen::{SeenGpus, gpus_json};
use crate::gpus_table::{gpus_table, lines};
use crate::look::Look;
use crate::palette::{Palette, Style};
use crate::screen::Screen;
use crate::status_json::time;
use crate::text::{Drawn, Row};

/// Where looks at the GPUs are shown, one after the other.
pub struct GpusScreen {
    screen: Screen,
    look: Look,
    /// Drawn over; otherwise printed below each other.
    still: bool,
}

impl GpusScreen {
    /// Shows them on this writer. `still`: it is a terminal on which the cursor can be moved.
    pub fn new(look: Look, still: bool, out: Box<dyn Write>) -> Self {
        Self { screen: Screen::new(out), look, still }
    }

    /// Shows a look taken `now`, Unix time.
    pub fn show(&mut self, seen: &SeenGpus, now: Millis) -> io::Result<()> {
        if !self.still {
            let table = gpus_table(seen, self.look, now);
            self.screen.line(&format!("{}\n{table}", time(now)));
            return self.screen.flush();
        }
        let (columns, rows) = self.look.size();
        let palette = Palette::new(&self.look);
        let lines = fitting(lines(seen, palette, columns, now), palette, columns, rows);
        self.screen.draw(lines, columns)
    }

    /// Prints a look as a line of JSON.
    pub fn show_json(&mut self, seen: &SeenGpus) -> io::Result<()> {
        self.screen.line(&json_text(&gpus_json(seen)));
        self.screen.flush()
    }

    /// Nobody reads any more.
    pub fn is_gone(&self) -> bool {
        self.screen.is_gone()
    }

    /// Leaves the last look standing and the cursor below it.
    pub fn close(&mut self) -> io::Result<()> {
        if self.still { self.screen.leave() } else { self.screen.flush() }
    }
}

/// No more lines than the terminal has: what has left the screen cannot be drawn over.
fn fitting(mut lines: Vec<Drawn>, palette: Palette, columns: usize, rows: usize) -> Vec<Drawn> {
    let most = rows - 1;
    if lines.len() > most {
        let hidden = lines.len() - (most - 1);
        lines.truncate(most - 1);
        let mut row = Row::new(palette, columns - 1);
        row.put(Style::Dim, &format!("+ {hidden} more lines; `gpulane gpus` shows all"));
        lines.push(row.done());
    }
    lines
}

impl std::fmt::Debug for GpusScreen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpusScreen").field("still", &self.still).finish_non_exhaustive()
    }
}
