//! The thread that tells what would otherwise wait: a slot that fills slowly while a worker is idle, failures without a slot
//! to tell them with. It sleeps until the next instant at which there could be something.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::open::Open;
use super::shared::{Shared, State};

/// How long an item may wait in an open slot while a worker has nothing to do.
const PATIENCE: Duration = Duration::from_millis(200);

/// Runs until it is over.
pub(super) fn run(shared: &Shared) {
    let mut state = shared.lock();
    while !state.is_over() {
        let Some(due) = due(&state) else {
            state = shared.keeper.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let wait = due.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            let slept = shared.keeper.wait_timeout(state, wait);
            state = slept.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        // Counted as busy, so that nobody tells the end meanwhile.
        state.busy += 1;
        if let Some(open) = take_waiting(&mut state) {
            drop(state);
            shared.complete(open);
        } else {
            shared.tell_failed(state);
        }
        state = shared.lock();
        state.busy -= 1;
        shared.settle(state);
        state = shared.lock();
    }
}

/// The slot that is to be closed next, if a worker is idle.
fn waiting(state: &State) -> Option<usize> {
    let idle = state.slots_out() < state.workers as usize;
    let waits = |open: &Open| !open.is_closed() && open.waits_since().is_some();
    if idle { state.open.iter().position(waits) } else { None }
}

fn due(state: &State) -> Option<Instant> {
    let slot = waiting(state).and_then(|at| state.open[at].waits_since());
    let since = [slot, state.failed_since].into_iter().flatten().min()?;
    Some(since + PATIENCE)
}

/// Closes the slot that has waited too long. Gives it if nothing is being written to it; otherwise the last writer tells it.
fn take_waiting(state: &mut State) -> Option<Open> {
    let at = waiting(state)?;
    let open = &mut state.open[at];
    if open.waits_since()?.elapsed() < PATIENCE {
        return None;
    }
    open.close();
    if open.is_quiet() { Some(state.open.remove(at)) } else { None }
}
