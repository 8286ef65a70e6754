/* The simulator: makes the ring, and a first frame UNSEEN_SECONDS after the consumer attached. */
#include "ring.h"

int main(void) {
    char path[4096], tmp[4096];
    const char *dir = getenv("UNSEEN_TMP"), *s = getenv("UNSEEN_SECONDS");
    double seconds = s ? atof(s) : 15;
    snprintf(path, sizeof path, "%s/ring", dir);
    snprintf(tmp, sizeof tmp, "%s/ring.new", dir);
    int fd = open(tmp, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct ring))) return 1;
    close(fd);
    struct ring *r = ring_open(tmp);
    pthread_mutexattr_t ma; pthread_condattr_t ca;
    pthread_mutexattr_init(&ma); pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
    pthread_condattr_init(&ca); pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&r->lock, &ma);
    pthread_cond_init(&r->filled, &ca);
    rename(tmp, path);
    for (int on = 0; !on; usleep(50000)) {
        pthread_mutex_lock(&r->lock); on = r->attached; pthread_mutex_unlock(&r->lock);
    }
    usleep((useconds_t)(seconds * 1e6));
    pthread_mutex_lock(&r->lock);
    r->frames = 1;
    pthread_cond_broadcast(&r->filled);
    pthread_mutex_unlock(&r->lock);
    sleep(5);
    return 0;
}
