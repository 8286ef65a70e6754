//! How stages share GPUs: keys that are right by themselves but mean nothing beside each other.

use std::collections::BTreeMap;

use gpulane_model::Memory;

use crate::diagnostic::Span;
use crate::document::RawStage;
use crate::problems::Problems;
use crate::settings::Settings;

/// What is wrong with `memory` and `mps`.
pub(crate) fn check(stages: &[RawStage], problems: &mut Problems<'_>) {
    // `mps` in the defaults is for those stages it can serve: it is idle only if it serves none of them.
    let mut served: BTreeMap<(usize, usize), bool> = BTreeMap::new();
    for RawStage { settings, .. } in stages {
        check_memory(settings, problems);
        if let (Some(true), Some(span)) = (settings.mps, settings.place_of("mps")) {
            *served.entry((span.start, span.end)).or_default() |= shares(settings);
        }
    }
    for ((start, end), served) in served {
        if !served {
            idle_mps(&(start..end), problems);
        }
    }
}

fn check_memory(settings: &Settings, problems: &mut Problems<'_>) {
    let takes = settings.memory.is_some_and(|memory| memory != Memory::Exclusive);
    if settings.gpus != Some(0) || !takes || settings.inherited.memory {
        return;
    }
    if let Some(span) = settings.place_of("memory") {
        problems
            .error(span, "`memory` is GPU memory, and this stage has `gpus = 0`")
            .label("there is no GPU to share")
            .help("remove `memory`, or give the stage a GPU with `gpus = 1`");
    }
}

fn shares(settings: &Settings) -> bool {
    // A `memory` that is wrong was reported; what it should have been is not known.
    let unreadable = settings.memory.is_none() && settings.has_any(&["memory"]);
    let memory = settings.memory.unwrap_or_default();
    settings.gpus != Some(0) && (unreadable || memory != Memory::Exclusive)
}

fn idle_mps(span: &Span, problems: &mut Problems<'_>) {
    problems
        .warning(span, "`mps` has no effect unless jobs share a GPU")
        .label("each job has its GPU to itself")
        .help("let them share: `memory = \"auto\"`, or a size such as `memory = \"6GiB\"`");
}
