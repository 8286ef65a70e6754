/* A worker process exits on a bad record between sem_wait and sem_post; the others wait for the semaphore for ever. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared { sem_t sem; double sum; };

int main(void) {
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid[4];
    sem_init(&s->sem, 1, 1);
    for (int w = 0; w < 4; w++) {
        if ((pid[w] = fork()) == 0) {
            for (int r = 0; r < 200; r++) {
                double x = 0;
                for (int i = 1; i < 100000; i++) x += 1.0 / (i + r);
                sem_wait(&s->sem);
                s->sum += x;
                if (w == 2 && r == 5) {
                    fprintf(stderr, "worker 2: bad record\n");
                    _exit(1);
                }
                sem_post(&s->sem);
                usleep(5000);
            }
            _exit(0);
        }
    }
    for (int w = 0; w < 4; w++) waitpid(pid[w], NULL, 0);
    printf("sum %f\n", s->sum);
    return 0;
}
