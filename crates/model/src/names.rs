//! What gpulane's own processes call themselves: how one is told from a job.

/// `argv[0]` of the guardian.
pub const GUARDIAN: &str = "lane-guardian";
/// `argv[0]` of the engine.
pub const ENGINE: &str = "gpulane-engine";
/// `argv[0]` of the feeder of a map.
pub const FEEDER: &str = "lane-feeder";
