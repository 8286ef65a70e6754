/* Metrics flusher: a background thread waits for "flush now" or the deadline, main joins it. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t flush_now = PTHREAD_COND_INITIALIZER;
static int wanted;

static void *flusher(void *arg) {
    double seconds = *(double *)arg;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)seconds;
    pthread_mutex_lock(&lock);
    while (!wanted)
        if (pthread_cond_timedwait(&flush_now, &lock, &until) == ETIMEDOUT) break;
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(void) {
    const char *s = getenv("UNSEEN_SECONDS");
    double seconds = s ? atof(s) : 15;
    pthread_t t;
    pthread_create(&t, NULL, flusher, &seconds);
    pthread_join(t, NULL);
    puts("alive");
    return 0;
}
