/* sem_wait() on a process-shared semaphore in a mapped file; the simulator outside posts it */
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    char p[512], q[512];
    snprintf(p, sizeof p, "%s/frames.shm", getenv("UNSEEN_TMP"));
    snprintf(q, sizeof q, "%s/frames.ready", getenv("UNSEEN_TMP"));
    int fd = open(p, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096)) return 1;
    sem_t *s = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    sem_init(s, 1, 0);
    close(open(q, O_CREAT | O_WRONLY, 0600));
    puts("waiting for a frame"); fflush(stdout);
    while (sem_wait(s)) ;
    puts("alive");
    return 0;
}
