"""joblib Parallel with 2 jobs over 3 tasks that all have to meet at a Barrier(3)."""
import threading
from joblib import Parallel, delayed

meet = threading.Barrier(3)


def fold(i):
    meet.wait()
    return i


print(Parallel(n_jobs=2, backend="threading")(delayed(lambda x: x + 1)(i) for i in range(4)), flush=True)
print("frozen soon", flush=True)
print(Parallel(n_jobs=2, backend="threading")(delayed(fold)(i) for i in range(3)))
