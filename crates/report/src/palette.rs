//! Colours and signs: the one place that knows escape codes for them and their ASCII stand-ins.

use crate::look::Look;

/// What a piece of text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Dim,
    Good,
    Bad,
    Warn,
    /// A job's own colour.
    Job(u8),
}

/// Colours of jobs: readable on dark and light ground, none of them red (failure) or the green of success.
pub(crate) const JOB_COLORS: [u8; 8] = [36, 35, 34, 33, 96, 95, 94, 93];

/// The colour of a job at this place: neighbours differ.
pub(crate) const fn job_style(place: usize) -> Style {
    // Less than the number of colours, so it fits.
    #[allow(clippy::cast_possible_truncation)]
    Style::Job((place % JOB_COLORS.len()) as u8)
}

/// Paints, or does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    pub(crate) color: bool,
    pub(crate) unicode: bool,
}

impl Palette {
    pub(crate) fn new(look: &Look) -> Self {
        Self { color: look.color, unicode: look.unicode }
    }

    /// The text in this style.
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        let code = match style {
            _ if !self.color || text.is_empty() => return text.to_owned(),
            Style::Plain => return text.to_owned(),
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Good => "32",
            Style::Bad => "31",
            Style::Warn => "33",
            Style::Job(index) => {
                return format!("\x1b[{}m{text}\x1b[0m", JOB_COLORS[usize::from(index) % JOB_COLORS.len()]);
            }
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    const fn sign(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { unicode } else { ascii }
    }

    /// A job that succeeded.
    pub(crate) fn tick(self) -> String {
        self.paint(Style::Good, self.sign("✓", "ok"))
    }

    /// A job that failed.
    pub(crate) fn cross(self) -> String {
        self.paint(Style::Bad, self.sign("✗", "FAILED"))
    }

    /// A job that is tried again.
    pub(crate) fn again(self) -> String {
        self.paint(Style::Warn, self.sign("↻", "retry"))
    }

    /// A job that will not run.
    pub(crate) fn skip(self) -> String {
        self.paint(Style::Warn, self.sign("⊘", "skip"))
    }

    /// Something a person should know.
    pub(crate) fn alert(self) -> String {
        self.paint(Style::Warn, "!")
    }

    /// Something was left out.
    pub(crate) const fn dots(self) -> &'static str {
        self.sign("…", "...")
    }

    /// Between parts of a line.
    pub(crate) const fn dot(self) -> &'static str {
        self.sign(" · ", ", ")
    }

    /// Between a cause and what to do about it.
    pub(crate) const fn leads_to(self) -> &'static str {
        self.sign("→", "->")
    }

    /// Between a job's name and what it printed.
    pub(crate) const fn wall(self) -> &'static str {
        self.sign("│", "|")
    }

    /// The same for what it printed on stderr.
    pub(crate) const fn broken_wall(self) -> &'static str {
        self.sign("┆", ":")
    }

    /// A bar's filled cell.
    pub(crate) const fn full(self) -> &'static str {
        self.sign("━", "#")
    }

    /// A bar's cell of failed jobs; without colour it must differ by shape.
    pub(crate) const fn full_bad(self) -> &'static str {
        if self.color { self.full() } else { self.sign("×", "x") }
    }

    /// A bar's cell of skipped jobs: nothing was done there.
    pub(crate) const fn full_skipped(self) -> &'static str {
        self.sign("·", "/")
    }

    /// A bar's empty cell.
    pub(crate) const fn empty(self) -> &'static str {
        self.sign("╌", "-")
    }

    /// A meter of this many cells, filled to a fraction: `███▌░░`, painted.
    pub(crate) fn meter(self, style: Style, fraction: f64, cells: usize) -> String {
        const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let fraction = if fraction.is_finite() { fraction.clamp(0.0, 1.0) } else { 0.0 };
        // A terminal's width times eight is exact, and not negative.
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let eighths = (fraction * (cells * 8) as f64).round() as usize;
        let (full, part) = (eighths / 8, eighths % 8);
        let (filled, empty) = if self.unicode {
            let empty = cells - full - usize::from(part > 0);
            (format!("{}{}", "█".repeat(full), PARTS[part]), "░".repeat(empty))
        } else {
            let full = full + usize::from(part >= 4);
            ("#".repeat(full), "-".repeat(cells - full))
        };
        self.paint(style, &filled) + &self.paint(Style::Dim, &empty)
    }

    /// A part of what stands above.
    pub(crate) const fn branch(self) -> &'static str {
        self.sign("└", "+")
    }

    /// So many of a kind.
    pub(crate) const fn times(self) -> &'static str {
        self.sign("×", "x")
    }

    /// Taken away.
    pub(crate) const fn minus(self) -> &'static str {
        self.sign("−", "-")
    }

    /// Degrees Celsius.
    pub(crate) const fn degrees(self) -> &'static str {
        self.sign(" °C", " C")
    }
}
