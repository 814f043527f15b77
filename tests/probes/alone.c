/* A stand-in for libamdhip64 without any HSA beneath: what it hands out is memory of the host, counted by it alone. `hipDeviceGetLimit(1)` answers how many that
 * are, so that a test can compare them with what the shim has charged. Memory that is mapped outlives its handle; memory of graphs is taken with the node.
 * `STANDIN_VERSION` is what it says its version is. */
#include "hip.h"

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
EXPORT int hipRuntimeGetVersion(int *version) {
    const char *other = getenv("STANDIN_VERSION");
    return *version = other ? atoi(other) : 70200000, SUCCESS;
}
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
EXPORT int hipMemAllocPitch(void **out, size_t *pitch, size_t width, size_t height, unsigned element) {
    (void)element;
    *pitch = (width + 511) / 512 * 512;
    return make(out, *pitch * height, NULL);
}
EXPORT int hipMalloc3D(struct pitched *out, struct extent extent) {
    *out = (struct pitched){NULL, (extent.width + 511) / 512 * 512, extent.width, extent.height};
    return make(&out->pointer, out->pitch * extent.height * extent.depth, NULL);
}
/* Elements of four bytes, which is all that the driver asks for; each level is half as wide and high as the one before. */
static int elements(void **out, size_t width, size_t height, size_t depth, unsigned levels) {
    size_t sum = 0;
    for (; levels; levels--, width /= 2, height /= 2) sum += 4 * (width ? width : 1) * (height ? height : 1) * (depth ? depth : 1);
    return make(out, sum, NULL);
}
EXPORT int hipMallocArray(void **out, const int *bits, size_t width, size_t height, unsigned flags) {
    return (void)bits, (void)flags, elements(out, width, height, 0, 1);
}
EXPORT int hipMalloc3DArray(void **out, const int *bits, struct extent extent, unsigned flags) {
    return (void)bits, (void)flags, elements(out, extent.width, extent.height, extent.depth, 1);
}
EXPORT int hipArrayCreate(void **out, const struct array_desc *desc) { return elements(out, desc->width, desc->height, 0, 1); }
EXPORT int hipArray3DCreate(void **out, const struct array3d_desc *desc) { return elements(out, desc->width, desc->height, desc->depth, 1); }
EXPORT int hipMallocMipmappedArray(void **out, const int *bits, struct extent extent, unsigned levels, unsigned flags) {
    return (void)bits, (void)flags, elements(out, extent.width, extent.height, extent.depth, levels);
}
EXPORT int hipMipmappedArrayCreate(void **out, const struct array3d_desc *desc, unsigned levels) {
    return elements(out, desc->width, desc->height, desc->depth, levels);
}
/* As 5.x, where the flags are those of the common allocator: device memory unless bit 10 is set. What others call host memory is none of its record. */
EXPORT int hipHostAlloc(void **out, size_t bytes, unsigned flags) { return flags & 1 << 10 ? (*out = malloc(bytes)) ? SUCCESS : OUT_OF_MEMORY : make(out, bytes, NULL); }
EXPORT int hipHostFree(void *pointer) { return give(pointer, 1, 0); }
EXPORT int hipFreeHost(void *pointer) { return give(pointer, 1, 0); }
EXPORT int hipMemPoolCreate(void **out, const void *properties) { return (void)properties, *out = malloc(1), SUCCESS; }
EXPORT int hipMemPoolDestroy(void *pool) { return free(pool), SUCCESS; }
EXPORT int hipMallocFromPoolAsync(void **out, size_t bytes, void *pool, void *stream) { return (void)pool, (void)stream, make(out, bytes, NULL); }
EXPORT int hipMallocAsync(void **out, size_t bytes, void *stream) { return (void)stream, make(out, bytes, NULL); }
EXPORT int hipFree(void *pointer) { return give(pointer, 1, 0); }
EXPORT int hipFreeArray(void *pointer) { return give(pointer, 1, 0); }
EXPORT int hipArrayDestroy(void *pointer) { return give(pointer, 1, 0); }
EXPORT int hipFreeMipmappedArray(void *pointer) { return give(pointer, 1, 0); }
EXPORT int hipMipmappedArrayDestroy(void *pointer) { return give(pointer, 1, 0); }
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
static int add_alloc_node(void **node, void *graph, struct alloc_params *params) {
    int status = make(node, params->bytes, graph);
    if (!status) params->pointer = *node;
    return status;
}
EXPORT int hipGraphAddMemAllocNode(void **node, void *graph, void *const *dependencies, size_t count, struct alloc_params *params) {
    return (void)dependencies, (void)count, add_alloc_node(node, graph, params);
}
EXPORT int hipGraphAddNode(void **node, void *graph, void *const *dependencies, size_t count, struct node_params *params) {
    return (void)dependencies, (void)count, params->type == 10 ? add_alloc_node(node, graph, &params->alloc) : INVALID;
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

/* Look-ups that ask no loader: a table of its own functions, by aliases that a preload does not stand in for. */
#define OWN(name) extern __typeof__(name) own_##name __attribute__((alias(#name), visibility("hidden")));
OWN(hipMalloc) OWN(hipFree) OWN(hipMemGetInfo) OWN(hipDeviceGetLimit)
static int look_up(const char *name, void **out) {
    static const struct {
        const char *name;
        void *function;
    } table[] = {{"hipMalloc", own_hipMalloc}, {"hipFree", own_hipFree}, {"hipMemGetInfo", own_hipMemGetInfo}, {"hipDeviceGetLimit", own_hipDeviceGetLimit}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name)) return *out = table[i].function, SUCCESS;
    return INVALID;
}
EXPORT int hipGetProcAddress(const char *name, void **out, int version, uint64_t flags, int *status) { return (void)version, (void)flags, *status = look_up(name, out); }
EXPORT int hipGetDriverEntryPoint(const char *name, void **out, unsigned long long flags, int *status) { return (void)flags, *status = look_up(name, out); }
EXPORT int hipGetDriverEntryPoint_spt(const char *name, void **out, unsigned long long flags, int *status) { return (void)flags, *status = look_up(name, out); }
