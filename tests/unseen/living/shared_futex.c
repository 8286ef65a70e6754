/* Waits on a futex in a mapped file, without a time-out; a process outside of the job (-DNEIGHBOUR) wakes it. */
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    const char *e = getenv("UNSEEN_SECONDS");
    char p[4000];
    snprintf(p, sizeof p, "%s/ring", getenv("UNSEEN_TMP"));
    int fd = open(p, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, 4096)) return 1;
    _Atomic int *w = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
#ifdef NEIGHBOUR
    while (!w[1]) usleep(100000);
    sleep(e ? atoi(e) : 15);
    w[0] = 1;
    syscall(SYS_futex, w, FUTEX_WAKE, 1, NULL, NULL, 0);
    for (;;) pause();
#else
    (void)e;
    w[1] = 1;
    while (!w[0]) syscall(SYS_futex, w, FUTEX_WAIT, 0, NULL, NULL, 0);
    puts("alive");
    return 0;
#endif
}
