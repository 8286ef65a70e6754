/* The yardstick: the least a job runner can do. Starts COUNT copies of a program with posix_spawn, AT_ONCE at a
 * time, and starts the next as soon as waitpid reports an exit. One thread; jobs get /dev/null on 0, 1 and 2.
 * No logs, no environment of their own, no journal.
 *
 *   bare COUNT AT_ONCE PROGRAM [ARGUMENT...]
 *
 * Prints one JSON line: seconds, jobs that failed, and the median time from waitpid's return to the return of
 * the posix_spawn that follows (what the loop itself costs; the kernel's share on either side is not in it).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what, int error) {
    fprintf(stderr, "bare: %s: %s\n", what, strerror(error));
    exit(1);
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static long positive(const char *text, const char *what) {
    char *end;
    long number = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || number < 1) die(what, EINVAL);
    return number;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: bare COUNT AT_ONCE PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    long count = positive(argv[1], "COUNT");
    long at_once = positive(argv[2], "AT_ONCE");
    char **job = argv + 3;

    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) die("/dev/null", errno);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < 3; fd++) posix_spawn_file_actions_adddup2(&actions, null, fd);

    uint64_t *reaction = calloc((size_t)count, sizeof *reaction);
    if (!reaction) die("memory", ENOMEM);
    long reactions = 0, started = 0, ended = 0, failed = 0;
    uint64_t begin = now_ns(), noticed = 0;

    while (ended < count) {
        while (started < count && started - ended < at_once) {
            pid_t pid;
            int error = posix_spawn(&pid, job[0], &actions, NULL, job, environ);
            if (error) die(job[0], error);
            started++;
            if (noticed) reaction[reactions++] = now_ns() - noticed;
            noticed = 0;
        }
        int status;
        if (waitpid(-1, &status, 0) < 0) {
            if (errno == EINTR) continue;
            die("waitpid", errno);
        }
        noticed = now_ns();
        ended++;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) failed++;
    }

    double seconds = (double)(now_ns() - begin) / 1e9;
    qsort(reaction, (size_t)reactions, sizeof *reaction, by_value);
    double median = reactions ? (double)reaction[reactions / 2] / 1e3 : 0.0;
    printf("{\"seconds\": %.6f, \"failed\": %ld, \"loop_reaction_us\": %.1f}\n", seconds, failed, median);
    free(reaction);
    return failed ? 3 : 0;
}
