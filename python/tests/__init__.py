"""Tests of the package, with the standard library alone."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As behind `nohup … &` in a script: whoever is started from here would be deaf to the interrupts that are tested.
    signal.signal(signal.SIGINT, signal.default_int_handler)
