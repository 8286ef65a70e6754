//! What earlier runs of the same command tell of a stage. A hint for order and packing, never a promise.

use serde::{Deserialize, Serialize};

use crate::Bytes;

/// What is known of a stage's jobs before any of them has run here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// The most GPU memory a job of it held.
    pub peak: Option<Bytes>,
    /// How long a job of it took, on average.
    pub seconds: Option<f64>,
}
