/* main reads an eventfd without timeout; a helper thread sleeps (nanosleep) and then writes it */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
static int ev; static double s = 15;
static void *helper(void *x) {
    struct timespec t = {(time_t)s, (long)((s - (time_t)s) * 1e9)};
    nanosleep(&t, 0);
    uint64_t one = 1; if (write(ev, &one, 8) != 8) abort();
    return x;
}
int main(void) {
    const char *e = getenv("UNSEEN_SECONDS"); if (e) s = atof(e);
    pthread_t t; uint64_t v;
    ev = eventfd(0, 0);
    pthread_create(&t, 0, helper, 0);
    puts("waiting for the staging thread"); fflush(stdout);
    if (read(ev, &v, 8) != 8) return 1;
    pthread_join(t, 0);
    puts("alive");
    return 0;
}
