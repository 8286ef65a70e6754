/* Simulation driver: forked workers add to a shared accumulator under a process-shared mutex. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct arena { pthread_mutex_t lock; double energy; int steps; };

static void worker(struct arena *a, int id) {
    for (int step = 0; step < 50; step++) {
        usleep(5000 + 1000 * id);
        pthread_mutex_lock(&a->lock);
        if (id == 1 && step == 20) {
            fprintf(stderr, "worker 1: energy diverged, giving up\n");
            _exit(3);                       /* still holding the lock */
        }
        a->energy += 0.5 * step;
        a->steps++;
        pthread_mutex_unlock(&a->lock);
    }
    _exit(0);
}

int main(void) {
    struct arena *a = mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t at;
    pthread_mutexattr_init(&at);
    pthread_mutexattr_setpshared(&at, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&a->lock, &at);
    for (int id = 0; id < 3; id++)
        if (fork() == 0) worker(a, id);
    while (wait(NULL) > 0)
        ;
    printf("energy %.1f after %d steps\n", a->energy, a->steps);
    return 0;
}
