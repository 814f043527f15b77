/* A stand-in for libamdhip64 without any HSA beneath: what it hands out is memory of the host, counted by it alone. `hipDeviceGetLimit(1)` answers how many that
 * are, so that a test can compare them with what the shim has charged. Memory that is mapped outlives its handle; memory of graphs is taken with the node. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { SUCCESS = 0, INVALID = 1, OUT_OF_MEMORY = 2 };

struct block {
    struct block *next;
    size_t bytes;
    int references, uses;
    struct graph *graph;
};
struct graph {
    int nothing;
};
struct mapping {
    struct mapping *next;
    void *address;
    struct block *block;
};

static struct block *blocks;
static struct mapping *mappings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t held;
static const size_t total = (size_t)1 << 30;

static int make(void **out, size_t bytes, struct graph *graph) {
    if (!out) return INVALID;
    if (!bytes) {
        *out = NULL;
        return SUCCESS;
    }
    pthread_mutex_lock(&lock);
    struct block *block = bytes <= total - held ? calloc(1, sizeof *block + bytes) : NULL;
    if (block) {
        *block = (struct block){.next = blocks, .bytes = bytes, .references = 1, .graph = graph};
        blocks = block;
        held += bytes;
        *out = block + 1;
    }
    pthread_mutex_unlock(&lock);
    return block ? SUCCESS : OUT_OF_MEMORY;
}

/* With the lock held. */
static struct block **find(const void *wanted) {
    struct block **place = &blocks;
    while (*place && *place + 1 != wanted) place = &(*place)->next;
    return *place ? place : NULL;
}

static void drop(struct block **place) {
    struct block *block = *place;
    *place = block->next;
    held -= block->bytes;
    free(block);
}

