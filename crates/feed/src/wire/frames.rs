//! The kinds of frames and their fields.

use gpulane_model::{Decode, Members, NanPolicy};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{MAGIC, PREFIX, PROTOCOL};

/// What a process at the other end of the socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It runs the model.
    Worker,
    /// It runs the model's own `load(path)`.
    Loader,
}

/// A frame from a worker or a loader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum FromWorker {
    /// The first frame of a connection.
    Hello {
        /// The version of the protocol it speaks.
        protocol: u32,
        /// What it is for.
        role: Role,
        /// The job it is, as the engine told it.
        job: String,
        /// The attempt of that job.
        attempt: u32,
        /// Its process.
        pid: u32,
        /// It has its model from before and connects anew.
        #[serde(default)]
        ready: bool,
    },
    /// The model is loaded.
    Ready {
        /// What it runs on, for a person.
        device: String,
        /// `torch`, `cupy`, `numpy`, `none` or another.
        framework: String,
        /// Kinds of items beyond plain ones that it can finish itself: `planes`, `jpeg`.
        #[serde(default)]
        accepts: Vec<String>,
        /// What the model's class asks for. Text as it was written, so that a mistake can be named.
        #[serde(default)]
        decode: Option<String>,
        /// The members of samples the model's class asks for. As they were written, so that a mistake can be named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        members: Option<Vec<String>>,
        /// Items per batch the model's class asks for.
        #[serde(default)]
        batch: Option<u32>,
        /// The model has its own `load`.
        #[serde(default)]
        load: bool,
        /// How long the setup took.
        #[serde(default)]
        seconds: f64,
    },
    /// The model could not be loaded; the process exits.
    SetupFailed {
        /// The error in a line.
        error: String,
        /// Where it happened.
        #[serde(default)]
        traceback: String,
    },
    /// The model works on this batch now. Where items have a time limit, said before every call of the model.
    Began {
        /// The batch's id.
        batch: u64,
        /// How many of its items the model was given; absent: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<u32>,
    },
    /// The model, or its `load`, has not come back within its time.
    Overdue {
        /// The batch's id; a loader has none.
        #[serde(default)]
        batch: u64,
        /// Where it is, the innermost place first, in a line.
        stack: String,
    },
    /// What came out of a batch; the rows are the body.
    Results(ResultsHead),
    /// It is alive and idle: the answer to `wait`.
    Here,
    /// A loader wrote an item into the ring.
    Loaded {
        /// As in the ring's table.
        kind: u8,
        /// As in the ring's table.
        #[serde(rename = "type")]
        element: u8,
        /// Shape of an array; at most four sides.
        shape: Vec<u32>,
        /// Bytes it wrote.
        bytes: u64,
    },
    /// The item did not fit; it will be asked again.
    TooLarge {
        /// What it needs.
        bytes: u64,
    },
    /// The model's `load` failed.
    LoadFailed {
        /// Why, for a person.
        reason: String,
    },
}

/// The head of `results`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultsHead {
    /// The batch's id.
    pub batch: u64,
    /// Rows in the body.
    pub count: u64,
    /// What the body holds; read by whoever writes the parts.
    pub columns: Value,
    /// Items without a row.
    #[serde(default)]
    pub failed: Vec<FailedAt>,
    /// Where the worker's time went.
    #[serde(default)]
    pub seconds: SecondsSpent,
    /// What was moved for it.
    #[serde(default)]
    pub bytes: BytesMoved,
    /// Largest number of items given to the model at once.
    #[serde(default)]
    pub split: u32,
    /// How often memory ran out on the way.
    #[serde(default)]
    pub ooms: u32,
    /// What failed did so by how the model answers, not by its state: trying it again one by one would hide that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub certain: bool,
    /// GPU memory, where there is a GPU.
    #[serde(default)]
    pub memory: Option<GpuMemory>,
}

/// An item of a batch that failed in the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAt {
    /// Its place in the batch, from 0.
    pub at: u32,
    /// Why, for a person.
    pub reason: String,
}

/// Where a worker's time went with a batch, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecondsSpent {
    /// Waiting for the batch.
    pub wait: f64,
    /// Copying it to the device and finishing it there.
    pub copy: f64,
    /// In the model.
    pub model: f64,
    /// Fetching results.
    pub fetch: f64,
}

/// Bytes a worker moved for a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BytesMoved {
    /// From the ring to the device.
    pub copied_to_device: u64,
    /// Within the host's memory: 0 where the ring is used in place.
    pub copied_on_host: u64,
}

/// A worker's GPU memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuMemory {
    /// Most that was in use.
    pub peak: Option<u64>,
    /// All there is.
    pub total: Option<u64>,
}

/// A frame to a worker or a loader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum ToWorker {
    /// Load the model now.
    Setup {
        /// What it is made with.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        args: Map<String, Value>,
    },
    /// The ring; its memfd comes with the frame's first byte.
    Ring {
        /// How many slots it has.
        slots: u32,
        /// Bytes of each.
        slot_bytes: u64,
        /// Entries of a slot's table.
        capacity: u32,
        /// What the model is to get.
        decode: Decode,
        /// Which members of its sample come with an item; absent: none.
        #[serde(default, skip_serializing_if = "Members::is_none")]
        members: Members,
        /// What becomes of results that are not numbers.
        nan: NanPolicy,
        /// To a loader, which makes the model now: what it is made with.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        args: Map<String, Value>,
        /// Seconds the model may take for each item it is given; absent: as long as it likes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        item_timeout: Option<f64>,
    },
    /// Work on these entries of a slot.
    Batch {
        /// Its id.
        batch: u64,
        /// The slot.
        slot: u32,
        /// The first entry.
        first: u32,
        /// How many.
        count: u32,
        /// The items are one array, back to back.
        packed: bool,
        /// Where the items' data begins in the slot.
        data: u64,
        /// Where it ends.
        data_end: u64,
        /// A worker died over it: sent alone.
        careful: bool,
    },
    /// Nothing to do yet; answer `here`.
    Wait,
    /// No more batches.
    Bye,
    /// Load one item into the ring.
    Load {
        /// What to load.
        path: String,
        /// The slot to write to.
        slot: u32,
        /// Where in the slot.
        offset: u64,
        /// How much may be written.
        room: u64,
    },
}

/// A frame up to its body, of which only the length is said; the body is to follow it on the socket.
///
/// A head that cannot be written as JSON (none of this module's can fail to) gives a frame no reader takes.
pub fn encode(head: &impl Serialize, body_len: u64) -> Vec<u8> {
    let head = serde_json::to_vec(head).unwrap_or_default();
    let head_len = u32::try_from(head.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(PREFIX + head.len());
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&[PROTOCOL, 0]);
    frame.extend_from_slice(&head_len.to_le_bytes());
    frame.extend_from_slice(&body_len.to_le_bytes());
    frame.extend_from_slice(&head);
    frame
}
