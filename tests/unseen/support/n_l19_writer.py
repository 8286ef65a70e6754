from common import *
time.sleep(SECONDS)
publish("result.json", '{"ok": true}')
