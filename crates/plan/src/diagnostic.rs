//! What is reported: a mistake, a doubt or a remark, with its place and its remedy. The remedy stands apart from
//! the cause, so that a view may show either.

use std::ops::Range;

use gpulane_model::Plan;

/// A range of bytes in the source.
pub(crate) type Span = Range<usize>;

/// How bad it is. Ordered from worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The plan cannot run.
    Error,
    /// The plan can run but hardly does what was meant.
    Warning,
    /// Good to know.
    Note,
}

/// One thing to tell about a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one line that makes sense alone.
    pub message: String,
    /// Where, as bytes of the source; `None` if it is about the whole.
    pub span: Option<Range<usize>>,
    /// A few words shown at the place itself; may be empty.
    pub label: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl Diagnostic {
    pub(crate) fn label(&mut self, label: impl Into<String>) -> &mut Self {
        self.label = label.into();
        self
    }

    pub(crate) fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn maybe_help(&mut self, help: Option<String>) -> &mut Self {
        if help.is_some() {
            self.help = help;
        }
        self
    }
}

/// What a check found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The resolved plan; there is one exactly if no diagnostic is an error.
    pub plan: Option<Plan>,
    /// Everything there is to tell, errors first, then by position.
    pub diagnostics: Vec<Diagnostic>,
}
