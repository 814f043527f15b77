/* Queues of packets, and copies. Kernels are not run: their packets complete, what they would have written stays as it was. */
#include "mock.h"

#include <unistd.h>

struct queue_state {
    struct queue queue; /* what the runtime sees */
    char rest_of_amd_queue[1024];
    uint64_t read, write;
    bool gone;
    struct queue_state *next;
};
static struct queue_state *queues; /* this and the copies: under the engine's lock, which their pumps are called with, or before anybody knows of them */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

struct copy {
    struct pitched to, from;
    struct dim3 range;
    uint32_t dependencies;
    signal_t *waits_for;
    signal_t completion;
    struct copy *next;
};
static struct copy *copies;

#define STATE(queue) ((struct queue_state *)(uintptr_t)(queue))

EXPORT status_t hsa_queue_create(agent_t agent, uint32_t size, uint32_t type, void (*callback)(status_t, struct queue *, void *), void *data,
                                 uint32_t private_size, uint32_t group_size, struct queue **out) {
    (void)callback, (void)data, (void)private_size, (void)group_size;
    static uint64_t last_id;
    int card;
    if (!agent_card(agent, &card) || card < 0) return INVALID_AGENT;
    if (!size || (size & (size - 1)) || !out) return INVALID_ARGUMENT;
    struct queue_state *one = aligned_alloc(PAGE, round_up(sizeof *one, PAGE));
    char *ring = aligned_alloc(PAGE, round_up(size * 64ul, PAGE));
    signal_t doorbell = signal_new(0);
    if (!one || !ring || !doorbell) {
        free(one);
        free(ring);
        free(SIGNAL(doorbell));
        return OUT_OF_RESOURCES;
    }
    memset(one, 0, sizeof *one);
    memset(ring, 0, size * 64ul);
    for (uint32_t i = 0; i < size; i++) ring[i * 64ul] = PACKET_INVALID;
    one->queue = (struct queue){.type = type, .features = 1, .base = ring, .doorbell = doorbell, .size = size};
    one->queue.id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
    SIGNAL(doorbell)->state = one;
    pthread_mutex_lock(&list_lock);
    one->next = queues;
    queues = one;
    pthread_mutex_unlock(&list_lock);
    record("queue", "queue_create", card, 0, 0, one->queue.id, OK);
    *out = &one->queue;
    return OK;
}

/* The queue is taken out of the list and kept: a thread may be ringing its doorbell. Programs make a handful. */
EXPORT status_t hsa_queue_destroy(struct queue *queue) {
    pthread_mutex_lock(&list_lock);
    STATE(queue)->gone = true;
    for (struct queue_state **link = &queues; *link; link = &(*link)->next) {
        if (*link != STATE(queue)) continue;
        *link = STATE(queue)->next;
        break;
    }
    pthread_mutex_unlock(&list_lock);
    return OK;
}

EXPORT status_t hsa_soft_queue_create(pool_t region, uint32_t size, uint32_t type, uint32_t features, signal_t doorbell, struct queue **out) {
    (void)features, (void)doorbell;
    int card;
    return pool_kind_of(region, &card) != POOL_NONE ? hsa_queue_create(card_agent(card), size, type, NULL, NULL, 0, 0, out) : INVALID_ARGUMENT;
}

/* Sessions of PC sampling: numbers, nothing is sampled. */
EXPORT status_t hsa_ven_amd_pcs_create(agent_t agent, uint32_t method, uint32_t units, size_t interval, size_t latency, size_t buffer, void *ready, void *data,
                                       uint64_t *out) {
    (void)method, (void)units, (void)interval, (void)latency, (void)buffer, (void)ready, (void)data;
    static uint64_t last;
    int card;
    if (!agent_card(agent, &card) || card < 0) return INVALID_AGENT;
    return *out = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED), OK;
}
EXPORT status_t hsa_ven_amd_pcs_create_from_id(uint32_t id, agent_t agent, uint32_t method, uint32_t units, size_t interval, size_t latency, size_t buffer,
                                               void *ready, void *data, uint64_t *out) {
    return (void)id, hsa_ven_amd_pcs_create(agent, method, units, interval, latency, buffer, ready, data, out);
}
EXPORT status_t hsa_ven_amd_pcs_destroy(uint64_t session) { return session ? OK : INVALID_ARGUMENT; }

