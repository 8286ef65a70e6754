//! scratch
#![allow(clippy::all, clippy::pedantic, clippy::print_stdout)]
use gpulane_plan::*;
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    for path in args {
        let source = Source { name: path.clone(), text: std::fs::read_to_string(&path).unwrap() };
        let start = std::time::Instant::now();
        let outcome = check(&source, Default::default());
        let took = start.elapsed();
        print!("{}", render(&source, &outcome.diagnostics, false));
        if let Some(plan) = &outcome.plan {
            println!("consistent {} jobs {} first {:?} last {:?}", plan.is_consistent(), plan.jobs.len(), plan.jobs.first(), plan.jobs.last());
        }
        println!("{} diags, {:?}, render {:?}", outcome.diagnostics.len(), took, start.elapsed()-took);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        println!("{}", status.lines().filter(|l| l.starts_with("VmHWM")||l.starts_with("VmRSS")).collect::<Vec<_>>().join(" "));
    }
}
