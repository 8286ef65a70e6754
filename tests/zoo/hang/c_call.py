"""A call into a C library never returns."""
# stuck: pause
# verdict: tell
# at: c_call.py:stuck here

import ctypes

library = ctypes.CDLL(None)
print("calling", flush=True)
library.pause()  # stuck here
