/* Blocks SIGUSR1 and sigwait()s for a go-ahead from a scheduler that never sends it. */
#include <signal.h>
#include <stdio.h>
int main(void) {
    sigset_t s; int n;
    sigemptyset(&s); sigaddset(&s, SIGUSR1);
    sigprocmask(SIG_BLOCK, &s, 0);
    puts("allocated, waiting for go"); puts("frozen soon"); fflush(stdout);
    sigwait(&s, &n);
    puts("go");
    return 0;
}
