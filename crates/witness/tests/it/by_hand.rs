//! Evidence written by hand, for what no test can bring about.

use gpulane_witness::{Evidence, Frame, ProcessEvidence, Python, Source, ThreadEvidence, Wait};

/// A Python process with one thread that waits for a lock at `train.py:12`.
pub(crate) fn process(pid: u32) -> ProcessEvidence {
    ProcessEvidence {
        pid,
        parent: 1,
        start: 100,
        command: "python train.py".to_owned(),
        state: 'S',
        threads: vec![thread(pid, wait("futex", Some(false)), &["train.py:12 step", "train.py:40 <module>"])],
        python: Python::Version("3.11.7".to_owned()),
        ..ProcessEvidence::default()
    }
}

/// A thread that sleeps in this wait, with these frames: `FILE:LINE FUNCTION`, innermost first.
pub(crate) fn thread(tid: u32, wait: Wait, frames: &[&str]) -> ThreadEvidence {
    let frames = frames.iter().map(|text| frame(text)).collect();
    ThreadEvidence {
        tid,
        name: "python".to_owned(),
        state: 'S',
        wait: Some(wait),
        switches: 7,
        frames,
        ..ThreadEvidence::default()
    }
}

/// A wait in this call, for what such a call waits for where nothing more is known of it.
pub(crate) fn wait(call: &str, timed: Option<bool>) -> Wait {
    let sources = match call {
        "futex" => vec![Source::OwnThreads],
        "nanosleep" | "clock_nanosleep" => vec![Source::Clock],
        _ => Vec::new(),
    };
    Wait { call: call.to_owned(), timed, sources, ..Wait::default() }
}

pub(crate) fn seen(processes: Vec<ProcessEvidence>) -> Evidence {
    Evidence { processes, ..Evidence::default() }
}

/// `std:` stands for the standard library, `lib:` for installed packages, and all else for the user's own folder.
fn frame(text: &str) -> Frame {
    let (place, function) = text.split_once(' ').unwrap();
    let (file, line) = place.rsplit_once(':').unwrap();
    let file = match file.split_once(':') {
        Some(("std", rest)) => format!("/usr/lib/python3.11/{rest}"),
        Some(("lib", rest)) => format!("/venv/lib/python3.11/site-packages/{rest}"),
        _ => format!("/home/me/{file}"),
    };
    Frame { function: function.to_owned(), file, line: line.parse().unwrap() }
}
