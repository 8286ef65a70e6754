"""A worker of `gpulane map`, started by gpulane through `_start.py`."""

from __future__ import annotations

import os
import sys

from ._calls import Broken
from ._errors import say, shown
from ._leaving import code_of, keep_until_exit, leave, leave_on_sigterm
from ._loop import BROKEN_DEVICE, Worker
from ._wire import WireError

__all__ = ["main"]


def main() -> None:
    """Works until told to stop, and leaves with nothing lost."""
    if len(sys.argv) != 2 or "GPULANE_FEED" not in os.environ:
        print("a worker is started by `gpulane map`, with its FILE.py:Class and GPULANE_FEED", file=sys.stderr)
        leave(2)
    leave_on_sigterm()
    try:
        code = Worker(sys.argv[1]).run()
    except Broken as error:
        keep_until_exit(error)  # Its frames hold the batch.
        code = BROKEN_DEVICE
    except SystemExit as error:  # SIGTERM, or the model's own.
        code = code_of(error)
    except (ConnectionError, WireError) as error:
        say(f"gpulane: {error}\n")
        code = 1
    except Exception as error:
        say(shown(error))
        code = 1
    leave(code)


if __name__ == "__main__":
    main()
