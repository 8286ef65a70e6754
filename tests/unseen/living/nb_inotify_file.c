/* inotify: blocks until the preprocessing outside drops READY into the directory */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>
int main(void) {
    const char *d = getenv("UNSEEN_TMP"); char b[4096], p[512];
    int fd = inotify_init1(IN_CLOEXEC);
    inotify_add_watch(fd, d, IN_CREATE | IN_MOVED_TO);
    snprintf(p, sizeof p, "%s/watching", d);
    close(open(p, O_CREAT | O_WRONLY, 0644));
    puts("watching"); fflush(stdout);
    for (;;) {
        ssize_t n = read(fd, b, sizeof b);
        if (n <= 0) return 1;
        for (char *q = b; q < b + n;) {
            struct inotify_event *e = (void *)q;
            if (e->len && !strcmp(e->name, "READY")) { puts("alive"); return 0; }
            q += sizeof *e + e->len;
        }
    }
}
