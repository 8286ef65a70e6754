"""Writes the file that l19 watches."""

from common import *
time.sleep(SECONDS)
publish("result.json", '{"ok": true}')