EXPORT uint64_t hsa_queue_load_read_index_relaxed(const struct queue *queue) { return __atomic_load_n(&STATE(queue)->read, __ATOMIC_ACQUIRE); }
EXPORT uint64_t hsa_queue_load_read_index_scacquire(const struct queue *queue) { return __atomic_load_n(&STATE(queue)->read, __ATOMIC_ACQUIRE); }
EXPORT uint64_t hsa_queue_load_write_index_relaxed(const struct queue *queue) { return __atomic_load_n(&STATE(queue)->write, __ATOMIC_ACQUIRE); }
EXPORT uint64_t hsa_queue_load_write_index_scacquire(const struct queue *queue) { return __atomic_load_n(&STATE(queue)->write, __ATOMIC_ACQUIRE); }
EXPORT void hsa_queue_store_write_index_relaxed(const struct queue *queue, uint64_t value) {
    __atomic_store_n(&STATE(queue)->write, value, __ATOMIC_RELEASE);
}
EXPORT void hsa_queue_store_write_index_screlease(const struct queue *queue, uint64_t value) {
    __atomic_store_n(&STATE(queue)->write, value, __ATOMIC_RELEASE);
}
EXPORT uint64_t hsa_queue_add_write_index_screlease(const struct queue *queue, uint64_t value) {
    return __atomic_fetch_add(&STATE(queue)->write, value, __ATOMIC_ACQ_REL);
}
EXPORT uint64_t hsa_queue_add_write_index_relaxed(const struct queue *queue, uint64_t value) {
    return __atomic_fetch_add(&STATE(queue)->write, value, __ATOMIC_ACQ_REL);
}

static uint64_t word_at(const char *packet, int offset) {
    uint64_t word;
    memcpy(&word, packet + offset, sizeof word);
    return word;
}

/* Do the packet's conditions hold? */
static bool is_open(const char *packet, int type) {
    if (type == PACKET_BARRIER_AND || type == PACKET_BARRIER_OR) {
        bool all = true, any = false, named = false;
        for (int i = 0; i < 5; i++) {
            signal_t signal = word_at(packet, 8 + 8 * i);
            if (!signal) continue;
            bool met = signal_value(signal) == 0;
            named = true;
            all &= met;
            any |= met;
        }
        return type == PACKET_BARRIER_AND ? all : any || !named;
    }
    if (type == PACKET_VENDOR && packet[2] == VENDOR_BARRIER_VALUE) {
        signal_t signal = word_at(packet, 8);
        if (!signal) return true;
        int64_t value = word_at(packet, 16), masked = signal_value(signal) & word_at(packet, 24);
        switch ((uint32_t)word_at(packet, 32)) {
        case CONDITION_EQ: return masked == value;
        case CONDITION_NE: return masked != value;
        case CONDITION_LT: return masked < value;
        default: return masked >= value;
        }
    }
    return true;
}

static bool pump(struct queue_state *one) {
    bool moved = false;
    while (one->read < __atomic_load_n(&one->write, __ATOMIC_ACQUIRE)) {
        char *packet = (char *)one->queue.base + one->read % one->queue.size * 64;
        uint16_t header = __atomic_load_n((uint16_t *)packet, __ATOMIC_ACQUIRE);
        int type = header & 0xff;
        if (type == PACKET_INVALID || !is_open(packet, type)) break;
        signal_t completion = word_at(packet, 56);
        if (type == PACKET_KERNEL) log_line("mock-hsa: a kernel is not run");
        if (completion) SIGNAL(completion)->start = now_ns();
        __atomic_store_n((uint16_t *)packet, PACKET_INVALID, __ATOMIC_RELEASE);
        __atomic_store_n(&one->read, one->read + 1, __ATOMIC_RELEASE);
        signal_complete(completion);
        moved = true;
    }
    return moved;
}

bool queues_pump(void) {
    bool moved = false;
    pthread_mutex_lock(&list_lock);
    for (struct queue_state *one = queues; one; one = one->next) moved |= pump(one);
    pthread_mutex_unlock(&list_lock);
    return moved;
}

bool queues_pending(void) {
    bool pending = false;
    pthread_mutex_lock(&list_lock);
    for (struct queue_state *one = queues; one; one = one->next) pending |= one->read < __atomic_load_n(&one->write, __ATOMIC_ACQUIRE);
    pthread_mutex_unlock(&list_lock);
    return pending;
}

static bool ready(const struct copy *one) {
    for (uint32_t i = 0; i < one->dependencies; i++)
        if (one->waits_for[i] && signal_value(one->waits_for[i]) != 0) return false;
    return true;
}

static void run(const struct copy *one) {
    char *to = host_address(one->to.base), *from = host_address(one->from.base);
    for (uint32_t z = 0; z < one->range.z; z++)
        for (uint32_t y = 0; y < one->range.y; y++)
            memmove(to + z * one->to.slice + y * one->to.pitch, from + z * one->from.slice + y * one->from.pitch, one->range.x);
    signal_complete(one->completion);
}

bool copies_pump(void) {
    bool moved = false;
    pthread_mutex_lock(&list_lock);
    for (struct copy **link = &copies; *link;) {
        struct copy *one = *link;
        if (!ready(one)) {
            link = &one->next;
            continue;
        }
        run(one);
        *link = one->next;
        free(one->waits_for);
        free(one);
        moved = true;
    }
    pthread_mutex_unlock(&list_lock);
    return moved;
}

