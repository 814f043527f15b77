/* The probe's parts: objects that calls make and use, arguments, and the table of calls. Reading order: driver.c, calls.c. */
#ifndef DRIVER_H
#define DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kind {
    DEVICE_POINTER, /* hipFree */
    ASYNC_POINTER,
    HOST_POINTER,
    REGISTERED,
    ARRAY,
    MIPMAP,
    HANDLE, /* physical memory */
    RESERVED,
    MAPPED,
    POOL,
    GRAPH,
    NODE_POINTER, /* what an alloc node will give */
    EXECUTABLE_GRAPH,
    STREAM,
    IPC_POINTER,
    EXTERNAL,
    MODULE,
    LIBRARY,
    BINARY, /* registered */
    SURFACE,
    TEXTURE
};

struct object {
    enum kind kind;
    void *value;
    uint64_t size;
};

#define MOST_OBJECTS 4096
#define MOST_ARGUMENTS 8

struct state { /* one thread's */
    struct object objects[MOST_OBJECTS];
    int count;
    char answer[4096]; /* what the call says beside its status */
};

struct arguments {
    int count;
    const char *text[MOST_ARGUMENTS];
};

struct call {
    const char *name;
    /* Calls the function and keeps what it made. Returns its status; NOTHING_TO_USE when it needs an object that nobody made. */
    int (*run)(struct state *state, const char *name, void *function, const struct arguments *arguments);
    void *direct; /* the program's own reference, NULL when the runtime lacks it or the program is not linked with one */
};
#define NOTHING_TO_USE (-2)

extern const struct call calls[];

/* A number with K, M or G, or the fallback where there is no such argument. */
uint64_t number(const struct arguments *arguments, int index, uint64_t fallback);
void answer(struct state *state, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The way to another entry point, for calls that need one. */
void *entry(const char *name);

#endif
