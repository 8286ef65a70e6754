/* An epoll in an epoll; the inner one holds a timerfd and an eventfd nobody writes to. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

int main(void) {
    const char *e = getenv("UNSEEN_SECONDS");
    int secs = e ? atoi(e) : 15;
    int outer = epoll_create1(0), inner = epoll_create1(0);
    int tfd = timerfd_create(CLOCK_MONOTONIC, 0), efd = eventfd(0, 0);
    struct itimerspec its = {.it_value = {.tv_sec = secs}};
    timerfd_settime(tfd, 0, &its, NULL);
    struct epoll_event ev = {.events = EPOLLIN};
    ev.data.fd = tfd; epoll_ctl(inner, EPOLL_CTL_ADD, tfd, &ev);
    ev.data.fd = efd; epoll_ctl(inner, EPOLL_CTL_ADD, efd, &ev);
    ev.data.fd = inner; epoll_ctl(outer, EPOLL_CTL_ADD, inner, &ev);
    struct epoll_event got;
    while (epoll_wait(outer, &got, 1, -1) < 1) { }
    while (epoll_wait(inner, &got, 1, -1) < 1) { }
    uint64_t n;
    if (got.data.fd != tfd || read(tfd, &n, sizeof n) != sizeof n) return 1;
    puts("alive");
    return 0;
}