bool copies_pending(void) {
    pthread_mutex_lock(&list_lock);
    bool pending = copies != NULL;
    pthread_mutex_unlock(&list_lock);
    return pending;
}

static status_t copy(struct pitched to, struct pitched from, struct dim3 range, uint32_t count, const signal_t *waits_for, signal_t completion) {
    struct copy *one = calloc(1, sizeof *one);
    signal_t *list = count ? malloc(count * sizeof *list) : NULL;
    if (!one || (count && !list)) {
        free(one);
        free(list);
        return OUT_OF_RESOURCES;
    }
    if (count) memcpy(list, waits_for, count * sizeof *list);
    if (completion) SIGNAL(completion)->start = now_ns();
    *one = (struct copy){to, from, range, count, list, completion, NULL};
    pthread_mutex_lock(&list_lock);
    struct copy **last = &copies;
    while (*last) last = &(*last)->next;
    *last = one;
    pthread_mutex_unlock(&list_lock);
    engine_wake();
    return OK;
}

EXPORT status_t hsa_amd_memory_async_copy(void *to, agent_t to_agent, const void *from, agent_t from_agent, size_t size, uint32_t count,
                                          const signal_t *waits_for, signal_t completion) {
    (void)to_agent, (void)from_agent;
    if (size > UINT32_MAX) { /* a row's length has 32 bits: rows of 1 GiB, and the rest */
        size_t rows = size >> 30;
        status_t status = hsa_amd_memory_async_copy((char *)to + (rows << 30), to_agent, (const char *)from + (rows << 30), from_agent,
                                                    size & ((1u << 30) - 1), count, waits_for, 0);
        return status ? status
                      : copy((struct pitched){to, 1u << 30, 0}, (struct pitched){(void *)(uintptr_t)from, 1u << 30, 0}, (struct dim3){1u << 30, rows, 1}, count,
                             waits_for, completion);
    }
    return copy((struct pitched){to, 0, 0}, (struct pitched){(void *)(uintptr_t)from, 0, 0}, (struct dim3){size, 1, 1}, count, waits_for, completion);
}

EXPORT status_t hsa_amd_memory_async_copy_on_engine(void *to, agent_t to_agent, const void *from, agent_t from_agent, size_t size, uint32_t count,
                                                    const signal_t *waits_for, signal_t completion, uint32_t which, bool force) {
    (void)which, (void)force;
    return hsa_amd_memory_async_copy(to, to_agent, from, from_agent, size, count, waits_for, completion);
}

EXPORT status_t hsa_amd_memory_async_copy_rect(const struct pitched *to, const struct dim3 *to_offset, const struct pitched *from,
                                               const struct dim3 *from_offset, const struct dim3 *range, agent_t agent, uint32_t direction, uint32_t count,
                                               const signal_t *waits_for, signal_t completion) {
    (void)agent, (void)direction;
    struct pitched to_start = *to, from_start = *from;
    to_start.base = (char *)to->base + to_offset->x + to_offset->y * to->pitch + to_offset->z * to->slice;
    from_start.base = (char *)from->base + from_offset->x + from_offset->y * from->pitch + from_offset->z * from->slice;
    return copy(to_start, from_start, *range, count, waits_for, completion);
}

EXPORT status_t hsa_amd_svm_prefetch_async(void *address, size_t size, agent_t agent, uint32_t count, const signal_t *waits_for, signal_t completion) {
    (void)address, (void)size, (void)agent;
    return copy((struct pitched){0}, (struct pitched){0}, (struct dim3){0, 0, 0}, count, waits_for, completion);
}

EXPORT status_t hsa_amd_memory_copy_engine_status(agent_t to, agent_t from, uint32_t *mask) { return (void)to, (void)from, *mask = 3, OK; }
EXPORT status_t hsa_amd_memory_get_preferred_copy_engine(agent_t to, agent_t from, uint32_t *mask) { return (void)to, (void)from, *mask = 1, OK; }

EXPORT status_t hsa_amd_queue_set_priority(struct queue *queue, uint32_t priority) { return (void)queue, (void)priority, OK; }
EXPORT status_t hsa_amd_queue_cu_set_mask(const struct queue *queue, uint32_t count, const uint32_t *mask) {
    return (void)queue, (void)count, (void)mask, OK;
}
EXPORT status_t hsa_amd_ais_file_read(uint64_t file, void *address, uint64_t size, int64_t offset, uint64_t *copied, int32_t *status) {
    ssize_t done = pread((int)file, address, size, offset);
    return *copied = done < 0 ? 0 : done, *status = 0, done < 0 ? ERROR : OK;
}
EXPORT status_t hsa_amd_ais_file_write(uint64_t file, void *address, uint64_t size, int64_t offset, uint64_t *copied, int32_t *status) {
    ssize_t done = pwrite((int)file, address, size, offset);
    return *copied = done < 0 ? 0 : done, *status = 0, done < 0 ? ERROR : OK;
}
