"""What a submit hands out: the promise of answers."""

from __future__ import annotations

from typing import Any, Generator, List

from ._player import Played

__all__ = ["Ticket"]


class Ticket:
    """Answers that are being worked on. `result()` for use on the GPU; `wait()` or `await` for when they are there."""

    def __init__(self, torch: Any, device: Any, played: List[Played], single: bool) -> None:
        self._torch = torch
        self._device = device
        self._played = played
        self._single = single

    def done(self) -> bool:
        """Whether the GPU is through with it. Never waits."""
        return all(played.done is None or played.done.query() for played in self._played)

    def wait(self) -> None:
        """Blocks this thread until the GPU is through with it."""
        for played in self._played:
            if played.done is not None:
                played.done.synchronize()

    def result(self) -> Any:
        """The answers, one per model (of `submit_one`: the answer). Like all of torch it does not block: what this
        thread does with them on its current stream comes after they are made."""
        here = None
        for played in self._played:
            if played.done is None:
                continue
            if here is None:
                here = self._torch.cuda.current_stream(self._device)
            here.wait_event(played.done)
            for tensor in played.tensors:
                if tensor.is_cuda:
                    tensor.record_stream(here)  # Its memory must outlive what is read here.
        answers = [played.answer for played in self._played]
        return answers[0] if self._single else answers

    def __await__(self) -> Generator[Any, None, Any]:
        """The answers, when the GPU is through; other tasks run meanwhile."""
        return self._arrived().__await__()

    async def _arrived(self) -> Any:
        if not self.done():
            import asyncio

            await asyncio.get_running_loop().run_in_executor(None, self.wait)
        return self.result()

    def __repr__(self) -> str:
        return f"<gpulane ticket, {'done' if self.done() else 'under way'}>"
