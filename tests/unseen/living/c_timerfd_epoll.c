/* event loop: epoll_wait(-1) on a timerfd and an eventfd; only the timer ever fires */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
int main(void) {
    const char *e = getenv("UNSEEN_SECONDS"); double s = e ? atof(e) : 15;
    int ep = epoll_create1(0), t = timerfd_create(CLOCK_MONOTONIC, 0), ev = eventfd(0, 0);
    struct itimerspec it = {{0, 0}, {(time_t)s, (long)((s - (time_t)s) * 1e9)}};
    struct epoll_event a = {EPOLLIN, {.fd = t}}, b = {EPOLLIN, {.fd = ev}}, o;
    timerfd_settime(t, 0, &it, 0);
    epoll_ctl(ep, EPOLL_CTL_ADD, t, &a); epoll_ctl(ep, EPOLL_CTL_ADD, ev, &b);
    puts("loop"); fflush(stdout);
    if (epoll_wait(ep, &o, 1, -1) != 1 || o.data.fd != t) return 1;
    puts("alive");
    return 0;
}
