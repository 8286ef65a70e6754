"""A worker's life: connect, set up, work on batches, answer. Keeps the model when the feeder is started again."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import time
from typing import Any, Callable, Dict, NamedTuple, Optional, Union

from ._batches import Ready
from ._calls import Around, Broken, Caller, Outcome
from ._device import choose, expect
from ._errors import last_line_of, say, shown
from ._leaving import TERMINATED, Terminated, begin_leaving, is_leaving, keep_until_exit
from ._model import asked_members, load_model
from ._overdue import Watch, limit_of
from ._ring import Batch, Ring
from ._wire import Connection, Frame, WireError, connect

__all__ = ["BROKEN_DEVICE", "Worker"]

BROKEN_DEVICE = 13
"""The exit code of a worker whose GPU context is beyond use."""

LOOK = 0.5
"""Seconds after which a thread that waits for another looks whether a signal has come."""

AHEAD = 2
"""Batches made ready ahead of the model: one to go on with at once, one that is being copied."""


class Incoming(NamedTuple):
    """A frame, and what was made of it if it is a batch."""

    frame: Frame
    batch: Optional[Batch] = None
    ready: Optional[Ready] = None


class Worker:
    """One model, one feeder at a time."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._folder = os.environ["GPULANE_FEED"]
        self._model: Any = None
        self._backend: Any = None

    def run(self) -> int:
        """Works until the feeder says `bye`; the exit code."""
        while True:
            connection = connect(self._folder)
            session = _Session(self, connection)
            try:
                return session.serve()
            except ConnectionError as error:
                if session.is_broken:
                    raise Broken(str(error)) from None
                say(f"gpulane: lost the feeder ({error}); connecting again\n")
            finally:
                connection.close()

    @property
    def is_ready(self) -> bool:
        """Whether the model is set up."""
        return self._backend is not None

    @property
    def model(self) -> Any:
        """The user's model."""
        return self._model

    @property
    def backend(self) -> Any:
        """Where its batches go."""
        return self._backend

    def set_up(self, given: Dict[str, Any]) -> Dict[str, Any]:
        """Loads the model with these arguments, unless it is loaded; what the feeder wants to know of it."""
        begun = time.monotonic()
        if not self.is_ready:
            model = load_model(self._target, given)
            expect(getattr(model, "decode", None))
            setup = getattr(model, "setup", None)
            if callable(setup):
                setup()
            self._model = model
            self._backend = choose(getattr(model, "framework", "auto") or "auto")
        decode, batch = getattr(self._model, "decode", None), getattr(self._model, "batch", None)
        accepts = self._backend.accepts
        if callable(accepts):
            accepts = accepts(decode)
        about: Dict[str, Any] = {
            "device": self._backend.device,
            "framework": self._backend.name,
            "accepts": list(accepts),
            "decode": decode if isinstance(decode, str) else None,
            "batch": batch if isinstance(batch, int) and batch > 0 else None,
            "load": callable(getattr(self._model, "load", None)),
            "seconds": time.monotonic() - begun,
        }
        members = asked_members(self._model)
        return about if members is None else {**about, "members": members}


