//! Which GPUs are leased to runs, and who waits for one.

use gpulane_files::user_name;
use gpulane_gpu::{Holder, LeaseDirOwner, Survey, lease_dir_owner, survey};
use rustix::process::geteuid;

use super::sight::Sight;
use crate::number::counted;
use crate::{Finding, proc};

const TOPIC: &str = "leases";

pub(super) fn check(_: &Sight) -> Vec<Finding> {
    let me = user_name(geteuid().as_raw());
    let mut found = of(&survey(), &me, |pid| proc::look(pid).is_some());
    found.extend(lease_dir_owner().as_ref().and_then(owned_by_another));
    found
}

/// The directory belongs to whoever came first.
fn owned_by_another(dir: &LeaseDirOwner) -> Option<Finding> {
    let seen = format!("leases are kept in {}, which belongs to {}", dir.path.display(), dir.user);
    (!dir.safe).then(|| {
        Finding::warning(TOPIC, seen)
            .because("who owns the directory can remove other users' leases; gpulane notices, but only afterwards")
            .then("ask the administrator for packaging/tmpfiles.d/gpulane.conf    # a directory of root's, see docs/gpus.md")
    })
}

fn of(survey: &Survey, me: &str, lives: impl Fn(u32) -> bool) -> Vec<Finding> {
    let (living, stale): (Vec<_>, Vec<_>) = survey.leases.iter().partition(|(_, holder)| lives(holder.pid));
    let mut found: Vec<Finding> =
        stale.into_iter().map(|(gpu, holder)| stale_lease(gpu, holder, me)).collect();
    if let Some(first) = survey.waiting.first() {
        let count = survey.waiting.len();
        found.push(
            Finding::warning(
                TOPIC,
                format!(
                    "{} for a GPU; the next is {}",
                    counted(count, "run waits", "runs wait"),
                    first.run.display()
                ),
            )
            .because("every GPU they may use is leased to another run")
            .then("gpulane gpus"),
        );
    }
    if found.is_empty() {
        found.push(Finding::fine(
            TOPIC,
            match living.len() {
                0 => "no GPU is leased".to_owned(),
                count => format!("{} leased to living runs", counted(count, "GPU is", "GPUs are")),
            },
        ));
    }
    found
}

fn stale_lease(gpu: &str, holder: &Holder, me: &str) -> Finding {
    let run = holder.run.display();
    let finding = Finding::bad(
        TOPIC,
        format!("{gpu} is leased to {run} of {}, whose engine (pid {}) is gone", holder.user, holder.pid),
    )
    .because("jobs of that run still live and hold the lease, so no other run gets this GPU");
    // What another user has written there is no command for us.
    if holder.user != me {
        return finding;
    }
    let run = crate::run::shown(&holder.run);
    finding
        .then("gpulane doctor --fix")
        .then(format!("gpulane resume {run}    # or go on with that run, which ends them first"))
}

#[cfg(test)]
mod tests {
    use gpulane_model::Millis;

    use super::*;
    use crate::Severity;

    #[test]
    fn a_lease_whose_engine_is_gone_is_bad() {
        let holder = Holder { pid: 7, user: "ada".into(), run: "/runs/a".into(), since: Millis(0) };
        let survey = Survey { leases: vec![("GPU-0".into(), holder)], waiting: Vec::new() };
        assert_eq!(of(&survey, "ada", |_| true)[0].severity, Severity::Fine);
        let found = of(&survey, "ada", |_| false);
        assert_eq!(found[0].severity, Severity::Bad);
        assert!(found[0].seen.contains("/runs/a of ada"), "{found:?}");
        assert!(found[0].next.iter().any(|next| next.starts_with("gpulane resume /runs/a")), "{found:?}");
        assert_eq!(of(&survey, "bob", |_| false)[0].next, Vec::<String>::new(), "not bob's to go on with");
    }
}
