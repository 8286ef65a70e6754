//! The command line, as typed. Nothing is resolved here: each subcommand's file does that.

mod doctor;
mod gpus;
mod map;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use gpulane_model::{Bytes, env_vars};

pub(crate) use doctor::Doctor;
pub(crate) use gpus::{Fit, Gpus, Sharing};
pub(crate) use map::{Map, MapChanges, MapSettings};

/// Keep every GPU of a machine busy with isolated processes, and never hang.
#[derive(Debug, Parser)]
#[command(
    name = "gpulane",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(
    after_help = "Exit codes: 0 all succeeded, 2 bad input, 3 some failed, 4 nothing to do, 5 resources not \
                        here, 70 a bug in gpulane, 130/143 interrupted (resume continues)."
)]
pub(crate) struct Cli {
    /// The reading end of a pipe: when its other end is closed, gpulane ends as by SIGTERM. For programs that start it.
    #[arg(long, value_name = "FD", hide = true)]
    pub(crate) leash: Option<i32>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a plan, or one command over a sweep of settings
    Run(Box<Run>),
    /// Run one model over many files
    Map(Box<Map>),
    /// Continue an interrupted run
    Resume(Box<Resume>),
    /// Show every mistake in a plan; starts nothing
    Check(Check),
    /// Show how runs stand, and why a job is waiting
    Status(Status),
    /// Show what jobs printed
    Logs(Logs),
    /// Follow a run until it ends, and exit with its exit code
    Watch(Watch),
    /// End a run, or some of its jobs
    Cancel(Cancel),
    /// Show this machine's GPUs: memory, load, who holds what
    Gpus(Gpus),
    /// Will it fit? Memory, lanes per GPU, time; starts nothing
    Fit(Fit),
    /// Find out what is wrong with this machine, a process or a run
    Doctor(Doctor),
    /// Train 13 tiny models on 8 simulated GPUs, then evaluate them; or `demo map`: one model over many files
    Demo(Demo),
    /// Write a starter plan
    Init(Init),
    /// Print shell completions
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
}

/// What a run may use and how it is shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct Show {
    /// Print events as JSON lines on stdout, nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// Show only what failed
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Start the run in the background and return
    #[arg(long)]
    pub(crate) detach: bool,
    /// Accept a run directory in DIR although other users may write there [also: `GPULANE_TRUST_DIR`, with colons between]
    #[arg(long = "trust-dir", value_name = "DIR")]
    pub(crate) trust: Vec<PathBuf>,
}

impl Show {
    /// Directories a person vouches for.
    pub(crate) fn trusted(&self) -> Vec<PathBuf> {
        let given = self.trust.iter().filter_map(|dir| std::path::absolute(dir).ok());
        given.chain(trusted_by_environment()).collect()
    }
}

/// Directories whose other users are trusted, as the environment says.
pub(crate) fn trusted_by_environment() -> Vec<PathBuf> {
    let variable = std::env::var_os(env_vars::TRUST_DIR).unwrap_or_default();
    let named = std::env::split_paths(&variable).filter(|dir| !dir.as_os_str().is_empty());
    named.filter_map(|dir| std::path::absolute(dir).ok()).collect()
}

