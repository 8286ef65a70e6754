/* Licence daemon: the only token is in use for UNSEEN_SECONDS, then given back. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <unistd.h>

static int id;
static void bye(int s) { (void)s; semctl(id, 0, IPC_RMID); _exit(0); }

int main(void) {
    char path[4096], tmp[4096];
    const char *dir = getenv("UNSEEN_TMP"), *s = getenv("UNSEEN_SECONDS");
    double seconds = s ? atof(s) : 15;
    id = semget(IPC_PRIVATE, 1, 0600);
    semctl(id, 0, SETVAL, 0);
    signal(SIGTERM, bye);
    snprintf(path, sizeof path, "%s/licence", dir);
    snprintf(tmp, sizeof tmp, "%s/licence.new", dir);
    FILE *f = fopen(tmp, "w");
    fprintf(f, "%d\n", id);
    fclose(f);
    rename(tmp, path);
    while (semctl(id, 0, GETNCNT) == 0) usleep(50000);
    usleep((useconds_t)(seconds * 1e6));
    struct sembuf give = {0, 1, 0};
    semop(id, &give, 1);
    sleep(5);
    semctl(id, 0, IPC_RMID);
    return 0;
}
