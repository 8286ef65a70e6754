//! One file per subcommand: arguments in, exit code out.

mod cancel;
mod check;
mod demo;
mod demo_map;
mod doctor;
mod fit;
mod gpus;
mod init;
mod logs;
mod map;
mod resume;
mod run;
mod settings;
mod status;
mod watch;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use clap::{CommandFactory, Parser};
use gpulane_journal::{Follower, JournalError, RunDir};
use gpulane_model::{ExitCode, JobId, Plan, RunState};

use crate::args::{Cli, Command, Show, trusted_by_environment};
use crate::say;

/// Where runs are kept unless told otherwise.
pub(crate) const RUNS: &str = "runs";

/// How much alike a job's name and a wrong one must be for the job to be what was meant.
const NEAR: f64 = 0.6;

/// Reads the command line and does what it says.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are asked for; the rest is bad input. A closed pipe is no news.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::BadInput } else { ExitCode::Success };
        }
    };
    if let Some(Err(error)) = cli.leash.map(gpulane_runtime::hold_leash) {
        say::error(format!("--leash: {error}"));
        return ExitCode::BadInput;
    }
    if matches!(cli.command, Command::Run(_) | Command::Map(_) | Command::Resume(_)) {
        gpulane_runtime::answer_signals();
    }
    let code = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Map(args) => map::map(&args),
        Command::Resume(args) => resume::resume(&args),
        Command::Check(args) => check::check(&args),
        Command::Status(args) => status::status(&args),
        Command::Logs(args) => logs::logs(&args),
        Command::Watch(args) => watch::watch(&args),
        Command::Cancel(args) => cancel::cancel(&args),
        Command::Gpus(args) => gpus::gpus(&args),
        Command::Fit(args) => fit::fit(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::Init(args) => init::init(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "gpulane", &mut script);
            say::data(String::from_utf8_lossy(&script));
            ExitCode::Success
        }
    };
    // What was asked for is not there, whatever else went well.
    if code == ExitCode::Success && !say::is_complete() { ExitCode::BadInput } else { code }
}

/// Whether processes can be started and ended here at all, and left behind if they shall be. If not, it has been said why.
fn check_machine(show: &Show) -> Result<(), ExitCode> {
    gpulane_runtime::check_proc().map_err(|fault| {
        say::error(fault);
        say::hint(fault.hint());
        ExitCode::NoResources
    })?;
    if show.detach && std::process::id() == 1 {
        say::error(
            "--detach: this is the first process of its container, which ends with it, and the run too",
        );
        say::hint("leave out --detach, or start the run from a process that lives on (`docker exec`)");
        return Err(ExitCode::BadInput);
    }
    Ok(())
}

/// The run a person named, with its plan. What is wrong has been said.
fn open(run: &str) -> Result<(RunDir, Arc<Plan>), ExitCode> {
    let opened = RunDir::find(run, Path::new(RUNS)).and_then(|dir| {
        let plan = dir.plan()?;
        Ok((dir, Arc::new(plan)))
    });
    opened.map_err(|error| {
        say::explain(&error);
        ExitCode::BadInput
    })
}

/// Whether this user may ask something of a live run; root may, of anybody's. If not, it has been said why.
fn may_act_on(dir: &RunDir) -> Result<(), ExitCode> {
    if dir.is_ours() {
        return Ok(());
    }
    if rustix::process::geteuid().is_root() {
        let owner = std::fs::metadata(dir.root()).map(|found| gpulane_files::user_name(found.uid()));
        say::note(format!("this run belongs to {}", owner.as_deref().unwrap_or("another user")));
        return Ok(());
    }
    // A file server may give what is ours to another id: then it is looked at as for a resume.
    dir.examine(&trusted_by_environment()).map(drop).map_err(|error| {
        say::explain(&error);
        ExitCode::BadInput
    })
}

/// The run's state as its journal tells it now.
fn fold(dir: &RunDir, plan: &Plan) -> Result<RunState, JournalError> {
    let mut state = RunState::new(plan);
    let mut follower = Follower::open(dir);
    while follower.poll(None, &mut |record, _| state.apply(record))? > 0 {}
    Ok(state)
}

/// The job of this name, or what there is instead.
fn find_job(plan: &Plan, name: &str) -> Result<JobId, ExitCode> {
    if let Some(job) = plan.job_ids().find(|job| plan.job_name(*job) == name) {
        return Ok(job);
    }
    // The stage may be left out while that leaves no doubt.
    let mut bare = plan.job_ids().filter(|job| &*plan.job(*job).name == name);
    if let (Some(job), None) = (bare.next(), bare.next()) {
        return Ok(job);
    }
    say::error(format!("this run has no job `{name}`"));
    let likeness = |job: JobId| {
        let alike = |other: &str| strsim::normalized_damerau_levenshtein(other, name);
        alike(&plan.job_name(job)).max(alike(&plan.job(job).name))
    };
    let nearest = plan.job_ids().map(|job| (likeness(job), job)).max_by(|a, b| a.0.total_cmp(&b.0));
    let meant = match nearest {
        Some((likeness, job)) if likeness > NEAR => format!("did you mean `{}`? ", plan.job_name(job)),
        _ => String::new(),
    };
    say::hint(format!("{meant}`gpulane status RUN --all` lists them"));
    Err(ExitCode::BadInput)
}