#[derive(Debug, Clone, Args)]
pub(crate) struct Run {
    /// The plan; or leave it out and give a command after `--`
    #[arg(value_name = "PLAN.toml")]
    pub(crate) plan: Option<PathBuf>,
    /// Sweep: one job per value, the product over all -s; {KEY} in the command is replaced
    #[arg(short = 's', long = "sweep", value_name = "KEY=V1,V2,…")]
    pub(crate) sweep: Vec<String>,
    /// Go through these sweeps in step instead of forming their product
    #[arg(long, value_name = "KEY,KEY")]
    pub(crate) zip: Vec<String>,
    /// The run's name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Which GPUs: all, 0,2, GPU-uuid,…, none, sim:8x24GiB
    #[arg(long, default_value = "all")]
    pub(crate) gpus: String,
    /// Jobs at once on each GPU; with `--gpus none`, in all
    #[arg(long, value_name = "N")]
    pub(crate) lanes: Option<u32>,
    /// Memory left free on each GPU
    #[arg(long, value_name = "SIZE", default_value = "0B", hide_default_value = true)]
    pub(crate) headroom: Bytes,
    /// The run's own directory [default: runs/NAME-TIME]
    #[arg(long = "run-dir", value_name = "DIR")]
    pub(crate) place: Option<PathBuf>,
    /// Show the jobs and their commands; starts nothing
    #[arg(long = "dry-run")]
    pub(crate) only_show: bool,
    /// Where to run
    #[arg(long, value_enum, default_value = "local")]
    pub(crate) on: Engine,
    #[command(flatten)]
    pub(crate) show: Show,
    #[command(flatten)]
    pub(crate) sharing: Sharing,
    #[command(flatten)]
    pub(crate) job: JobSettings,
    /// The command, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Settings of the one stage of a run without a plan file.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Without a plan file")]
pub(crate) struct JobSettings {
    /// GPUs each job takes [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) job_gpus: Option<String>,
    /// GPU memory each job takes: 6GiB, auto, exclusive
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Threads each job is given
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<String>,
    /// Most jobs at once
    #[arg(long, value_name = "N")]
    pub(crate) parallel: Option<String>,
    /// How often a failed job is tried again
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<String>,
    /// End a job that takes longer, such as 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// A job without a sign of life for so long is frozen: 10m, off
    #[arg(long, value_name = "TIME")]
    pub(crate) hang: Option<String>,
    /// End a job also without proof that it is frozen, once it has waited for so long: 1h, off [default: off]
    #[arg(long, value_name = "TIME")]
    pub(crate) hang_outside: Option<String>,
    /// A file under {out} that means the work is done; * and ** match any
    #[arg(long, value_name = "GLOB")]
    pub(crate) result: Option<String>,
    /// Hold back starts while the CPUs are saturated: auto, off, or how many start at once
    #[arg(long, value_name = "N")]
    pub(crate) start_gate: Option<String>,
}

impl JobSettings {
    /// What was given: flag, the stage's key it stands for, value.
    pub(crate) fn given(&self) -> Vec<(&'static str, &'static str, &str)> {
        let all = [
            ("--job-gpus", "gpus", &self.job_gpus),
            ("--memory", "memory", &self.memory),
            ("--cpus", "cpus", &self.cpus),
            ("--parallel", "parallel", &self.parallel),
            ("--retries", "retries", &self.retries),
            ("--timeout", "timeout", &self.timeout),
            ("--hang", "hang", &self.hang),
            ("--hang-outside", gpulane_plan::HANG_OUTSIDE, &self.hang_outside),
            ("--result", "result", &self.result),
            ("--start-gate", "start_gate", &self.start_gate),
        ];
        all.into_iter().filter_map(|(flag, key, value)| Some((flag, key, value.as_deref()?))).collect()
    }
}

/// Where a plan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// On this machine
    Local,
    /// On a Slurm cluster
    Slurm,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// A run directory, or the beginning of a name under runs/
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Also run again what failed or was skipped
    #[arg(long)]
    pub(crate) failed: bool,
    /// Go on with what can be read of a damaged journal
    #[arg(long)]
    pub(crate) salvage: bool,
    /// Go on with a map although its inputs or its model have changed
    #[arg(long)]
    pub(crate) accept_changes: bool,
    /// Use these GPUs instead of those the run began with
    #[arg(long)]
    pub(crate) gpus: Option<String>,
    /// Use this many lanes instead
    #[arg(long, value_name = "N")]
    pub(crate) lanes: Option<u32>,
    #[command(flatten)]
    pub(crate) show: Show,
    #[command(flatten)]
    pub(crate) sharing: Sharing,
    // Last: its heading would hold for what follows.
    #[command(flatten)]
    pub(crate) map: MapChanges,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The plan
    #[arg(value_name = "PLAN.toml")]
    pub(crate) plan: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// A run; all runs under runs/ if left out
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Only this job, STAGE/NAME: how it stands and why it waits
    #[arg(value_name = "JOB")]
    pub(crate) job: Option<String>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Every job, not only the interesting ones
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// A run
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Only this job, STAGE/NAME
    #[arg(value_name = "JOB")]
    pub(crate) job: Option<String>,
    /// Go on until the run ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Which attempt [default: the newest]
    #[arg(long, value_name = "N", requires = "job")]
    pub(crate) attempt: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// A run
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Print events as JSON lines on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// A run
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Jobs, STAGE/NAME; all if left out
    #[arg(value_name = "JOB")]
    pub(crate) jobs: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Which demonstration
    #[arg(value_enum, default_value = "run")]
    pub(crate) what: Demonstration,
    /// Which GPUs to use [default: sim:8x24GiB, for `map` none]
    #[arg(long)]
    pub(crate) gpus: Option<String>,
    /// Where to put the demo's files and runs
    #[arg(long, default_value = "gpulane-demo", value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// What `demo` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Demonstration {
    /// Many models on many GPUs
    Run,
    /// One model over many files
    Map,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The file to write
    #[arg(default_value = "plan.toml", value_name = "FILE")]
    pub(crate) file: PathBuf,
}
