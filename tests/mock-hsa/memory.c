/* Memory of pools: ranges by address, and the blocks that small requests to a card are cut from, as ROCr's sub-allocator does it.
 *
 * A request to a card takes whole 2 MiB blocks. One of up to 2 MiB is cut from a block with room, best fit, and the block stays when it is empty: in a
 * cache of at most twice what is in use, which is given back when the card is out of memory. A larger request has its blocks for itself. Requests with
 * flags (executable, contiguous, …) are not cut and take pages. */
#include "mock.h"

#include <search.h>
#include <sys/mman.h>

struct piece { /* of a block, in the order of addresses */
    char *base;
    size_t size;
    bool free;
    struct piece *next;
};

struct block {
    char *base;
    size_t size;
    int card;
    bool lone; /* larger than a block: for one request, never cached */
    struct piece *pieces;
    struct block *next;
};

pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static void *ranges;
static struct block *blocks[MOST_CARDS]; /* in use */
static struct block *cache[MOST_CARDS];  /* empty; the newest first */
static uint64_t in_use[MOST_CARDS], cached[MOST_CARDS];

/* Ranges do not overlap, so overlap serves as equality: the tree answers which range holds an address. */
static int compare(const void *left, const void *right) {
    const struct range *a = left, *b = right;
    if (a->base + a->size <= b->base) return -1;
    return a->base >= b->base + b->size;
}

struct range *range_find(const void *address) {
    struct range key = {.base = (char *)(uintptr_t)address, .size = 1};
    struct range **found = tfind(&key, &ranges, compare);
    return found ? *found : NULL;
}

bool range_insert(struct range *range) {
    struct range **found = tsearch(range, &ranges, compare);
    return found && *found == range;
}

void range_remove(struct range *range) { tdelete(range, &ranges, compare); }

