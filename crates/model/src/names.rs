//! Names: what gpulane's own processes call themselves, by which they are told from jobs; and what stages and jobs may be called.

/// `argv[0]` of the guardian.
pub const GUARDIAN: &str = "lane-guardian";
/// `argv[0]` of the engine.
pub const ENGINE: &str = "gpulane-engine";
/// `argv[0]` of the feeder of a map.
pub const FEEDER: &str = "lane-feeder";

/// Longest name of a stage or job in bytes: leaves room for suffixes below the usual limit of 255.
pub const LONGEST_NAME: usize = 120;

/// Whether the character may stand in the name of a plan, a stage or a job: safe in every file system, shell and terminal.
pub fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-')
}

/// Whether the character may stand in a job's name, which is made of `key=value` pairs.
pub fn is_allowed_in_job(c: char) -> bool {
    is_plain(c) || matches!(c, '=' | ',')
}

/// Whether a stage may be called so. The name becomes a directory's.
pub fn is_stage_name(name: &str) -> bool {
    is_name(name, is_plain)
}

/// Whether a job may be called so within its stage. The name becomes a directory's.
pub fn is_job_name(name: &str) -> bool {
    is_name(name, is_allowed_in_job)
}

/// Whether it is `STAGE/NAME`.
pub fn is_full_job_name(name: &str) -> bool {
    name.split_once('/').is_some_and(|(stage, job)| is_stage_name(stage) && is_job_name(job))
}

fn is_name(name: &str, allowed: fn(char) -> bool) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.starts_with(['.', '-'])
        && name.chars().all(allowed)
}
