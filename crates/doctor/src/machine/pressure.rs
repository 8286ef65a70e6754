//! How long the machine makes its processes wait, by the kernel's own count (PSI).

use std::fs::read_to_string;

use super::sight::Sight;
use crate::Finding;

const TOPIC: &str = "pressure";
/// Percent of the last ten seconds in which somebody waited for a CPU, and all for memory.
const CPU: f64 = 60.0;
const MEMORY: f64 = 10.0;

pub(super) fn check(_: &Sight) -> Vec<Finding> {
    let at = |name: &str| read_to_string(format!("/proc/pressure/{name}")).ok();
    vec![judge(at("cpu").as_deref(), at("memory").as_deref())]
}

fn judge(cpu: Option<&str>, memory: Option<&str>) -> Finding {
    let Some(waiting) = cpu.and_then(|text| average(text, "some")) else {
        return Finding::fine(
            TOPIC,
            "this kernel does not tell of pressure; starts are held back by the load instead",
        );
    };
    if let Some(stalled) = memory.and_then(|text| average(text, "full")).filter(|part| *part > MEMORY) {
        return Finding::bad(TOPIC, format!("for {stalled:.0}% of the time everything waited for memory"))
            .because("the machine swaps or drops what it needs again at once; jobs hardly move")
            .then("ps -eo pid,user,rss,args --sort=-rss | head");
    }
    if waiting > CPU {
        return Finding::warning(TOPIC, format!("for {waiting:.0}% of the time somebody waited for a CPU"))
            .because("more threads run than there are CPUs; GPUs wait for data meanwhile")
            .then("ps -eo pid,user,pcpu,nlwp,args --sort=-pcpu | head")
            .then("cpus = 2    # in the plan, for each job");
    }
    Finding::fine(TOPIC, format!("CPUs are waited for {waiting:.0}% of the time"))
}

/// The average over ten seconds in a line such as `some avg10=1.53 avg60=…`.
fn average(text: &str, kind: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(kind))?;
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;

    #[test]
    fn pressure_is_judged_by_its_average() {
        let line = |kind: &str, part: f64| format!("{kind} avg10={part} avg60=0.00 avg300=0.00 total=1\n");
        let judge =
            |cpu: f64, memory: f64| judge(Some(&line("some", cpu)), Some(&line("full", memory))).severity;
        assert_eq!(judge(5.0, 0.0), Severity::Fine);
        assert_eq!(judge(90.0, 0.0), Severity::Warning);
        assert_eq!(judge(0.0, 50.0), Severity::Bad);
        assert_eq!(super::judge(None, None).severity, Severity::Fine);
    }
}