class _Session:
    """One connection, from `hello` to `bye` or its loss."""

    def __init__(self, worker: Worker, connection: Connection) -> None:
        self._worker = worker
        self._connection = connection
        self._ring: Optional[Ring] = None
        self._caller: Optional[Caller] = None
        self._incoming: Optional[_Intake] = None
        self._outgoing: Optional[_Outgoing] = None
        self.is_broken = False
        """Work on the GPU failed after its call had returned."""

    def serve(self) -> int:
        self._connection.send("hello", ready=self._worker.is_ready, **identity("worker"))
        try:
            while True:
                begun = time.monotonic()
                came = self._next()
                kind = came.frame.head["frame"]
                if kind == "batch" and came.batch is not None:
                    self._work(came, time.monotonic() - begun)
                elif kind == "wait":
                    self._connection.send("here")
                elif kind == "setup":
                    if not self._set_up(arguments(came.frame.head)):
                        return 1
                elif kind == "ring":
                    self._open(came.frame)
                elif kind == "bye":
                    if self._outgoing is not None:
                        self._outgoing.drain()
                    return 0
                elif kind == "batch":
                    raise WireError("a batch came before the ring")
        except BaseException as error:
            self.is_broken = self.is_broken or isinstance(error, Broken)
            self._connection.shut()  # Wakes the threads that receive and send.
            raise
        finally:
            if not self._connection.is_ours:
                pass  # Forked by the model: what is here is its parent's, and goes on there.
            elif self.is_broken:
                keep_until_exit(self)  # What it holds on the GPU cannot be freed.
            else:
                self._end()

    def _next(self) -> Incoming:
        if self.is_broken:
            raise Broken("the GPU can no longer be used")
        if is_leaving():
            raise Terminated(TERMINATED)  # The model has caught it.
        if self._incoming is not None:
            return self._incoming.next()
        self._connection.wait()
        return Incoming(self._connection.receive())

    def _set_up(self, given: Dict[str, Any]) -> bool:
        try:
            about = self._worker.set_up(given)
        except Terminated:
            raise
        except (Exception, SystemExit) as error:  # Whatever a user's code may raise.
            if not self._connection.is_ours:
                raise  # In a process that it has forked.
            text = shown(error)
            say(text)
            self._connection.send("setup_failed", error=last_line_of(error), traceback=text)
            return False
        tell_ready()
        self._connection.send("ready", **about)
        return True

    def _open(self, frame: Frame) -> None:
        if frame.fd is None or self._worker.backend is None:
            raise WireError("a ring came without its memory, or before the model was set up")
        self._end()
        self._ring = Ring(frame.fd, frame.head)
        backend = self._worker.backend
        backend.open(self._ring)
        limit = limit_of(frame.head)
        around = None if limit is None else _Limited(self._connection, limit)
        self._caller = Caller(self._worker.model, backend, self._ring.nan_fails, around)
        self._incoming = _Intake(self._connection, backend, self._ring)
        if backend.prefetches:
            # Threads that hand work to the GPU take turns for microseconds: none should wait long for its turn.
            sys.setswitchinterval(0.0005)
            self._outgoing = _Outgoing(self._connection, backend, self._on_broken)

    def _on_broken(self) -> None:
        """Nothing of this process can be trusted. The model's thread finds the connection gone, unless it is stuck:
        then the limit ends it."""
        self.is_broken = True
        begin_leaving(BROKEN_DEVICE)
        self._connection.shut()

    def _work(self, came: Incoming, waited: float) -> None:
        batch, caller = came.batch, self._caller
        assert batch is not None and caller is not None
        self._connection.send("began", batch=batch.id)
        begun = time.monotonic()
        outcome = caller.work(batch, came.ready)
        done = _Done(
            batch, outcome, waited, self._incoming.preparing if self._incoming else 0.0, time.monotonic() - begun
        )
        if self._outgoing is not None:
            self._outgoing.put(done)
        else:
            send_results(self._connection, self._worker.backend, done)

    def _end(self) -> None:
        """In this order: nothing may use the ring when it goes."""
        if self._incoming is not None:
            self._incoming.end()
        if self._outgoing is not None:
            self._outgoing.drain()
        if self._ring is not None:
            self._worker.backend.close()
            self._ring.close()
        self._incoming = self._outgoing = self._ring = None


class _Limited(Around):
    """Tells the feeder of every call, whose time is limited, and where one is that does not come back."""

    def __init__(self, connection: Connection, limit: float) -> None:
        self._connection = connection
        self._limit = limit
        self._watch = Watch(lambda batch, stack: connection.send("overdue", batch=batch, stack=stack))

    def begin(self, batch: int, count: int) -> None:
        self._connection.send("began", batch=batch, count=count)
        self._watch.begin(self._limit * count, batch)

    def end(self) -> None:
        self._watch.end()


class _Done(NamedTuple):
    """A batch the model has been called for."""

    batch: Batch
    outcome: Outcome
    waited: float
    prepared: float
    called: float


