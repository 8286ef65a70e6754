/* A job that says when it lived, so that any runner's reaction can be measured from outside, the same way.
 *
 *   stamp FILE MICROSECONDS [anything...]
 *
 * Takes CLOCK_MONOTONIC at its first instruction and at its last, and appends both to FILE in one write
 * (O_APPEND: records of simultaneous jobs do not mix). Between the two it sleeps for MICROSECONDS, give or take
 * half, so that lanes do not end in step; 0 does not sleep. Further arguments are ignored: some runners insist
 * on adding one.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct record {
    uint64_t pid, start_ns, end_ns;
};

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv) {
    struct record record = {.start_ns = now_ns(), .pid = (uint64_t)getpid()};
    if (argc < 3) return 2;
    int fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return 1;
    uint64_t length = strtoull(argv[2], NULL, 10);
    if (length > 0) {
        uint64_t mixed = (record.pid * 2654435761u) ^ (record.start_ns >> 7);
        uint64_t ns = (length / 2 + mixed % length) * 1000u;
        struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
        while (nanosleep(&pause, &pause) != 0) {
        }
    }
    record.end_ns = now_ns();
    return write(fd, &record, sizeof record) == (ssize_t)sizeof record ? 0 : 1;
}
