/* A SIGALRM "progress" handler takes the same mutex the main loop holds. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static volatile long done;
static void progress(int s) {
    (void)s;
    pthread_mutex_lock(&m);
    done = 0;
    pthread_mutex_unlock(&m);
    alarm(1);
}
int main(void) {
    struct sigaction sa = {0};
    sa.sa_handler = progress; sa.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &sa, 0);
    puts("crunching"); puts("frozen soon"); fflush(stdout);
    alarm(1);
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&m);
        usleep(20000);
        done++;
        pthread_mutex_unlock(&m);
    }
    puts("done");
    return 0;
}
