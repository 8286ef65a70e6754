"""Bugs to plant: small edits of gpulane's source that break a promise. The torture must find each without being told.

An edit whose old text is gone fails loudly: then find the new place of the same mistake.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Bug:
    """One edit."""

    name: str
    file: str
    old: str
    new: str
    # Further edits of the same file.
    more: tuple[tuple[str, str], ...] = ()

    def plant(self, source: Path) -> None:
        """Makes the edits in a copy of the source."""
        path = source / self.file
        text = path.read_text("utf-8")
        for old, new in ((self.old, self.new), *self.more):
            if text.count(old) != 1:
                raise LookupError(f"{self.name}: `{old}` stands {text.count(old)} times in {self.file}, not once")
            text = text.replace(old, new)
        path.write_text(text, "utf-8")


BUGS = [
    Bug(
        "outputs are not synced before they are published",
        "crates/runtime/src/engine/publish/durable.rs",
        "Ok(file) => fsync(file).map_err(SyncError::lost)?,",
        "Ok(_) => {}",
    ),
    Bug(
        "the journal is announced before it is synced",
        "crates/journal/src/disk.rs",
        "self.sync_data()",
        "Ok(())",
    ),
    Bug(
        "the ledger of a map is not synced",
        "crates/parts/src/ledger.rs",
        ".and_then(|()| self.file.sync_data());",
        ";",
    ),
    Bug(
        "the guardian does not end what is left",
        "crates/runtime/src/guardian.rs",
        "for process in Table::read().closure(&children.read()) {",
        "for process in Table::read().closure(&children.read()).into_iter().take(0) {",
    ),
    Bug(
        "jobs inherit the engine's signal mask",
        "crates/runtime/src/process/inherited.rs",
        "libc::sigprocmask(libc::SIG_SETMASK, &raw const self.mask, std::ptr::null_mut());",
        "",
    ),
    Bug(
        "a failed try is not counted",
        "crates/core/src/on_exit.rs",
        "if failures > retries ||",
        "if failures > retries + 1 ||",
    ),
    Bug(
        "the run's lock is not taken",
        "crates/journal/src/lock.rs",
        "if try_lock(file, FlockOperation::NonBlockingLockExclusive, path)? {",
        "if try_lock(file, FlockOperation::NonBlockingLockExclusive, path)? || true {",
    ),
    Bug(
        "a published output is not recognised by a resume, and published twice",
        "crates/runtime/src/engine/recovery.rs",
        "if let Some(attempt) = published_by(self.dir, self.plan, self.past, job) {",
        "if let Some(attempt) = published_by(self.dir, self.plan, self.past, job).filter(|_| false) {",
    ),
    Bug(
        "an adopted child is not reaped",
        "crates/runtime/src/engine/ending/adopted.rs",
        "match waitpid(Some(pid), WaitOptions::NOHANG) {",
        # Seen, and left in the table of processes.
        "use rustix::process::{WaitId, WaitIdOptions, waitid};\n"
        "    match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT) {",
    ),
    Bug(
        "a decoder's handle is kept after an error",
        "crates/decode/src/jpeg/mod.rs",
        "opened(handle, header, &seen, true)\n            }\n"
        "            Err(error) => Err(Rejection::broken(reason(error))),",
        "opened(handle, header, &seen, true)\n            }\n"
        "            Err(error) => { KEPT.set(Some(handle)); Err(Rejection::broken(reason(error))) }",
        (
            (
                "fn fresh() -> Result<Decompressor, Rejection> {",
                "use std::cell::Cell;\n"
                "thread_local! { static KEPT: Cell<Option<Decompressor>> = const { Cell::new(None) }; }\n"
                "fn fresh() -> Result<Decompressor, Rejection> {\n"
                "    if let Some(kept) = KEPT.take() { return Ok(kept); }",
            ),
        ),
    ),
    Bug(
        "a resumed map forgets which items are committed",
        "crates/parts/src/ledger.rs",
        "if self.failed.contains(number) || !self.done.insert(number) {",
        "if self.failed.contains(number) {",
    ),
]
