//! scratch
use gpulane_plan::*;
fn main() {
    for path in std::env::args().skip(1) {
        let source = Source { name: path.clone(), text: std::fs::read_to_string(&path).unwrap() };
        let mut best = std::time::Duration::MAX;
        let mut what = (0, 0);
        for _ in 0..5 {
        let start = std::time::Instant::now();
        let outcome = check(&source, Default::default());
        best = best.min(start.elapsed());
        what = (outcome.plan.map_or(0, |p| p.jobs.len()), outcome.diagnostics.len());
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        println!("{path} {what:?} best {best:?} {}", status.lines().filter(|l| l.starts_with("VmHWM")).collect::<Vec<_>>().join(" "));
    }
}
