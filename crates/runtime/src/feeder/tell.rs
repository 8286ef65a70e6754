//! The feeder's words to the engine: a JSON object a line on standard output. Told only of what is durable.

use std::io::{self, Write};
use std::sync::Mutex;

use gpulane_model::FeederWord;

/// One line at a time, from whichever thread.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    /// Lines must not mix.
    lock: Mutex<()>,
}

impl Telling {
    /// Says it. An engine that is gone cannot be told; this process is about to end with it.
    pub(crate) fn say(&self, word: &FeederWord) {
        let Ok(mut line) = serde_json::to_vec(word) else { return };
        line.push(b'\n');
        let _held = self.lock.lock();
        let mut out = io::stdout().lock();
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }

    /// Something a person should know.
    pub(crate) fn note(&self, text: impl Into<String>) {
        self.say(&FeederWord::Note { text: text.into() });
    }
}
