/* poll() with a timeout on a pipe that stays silent */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    const char *e = getenv("UNSEEN_SECONDS"); double s = e ? atof(e) : 15;
    int p[2]; if (pipe(p)) return 1;
    struct pollfd f = {p[0], POLLIN, 0};
    puts("polling"); fflush(stdout);
    if (poll(&f, 1, (int)(s * 1000)) != 0) return 1;
    puts("alive");
    return 0;
}
