//! Plans with very many `[[stage.job]]` tables. The parser holds every token of its text at once, some thirty times the
//! text's size, so such a text is cut: the frame (everything but those tables, with blanks in their place, so that
//! all spans stay true) and pieces of tables, parsed one after another. Where a cut might be wrong, the plan is read
//! as a whole instead; that costs only memory.

use toml::de::{DeArray, DeTable, DeValue};

use crate::diagnostic::Span;

/// Shorter texts are read as a whole.
const SHORTEST: usize = 1 << 20;

/// A piece ends with the first table past this length.
const PIECE: usize = 1 << 18;

const HEADER: &str = "[[stage.job]]";

/// A text cut into its frame and pieces of job tables.
pub(crate) struct Bulk {
    /// The text with blanks in place of the job tables.
    pub(crate) frame: String,
    /// Where the job tables stand, in order.
    pieces: Vec<Span>,
}

impl Bulk {
    /// Cuts a long text. `None` if it is short, has no such tables, or has multi-line strings, in which a line may look
    /// like a header. Anywhere else a line that begins with `[[stage.job]]` is a header or a syntax error.
    pub(crate) fn of(text: &str) -> Option<Self> {
        if text.len() < SHORTEST || text.contains("\"\"\"") || text.contains("'''") {
            return None;
        }
        let mut pieces: Vec<Span> = Vec::new();
        let mut open: Option<usize> = None;
        for at in text.match_indices("\n[").map(|(newline, _)| newline + 1) {
            let line = &text[at..];
            if line.starts_with(HEADER) {
                match open {
                    Some(start) if at - start >= PIECE => {
                        pieces.push(start..at);
                        open = Some(at);
                    }
                    Some(_) => {}
                    None => open = Some(at),
                }
            } else if !line.starts_with("[stage.job.") && !line.starts_with("[[stage.job.") {
                pieces.extend(open.take().map(|start| start..at));
            }
        }
        pieces.extend(open.map(|start| start..text.len()));
        if pieces.is_empty() {
            return None;
        }
        let mut frame = String::with_capacity(text.len());
        for piece in &pieces {
            frame.push_str(&text[frame.len()..piece.start]);
            // One blank line for all of it.
            frame.extend(std::iter::repeat_n(' ', piece.len() - 1));
            frame.push('\n');
        }
        frame.push_str(&text[frame.len()..]);
        Some(Self { frame, pieces })
    }

    /// Where each `[[stage]]` of the frame stands. `None` if stages are written in another way, or one has `job` tables
    /// in the frame, too.
    pub(crate) fn stage_heads(&self, tree: &DeTable<'_>) -> Option<Vec<Span>> {
        let stages = tree.get("stage")?.get_ref().as_array()?;
        let head = |item: &toml::Spanned<DeValue<'_>>| {
            let span = item.span();
            let plain = !item.get_ref().as_table()?.contains_key("job");
            (plain && self.frame.get(span.clone())?.starts_with("[[")).then_some(span)
        };
        stages.iter().map(head).collect()
    }

    /// The pieces of each stage that has some: a job belongs to the last stage above it.
    pub(crate) fn pieces_by_stage(&self, heads: &[Span]) -> Option<Vec<(usize, Vec<Span>)>> {
        let mut found: Vec<(usize, Vec<Span>)> = Vec::new();
        for piece in &self.pieces {
            let stage = heads.partition_point(|head| head.start < piece.start).checked_sub(1)?;
            match found.last_mut() {
                Some((last, pieces)) if *last == stage => pieces.push(piece.clone()),
                _ => found.push((stage, vec![piece.clone()])),
            }
        }
        Some(found)
    }
}

/// The jobs of a piece, if it holds nothing else.
pub(crate) fn only_jobs<'t, 'i>(piece: &'t DeTable<'i>) -> Option<&'t DeArray<'i>> {
    let stage = piece.get("stage").filter(|_| piece.len() == 1)?.get_ref().as_table()?;
    stage.get("job").filter(|_| stage.len() == 1)?.get_ref().as_array()
}
