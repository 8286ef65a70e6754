//! From the main thread to the one that matters: past threads that only log, and through helpers that start processes.

use crate::zoo::{hangs, is_told};

#[test]
fn a_thread_pool_whose_tasks_wait_for_each_other_beside_one_that_logs() {
    let program = r"
import threading, time
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)
def outer(_):
    time.sleep(0.3)
    return pool.submit(int).result()
def log():
    while True: time.sleep(0.1)
threading.Thread(target=log, daemon=True).start()
print(list(pool.map(outer, range(4))))
";
    let cause = "every worker of the pool runs a task";
    is_told(program, 7, "waiting for the result of a future in job.py:7 (outer)", cause);
}

#[test]
fn a_barrier_of_processes_that_a_server_forked() {
    hangs(
        r"
import multiprocessing
def work(barrier):
    barrier.wait()
if __name__ == '__main__':
    context = multiprocessing.get_context('forkserver')
    barrier = context.Barrier(2)
    process = context.Process(target=work, args=(barrier,))
    process.start()
    process.join()
",
        "waiting at a barrier in job.py:4 (work)",
        "a barrier waits for a thread or process that does not come",
    );
}

#[test]
fn a_pool_of_multiprocessing_whose_task_waits_for_another() {
    hangs(
        r"
from multiprocessing.pool import ThreadPool
pool = ThreadPool(1)
def outer():
    return pool.apply(int)
pool.apply(outer)
",
        "waiting for a result of a multiprocessing.Pool in job.py:5 (outer)",
        "every worker of the pool runs a task that waits for another task",
    );
}
