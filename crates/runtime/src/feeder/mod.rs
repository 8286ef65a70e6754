//! The feeder: the process beside the workers of a map. It owns the list of items, the threads that load them, the ring, the workers'
//! socket and the parts. A process of its own, so that a decoder that crashes takes down neither the engine nor a worker.
//!
//! ```text
//! items ─► loader threads ─► slot of the ring ─► worker ─► results ─► parts ─► commit ─► told to the engine
//! ```

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
mod unfit;
mod writing;

pub(crate) mod begin;
pub(crate) mod flow;
pub(crate) mod orders;
pub(crate) mod sameness;

use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use gpulane_model::{ExitCode, FeederWord};

use crate::process::inherited::raise_descriptor_limit;
use crate::process::signals::Signals;
use hub::Hub;
use orders::FeederOrders;
use tell::Telling;

/// So often a map that waits for space looks whether it is to end; a second between two tries.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 10;

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
    let (begun, listener) = match open(&orders, &telling, &signals) {
        Ok(opened) => opened,
        Err(NotOpened::Told) => return Ok(ExitCode::Terminated.code()),
        Err(NotOpened::Because(because)) => {
            telling.say(&FeederWord::Stopped { because, refused: true });
            return Ok(1);
        }
    };
    let deadly = careful::try_suspects(&begun);
    Hub::new(begun, listener, deadly, signals, telling)?.run()
}

/// Why a map is not open.
enum NotOpened {
    /// It cannot or must not be.
    Because(String),
    /// This process was told to end.
    Told,
}

fn open(
    orders: &FeederOrders,
    telling: &Telling,
    signals: &Signals,
) -> Result<(begin::Begun, UnixListener), NotOpened> {
    let mut shortage = Shortage { telling, signals, told: false };
    let asked = shortage.outlast(|| begin::ask(orders))?;
    // Before anything else: workers that connect wait in line while the items are listed, however long that takes.
    let listener = shortage.outlast(|| {
        let listener = gpulane_feed::wire::listen(&asked.dir);
        listener.map_err(|error| format!("cannot make the workers' socket: {error}"))
    })?;
    let begun = shortage.outlast(|| begin::begin(asked.clone(), orders, telling))?;
    if shortage.told {
        telling.say(&FeederWord::Trouble { text: "there is space again for the map; going on".to_owned() });
    }
    Ok((begun, listener))
}

/// A disk that is full passes: the map waits for it and does not stop.
struct Shortage<'a> {
    telling: &'a Telling,
    signals: &'a Signals,
    /// Said once.
    told: bool,
}

impl Shortage<'_> {
    /// Does it again until the disk has space for it.
    fn outlast<T>(&mut self, mut work: impl FnMut() -> Result<T, String>) -> Result<T, NotOpened> {
        loop {
            match work() {
                Ok(done) => return Ok(done),
                Err(because) if !is_of_space(&because) => return Err(NotOpened::Because(because)),
                Err(because) if !self.told => {
                    self.told = true;
                    let text =
                        format!("{because}; the map waits: free some space on that disk and it goes on");
                    self.telling.say(&FeederWord::Trouble { text });
                }
                Err(_) => {}
            }
            for _ in 0..LOOKS {
                if !self.signals.take().is_empty() {
                    return Err(NotOpened::Told);
                }
                std::thread::sleep(LOOK);
            }
        }
    }
}

/// Whether words about an error, whichever file it was of, say that there is no space: its number is in them.
fn is_of_space(because: &str) -> bool {
    [libc::ENOSPC, libc::EDQUOT].iter().any(|code| because.contains(&format!("(os error {code})")))
}
