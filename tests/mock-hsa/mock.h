/* What the mock's files share. Reading order: config.c, account.c, device.c, memory.c, vmem.c, share.c, signal.c, queue.c, code.c, image.c, system.c. */
#ifndef MOCK_H
#define MOCK_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

#define EXPORT __attribute__((visibility("default")))
#define MOST_CARDS 16
#define PAGE 4096ul
#define BLOCK (2ul << 20)
#define round_up(n, to) (((n) + (to) - 1) / (to) * (to))

/* config.c: what the environment says, and what `mockhsa_control` changed since. */
struct config {
    int cards;
    uint64_t vram;              /* bytes that a card reports */
    uint64_t limit[MOST_CARDS]; /* bytes that a card really has */
    bool blocks;                /* ROCr's 2 MiB blocks; otherwise pages */
    bool virtual_memory;        /* the vmem calls are there */
    bool log;
    char isa[64]; /* amdgcn-amd-amdhsa--gfx1030 */
    char visible[256];
    char record[512], shared[512];
};
extern struct config config;
void config_load(void);

/* Where an allocating call stands: does an injected fault meet it? Waits as the delay and pause knobs say. `card` is -1 for host memory. */
bool fault_meets(const char *call, int card);
void delay_allocation(int card);
void delay_free(int card);
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* account.c: the ground truth. Bytes asked are rounded to pages; block bytes are what the card lost. */
bool account_take(int card, uint64_t asked, uint64_t block); /* false: the card has no room, nothing is taken */
void account_give(int card, uint64_t asked, uint64_t block);
uint64_t account_free(int card);
void record(const char *kind, const char *call, int card, uint64_t asked, uint64_t block, uint64_t key, status_t status);

/* device.c: agents and pools. */
enum pool_kind { POOL_COARSE, POOL_LDS, POOL_FINE, POOL_EXTENDED, CPU_FINE, CPU_COARSE, CPU_KERNARG, POOL_NONE };
#define CPU_AGENT ((agent_t)1)
enum pool_kind pool_kind_of(pool_t pool, int *card); /* POOL_NONE: no such pool; card is -1 for the CPU's */
bool agent_card(agent_t agent, int *card);           /* false: no such agent; card is -1 for the CPU */
agent_t card_agent(int card);
pool_t card_pool(int card);
int visible_cards(int out[MOST_CARDS]);

/* memory.c: allocations. One tree of address ranges, whatever made them. */
struct range {
    char *base;
    size_t size;          /* as asked */
    uint32_t type;        /* POINTER_… */
    int card;             /* -1: host */
    uint32_t global_flags;
    uint64_t asked;       /* accounted */
    struct block *block;  /* where it was cut from, or NULL */
    uint64_t block_bytes; /* accounted when there is no block */
    void *user_data;
    size_t mapped;        /* bytes to unmap when it goes, 0: not ours */
    char *alias;          /* of locked memory: where a card sees it; of that place: where the host does */
    long locks;           /* of locked memory; 0 where a card sees it */
    struct vmem *vmem;    /* what is mapped here */
    uint32_t access[MOST_CARDS];
};
extern pthread_mutex_t memory_lock; /* the tree and the blocks; a leaf: nothing is called under it but account.c */
struct range *range_find(const void *address); /* under memory_lock */
bool range_insert(struct range *range);        /* false: overlaps one that is there, or no memory for the node */
void range_remove(struct range *range);
void *host_address(const void *address); /* where the host finds what a card sees there */
void *host_map(size_t size, size_t align);
status_t device_allocate(int card, uint64_t size, bool sub_allocate, uint32_t global_flags, const char *call, void **out);
status_t memory_free(void *address, const char *call);
uint64_t memory_cached(int card);

/* vmem.c */
struct range vmem_reservation_at(const void *address); /* under memory_lock; size 0: none */

/* signal.c */
struct signal { /* the first 64 bytes are amd_signal_t, which the runtime looks into */
    int64_t kind;
    int64_t value;
    uint64_t mailbox;
    uint32_t event, reserved;
    uint64_t start, end;
    void *queue;
    uint64_t reserved2[2];
    struct queue_state *state; /* the doorbell's queue */
};
#define SIGNAL(handle) ((struct signal *)(uintptr_t)(handle))
signal_t signal_new(int64_t value);
int64_t signal_value(signal_t signal);
bool signal_holds(signal_t signal, uint32_t condition, int64_t value);
void signal_complete(signal_t signal); /* times it and counts it down by one, as a card does */
void engine_wake(void);
void engine_start(void);
void engine_stop(void);
uint64_t now_ns(void);

/* queue.c: runs packets whose barriers are open, until nothing moves. */
bool queues_pump(void);
bool queues_pending(void);
bool copies_pump(void);
bool copies_pending(void);

#endif
