/* Consumer of a shared-memory ring: blocks on a process-shared semaphore in a mapped file.
   "shm_ring produce" is the producer, a program of its own. */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct ring {
    sem_t filled;
    int value;
};

static struct ring *map_ring(const char *path, int create)
{
    int fd;
    while ((fd = open(path, create ? O_RDWR | O_CREAT : O_RDWR, 0600)) < 0)
        usleep(50000);
    if (create && ftruncate(fd, sizeof(struct ring)))
        return NULL;
    void *p = mmap(NULL, sizeof(struct ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

int main(int argc, char **argv)
{
    const char *tmp = getenv("UNSEEN_TMP"), *s = getenv("UNSEEN_SECONDS");
    char path[4096], part[4200];
    snprintf(path, sizeof path, "%s/ring", tmp ? tmp : "/tmp");
    snprintf(part, sizeof part, "%s.part", path);

    if (argc > 1 && !strcmp(argv[1], "produce")) {
        struct ring *r = map_ring(part, 1);
        if (!r || sem_init(&r->filled, 1, 0) || rename(part, path))
            return 1;
        usleep((useconds_t)((s ? atof(s) : 15.0) * 1e6));
        r->value = 4711;
        sem_post(&r->filled);
        pause();
    }
    struct ring *r = map_ring(path, 0);
    if (!r)
        return 1;
    while (sem_wait(&r->filled) && errno == EINTR)
        ;
    if (r->value != 4711)
        return 1;
    puts("alive");
    return 0;
}
