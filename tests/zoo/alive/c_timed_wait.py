"""A program in C whose main thread waits for a condition with a time limit, as `wait_for` of C++ does."""

import os
import shutil
import subprocess
import tempfile
import time

SECONDS = os.environ.get("ZOO_SECONDS", "8")
SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += atoi(argv[1]);
    pthread_mutex_lock(&mutex);
    while (pthread_cond_timedwait(&condition, &mutex, &until) == 0)
        ;
    puts("alive");
    return argc != 2;
}
"""

compiler = shutil.which("cc")
if compiler is None:
    time.sleep(float(SECONDS))
    print("alive")
else:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [compiler, "-x", "c", "-", "-pthread", "-o", f"{folder}/wait"], input=SOURCE, text=True, check=True
        )
        subprocess.run([f"{folder}/wait", str(int(float(SECONDS)))], check=True)
