/* Holds a licence lease: a POSIX timer's notification posts the semaphore main waits for. */
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static sem_t expired;

static void on_expiry(union sigval v)
{
    sem_post((sem_t *)v.sival_ptr);
}

int main(void)
{
    const char *s = getenv("UNSEEN_SECONDS");
    double seconds = s ? atof(s) : 15.0;
    struct sigevent ev;
    struct itimerspec when;
    timer_t timer;

    sem_init(&expired, 0, 0);
    memset(&ev, 0, sizeof ev);
    ev.sigev_notify = SIGEV_THREAD;
    ev.sigev_notify_function = on_expiry;
    ev.sigev_value.sival_ptr = &expired;
    if (timer_create(CLOCK_MONOTONIC, &ev, &timer)) {
        perror("timer_create");
        return 1;
    }
    memset(&when, 0, sizeof when);
    when.it_value.tv_sec = (time_t)seconds;
    when.it_value.tv_nsec = (long)((seconds - (time_t)seconds) * 1e9);
    if (timer_settime(timer, 0, &when, NULL)) {
        perror("timer_settime");
        return 1;
    }
    while (sem_wait(&expired) && errno == EINTR)
        ;
    puts("alive");
    return 0;
}
