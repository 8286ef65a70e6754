/* Loaded before the C library by what the torture starts: a wall clock that jumps and a disk that is slow or fails, as
 * the file that TORTURE_CONTROL names says. Three 64-bit integers: nanoseconds added to the wall clock, nanoseconds each
 * sync takes, and the errno each sync fails with (0: none). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t nothing[3];
static const volatile int64_t *control = nothing;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TORTURE_CONTROL");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *map = mmap(NULL, sizeof nothing, PROT_READ, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) control = map;
    close(file);
}

int clock_gettime(clockid_t which, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, which, now);
    if (failed || which != CLOCK_REALTIME) return failed;
    int64_t total = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + control[0];
    now->tv_sec = total / 1000000000;
    now->tv_nsec = total % 1000000000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec fine;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &fine);
    now->tv_sec = fine.tv_sec;
    now->tv_usec = fine.tv_nsec / 1000;
    return 0;
}

static int trouble(void) {
    int64_t delay = control[1];
    struct timespec pause = {delay / 1000000000, delay % 1000000000};
    if (delay > 0) nanosleep(&pause, NULL);
    errno = (int)control[2];
    return control[2] != 0;
}

int fsync(int file) { return trouble() ? -1 : (int)syscall(SYS_fsync, file); }

int fdatasync(int file) { return trouble() ? -1 : (int)syscall(SYS_fdatasync, file); }
