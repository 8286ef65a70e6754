/* Solver that needs a licence token: a System V semaphore kept by the licence daemon. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <unistd.h>

int main(void) {
    char path[4096];
    int id = -1;
    snprintf(path, sizeof path, "%s/licence", getenv("UNSEEN_TMP"));
    for (int i = 0; i < 200 && id < 0; i++) {
        FILE *f = fopen(path, "r");
        if (f && fscanf(f, "%d", &id) != 1) id = -1;
        if (f) fclose(f);
        if (id < 0) usleep(50000);
    }
    struct sembuf take = {0, -1, 0};
    if (id < 0 || semop(id, &take, 1)) { perror("licence"); return 1; }
    semctl(id, 0, IPC_RMID);
    puts("alive");
    return 0;
}
