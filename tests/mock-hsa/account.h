/* The shared file of MOCKHSA_SHARED: what every living process holds of every card. Written by account.c, printed by read.c. */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define ACCOUNT_CARDS 16
#define ACCOUNT_SLOTS 512
#define ACCOUNT_MAGIC 0x316173686b636f6dull /* "mockhsa1" */

struct card_bytes {
    uint64_t asked, block, taken, given; /* the last two count requests */
};

struct account_slot { /* one process; free when pid is 0 or the process is dead */
    uint64_t pid, start;
    struct card_bytes card[ACCOUNT_CARDS];
};

struct account {
    uint64_t magic;
    struct { /* over all living processes; asked and block bytes at their highest */
        uint64_t asked, block;
    } highest[ACCOUNT_CARDS];
    uint64_t slots_used; /* slots beyond have never been taken */
    pthread_mutex_t lock;
    struct account_slot slot[ACCOUNT_SLOTS];
};

/* Opens the file, makes it when it is empty. NULL when it is not ours. `fd` stays open. */
struct account *account_open(const char *path, int *fd);
void account_lock(struct account *account);
void account_unlock(struct account *account);
/* Frees the slots of the dead. Under the lock; `path` is opened for the look. */
void account_sweep(struct account *account, const char *path);
/* The slot's byte, which its process keeps locked as long as it lives. */
uint64_t account_byte(int slot);

#endif
