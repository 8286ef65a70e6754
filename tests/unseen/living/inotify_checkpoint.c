/* Blocks in read() of an inotify descriptor until another process moves a checkpoint into the folder. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

int main(void) {
    if (chdir(getenv("UNSEEN_TMP"))) return 1;
    int fd = inotify_init1(0);
    inotify_add_watch(fd, ".", IN_MOVED_TO);
    close(open("watching", O_CREAT | O_WRONLY, 0644));
    char buf[8192] __attribute__((aligned(8)));
    for (;;) {
        ssize_t n = read(fd, buf, sizeof buf);
        if (n <= 0) return 1;
        for (char *p = buf; p < buf + n;) {
            struct inotify_event *e = (void *)p;
            if (e->len && !strcmp(e->name, "model.ckpt")) { puts("alive"); return 0; }
            p += sizeof *e + e->len;
        }
    }
}