/* Address space with nothing behind it until it is touched. */
void *host_map(size_t size, size_t align) {
    size_t slack = align > PAGE ? align : 0;
    char *base = mmap(NULL, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return NULL;
    char *aligned = slack ? (char *)round_up((uintptr_t)base, align) : base;
    if (aligned > base) munmap(base, aligned - base);
    if (aligned + size < base + size + slack) munmap(aligned + size, base + slack - aligned);
    return aligned;
}

static void block_destroy(struct block *block) {
    munmap(block->base, block->size);
    while (block->pieces) {
        struct piece *piece = block->pieces;
        block->pieces = piece->next;
        free(piece);
    }
    free(block);
}

/* Gives empty blocks back, the oldest first, until the cache is as small as asked. Returns the bytes that went. */
static uint64_t cache_trim(int card, uint64_t most, int keep) {
    uint64_t gone = 0;
    while (cache[card] && cached[card] > most) {
        struct block **last = &cache[card];
        int count = 1;
        for (; (*last)->next; last = &(*last)->next) count++;
        if (count <= keep) break;
        struct block *block = *last;
        *last = NULL;
        cached[card] -= block->size;
        gone += block->size;
        block_destroy(block);
    }
    return gone;
}

static struct block *block_new(int card, size_t size) {
    struct block *block = calloc(1, sizeof *block);
    struct piece *piece = calloc(1, sizeof *piece);
    char *base = host_map(size, BLOCK);
    if (!block || !piece || !base) {
        if (base) munmap(base, size);
        free(block);
        free(piece);
        return NULL;
    }
    *piece = (struct piece){.base = base, .size = size, .free = true};
    *block = (struct block){.base = base, .size = size, .card = card, .pieces = piece};
    return block;
}

/* The best fit among the free pieces of a card's blocks. */
static struct piece *best_piece(int card, size_t size, struct block **of) {
    struct piece *best = NULL;
    for (struct block *block = blocks[card]; block; block = block->next) {
        if (block->lone) continue;
        for (struct piece *piece = block->pieces; piece; piece = piece->next) {
            if (!piece->free || piece->size < size || (best && best->size <= piece->size)) continue;
            best = piece;
            *of = block;
        }
    }
    return best;
}

static char *piece_take(struct piece *piece, size_t size) {
    if (piece->size > size) {
        struct piece *rest = calloc(1, sizeof *rest);
        if (!rest) return NULL;
        *rest = (struct piece){.base = piece->base + size, .size = piece->size - size, .free = true, .next = piece->next};
        piece->next = rest;
        piece->size = size;
    }
    piece->free = false;
    return piece->base;
}

/* Accounts for what one request takes. When the card has no room, the cache is given back and the room is looked at once more. */
static bool take(int card, uint64_t asked, uint64_t bytes) {
    if (account_take(card, asked, bytes)) return true;
    uint64_t gone = cache_trim(card, 0, 0);
    if (!gone) return false;
    account_give(card, 0, gone);
    return account_take(card, asked, bytes);
}

static status_t cut(int card, size_t size, struct range *range) {
    struct block *block = NULL;
    struct piece *piece = size <= BLOCK ? best_piece(card, size, &block) : NULL;
    if (piece) {
        if (!take(card, size, 0)) return OUT_OF_RESOURCES;
    } else if (size < BLOCK && cache[card]) {
        if (!take(card, size, 0)) return OUT_OF_RESOURCES;
        block = cache[card];
        cache[card] = block->next;
        cached[card] -= block->size;
        block->next = blocks[card];
        blocks[card] = block;
        in_use[card] += block->size;
        piece = block->pieces;
    } else {
        uint64_t bytes = round_up(size, BLOCK);
        if (!take(card, size, bytes)) return OUT_OF_RESOURCES;
        block = block_new(card, bytes);
        if (!block) {
            account_give(card, size, bytes);
            return OUT_OF_RESOURCES;
        }
        block->lone = size > BLOCK;
        block->next = blocks[card];
        blocks[card] = block;
        in_use[card] += block->size;
        piece = block->pieces;
    }
    range->base = piece_take(piece, size);
    range->block = block;
    return range->base ? OK : OUT_OF_RESOURCES;
}

/* Puts a piece back: merges it with its neighbours, and the block goes to the cache or away when nothing of it is used. Returns the bytes given back. */
static uint64_t piece_give(struct block *block, const char *base) {
    struct piece *before = NULL, *piece = block->pieces;
    while (piece->base != base) {
        before = piece;
        piece = piece->next;
    }
    piece->free = true;
    struct piece *after = piece->next;
    if (after && after->free) {
        piece->size += after->size;
        piece->next = after->next;
        free(after);
    }
    if (before && before->free) {
        before->size += piece->size;
        before->next = piece->next;
        free(piece);
    }
    if (block->pieces->next || !block->pieces->free) return 0;

    int card = block->card;
    struct block **link = &blocks[card];
    while (*link != block) link = &(*link)->next;
    *link = block->next;
    in_use[card] -= block->size;
    if (block->lone) {
        uint64_t bytes = block->size;
        block_destroy(block);
        return bytes;
    }
    block->next = cache[card];
    cache[card] = block;
    cached[card] += block->size;
    return cache_trim(card, in_use[card] * 2, 1);
}

uint64_t memory_cached(int card) {
    pthread_mutex_lock(&memory_lock);
    uint64_t bytes = cached[card];
    pthread_mutex_unlock(&memory_lock);
    return bytes;
}

status_t device_allocate(int card, uint64_t size, bool sub_allocate, uint32_t global_flags, const char *call, void **out) {
    uint64_t asked = round_up(size, PAGE);
    bool fault = fault_meets(call, card);
    struct range *range = fault ? NULL : calloc(1, sizeof *range);
    if (!range) {
        record(fault ? "fault" : "refuse", call, card, size, 0, 0, OUT_OF_RESOURCES);
        return OUT_OF_RESOURCES;
    }
    *range = (struct range){.size = size, .type = POINTER_HSA, .card = card, .global_flags = global_flags, .asked = asked};
    status_t status = OK;
    pthread_mutex_lock(&memory_lock);
    if (card < 0) {
        range->base = host_map(asked, PAGE);
        range->mapped = asked;
        if (!range->base) status = OUT_OF_RESOURCES;
    } else if (sub_allocate && config.blocks) {
        status = cut(card, asked, range);
    } else if (take(card, asked, asked)) {
        range->base = host_map(asked, PAGE);
        range->mapped = range->block_bytes = asked;
        if (!range->base) {
            account_give(card, asked, asked);
            status = OUT_OF_RESOURCES;
        }
    } else {
        status = OUT_OF_RESOURCES;
    }
    if (!status && !range_insert(range)) abort(); /* the tree and the kernel disagree about what is free: nothing the mock says would be true */
    uint64_t bytes = range->block ? round_up(asked, range->block->lone ? BLOCK : PAGE) : range->block_bytes;
    pthread_mutex_unlock(&memory_lock);
    if (status) {
        record("refuse", call, card, size, 0, 0, status);
        free(range);
        return status;
    }
    record("alloc", call, card, size, bytes, (uintptr_t)range->base, OK);
    *out = range->base;
    delay_allocation(card);
    return OK;
}

status_t memory_free(void *address, const char *call) {
    if (!address) return OK;
    pthread_mutex_lock(&memory_lock);
    struct range *range = range_find(address);
    if (!range || range->base != address || range->type != POINTER_HSA) {
        pthread_mutex_unlock(&memory_lock);
        record("refuse", call, -1, 0, 0, (uintptr_t)address, INVALID_ALLOCATION);
        return INVALID_ALLOCATION;
    }
    /* Out of the tree first: nobody finds it any more. The bytes go back when the delay is over, as a driver takes its time. */
    range_remove(range);
    pthread_mutex_unlock(&memory_lock);
    delay_free(range->card);
    pthread_mutex_lock(&memory_lock);
    uint64_t bytes = range->block_bytes;
    if (range->block) bytes = piece_give(range->block, range->base);
    /* Before the address can be handed out again, here or by the kernel. */
    record("free", call, range->card, range->size, bytes, (uintptr_t)address, OK);
    if (range->mapped) munmap(range->base, range->mapped);
    if (range->card >= 0) account_give(range->card, range->asked, bytes);
    pthread_mutex_unlock(&memory_lock);
    free(range);
    return OK;
}

static status_t pool_allocate(pool_t pool, size_t size, uint32_t flags, const char *call, void **out) {
    int card;
    if (!size || !out) return INVALID_ARGUMENT;
    enum pool_kind kind = pool_kind_of(pool, &card);
    if (kind == POOL_NONE) return INVALID_MEMORY_POOL;
    if (kind == POOL_LDS || size > (card < 0 ? 64ull << 30 : config.vram)) return INVALID_ALLOCATION;
    uint32_t global = kind == POOL_COARSE || kind == CPU_COARSE ? FLAG_COARSE : kind == CPU_KERNARG ? FLAG_FINE | FLAG_KERNARG : FLAG_FINE;
    return device_allocate(card, size, flags == 0, global, call, out);
}

EXPORT status_t hsa_amd_memory_pool_allocate(pool_t pool, size_t size, uint32_t flags, void **out) {
    return pool_allocate(pool, size, flags, "pool_allocate", out);
}
EXPORT status_t hsa_amd_memory_pool_free(void *address) { return memory_free(address, "pool_free"); }
EXPORT status_t hsa_memory_allocate(pool_t region, size_t size, void **out) { return pool_allocate(region, size, 0, "memory_allocate", out); }
EXPORT status_t hsa_memory_free(void *address) { return memory_free(address, "memory_free"); }

EXPORT status_t hsa_amd_agents_allow_access(uint32_t count, const agent_t *agents, const uint32_t *flags, const void *address) {
    (void)flags;
    if (!count || !agents || !address) return INVALID_ARGUMENT;
    pthread_mutex_lock(&memory_lock);
    struct range *range = range_find(address);
    pthread_mutex_unlock(&memory_lock);
    return range ? OK : INVALID_ALLOCATION;
}

EXPORT status_t hsa_amd_pointer_info(const void *address, struct pointer_info *info, void *(*allocate)(size_t), uint32_t *accessible, agent_t **agents) {
    if (!info) return INVALID_ARGUMENT;
    struct pointer_info answer = {.size = info->size < sizeof answer ? info->size : sizeof answer};
    pthread_mutex_lock(&memory_lock);
    struct range *range = range_find(address);
    if (range) {
        answer.type = range->type;
        answer.agent_base = answer.host_base = range->base;
        if (range->type == POINTER_LOCKED) *(range->locks ? &answer.agent_base : &answer.host_base) = range->alias;
        answer.bytes = range->size;
        answer.user_data = range->user_data;
        answer.owner = card_agent(range->card);
        answer.global_flags = range->global_flags;
        answer.registered = true;
    } else {
        struct range reserved = vmem_reservation_at(address);
        if (reserved.size) {
            answer.type = POINTER_RESERVED;
            answer.agent_base = answer.host_base = reserved.base;
            answer.bytes = reserved.size;
        }
    }
    pthread_mutex_unlock(&memory_lock);
    memcpy(info, &answer, answer.size);
    if (accessible) *accessible = 0;
    if (range && allocate && accessible && agents) {
        agent_t *list = allocate(sizeof *list);
        if (!list) return OUT_OF_RESOURCES;
        list[0] = answer.owner;
        *agents = list;
        *accessible = 1;
    }
    return OK;
}

EXPORT status_t hsa_amd_pointer_info_set_userdata(const void *address, void *user_data) {
    pthread_mutex_lock(&memory_lock);
    struct range *range = range_find(address);
    if (range) range->user_data = user_data;
    pthread_mutex_unlock(&memory_lock);
    return range ? OK : INVALID_ARGUMENT;
}

/* Host memory that a card may reach. A card sees it at an address of its own, as behind ROCr, where nothing can be read by the host: copies translate. The
 * runtime relies on the two addresses being different. Memory that is locked already keeps the address it has. */
static status_t lock_host(char *host, size_t size, void **out) {
    if (!host || !size || !out) return INVALID_ARGUMENT;
    struct range *own = calloc(2, sizeof *own), *seen = own ? own + 1 : NULL;
    char *alias = mmap(NULL, round_up(size, PAGE) + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!own || alias == MAP_FAILED) {
        free(own);
        return OUT_OF_RESOURCES;
    }
    char *start = alias + (uintptr_t)host % PAGE;
    *own = (struct range){.base = host, .size = size, .type = POINTER_LOCKED, .card = -1, .global_flags = FLAG_FINE, .alias = start, .locks = 1};
    *seen = *own;
    seen->base = start;
    seen->alias = host;
    seen->locks = 0;
    pthread_mutex_lock(&memory_lock);
    if (range_insert(own)) {
        if (!range_insert(seen)) abort();
        *out = start;
    } else {
        struct range *before = range_find(host);
        if (before && before->type == POINTER_LOCKED) before->locks++;
        *out = before && before->alias ? before->alias + (host - before->base) : host;
        munmap(alias, round_up(size, PAGE) + PAGE);
        free(own);
    }
    pthread_mutex_unlock(&memory_lock);
    record("lock", "memory_lock", -1, size, 0, (uintptr_t)host, OK);
    return OK;
}

EXPORT status_t hsa_amd_memory_lock(void *host, size_t size, agent_t *agents, int count, void **out) {
    (void)agents, (void)count;
    return lock_host(host, size, out);
}

EXPORT status_t hsa_amd_memory_lock_to_pool(void *host, size_t size, agent_t *agents, int count, pool_t pool, uint32_t flags, void **out) {
    (void)agents, (void)count, (void)flags;
    int card;
    enum pool_kind kind = pool_kind_of(pool, &card);
    if (kind == POOL_NONE || card >= 0) return INVALID_MEMORY_POOL;
    return lock_host(host, size, out);
}

EXPORT status_t hsa_amd_memory_unlock(void *host) {
    pthread_mutex_lock(&memory_lock);
    struct range *range = range_find(host);
    bool locked = range && range->type == POINTER_LOCKED && range->locks;
    size_t size = locked ? range->size : 0;
    if (locked && --range->locks == 0) {
        range_remove(range);
        range_remove(range + 1);
        munmap(range->alias - (uintptr_t)range->base % PAGE, round_up(size, PAGE) + PAGE);
        free(range);
    }
    pthread_mutex_unlock(&memory_lock);
    record("unlock", "memory_unlock", -1, size, 0, (uintptr_t)host, OK);
    return OK;
}

void *host_address(const void *address) {
    pthread_mutex_lock(&memory_lock);
    struct range *range = range_find(address);
    if (range && range->type == POINTER_LOCKED && !range->locks) address = range->alias + ((const char *)address - range->base);
    pthread_mutex_unlock(&memory_lock);
    return (void *)(uintptr_t)address;
}

EXPORT status_t hsa_memory_register(void *address, size_t size) { return (void)address, (void)size, OK; }
EXPORT status_t hsa_memory_deregister(void *address, size_t size) { return (void)address, (void)size, OK; }
EXPORT status_t hsa_memory_copy(void *to, const void *from, size_t size) { return memmove(host_address(to), host_address(from), size), OK; }

EXPORT status_t hsa_amd_memory_fill(void *address, uint32_t value, size_t count) {
    uint32_t *word = host_address(address);
    while (count--) *word++ = value;
    return OK;
}