class _Intake:
    """Where frames come from once there is a ring. With a GPU, a thread receives them and has batches on their way
    to the device while the model works; the calls it makes leave the interpreter to others meanwhile."""

    def __init__(self, connection: Connection, backend: Any, ring: Ring) -> None:
        self._connection = connection
        self._backend = backend
        self._ring = ring
        self.preparing = 0.0
        """Seconds the last batch took to be made ready, where that was done in the model's thread."""
        self._queue: queue.Queue[Any] = queue.Queue(AHEAD)
        self._thread: Optional[threading.Thread] = None
        if backend.prefetches:
            self._thread = threading.Thread(target=self._run, name="gpulane-intake", daemon=True)
            self._thread.start()

    def next(self) -> Incoming:
        """Waits for the next frame."""
        if self._thread is None:
            begun, frame = time.monotonic(), self._connection.receive()
            if frame.head["frame"] == "batch":
                begun = time.monotonic()
            incoming = self._made(frame)
            self.preparing = time.monotonic() - begun
            return incoming
        came: Union[Incoming, BaseException, None] = None
        while came is None:
            # Python answers to a signal in this thread alone, and some kernels (gVisor's) hand it to any other one.
            with contextlib.suppress(queue.Empty):
                came = self._queue.get(timeout=LOOK)
        if isinstance(came, BaseException):
            raise came
        return came

    def end(self) -> None:
        """Waits for the thread, which ends after `bye`, another ring, or with the connection."""
        while self._thread is not None and self._thread.is_alive():
            try:
                self._queue.get(timeout=0.05)  # It may be waiting for room there.
            except queue.Empty:
                pass  # It is about to end.

    def _run(self) -> None:
        came: Any
        while True:
            try:
                came = self._made(self._connection.receive())
            except (ConnectionError, OSError, WireError, ValueError) as error:
                self._queue.put(
                    error if isinstance(error, (ConnectionError, WireError)) else ConnectionError(str(error))
                )
                return
            self._queue.put(came)
            if came.frame.head["frame"] in ("bye", "ring"):
                return

    def _made(self, frame: Frame) -> Incoming:
        if frame.head["frame"] != "batch":
            return Incoming(frame)
        try:
            batch = Batch(self._ring, frame.head)
        except (KeyError, TypeError, ValueError) as error:
            raise WireError(f"a batch that cannot be: {error}") from None
        try:
            return Incoming(frame, batch, self._backend.prepare(batch, 0, batch.count))
        except Exception:
            # Most likely too large for the device: the caller tries by itself, finds out, and takes less.
            return Incoming(frame, batch, None)


class _Outgoing:
    """A thread that waits for results to come from the GPU and sends them, so that the model's thread never waits."""

    def __init__(self, connection: Connection, backend: Any, on_broken: Callable[[], None]) -> None:
        self._connection = connection
        self._backend = backend
        self._on_broken = on_broken
        self._queue: queue.Queue[Optional[_Done]] = queue.Queue()  # Bounded by the feeder: three batches at most.
        self._thread = threading.Thread(target=self._run, name="gpulane-results", daemon=True)
        self._thread.start()

    def put(self, done: _Done) -> None:
        """Has a batch's results sent when they are here."""
        self._queue.put(done)

    def drain(self) -> None:
        """Waits until all is sent, or cannot be; then there is no more sending."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            done = self._queue.get()
            if done is None:
                return
            try:
                send_results(self._connection, self._backend, done)
            except OSError:
                self._connection.shut()  # The receiving thread notices, and the worker connects again.
            except Exception as error:
                say(shown(error))
                keep_until_exit(error, done)
                self._on_broken()
                return


def send_results(connection: Connection, backend: Any, done: _Done) -> None:
    """Waits for a batch's results and sends them."""
    begun, outcome = time.monotonic(), done.outcome
    assert outcome.table is not None
    answer = outcome.table.answer()
    measured = [seconds for seconds in (ready.seconds() for ready in outcome.ready) if seconds is not None]
    copy = sum(seconds[0] for seconds in measured) if measured else done.prepared
    model = sum(seconds[1] for seconds in measured) if measured else done.called
    connection.send(
        "results",
        *answer.body,
        batch=done.batch.id,
        count=answer.rows,
        columns=answer.columns,
        failed=answer.failed,
        seconds={"wait": done.waited, "copy": copy, "model": model, "fetch": time.monotonic() - begun},
        bytes={
            "copied_to_device": sum(ready.to_device for ready in outcome.ready),
            "copied_on_host": sum(ready.on_host for ready in outcome.ready),
        },
        split=outcome.split,
        ooms=outcome.ooms,
        certain=outcome.certain,
        memory=backend.memory(),
    )


def identity(role: str) -> Dict[str, Any]:
    """What every `hello` says."""
    attempt = os.environ.get("GPULANE_ATTEMPT", "")
    return {
        "protocol": 1,
        "role": role,
        "job": os.environ.get("GPULANE_JOB", ""),
        "attempt": int(attempt) if attempt.isdigit() else 1,
        "pid": os.getpid(),
    }


def arguments(head: Dict[str, Any]) -> Dict[str, Any]:
    """What the model is made with, by the frame that says to make it."""
    given = head.get("args")
    return given if isinstance(given, dict) else {}


def tell_ready() -> None:
    """Leaves a file for the engine, which counts a worker as started from then on."""
    folder = os.environ.get("GPULANE_ATTEMPT_DIR")
    if folder:
        try:
            os.close(os.open(os.path.join(folder, "ready"), os.O_WRONLY | os.O_CREAT, 0o600))
        except OSError as error:
            say(f"gpulane: cannot write {folder}/ready: {error.strerror}\n")
