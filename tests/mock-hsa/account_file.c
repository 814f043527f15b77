/* The shared file: how it is made, locked, and rid of the dead. The mock and its reader both use this. */
#include "account.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t account_byte(int slot) { return (1ull << 40) + slot; }

static void make(struct account *account) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&account->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    account->magic = ACCOUNT_MAGIC;
}

struct account *account_open(const char *path, int *fd) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return NULL;
    /* flock only for the making: whoever comes second finds it made. */
    struct stat status;
    if (flock(file, LOCK_EX) || fstat(file, &status) || (status.st_size == 0 && ftruncate(file, sizeof(struct account)))) {
        close(file);
        return NULL;
    }
    if (status.st_size != 0 && status.st_size != sizeof(struct account)) {
        close(file);
        return NULL;
    }
    struct account *account = mmap(NULL, sizeof *account, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (account == MAP_FAILED) {
        close(file);
        return NULL;
    }
    if (account->magic == 0) make(account);
    flock(file, LOCK_UN);
    if (account->magic != ACCOUNT_MAGIC) {
        munmap(account, sizeof *account);
        close(file);
        return NULL;
    }
    *fd = file;
    return account;
}

void account_lock(struct account *account) {
    /* Whoever died inside left only its own slot unfinished, and that goes with it. */
    if (pthread_mutex_lock(&account->lock) == EOWNERDEAD) pthread_mutex_consistent(&account->lock);
}

void account_unlock(struct account *account) { pthread_mutex_unlock(&account->lock); }

enum state { GONE, EXITING, ALIVE };

/* What /proc says of a process: gone (or another one under that pid), on its way out (its memory is no longer in use, though it may be mapped still), alive. */
static enum state process_state(uint64_t pid, uint64_t start) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return GONE;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) return GONE;
    text[length] = 0;
    char *field = strrchr(text, ')');
    if (!field) return GONE;
    char state = 0;
    unsigned long flags = 0;
    unsigned long long began = 0;
    int read = sscanf(field + 1, " %c %*d %*d %*d %*d %*d %lu %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state, &flags, &began);
    if (read != 3 || began != start) return GONE;
    const unsigned long pf_exiting = 4;
    return state == 'Z' || state == 'X' || flags & pf_exiting ? EXITING : ALIVE;
}

void account_sweep(struct account *account, const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    for (uint64_t i = 0; i < account->slots_used; i++) {
        struct account_slot *slot = &account->slot[i];
        if (!slot->pid) continue;
        struct flock probe = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = account_byte(i), .l_len = 1};
        /* Without a descriptor only /proc speaks. A lock that is gone beside a living process: a file system that drops locks when the file is closed. */
        bool unlocked = fd < 0 || (fcntl(fd, F_OFD_GETLK, &probe) == 0 && probe.l_type == F_UNLCK);
        enum state state = process_state(slot->pid, slot->start);
        if (state == EXITING || (unlocked && state == GONE)) memset(slot, 0, sizeof *slot);
    }
    if (fd >= 0) close(fd);
}
