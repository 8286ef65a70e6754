/* Three workers wait for ever on a condition; main waits on it too, but until a deadline, then stops them all. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int stop, jobs;

static void *worker(void *arg) {
    pthread_mutex_lock(&m);
    while (!stop && !jobs) pthread_cond_wait(&c, &m);
    pthread_mutex_unlock(&m);
    return arg;
}

int main(void) {
    const char *e = getenv("UNSEEN_SECONDS");
    struct timespec ts;
    pthread_t t[3];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, worker, NULL);
    clock_gettime(CLOCK_REALTIME, &ts);
    ts.tv_sec += e ? atoi(e) : 15;
    pthread_mutex_lock(&m);
    while (!jobs && pthread_cond_timedwait(&c, &m, &ts) != ETIMEDOUT) { }
    stop = 1;
    pthread_cond_broadcast(&c);
    pthread_mutex_unlock(&m);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    puts("alive");
    return 0;
}
