/* Signals, and the engine: the thread that stands for the cards. It runs packets and copies whose dependencies are met, and calls handlers. */
#include "mock.h"

#include <errno.h>
#include <time.h>

static pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t engine_changed = PTHREAD_COND_INITIALIZER;
static pthread_t engine;
static int engine_users;
static bool engine_running, engine_stopping;

struct handler {
    signal_t signal;
    uint32_t condition;
    int64_t value;
    bool (*call)(int64_t, void *);
    void *data;
    bool repeated; /* it was called and wants to be called again */
    struct handler *next;
};
static struct handler *handlers; /* these under engine_lock */
static int calling;
static bool settles_at_exit;

/* A destroyed signal stays readable for a while: a handler or a waiter may be looking at it. */
#define QUARANTINE 4096
static struct signal *quarantine[QUARANTINE];
static unsigned quarantined;

uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

signal_t signal_new(int64_t value) {
    struct signal *one = aligned_alloc(64, round_up(sizeof *one, 64));
    if (!one) return 0;
    *one = (struct signal){.kind = 1, .value = value};
    return (uintptr_t)one;
}

int64_t signal_value(signal_t signal) { return __atomic_load_n(&SIGNAL(signal)->value, __ATOMIC_ACQUIRE); }

bool signal_holds(signal_t signal, uint32_t condition, int64_t value) {
    int64_t now = signal_value(signal);
    switch (condition) {
    case CONDITION_EQ: return now == value;
    case CONDITION_NE: return now != value;
    case CONDITION_LT: return now < value;
    default: return now >= value;
    }
}

void signal_complete(signal_t signal) {
    if (!signal) return;
    struct signal *one = SIGNAL(signal);
    one->end = now_ns();
    if (!one->start || one->start > one->end) one->start = one->end - 1;
    __atomic_fetch_sub(&one->value, 1, __ATOMIC_ACQ_REL);
}

/* Somebody changed something: whatever can go on goes on at once, in the thread that caused it; waiters look again. */
void engine_wake(void) {
    pthread_mutex_lock(&engine_lock);
    while (queues_pump() || copies_pump()) {}
    pthread_cond_broadcast(&engine_changed);
    pthread_mutex_unlock(&engine_lock);
}

static void wait_a_little(uint64_t nanoseconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t at = until.tv_nsec + nanoseconds;
    until.tv_sec += at / 1000000000;
    until.tv_nsec = at % 1000000000;
    pthread_cond_timedwait(&engine_changed, &engine_lock, &until);
}

/* Calls the first handler whose condition holds, without the lock. */
static bool call_handler(void) {
    for (struct handler **link = &handlers; *link; link = &(*link)->next) {
        struct handler *one = *link;
        if (!signal_holds(one->signal, one->condition, one->value)) continue;
        *link = one->next;
        calling++;
        pthread_mutex_unlock(&engine_lock);
        bool again = one->call(signal_value(one->signal), one->data);
        pthread_mutex_lock(&engine_lock);
        calling--;
        if (again) {
            one->repeated = true;
            one->next = handlers;
            handlers = one;
        } else {
            free(one);
        }
        return !again; /* one that wants to be called again waits for the next look, or nobody else would be called */
    }
    return false;
}

static void *run(void *unused) {
    (void)unused;
    pthread_mutex_lock(&engine_lock);
    while (!engine_stopping) {
        bool moved = queues_pump() | copies_pump();
        if (moved) pthread_cond_broadcast(&engine_changed);
        if (call_handler() || moved) continue;
        /* The runtime writes some signals without a call, so a look now and then is needed as long as somebody waits. */
        if (handlers || queues_pending() || copies_pending())
            wait_a_little(200000);
        else
            pthread_cond_wait(&engine_changed, &engine_lock);
    }
    pthread_mutex_unlock(&engine_lock);
    return NULL;
}

/* A card interrupts within microseconds. The thread here may be kept waiting for longer than a program takes to end, and the runtimes tear down at exit
 * without looking at what their handlers are doing. So whatever was due before the end is done before the end. Registered after the runtime's own exit
 * handlers, this runs before them. */
static void settle(void) {
    uint64_t began = now_ns();
    pthread_mutex_lock(&engine_lock);
    bool busy = engine_running;
    while (busy && now_ns() - began < 2000000000) {
        busy = calling > 0;
        for (const struct handler *one = handlers; one && !busy; one = one->next) busy = !one->repeated && signal_holds(one->signal, one->condition, one->value);
        if (busy) {
            pthread_cond_broadcast(&engine_changed);
            wait_a_little(200000);
        }
    }
    pthread_mutex_unlock(&engine_lock);
}

void engine_start(void) {
    pthread_mutex_lock(&engine_lock);
    if (engine_users++ == 0) {
        engine_stopping = false;
        engine_running = pthread_create(&engine, NULL, run, NULL) == 0;
    }
    pthread_mutex_unlock(&engine_lock);
}

