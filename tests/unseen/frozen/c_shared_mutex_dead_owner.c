/* Process-shared (not robust) mutex in anonymous shared memory; the child aborts with it held. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
struct arena { pthread_mutex_t m; long used; };
int main(void) {
    struct arena *a = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t at;
    pthread_mutexattr_init(&at);
    pthread_mutexattr_setpshared(&at, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&a->m, &at);
    puts("arena ready"); fflush(stdout);
    pid_t p = fork();
    if (!p) { pthread_mutex_lock(&a->m); a->used += 64; kill(getpid(), SIGKILL); }
    int st; waitpid(p, &st, 0);
    printf("child ended by signal %d\nfrozen soon\n", WTERMSIG(st)); fflush(stdout);
    pthread_mutex_lock(&a->m);
    puts("got it");
    return 0;
}
