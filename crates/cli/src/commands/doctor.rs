//! `gpulane doctor`: what is wrong with this machine, a process or a run, and what to type next.

use std::path::Path;

use gpulane_doctor::{Ended, Finding, MachineOptions, ProcessLook, Severity};
use gpulane_journal::{RunDir, RunDirError};
use gpulane_model::ExitCode;
use gpulane_report::{Found, Look, Weight};
use serde_json::{Value, json};

use super::RUNS;
use crate::args::Doctor;
use crate::say;

/// What was looked at, and what was found.
struct Answer {
    /// For `--json`.
    looked_at: Value,
    findings: Vec<Finding>,
    /// What is fine is named in one line, where nobody asked for more.
    brief: bool,
    /// More for a person who asked for it: every stack.
    more: Option<String>,
    /// What `--fix` has ended.
    ended: Option<Vec<Ended>>,
}

impl Answer {
    fn new(looked_at: Value, findings: Vec<Finding>) -> Self {
        Self { looked_at, findings, brief: false, more: None, ended: None }
    }
}

/// Whom a person means.
enum Subject {
    Process(u32),
    Run(RunDir),
}

pub(crate) fn doctor(args: &Doctor) -> ExitCode {
    let answer = match &args.subject {
        None if args.which_tool => Ok(Answer::new(json!({"kind": "tools"}), gpulane_doctor::which_tool())),
        None => Ok(machine(args)),
        Some(text) => subject(text).and_then(|subject| match subject {
            Subject::Process(pid) => process(pid, args),
            Subject::Run(dir) => Ok(run(&dir, args)),
        }),
    };
    match answer {
        Ok(answer) => tell(&answer, args),
        Err(code) => code,
    }
}

/// A number is a process, if there is one; else a run, if one is meant; else a process that is gone. Anything else is a
/// run.
fn subject(text: &str) -> Result<Subject, ExitCode> {
    let places = [Path::new(".").join(text), Path::new(RUNS).join(text)];
    let as_run = places.iter().find(|place| !text.is_empty() && place.join("plan.json").exists());
    let number = text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(pid) = text.parse::<u32>().ok().filter(|_| number) {
        if Path::new(&format!("/proc/{pid}")).exists() {
            if let Some(run) = as_run {
                let run = run.display();
                say::note(format!(
                    "{text} is a process and a run; this is the process. The run: gpulane doctor {run}"
                ));
            }
            return Ok(Subject::Process(pid));
        }
        return Ok(RunDir::find(text, Path::new(RUNS)).map_or(Subject::Process(pid), Subject::Run));
    }
    RunDir::find(text, Path::new(RUNS)).map(Subject::Run).map_err(|error| {
        say::explain(&error);
        if matches!(error, RunDirError::NoSuchRun { .. }) {
            say::hint("`gpulane doctor` looks at this machine, `gpulane doctor PID` at a process");
        }
        ExitCode::BadInput
    })
}

fn machine(args: &Doctor) -> Answer {
    let ended = args.fix.then(|| gpulane_doctor::fix(None));
    // After the repair: what is told is what is left.
    let findings = gpulane_doctor::machine(&MachineOptions { runs: RUNS.into() });
    Answer { brief: !args.verbose, ended, ..Answer::new(json!({"kind": "machine"}), findings) }
}

fn run(dir: &RunDir, args: &Doctor) -> Answer {
    let ended = args.fix.then(|| gpulane_doctor::fix(Some(dir.root())));
    Answer { ended, ..Answer::new(json!({"kind": "run", "run": dir.root()}), gpulane_doctor::run(dir)) }
}

fn process(pid: u32, args: &Doctor) -> Result<Answer, ExitCode> {
    if args.fix {
        say::error("--fix ends what runs have left; it does not end a process by its id");
        if gpulane_doctor::is_yours_to_end(pid) {
            say::hint(format!("`kill {pid}` does"));
        } else {
            say::hint(format!("`gpulane doctor {pid}` says what it does and whose it is"));
        }
        return Err(ExitCode::BadInput);
    }
    let Some(ProcessLook { findings, stacks }) = gpulane_doctor::process(pid, args.look_for.duration())
    else {
        say::error(format!("there is no process {pid}"));
        say::hint("`gpulane gpus` names those on GPUs, `gpulane status RUN` the jobs of a run");
        return Err(ExitCode::BadInput);
    };
    let looked_at = json!({"kind": "process", "pid": pid, "stacks": stacks});
    Ok(Answer { more: args.verbose.then_some(stacks), ..Answer::new(looked_at, findings) })
}

/// Shows the answer; what is bad decides the exit code.
fn tell(answer: &Answer, args: &Doctor) -> ExitCode {
    if args.json {
        let mut object = json!({"looked_at": answer.looked_at, "findings": answer.findings});
        if let Some(ended) = &answer.ended {
            object["ended"] = json!(ended);
        }
        say::json(object);
    } else {
        say::shown(&text(answer, args));
    }
    let bad = answer.findings.iter().any(|finding| finding.severity == Severity::Bad);
    if bad { ExitCode::SomeFailed } else { ExitCode::Success }
}

fn text(answer: &Answer, args: &Doctor) -> String {
    // Of a process or a run, who it is comes first; tools are neither good nor bad.
    let plain = if args.which_tool { usize::MAX } else { usize::from(args.subject.is_some()) };
    let found = answer.findings.iter().enumerate();
    let found: Vec<Found<'_>> = found.map(|(at, finding)| shown(finding, at < plain)).collect();
    let look = Look::detect(&std::io::stdout());
    let mut text = answer.ended.as_deref().map_or_else(String::new, repaired);
    text.push_str(&gpulane_report::findings_text(&found, answer.brief, look));
    if let Some(more) = &answer.more {
        text.push('\n');
        text.push_str(more.trim_end());
        text.push('\n');
    }
    if answer.brief {
        let count = gpulane_report::findings_count(&found).unwrap_or_else(|| "nothing is wrong".to_owned());
        let more = "-v shows all. Which tool for which case: gpulane doctor --which-tool";
        text.extend(["\n", count.as_str(), "; ", more, "\n"]);
    } else if args.subject.is_some() && gpulane_report::findings_count(&found).is_none() {
        text.push_str("\nnothing is wrong\n");
    }
    text
}

/// What was ended, a line each.
fn repaired(ended: &[Ended]) -> String {
    if ended.is_empty() {
        return "nothing to end: no process has outlived its run\n\n".to_owned();
    }
    let line = |one: &Ended| {
        format!("{}: `{}` (pid {}, {} of {})\n", one.how, one.command, one.pid, one.job, one.run.display())
    };
    ended.iter().map(line).collect::<String>() + "\n"
}

fn shown(finding: &Finding, plain: bool) -> Found<'_> {
    let weight = match finding.severity {
        Severity::Fine if plain => Weight::Plain,
        Severity::Bad => Weight::Bad,
        Severity::Warning => Weight::Warning,
        Severity::Fine => Weight::Fine,
    };
    Found { weight, topic: finding.topic, seen: &finding.seen, why: &finding.why, next: &finding.next }
}
