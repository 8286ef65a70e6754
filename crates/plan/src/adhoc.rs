//! A plan without a file: `gpulane run -s lr=1e-3,1e-4 -- python train.py --lr {lr}`. The command line itself is the
//! source, written out on one line, so that mistakes are shown in it as in a file.

use gpulane_model::RunSettings;
use toml::Spanned;
use toml::de::DeValue;

use crate::command::{self, Command, Text};
use crate::diagnostic::{Outcome, Span};
use crate::document::{RawPlan, RawStage};
use crate::keys;
use crate::matrix::Matrix;
use crate::names;
use crate::parse;
use crate::problems::Problems;
use crate::reader::Placed;
use crate::resolve::resolve;
use crate::settings::Settings;
use crate::source::Source;
use crate::sweep;
use crate::watch;

/// What `gpulane run` was given instead of a plan file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdHoc {
    /// Each `-s`: `KEY=V1,V2`.
    pub sweeps: Vec<String>,
    /// Each `--zip`: `KEY,KEY`.
    pub zips: Vec<String>,
    /// Everything after `--`.
    pub command: Vec<String>,
    /// `--name`; otherwise the plan is named after the program.
    pub name: Option<String>,
    /// Flags that stand for keys of the stage.
    pub overrides: Vec<Override>,
}

/// A flag that stands for a key of the stage, such as `--timeout 2h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The flag as it is written, for reports: `--timeout`.
    pub flag: String,
    /// The stage's key: `timeout`.
    pub key: String,
    /// The value as given; read as it would be in a plan, quotes left out.
    pub value: String,
}

/// The key of `--hang-outside`, which is a part of `hang` and read after that.
pub const HANG_OUTSIDE: &str = "hang.outside";

/// How such a line begins.
const START: &str = "gpulane run";

/// The only stage of such a plan.
const STAGE: &str = "run";

/// Checks a plan given on the command line. The source is that line, for [`render`](crate::render()).
pub fn adhoc(input: &AdHoc, settings: RunSettings) -> (Source, Outcome) {
    let line = Line::of(input);
    let source = Source { name: "command line".to_owned(), text: line.text.clone() };
    let mut problems = Problems::new(&source.text);
    let raw = read(input, &line, &mut problems);
    let program = input.command.first().map_or("", String::as_str);
    let plan = resolve(raw, names::from_path(program), settings, &mut problems);
    let outcome = crate::finish(plan, problems);
    (source, outcome)
}

fn read(input: &AdHoc, line: &Line, problems: &mut Problems<'_>) -> RawPlan {
    let mut settings = Settings::default();
    let whole = line.whole();
    settings.written.push(Placed::new("command", whole.clone()));
    let args: Vec<Text> = input.command.iter().zip(&line.command).map(|(arg, at)| text(arg, *at)).collect();
    if args.is_empty() {
        problems
            .error(&whole, "there is no command")
            .label("nothing to run")
            .help("write it after `--`: `gpulane run -s lr=1e-3,1e-4 -- python train.py --lr {lr}`");
    } else {
        let command = Command { args, span: whole.clone() };
        settings.command = check_command(command, problems);
    }
    if !input.sweeps.is_empty() || !input.zips.is_empty() {
        settings.written.push(Placed::new("matrix", whole.clone()));
        settings.matrix = Some(matrix(input, line, problems).into());
    }
    for (flag, at) in input.overrides.iter().zip(&line.overrides) {
        read_override(flag, *at, &mut settings, problems);
    }
    let name = input
        .name
        .as_ref()
        .zip(line.name)
        .filter(|(name, at)| names::check(name, "plan", &(*at..*at + name.len()), problems));
    let stage = RawStage { name: Some(Placed::new(STAGE.to_owned(), whole.clone())), span: whole, settings };
    RawPlan { name: name.map(|(name, _)| name.clone()), stages: vec![stage] }
}

/// Where this word of the command first stands in a text that is such a command line; `None` if the text is none.
pub(crate) fn word_place(text: &str, command: &[String], word: &str) -> Option<Span> {
    let line = Line::of(&AdHoc { command: command.to_vec(), ..AdHoc::default() });
    // The command ends the line, whatever flags stand before it.
    let end = line.text.strip_prefix(START)?;
    let before = text.starts_with(START).then(|| text.strip_suffix(end))??;
    let nth = command.iter().position(|argument| argument == word)?;
    let at = before.len() + line.command.get(nth)? - START.len();
    Some(at..at + word.len())
}

