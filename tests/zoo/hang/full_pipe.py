"""A child prints more than a pipe holds, and the parent waits for its end instead of reading."""
# verdict: end
# stuck: full pipe | pipe that is full
# at: full_pipe.py:stuck here

import subprocess
import sys

print("compiling", flush=True)
compiler = subprocess.Popen([sys.executable, "-c", "print('warning\\n' * 100000)"], stdout=subprocess.PIPE)
compiler.wait()  # stuck here
