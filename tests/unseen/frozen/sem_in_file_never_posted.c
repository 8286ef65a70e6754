/* Process-shared semaphore in a mapped file; the simulator that should post it isn't there. */
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    const char *d = getenv("UNSEEN_TMP"); char p[512];
    snprintf(p, sizeof p, "%s/frames.shm", d ? d : "/tmp");
    int fd = open(p, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096)) return 1;
    sem_t *s = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    sem_init(s, 1, 0);
    puts("shm ready"); puts("frozen soon"); fflush(stdout);
    while (sem_wait(s)) ;
    puts("frame");
    return 0;
}
