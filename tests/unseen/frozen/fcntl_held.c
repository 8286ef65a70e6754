/* Wants a record lock on the shared index that a process outside of the job holds; a thread keeps a heartbeat. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static char dir[3000];

static void *beat(void *arg) {
    char p[4000];
    snprintf(p, sizeof p, "%s/heartbeat", dir);
    for (;;) {
        FILE *f = fopen(p, "w");
        if (f) { fprintf(f, "%ld\n", (long)time(NULL)); fclose(f); }
        sleep(1);
    }
    return arg;
}

int main(void) {
    char p[4000];
    snprintf(dir, sizeof dir, "%s", getenv("UNSEEN_TMP"));
    snprintf(p, sizeof p, "%s/index.ready", dir);
    while (access(p, F_OK)) usleep(50000);
    double s = 0;
    for (int i = 1; i < 20000000; i++) s += 1.0 / i;
    printf("merged %f\n", s);
    fflush(stdout);
    pthread_t t;
    pthread_create(&t, NULL, beat, NULL);
    snprintf(p, sizeof p, "%s/index.bin", dir);
    int fd = open(p, O_RDWR | O_CREAT, 0644);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    while (fcntl(fd, F_SETLKW, &l)) { }
    if (write(fd, &s, sizeof s) < 0) return 1;
    puts("index written");
    return 0;
}
