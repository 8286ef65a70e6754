"""A condition variable of C is notified before anybody waits for it: the wake-up is lost."""
# verdict: end
# stuck: condition variable
# at: condition_lost_wakeup.py:stuck here

import ctypes

c = ctypes.CDLL(None)
condition, mutex = ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)
c.pthread_cond_signal(condition)
c.pthread_mutex_lock(mutex)
print("waiting for the loader", flush=True)
c.pthread_cond_wait(condition, mutex)  # stuck here
