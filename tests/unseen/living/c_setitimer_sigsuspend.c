/* job suspends itself; an interval timer's SIGALRM resumes it */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
static volatile sig_atomic_t fired;
static void h(int n) { (void)n; fired = 1; }
int main(void) {
    const char *e = getenv("UNSEEN_SECONDS"); double s = e ? atof(e) : 15;
    sigset_t b, o; sigemptyset(&b); sigaddset(&b, SIGALRM); sigprocmask(SIG_BLOCK, &b, &o);
    signal(SIGALRM, h);
    struct itimerval it = {{0, 0}, {(time_t)s, (long)((s - (time_t)s) * 1e6)}};
    puts("suspending"); fflush(stdout);
    setitimer(ITIMER_REAL, &it, 0);
    while (!fired) sigsuspend(&o);
    puts("alive");
    return 0;
}
