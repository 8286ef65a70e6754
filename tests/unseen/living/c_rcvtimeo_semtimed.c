/* first recv() with SO_RCVTIMEO on a silent UDP socket, then sem_timedwait() */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
int main(void) {
    const char *e = getenv("UNSEEN_SECONDS"); double s = (e ? atof(e) : 15) / 2;
    int fd = socket(AF_INET, SOCK_DGRAM, 0); char b[100]; sem_t sem; struct timespec t;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bind(fd, (void *)&a, sizeof a);
    struct timeval tv = {(time_t)s, (long)((s - (time_t)s) * 1e6)};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    puts("waiting for peers"); fflush(stdout);
    if (recv(fd, b, sizeof b, 0) >= 0 || errno != EAGAIN) return 1;
    sem_init(&sem, 0, 0);
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += (time_t)s; t.tv_nsec += (long)((s - (time_t)s) * 1e9);
    if (t.tv_nsec >= 1000000000) { t.tv_sec++; t.tv_nsec -= 1000000000; }
    if (sem_timedwait(&sem, &t) == 0 || errno != ETIMEDOUT) return 2;
    puts("alive");
    return 0;
}