void engine_stop(void) {
    pthread_mutex_lock(&engine_lock);
    bool last = engine_users > 0 && --engine_users == 0 && engine_running;
    if (last) {
        engine_stopping = true;
        engine_running = false;
        pthread_cond_broadcast(&engine_changed);
    }
    pthread_mutex_unlock(&engine_lock);
    if (last && !pthread_equal(pthread_self(), engine)) pthread_join(engine, NULL);
}

EXPORT status_t hsa_signal_create(int64_t value, uint32_t count, const agent_t *consumers, signal_t *out) {
    (void)count, (void)consumers;
    *out = signal_new(value);
    return *out ? OK : OUT_OF_RESOURCES;
}

EXPORT status_t hsa_amd_signal_create(int64_t value, uint32_t count, const agent_t *consumers, uint64_t attributes, signal_t *out) {
    (void)count, (void)consumers, (void)attributes;
    *out = signal_new(value);
    return *out ? OK : OUT_OF_RESOURCES;
}

EXPORT status_t hsa_signal_destroy(signal_t signal) {
    if (!signal) return INVALID_SIGNAL;
    pthread_mutex_lock(&engine_lock);
    for (struct handler **link = &handlers; *link;) {
        struct handler *one = *link;
        if (one->signal != signal) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        free(one);
    }
    struct signal *old = quarantine[quarantined % QUARANTINE];
    quarantine[quarantined++ % QUARANTINE] = SIGNAL(signal);
    pthread_mutex_unlock(&engine_lock);
    free(old);
    return OK;
}

EXPORT status_t hsa_amd_signal_value_pointer(signal_t signal, volatile int64_t **out) {
    *out = &SIGNAL(signal)->value;
    return OK;
}

EXPORT int64_t hsa_signal_load_relaxed(signal_t signal) { return signal_value(signal); }
EXPORT int64_t hsa_signal_load_scacquire(signal_t signal) { return signal_value(signal); }

static void store(signal_t signal, int64_t value) {
    __atomic_store_n(&SIGNAL(signal)->value, value, __ATOMIC_RELEASE);
    engine_wake();
}

static void add(signal_t signal, int64_t value) {
    __atomic_fetch_add(&SIGNAL(signal)->value, value, __ATOMIC_ACQ_REL);
    engine_wake();
}

EXPORT void hsa_signal_store_relaxed(signal_t signal, int64_t value) { store(signal, value); }
EXPORT void hsa_signal_store_screlease(signal_t signal, int64_t value) { store(signal, value); }
EXPORT void hsa_signal_add_relaxed(signal_t signal, int64_t value) { add(signal, value); }
EXPORT void hsa_signal_subtract_relaxed(signal_t signal, int64_t value) { add(signal, -value); }
EXPORT void hsa_signal_silent_store_relaxed(signal_t signal, int64_t value) { __atomic_store_n(&SIGNAL(signal)->value, value, __ATOMIC_RELEASE); }

static int64_t wait(signal_t signal, uint32_t condition, int64_t value, uint64_t timeout) {
    uint64_t began = now_ns();
    pthread_mutex_lock(&engine_lock);
    while (!signal_holds(signal, condition, value) && (timeout == UINT64_MAX || now_ns() - began < timeout)) wait_a_little(100000);
    pthread_mutex_unlock(&engine_lock);
    return signal_value(signal);
}

EXPORT int64_t hsa_signal_wait_scacquire(signal_t signal, uint32_t condition, int64_t value, uint64_t timeout, uint32_t hint) {
    (void)hint;
    return signal_holds(signal, condition, value) ? signal_value(signal) : wait(signal, condition, value, timeout);
}

EXPORT int64_t hsa_signal_wait_relaxed(signal_t signal, uint32_t condition, int64_t value, uint64_t timeout, uint32_t hint) {
    return hsa_signal_wait_scacquire(signal, condition, value, timeout, hint);
}

EXPORT status_t hsa_amd_signal_async_handler(signal_t signal, uint32_t condition, int64_t value, bool (*call)(int64_t, void *), void *data) {
    struct handler *one = malloc(sizeof *one);
    if (!one) return OUT_OF_RESOURCES;
    pthread_mutex_lock(&engine_lock);
    *one = (struct handler){signal, condition, value, call, data, false, handlers};
    handlers = one;
    bool first = !settles_at_exit;
    settles_at_exit = true;
    pthread_cond_broadcast(&engine_changed);
    pthread_mutex_unlock(&engine_lock);
    if (first) atexit(settle);
    return OK;
}

EXPORT status_t hsa_amd_profiling_async_copy_enable(bool enable) { return (void)enable, OK; }
EXPORT status_t hsa_amd_profiling_set_profiler_enabled(struct queue *queue, int enable) { return (void)queue, (void)enable, OK; }

static status_t times(signal_t signal, struct copy_time *out) {
    if (!signal) return INVALID_SIGNAL;
    *out = (struct copy_time){SIGNAL(signal)->start, SIGNAL(signal)->end};
    return OK;
}

EXPORT status_t hsa_amd_profiling_get_async_copy_time(signal_t signal, struct copy_time *out) { return times(signal, out); }
EXPORT status_t hsa_amd_profiling_get_dispatch_time(agent_t agent, signal_t signal, struct copy_time *out) { return (void)agent, times(signal, out); }
