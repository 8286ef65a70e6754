//! The values of a stage's keys that are more than a number or a string.

use serde::{Deserialize, Serialize};

use crate::{Bytes, Millis};

/// `memory`: how much of a GPU a job takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// The whole GPU.
    #[default]
    Exclusive,
    /// Measured from the first job.
    Auto,
    /// This much.
    Reserve(Bytes),
}

/// `--foreign`: what becomes of GPUs that other people's processes use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Foreign {
    /// They are left alone while that lasts; with nothing else to use, the run does not start.
    #[default]
    Avoid,
    /// They are left alone while that lasts, however long.
    Wait,
    /// They are used all the same, as far as their free memory goes.
    Ignore,
}

/// `cpus`: threads given to a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cpus {
    /// Cores divided by lanes.
    #[default]
    Auto,
    /// This many.
    Count(u32),
}

/// `hang`: when a job counts as frozen, and what happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hang {
    /// How long every sign of life must be absent.
    pub after: Millis,
    /// How long a wait may last that is only told, because nothing proves that it cannot end; `None`: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Millis>,
    /// What to do then.
    pub action: HangAction,
    /// Nobody said how long: it follows what the stage's jobs normally show.
    #[serde(default)]
    pub adaptive: bool,
}

impl Default for Hang {
    fn default() -> Self {
        Self { after: Millis::seconds(600), outside: None, action: HangAction::default(), adaptive: true }
    }
}

/// What happens to a frozen job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HangAction {
    /// End it and try again.
    #[default]
    Retry,
    /// End it; it failed.
    Fail,
    /// Say so and leave it.
    Warn,
}

/// `standbys`: warm processes kept ready for a stage with an `entry`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standbys {
    /// gpulane decides.
    #[default]
    Auto,
    /// None.
    Off,
    /// This many per lane.
    PerLane(u32),
}

/// `start_gate`: whether starts wait while the CPUs are saturated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartGate {
    /// By measured CPU pressure.
    #[default]
    Auto,
    /// Never.
    Off,
    /// At most this many starts at once.
    AtOnce(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_frozen_before_outside_existed_is_read_and_has_no_end_for_waits() {
        let read: Hang = serde_json::from_str(r#"{"after":90000,"action":"fail"}"#).unwrap();
        let hang =
            Hang { after: Millis::seconds(90), action: HangAction::Fail, outside: None, adaptive: false };
        assert_eq!(read, hang);
        assert_eq!(
            serde_json::to_string(&hang).unwrap(),
            r#"{"after":90000,"action":"fail","adaptive":false}"#
        );
    }
}
