"""A tool started with a pipe for its input asks a question, and nobody is there to answer."""
# verdict: end
# stuck: reading from stdin
# at: prompt_on_stdin.py:stuck here

import subprocess
import sys

if sys.argv[1:] == ["--tool"]:
    answer = input("checkpoint exists. Overwrite? [y/N] ")  # stuck here
    sys.exit(answer != "y")

tool = subprocess.Popen([sys.executable, __file__, "--tool"], stdin=subprocess.PIPE)
tool.wait()