fn text(arg: &str, at: usize) -> Text {
    Text { value: arg.to_owned(), span: at..at + arg.len(), verbatim: Some(at) }
}

fn check_command(command: Command, problems: &mut Problems<'_>) -> Option<Command> {
    let nul = command.args.iter().find(|arg| arg.value.contains('\0'));
    if let Some(arg) = nul {
        problems.error(&arg.span, "this argument contains a NUL character");
        return None;
    }
    command::check(&command, problems).then_some(command)
}

fn matrix(input: &AdHoc, line: &Line, problems: &mut Problems<'_>) -> Matrix {
    let first = line.sweeps.first().or(line.zips.first()).copied().unwrap_or(0);
    let last = input.sweeps.last().zip(line.sweeps.last()).map_or(first, |(sweep, at)| at + sweep.len());
    let mut matrix = Matrix::at(first..last);
    for (sweep, at) in input.sweeps.iter().zip(&line.sweeps) {
        sweep::read(sweep, *at, &mut matrix, problems);
    }
    for (zip, start) in input.zips.iter().zip(&line.zips) {
        let mut at = *start;
        let mut names = Vec::new();
        for name in zip.split(',') {
            names.push(Placed::new(name.trim().to_owned(), at..at + name.len()));
            at += name.len() + 1;
        }
        matrix.pair(&names, &(*start..*start + zip.len()), problems);
    }
    matrix.check_repeats(problems);
    matrix
}

pub(crate) fn read_override(
    given: &Override,
    at: usize,
    settings: &mut Settings,
    problems: &mut Problems<'_>,
) {
    let span = at..at + given.value.len();
    let typed = parse::value(given.value.trim()).map(Spanned::into_inner);
    let value = match typed {
        Some(value @ (DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_))) => value,
        _ => DeValue::String(given.value.as_str().into()),
    };
    problems.flag = Some(given.flag.clone());
    if given.key == HANG_OUTSIDE {
        let node = Spanned::new(span.clone(), value);
        settings.hang = watch::hang_outside(settings.hang.take(), &node, problems);
        settings.written.push(Placed::new("hang", span));
        problems.flag = None;
        return;
    }
    // A value of no length at the very start would look like damage; no flag's value stands there.
    if !settings.read(&given.key, span.clone(), &Spanned::new(span.clone(), value), problems) {
        _ = keys::unknown(&given.key, &span, &keys::STAGE, "a stage", problems);
    }
    problems.flag = None;
}

/// The command line as one line of text, and where each argument's first byte stands in it.
#[derive(Default)]
pub(crate) struct Line {
    pub(crate) text: String,
    sweeps: Vec<usize>,
    zips: Vec<usize>,
    overrides: Vec<usize>,
    name: Option<usize>,
    command: Vec<usize>,
}

impl Line {
    /// A line that begins like this.
    pub(crate) fn starting(start: &str) -> Self {
        Self { text: start.to_owned(), ..Self::default() }
    }

    fn of(input: &AdHoc) -> Self {
        let mut line = Self::starting(START);
        line.sweeps = input.sweeps.iter().map(|sweep| line.flag("-s", sweep)).collect();
        line.zips = input.zips.iter().map(|zip| line.flag("--zip", zip)).collect();
        line.overrides = input.overrides.iter().map(|given| line.flag(&given.flag, &given.value)).collect();
        line.name = input.name.as_ref().map(|name| line.flag("--name", name));
        if !input.command.is_empty() {
            line.text.push_str(" --");
        }
        line.command = input.command.iter().map(|arg| line.push(arg)).collect();
        line
    }

    pub(crate) fn whole(&self) -> Span {
        0..self.text.len()
    }

    pub(crate) fn flag(&mut self, flag: &str, value: &str) -> usize {
        self.text.push(' ');
        self.text.push_str(flag);
        self.push(value)
    }

    /// Appends an argument, in quotes where a shell would need them. Its bytes stay as they are, so that offsets in it
    /// are offsets in the line; only line breaks become spaces.
    pub(crate) fn push(&mut self, arg: &str) -> usize {
        let plain = |c: char| c.is_alphanumeric() || "-_=+.,:/@%{}~^".contains(c);
        let quote = match arg {
            "" => "'",
            _ if arg.chars().all(plain) => "",
            _ if arg.contains('\'') => "\"",
            _ => "'",
        };
        self.text.push(' ');
        self.text.push_str(quote);
        let at = self.text.len();
        self.text.push_str(&arg.replace(['\n', '\r'], " "));
        self.text.push_str(quote);
        at
    }
}
