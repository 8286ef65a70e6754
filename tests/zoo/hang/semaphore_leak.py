"""A slot is taken and, because of an error, never given back: the next one waits for it for ever."""
# verdict: end
# stuck: semaphore
# at: semaphore_leak.py:stuck here

import multiprocessing

slots = multiprocessing.get_context("fork").Semaphore(1)


def render(scene):
    slots.acquire()
    raise ValueError(f"scene {scene} is empty")


def render_next():
    with slots:  # stuck here
        return 2


try:
    render(1)
except ValueError as error:
    print(error, flush=True)
render_next()
