//! What `doctor` is asked.

use clap::Args;
use gpulane_model::Millis;

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // flags as they are typed
#[command(after_help = "Exit codes: 0 nothing is wrong, 2 no such process or run, 3 something is.")]
pub(crate) struct Doctor {
    /// A process id, or a run; this machine if left out
    #[arg(value_name = "PID|RUN")]
    pub(crate) subject: Option<String>,
    /// End processes that a run which is over has left, or all such runs; nothing else
    #[arg(long, conflicts_with = "which_tool")]
    pub(crate) fix: bool,
    /// How long to look at a process, such as 30s
    #[arg(long = "for", value_name = "TIME", default_value = "2s", requires = "subject")]
    pub(crate) look_for: Millis,
    /// Which tool for which case: many models, many GPUs, a cluster, threads
    #[arg(long, conflicts_with = "subject")]
    pub(crate) which_tool: bool,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Also what is fine in full; of a process, the stacks of all threads
    #[arg(long, short)]
    pub(crate) verbose: bool,
}
