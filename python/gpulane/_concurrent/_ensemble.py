"""Several models at once: checks what it is given, starts all of them, keeps the order with the caller's stream."""

from __future__ import annotations

import sys
import threading
import warnings
from contextlib import nullcontext
from typing import Any, Callable, ContextManager, Dict, List, Optional, Sequence, Tuple

from ._form import Form
from ._player import OnGpu, Plain, Played, Player, Way
from ._prepare import Demands, prepare, try_out
from ._ticket import Ticket
from ._weights import Weights, tensors_in

__all__ = ["Concurrent"]

LOOK = 256
"""Every so many calls the places of all weights are compared, which takes about as long as a call."""

FIRST = {"graph": 0, "stream": 1, "plain": 2}
"""Who is started first: what costs the processor least, so that the GPU has work while the others are called."""


class Concurrent:
    """Models that run at the same time on one GPU. Made by `gpulane.concurrent`.

    Call it with an input for all models or a list with one each; it returns a list with one answer each. Usable from
    several threads. `close()`, or leaving its `with`, gives the graphs and their memory back.
    """

    def __init__(
        self, models: Sequence[Callable[..., Any]], examples: Any, demands: Demands, depth: int, torch: Any
    ) -> None:
        self._models = list(models)
        self._names = [f"model {number} ({_name(model)})" for number, model in enumerate(self._models)]
        self._demands = demands
        self._depth = depth
        self._torch = torch
        self._lock = threading.RLock()
        self._closed = False
        self._calls = 0
        self._players: List[Player] = []
        self._weights: List[Optional[Weights]] = []
        self._examples = self._one_each(examples, "examples")
        self._forms = [Form(example, name) for example, name in zip(self._examples, self._names)]
        self._refuse_training()
        self._homes = [self._home(number) for number in range(len(self._models))]
        self._device = self._one_device()
        self._build()

    # Making ---------------------------------------------------------------------------------------------------

    def _refuse_training(self) -> None:
        for model, name in zip(self._models, self._names):
            if isinstance(model, type) and hasattr(model, "modules"):
                raise TypeError(f"{name} is a class: give an object of it, such as {model.__name__}(…)")
            inner = model.modules() if hasattr(model, "modules") else ()
            if any(getattr(module, "training", False) for module in inner):
                raise ValueError(
                    f"{name} is in training mode, in which dropout and batch norm change; call `.eval()` first"
                )

    def _home(self, number: int) -> Tuple[Any, str]:
        """The GPU of a model, or nothing and why."""
        torch = self._torch
        if torch is None:
            return None, "torch is not loaded here"
        if not torch.cuda.is_available():
            return None, "torch finds no GPU"
        leaves = self._forms[number].leaves(self._examples[number])
        if not all(isinstance(leaf, torch.Tensor) for leaf in leaves) or not self._forms[number].shaped:
            return None, "its example is no tensor, tuple or dict of tensors"
        places = {tensor.device for tensor in tensors_in(self._models[number])} or {leaf.device for leaf in leaves}
        if len(places) > 1:
            return None, f"it is on several devices: {', '.join(sorted(map(str, places)))}"
        place = places.pop()
        if place.type != "cuda":
            return None, f"it is on {place}; move it with `.cuda()`"
        return torch.device("cuda", torch.cuda.current_device() if place.index is None else place.index), ""

    def _one_device(self) -> Any:
        found = {home: name for (home, _), name in zip(self._homes, self._names) if home is not None}
        if len(found) > 1:
            seen = ", ".join(f"{name} on {home}" for home, name in found.items())
            raise ValueError(f"one `concurrent` is for one GPU, but {seen}: make one for each")
        return next(iter(found), None)

    def _build(self) -> None:
        """Every model gets its way. What is not as asked is said once, here."""
        notes: Dict[str, List[str]] = {}
        with self._guard():
            for number, (model, name) in enumerate(zip(self._models, self._names)):
                home, why = self._homes[number]
                form = self._forms[number]
                if home is None:
                    if self._demands.check:
                        try_out(self._torch, form, model, form.leaves(self._examples[number]), name)
                    self._players.append(Plain(form, model, why))
                    self._weights.append(None)
                    notes.setdefault(f"called one after the other, not at the same time: {why}", []).append(name)
                    continue
                player = OnGpu(self._torch, form, model, home, self._depth)
                self._players.append(player)
                example = form.leaves(self._examples[number])
                note = prepare(self._torch, player, example, self._demands, name)
                self._weights.append(Weights(model) if player.way == "graph" else None)
                if player.way != "graph":
                    note = f"called on a stream of its own without a CUDA graph: {player.way.why}"
                elif note:
                    note = f"run without a CUDA graph for batches other than {list(player.sizes)}: {note}"
                if note:
                    notes.setdefault(note, []).append(name)
        for note, names in notes.items():
            _warn(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {note}")

    def _guard(self) -> ContextManager[Any]:
        """Leaves the caller's current device as it was. Streams of another one would change it."""
        if self._device is None or self._torch.cuda.device_count() == 1:
            return nullcontext()
        return self._torch.cuda.device(self._device)  # type: ignore[no-any-return]

    # Asking ---------------------------------------------------------------------------------------------------

    def __call__(self, inputs: Any, *, copy: bool = True) -> List[Any]:
        """The answers, one per model. With `copy=False` they are the graphs' own memory: valid until `depth` more
        calls have been made, and quicker where outputs are large."""
        answers: List[Any] = self.submit(inputs, copy=copy).result()
        return answers

    def submit(self, inputs: Any, *, copy: bool = True) -> Ticket:
        """Starts all models and returns at once. At most `depth` inputs are under way; another waits for the oldest."""
        return self._launch(list(enumerate(self._one_each(inputs, "inputs"))), copy, single=False)

    def submit_one(self, number: int, given: Any, *, copy: bool = True) -> Ticket:
        """Starts one model alone; its ticket's result is its answer."""
        if not -len(self._models) <= number < len(self._models):
            raise IndexError(f"there is no model {number}: they are numbered from 0 to {len(self._models) - 1}")
        return self._launch([(number % len(self._models), given)], copy, single=True)

    def _one_each(self, given: Any, what: str) -> List[Any]:
        """A list is one for each model; anything else is for all of them."""
        if not isinstance(given, list):
            return [given] * len(self._models)
        if len(given) != len(self._models):
            hint = "a list is one for each model; what is for all goes without a list, several arguments in a tuple"
            raise ValueError(f"{len(given)} {what} for {len(self._models)} models: {hint}")
        return given

    def _launch(self, wanted: List[Tuple[int, Any]], copy: bool, single: bool) -> Ticket:
        with self._lock:
            self._must_be_open()
            self._look_at_weights()
            # All of it is looked at before anything is started.
            asked = []
            for place, (number, given) in enumerate(wanted):
                form = self._forms[number]
                leaves = form.leaves(given)
                asked.append((place, self._players[number], leaves, form.batch_of(leaves)))
            asked.sort(key=lambda each: FIRST[each[1].way])
            played: List[Any] = [None] * len(wanted)
            if self._torch is None:
                self._start(asked, played, copy, None, None)
            elif self._device is None:
                with self._torch.no_grad():
                    self._start(asked, played, copy, None, None)
            else:
                with self._guard(), self._torch.no_grad():
                    caller = self._torch.cuda.current_stream(self._device)
                    try:
                        self._start(asked, played, copy, caller, caller.record_event())
                    finally:
                        self._torch.cuda.set_stream(caller)
            return Ticket(self._torch, self._device, played, single)

    def _start(
        self,
        asked: List[Tuple[int, Player, List[Any], int]],
        played: List[Optional[Played]],
        copy: bool,
        caller: Any,
        ready: Any,
    ) -> None:
        for place, player, leaves, rows in asked:
            if caller is not None and player.way == "plain":
                self._torch.cuda.set_stream(caller)
            played[place] = player.play(leaves, rows, ready, copy)

    def _look_at_weights(self) -> None:
        self._calls += 1
        if self._calls % LOOK:
            return
        replaced = [name for name, weights in zip(self._names, self._weights) if weights and weights.replaced()]
        if replaced:
            _warn(
                f"the weights of {', '.join(replaced)} were replaced, not changed in place: captured anew; up to "
                f"{LOOK} calls before this one had the old ones. Call `refresh()` after such a change"
            )
            self.refresh()

    # Looking after it -----------------------------------------------------------------------------------------

    @property
    def how(self) -> List[Way]:
        """How each model is run: "graph", "stream" or "plain", each with `why` if it is no graph."""
        return [player.way for player in self._players]

    def refresh(self) -> None:
        """Captures everything anew: after weights were replaced instead of changed in place."""
        with self._lock:
            self._must_be_open()
            self._refuse_training()
            self._drop()
            self._closed = True  # Unless it can be built again.
            self._build()
            self._closed = False

    def close(self) -> None:
        """Waits for what is under way, then gives graphs and their memory back. Answers that are copies stay valid."""
        with self._lock:
            self._closed = True
            self._drop()

    def _drop(self) -> None:
        players, self._players, self._weights = self._players, [], []
        with self._guard():
            for player in players:
                player.close()
            if self._device is not None:
                self._torch.cuda.empty_cache()  # A graph's pool is of no use to anyone else.

    def _must_be_open(self) -> None:
        if self._closed:
            raise RuntimeError("this `concurrent` is closed: make a new one")

    def __enter__(self) -> Concurrent:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()

    def __len__(self) -> int:
        """How many models there are."""
        return len(self._models)

    def __repr__(self) -> str:
        if self._closed:
            return f"<gpulane.concurrent: {len(self)} models, closed>"
        ways = [f"{name}: {way}{' because ' + way.why if way.why else ''}" for name, way in zip(self._names, self.how)]
        return f"<gpulane.concurrent: {'; '.join(ways)}>"


def _name(model: Any) -> str:
    return str(getattr(model, "__name__", None) or type(model).__name__)


def _warn(text: str) -> None:
    """To whoever called gpulane: the first frame outside of this room."""
    depth, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        __package__ or "gpulane._concurrent"
    ):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(f"gpulane.concurrent: {text}", RuntimeWarning, stacklevel=depth)