/* Takes references and uses away; the block goes with the last of both. */
static int give(void *pointer, int references, int uses) {
    if (!pointer) return SUCCESS;
    pthread_mutex_lock(&lock);
    struct block **place = find(pointer);
    int status = place && (*place)->references >= references && (*place)->uses >= uses ? SUCCESS : INVALID;
    if (status == SUCCESS) {
        (*place)->references -= references;
        (*place)->uses -= uses;
        if (!(*place)->references && !(*place)->uses) drop(place);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

EXPORT int hipInit(unsigned flags) { return (void)flags, SUCCESS; }
EXPORT int hipGetDeviceCount(int *count) { return *count = 1, SUCCESS; }
EXPORT int hipRuntimeGetVersion(int *version) { return *version = 70200000, SUCCESS; }
EXPORT int hipGetDevice(int *device) { return *device = 0, SUCCESS; }
EXPORT int hipSetDevice(int device) { return device ? 101 : SUCCESS; }
EXPORT int hipDeviceGetPCIBusId(char *id, int size, int device) { return (void)device, snprintf(id, size, "0000:03:00.0"), SUCCESS; }
EXPORT int hipMalloc(void **out, size_t bytes) { return make(out, bytes, NULL); }
EXPORT int hipMallocManaged(void **out, size_t bytes, unsigned flags) {
    return (void)flags, make(out, bytes, NULL);
}
EXPORT int hipExtMallocWithFlags(void **out, size_t bytes, unsigned flags) { return (void)flags, make(out, bytes, NULL); }
EXPORT int hipMallocPitch(void **out, size_t *pitch, size_t width, size_t height) {
    /* Through its own entry point, as 5.x does. */
    *pitch = (width + 511) / 512 * 512;
    return hipMalloc(out, *pitch * height);
}
EXPORT int hipMallocArray(void **out, const int *bits, size_t width, size_t height, unsigned flags) {
    (void)flags;
    return make(out, (bits[0] + bits[1] + bits[2] + bits[3]) / 8 * width * (height ? height : 1), NULL);
}
EXPORT int hipMallocAsync(void **out, size_t bytes, void *stream) { return (void)stream, make(out, bytes, NULL); }
EXPORT int hipFree(void *pointer) { return give(pointer, 1, 0); }
EXPORT int hipFreeArray(void *pointer) { return give(pointer, 1, 0); }
EXPORT int hipFreeAsync(void *pointer, void *stream) { return (void)stream, give(pointer, 1, 0); }

EXPORT int hipMemCreate(void **out, size_t bytes, const void *properties, unsigned long long flags) { return (void)properties, (void)flags, make(out, bytes, NULL); }
EXPORT int hipMemRelease(void *handle) { return give(handle, 1, 0); }
EXPORT int hipMemAddressReserve(void **out, size_t bytes, size_t align, void *hint, unsigned long long flags) {
    (void)align, (void)hint, (void)flags;
    return *out = malloc(bytes ? 1 : 0), SUCCESS;
}
EXPORT int hipMemAddressFree(void *address, size_t bytes) { return (void)bytes, free(address), SUCCESS; }
EXPORT int hipMemMap(void *address, size_t bytes, size_t offset, void *handle, unsigned long long flags) {
    (void)bytes, (void)offset, (void)flags;
    pthread_mutex_lock(&lock);
    struct block **place = find(handle);
    struct mapping *mapping = place ? calloc(1, sizeof *mapping) : NULL;
    if (mapping) {
        (*place)->uses++;
        *mapping = (struct mapping){mappings, address, *place};
        mappings = mapping;
    }
    pthread_mutex_unlock(&lock);
    return mapping ? SUCCESS : INVALID;
}
EXPORT int hipMemUnmap(void *address, size_t bytes) {
    (void)bytes;
    pthread_mutex_lock(&lock);
    struct mapping **place = &mappings;
    while (*place && (*place)->address != address) place = &(*place)->next;
    struct mapping *mapping = *place;
    if (mapping) *place = mapping->next;
    pthread_mutex_unlock(&lock);
    if (!mapping) return INVALID;
    int status = give(mapping->block + 1, 0, 1);
    free(mapping);
    return status;
}
EXPORT int hipMemRetainAllocationHandle(void **out, void *address) {
    pthread_mutex_lock(&lock);
    struct mapping *mapping = mappings;
    while (mapping && mapping->address != address) mapping = mapping->next;
    if (mapping) {
        mapping->block->references++;
        *out = mapping->block + 1;
    }
    pthread_mutex_unlock(&lock);
    return mapping ? SUCCESS : INVALID;
}

EXPORT int hipGraphCreate(void **out, unsigned flags) { return (void)flags, *out = calloc(1, sizeof(struct graph)), SUCCESS; }
EXPORT int hipGraphAddMemAllocNode(void **node, void *graph, void *const *dependencies, size_t count, char *parameters) {
    (void)dependencies, (void)count;
    size_t bytes;
    memcpy(&bytes, parameters + 104, sizeof bytes);
    int status = make(node, bytes, graph);
    if (!status) memcpy(parameters + 112, node, sizeof *node);
    return status;
}
EXPORT int hipGraphGetNodes(void *graph, void **nodes, size_t *count) {
    size_t room = nodes ? *count : 0, found = 0;
    pthread_mutex_lock(&lock);
    for (struct block *block = blocks; block; block = block->next) {
        if (block->graph != graph) continue;
        if (found < room) nodes[found] = block + 1;
        found++;
    }
    pthread_mutex_unlock(&lock);
    return *count = nodes && found > room ? room : found, SUCCESS;
}
EXPORT int hipGraphDestroy(void *graph) {
    pthread_mutex_lock(&lock);
    for (struct block **place = &blocks; *place;) {
        if ((*place)->graph == graph) drop(place);
        else place = &(*place)->next;
    }
    pthread_mutex_unlock(&lock);
    return free(graph), SUCCESS;
}

EXPORT int hipDeviceReset(void) {
    pthread_mutex_lock(&lock);
    while (blocks) drop(&blocks);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}
EXPORT int hipMemGetInfo(size_t *left, size_t *all) { return *left = total - held, *all = total, SUCCESS; }
EXPORT int hipDeviceGetLimit(size_t *value, int limit) { return *value = limit == 1 ? held : 0, SUCCESS; }
