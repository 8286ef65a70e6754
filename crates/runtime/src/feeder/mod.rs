//! The feeder: the process beside the workers of a map. It owns the list of items, the threads that load them, the ring, the workers'
//! socket and the parts. A process of its own, so that a decoder that crashes takes down neither the engine nor a worker.
//!
//! ```text
//! items ─► loader threads ─► slot of the ring ─► worker ─► results ─► parts ─► commit ─► told to the engine
//! ```

mod begin;
mod careful;
mod connection;
mod ending;
mod figures;
mod hub;
mod live;
mod on_frame;
mod outside;
mod source;
mod tell;
mod writing;

pub(crate) mod flow;
pub(crate) mod orders;
pub(crate) mod sameness;

use std::io::{self, Write};
use std::sync::Arc;

use gpulane_model::{ExitCode, FeederWord};

use crate::process::inherited::raise_descriptor_limit;
use crate::process::signals::Signals;
use hub::Hub;
use orders::FeederOrders;
use tell::Telling;

/// The feeder's `main`. Returns its exit code.
pub(crate) fn main() -> u8 {
    if let Some(code) = careful::as_trial() {
        return code;
    }
    feed().unwrap_or_else(|error| {
        // Standard error is the feeder's log.
        let _ = writeln!(io::stderr(), "feeder: {error}");
        let hint = gpulane_journal::io_hint(&error).map(|hint| format!("; {hint}")).unwrap_or_default();
        let because = format!("the feeder cannot go on: {error}{hint}");
        Telling::default().say(&FeederWord::Stopped { because, refused: false });
        ExitCode::Internal.code()
    })
}

fn feed() -> io::Result<u8> {
    let orders = FeederOrders::take()?;
    let _ = rustix::thread::set_name(c"lane-feeder");
    let signals =
        Signals::listen(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE])?;
    raise_descriptor_limit();
    let telling = Arc::new(Telling::default());
    // First of all: workers that connect wait in line while the items are listed, however long that takes.
    let opened = begin::ask(&orders).and_then(|asked| {
        let listener = gpulane_feed::wire::listen(&asked.dir)
            .map_err(|error| format!("cannot make the workers' socket: {error}"))?;
        Ok((begin::begin(asked, &orders, &telling)?, listener))
    });
    let (begun, listener) = match opened {
        Ok(opened) => opened,
        Err(because) => {
            telling.say(&FeederWord::Stopped { because, refused: true });
            return Ok(1);
        }
    };
    let deadly = careful::try_suspects(&begun);
    Hub::new(begun, listener, deadly, signals, telling)?.run()
}
