/* One row for each entry point of HIP that takes, gives back or reports memory, and what is needed to call it. Types are written out (hip.h): one program
 * serves all versions, and layouts that differ are chosen by the version that the runtime reports. */
#include "driver.h"
#include "hip.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int (*function_t)();
#define CALL(...) ((function_t)function)(__VA_ARGS__)

struct ipc_handle {
    char bytes[64];
};
struct external_desc {
    int type;
    union {
        int fd;
        void *pair[2];
    };
    unsigned long long size;
    unsigned flags, reserved[16];
};
struct buffer_desc {
    unsigned long long offset, size;
    unsigned flags, reserved[16];
};

enum { LOCATION_DEVICE = 1, PINNED = 1, READ_WRITE = 3, POSIX_FD = 1, OPAQUE_FD = 1 };
enum { FORMAT_FLOAT = 0x20, KIND_FLOAT = 2 };

void answer(struct state *state, const char *format, ...) {
    size_t used = strlen(state->answer);
    va_list list;
    va_start(list, format);
    vsnprintf(state->answer + used, sizeof state->answer - used, format, list);
    va_end(list);
}

uint64_t number(const struct arguments *arguments, int index, uint64_t fallback) {
    if (index >= arguments->count || !*arguments->text[index]) return fallback;
    char *end;
    uint64_t value = strtoull(arguments->text[index], &end, 0);
    switch (*end) {
    case 'K': return value << 10;
    case 'M': return value << 20;
    case 'G': return value << 30;
    default: return value;
    }
}

static const char *text(const struct arguments *arguments, int index) { return index < arguments->count ? arguments->text[index] : NULL; }

static void keep(struct state *state, int status, enum kind kind, void *value, uint64_t size) {
    answer(state, " value=%p size=%llu", value, (unsigned long long)size);
    if (status == 0 && state->count < MOST_OBJECTS) state->objects[state->count++] = (struct object){kind, value, size};
}

static struct object *newest(struct state *state, enum kind kind) {
    for (int i = state->count - 1; i >= 0; i--)
        if (state->objects[i].kind == kind) return &state->objects[i];
    return NULL;
}

static void forget(struct state *state, struct object *object) {
    *object = state->objects[--state->count];
}

static void *stream_of(struct state *state) {
    struct object *object = newest(state, STREAM);
    return object ? object->value : NULL;
}

static int current_device(void) {
    int device = 0;
    function_t get = (function_t)entry("hipGetDevice");
    if (get) get(&device);
    return device;
}

static int runtime_version(void) {
    int version = 0;
    function_t get = (function_t)entry("hipRuntimeGetVersion");
    if (get) get(&version);
    return version;
}

/* 5.2's allocation properties have no handle type before the location. */
static void allocation_properties(int words[8]) {
    bool old = runtime_version() < 50300000;
    memset(words, 0, 8 * sizeof *words);
    int *location = words + (old ? 1 : 2);
    words[0] = PINNED;
    if (!old) words[1] = POSIX_FD;
    location[0] = LOCATION_DEVICE;
    location[1] = current_device();
}

static struct pool_props pool_properties(void) {
    return (struct pool_props){.type = PINNED, .handle_types = POSIX_FD, .location = {LOCATION_DEVICE, current_device()}};
}

/* Rows of 64 KiB, or one row of what is less. */
static void rows(uint64_t size, size_t *width, size_t *height) {
    *width = size < 65536 ? size : 65536;
    *height = *width ? size / *width : 0;
}

/* Elements of four bytes, at most 16384 to a side; `depth` layers. */
static struct extent elements(uint64_t size, size_t depth) {
    size_t all = size / 4 / depth, width = all < 16384 ? all : 16384;
    return (struct extent){width, width ? all / width : 0, depth};
}

#define CASE(name_) if (!strcmp(name, #name_))

/* ---- allocation ---- */

static int pointer_of_size(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    uint64_t size = number(arguments, 0, 1 << 20);
    void *pointer = NULL;
    bool host = strstr(name, "Host") != NULL;
    uint64_t flags = number(arguments, 1, !strcmp(name, "hipMallocManaged") ? 1 : 0);
    int status = CALL(&pointer, (size_t)size, (unsigned)flags); /* those without flags do not look at the third register */
    keep(state, status, host ? HOST_POINTER : DEVICE_POINTER, pointer, size);
    /* What the host may use, it uses. */
    if (!status && pointer && size && (host || !strcmp(name, "hipMallocManaged"))) ((volatile char *)pointer)[0] = ((volatile char *)pointer)[size - 1] = 1;
    return status;
}

static int pitched_of_size(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    size_t width, height, pitch = 0;
    void *pointer = NULL;
    (void)name;
    rows(number(arguments, 0, 1 << 20), &width, &height);
    int status = CALL(&pointer, &pitch, width, height, 16u);
    answer(state, " pitch=%zu", pitch);
    keep(state, status, DEVICE_POINTER, pointer, pitch * height);
    return status;
}

static int pitched_3d(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct extent extent = {.depth = 1};
    struct pitched pitched = {0};
    (void)name;
    rows(number(arguments, 0, 1 << 20), &extent.width, &extent.height);
    int status = ((int (*)(struct pitched *, struct extent))function)(&pitched, extent);
    answer(state, " pitch=%zu", pitched.pitch);
    keep(state, status, DEVICE_POINTER, pitched.pointer, pitched.pitch * extent.height);
    return status;
}

static int array(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    uint64_t size = number(arguments, 0, 1 << 20);
    struct channel_desc channels = {.x = 32, .kind = KIND_FLOAT};
    struct extent flat = elements(size, 1), deep = elements(size, 8);
    struct array_desc desc = {flat.width, flat.height, FORMAT_FLOAT, 1};
    struct array3d_desc desc3d = {deep.width, deep.height, deep.depth, FORMAT_FLOAT, 1, 0};
    unsigned levels = number(arguments, 1, 1);
    void *made = NULL;
    int status = -1;
    enum kind kind = ARRAY;
    CASE(hipMallocArray) status = CALL(&made, &channels, flat.width, flat.height, 0u);
    CASE(hipArrayCreate) status = CALL(&made, &desc);
    CASE(hipArray3DCreate) status = CALL(&made, &desc3d);
    CASE(hipMalloc3DArray)
    status = ((int (*)(void **, struct channel_desc *, struct extent, unsigned))function)(&made, &channels, deep, 0);
    CASE(hipMallocMipmappedArray) {
        kind = MIPMAP;
        struct extent plane = {flat.width, flat.height, 0};
        status = ((int (*)(void **, struct channel_desc *, struct extent, unsigned, unsigned))function)(&made, &channels, plane, levels, 0);
    }
    CASE(hipMipmappedArrayCreate) {
        kind = MIPMAP;
        desc3d = (struct array3d_desc){flat.width, flat.height, 0, FORMAT_FLOAT, 1, 0};
        status = CALL(&made, &desc3d, levels);
    }
    keep(state, status, kind, made, size);
    return status;
}

static int stream_ordered(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    uint64_t size = number(arguments, 0, 1 << 20);
    void *pointer = NULL;
    int status;
    CASE(hipMallocFromPoolAsync) {
        struct object *pool = newest(state, POOL);
        if (!pool) return NOTHING_TO_USE;
        status = CALL(&pointer, (size_t)size, pool->value, stream_of(state));
    } else status = CALL(&pointer, (size_t)size, stream_of(state));
    keep(state, status, ASYNC_POINTER, pointer, size);
    return status;
}

static int register_host(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    uint64_t size = number(arguments, 0, 1 << 20);
    void *pointer = aligned_alloc(4096, size);
    (void)name;
    if (!pointer) return NOTHING_TO_USE;
    int status = CALL(pointer, (size_t)size, 0u);
    keep(state, status, REGISTERED, pointer, size);
    if (status) free(pointer);
    return status;
}

/* ---- physical memory and addresses ---- */

static int create_handle(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    uint64_t size = number(arguments, 0, 2 << 20);
    int properties[8];
    void *handle = NULL;
    (void)name;
    allocation_properties(properties);
    if (arguments->count > 1) properties[3] = number(arguments, 1, 0); /* another device than the current one */
    int status = CALL(&handle, (size_t)size, properties, 0ull);
    keep(state, status, HANDLE, handle, size);
    return status;
}

static int granularity(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    size_t size = 0;
    int properties[8];
    (void)name;
    allocation_properties(properties);
    int status = CALL(&size, properties, (int)number(arguments, 0, 0));
    answer(state, " granularity=%zu", size);
    return status;
}

static int reserve(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    uint64_t size = number(arguments, 0, 2 << 20);
    void *pointer = NULL;
    (void)name;
    int status = CALL(&pointer, (size_t)size, (size_t)0, NULL, 0ull);
    keep(state, status, RESERVED, pointer, size);
    return status;
}

static int map(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *place = newest(state, RESERVED), *handle = newest(state, HANDLE);
    (void)name;
    if (!place || !handle) return NOTHING_TO_USE;
    uint64_t offset = number(arguments, 0, 0); /* into the reserved range */
    char *pointer = (char *)place->value + offset;
    uint64_t size = handle->size;
    int status = CALL(pointer, (size_t)size, (size_t)0, handle->value, 0ull);
    keep(state, status, MAPPED, pointer, size);
    return status;
}

static int set_access(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *mapped = newest(state, MAPPED);
    (void)name, (void)arguments;
    if (!mapped) return NOTHING_TO_USE;
    struct access access = {{LOCATION_DEVICE, current_device()}, READ_WRITE};
    return CALL(mapped->value, (size_t)mapped->size, &access, (size_t)1);
}

static int retain(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *mapped = newest(state, MAPPED);
    (void)name, (void)arguments;
    if (!mapped) return NOTHING_TO_USE;
    void *handle = NULL;
    int status = CALL(&handle, mapped->value);
    keep(state, status, HANDLE, handle, mapped->size);
    return status;
}

/* Exports the newest handle or pool and imports it again, as another library of the process would. `fd` is given when it comes from elsewhere. */
static int export_handle(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    bool pool = !strcmp(name, "hipMemPoolExportToShareableHandle");
    struct object *object = newest(state, pool ? POOL : HANDLE);
    (void)arguments;
    if (!object) return NOTHING_TO_USE;
    int fd = -1, status = CALL(&fd, object->value, POSIX_FD, 0ull);
    answer(state, " fd=%d", fd);
    return status;
}

static int import_handle(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    uint64_t fd = number(arguments, 0, 0);
    void *made = NULL;
    int status;
    CASE(hipMemPoolImportFromShareableHandle) {
        status = CALL(&made, (void *)(uintptr_t)fd, POSIX_FD, 0u);
        keep(state, status, POOL, made, 0);
        return status;
    }
    /* A descriptor by value in some versions, by address in others: the argument `address` says so. */
    int number_of_file = fd;
    bool by_address = text(arguments, 1) && !strcmp(text(arguments, 1), "address");
    status = CALL(&made, by_address ? (void *)&number_of_file : (void *)(uintptr_t)fd, POSIX_FD);
    keep(state, status, HANDLE, made, number(arguments, 2, 2 << 20));
    return status;
}

/* ---- pools ---- */

static int make_pool(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    void *pool = NULL;
    int status;
    CASE(hipMemPoolCreate) {
        struct pool_props properties = pool_properties();
        status = CALL(&pool, &properties);
    } else status = CALL(&pool, (int)number(arguments, 0, current_device()));
    keep(state, status, POOL, pool, 0);
    return status;
}

static int pool_attribute(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *pool = newest(state, POOL);
    if (!pool) return NOTHING_TO_USE;
    uint64_t value = number(arguments, 1, 0);
    int status = CALL(pool->value, (int)number(arguments, 0, !strcmp(name, "hipMemPoolSetAttribute") ? 4 : 5), &value);
    answer(state, " value=%llu", (unsigned long long)value);
    return status;
}

static int trim_pool(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *pool = newest(state, POOL);
    (void)name;
    return pool ? CALL(pool->value, (size_t)number(arguments, 0, 0)) : NOTHING_TO_USE;
}

static int pool_pointer(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    static char data[64];
    (void)arguments;
    CASE(hipMemPoolExportPointer) {
        struct object *object = newest(state, ASYNC_POINTER);
        return object ? CALL(data, object->value) : NOTHING_TO_USE;
    }
    struct object *pool = newest(state, POOL);
    if (!pool) return NOTHING_TO_USE;
    void *pointer = NULL;
    int status = CALL(&pointer, pool->value, data);
    keep(state, status, ASYNC_POINTER, pointer, 0);
    return status;
}

/* ---- graphs ---- */

static int make_graph(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    void *graph = NULL;
    (void)name, (void)arguments;
    int status = CALL(&graph, 0u);
    keep(state, status, GRAPH, graph, 0);
    return status;
}

static int alloc_node(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *graph = newest(state, GRAPH);
    if (!graph) return NOTHING_TO_USE;
    uint64_t size = number(arguments, 0, 1 << 20);
    struct alloc_params params = {.props = pool_properties(), .bytes = size};
    void *node = NULL;
    int status;
    CASE(hipGraphAddNode) {
        struct node_params any = {.type = 10, .alloc = params};
        status = CALL(&node, graph->value, NULL, (size_t)0, &any);
        params = any.alloc;
    } else status = CALL(&node, graph->value, NULL, (size_t)0, &params);
    answer(state, " node=%p", node);
    keep(state, status, NODE_POINTER, params.pointer, size);
    return status;
}

static int free_node(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *graph = newest(state, GRAPH), *pointer = newest(state, NODE_POINTER);
    (void)name, (void)arguments;
    if (!graph || !pointer) return NOTHING_TO_USE;
    /* After the nodes that are there: every one of them. */
    void *nodes[64], *node = NULL;
    size_t count = 64;
    function_t get = (function_t)entry("hipGraphGetNodes");
    if (!get || get(graph->value, nodes, &count)) count = 0;
    int status = CALL(&node, graph->value, nodes, count, pointer->value);
    if (!status) forget(state, pointer);
    return status;
}

static int instantiate(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *graph = newest(state, GRAPH);
    if (!graph) return NOTHING_TO_USE;
    void *made = NULL;
    int status;
    CASE(hipGraphInstantiate) status = CALL(&made, graph->value, NULL, NULL, (size_t)0);
    else CASE(hipGraphInstantiateWithParams) {
        struct {
            void *node;
            unsigned long long flags;
            int result;
            void *stream;
        } params = {.flags = number(arguments, 0, 0), .stream = stream_of(state)};
        status = CALL(&made, graph->value, &params);
    }
    else status = CALL(&made, graph->value, (unsigned long long)number(arguments, 0, 0));
    keep(state, status, EXECUTABLE_GRAPH, made, 0);
    return status;
}

static int launch_graph(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *graph = newest(state, EXECUTABLE_GRAPH);
    (void)name, (void)arguments;
    return graph ? CALL(graph->value, stream_of(state)) : NOTHING_TO_USE;
}

static int update_graph(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *executable = newest(state, EXECUTABLE_GRAPH), *graph = newest(state, GRAPH);
    void *node = NULL;
    int result = 0;
    (void)name, (void)arguments;
    if (!executable || !graph) return NOTHING_TO_USE;
    int status = CALL(executable->value, graph->value, &node, &result);
    answer(state, " result=%d", result);
    return status;
}

static int capture(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    if (strstr(name, "Begin")) return CALL(stream_of(state), (int)number(arguments, 0, 0));
    void *graph = NULL;
    int status = CALL(stream_of(state), &graph);
    keep(state, status, GRAPH, graph, 0);
    return status;
}

static int of_device(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    (void)state, (void)name;
    return CALL((int)number(arguments, 0, current_device()));
}

/* ---- sharing ---- */

static int read_or_write(const char *path, void *data, size_t size, bool write_it) {
    int fd = open(path, write_it ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0600);
    if (fd < 0) return -1;
    ssize_t done = write_it ? write(fd, data, size) : read(fd, data, size);
    close(fd);
    return done == (ssize_t)size ? 0 : -1;
}

static int ipc(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct ipc_handle handle = {{0}};
    if (!text(arguments, 0)) return NOTHING_TO_USE;
    CASE(hipIpcGetMemHandle) {
        struct object *object = newest(state, DEVICE_POINTER);
        if (!object) return NOTHING_TO_USE;
        int status = CALL(&handle, object->value);
        return read_or_write(text(arguments, 0), &handle, sizeof handle, true) ? NOTHING_TO_USE : status;
    }
    if (read_or_write(text(arguments, 0), &handle, sizeof handle, false)) return NOTHING_TO_USE;
    void *pointer = NULL;
    unsigned lazily = runtime_version() < 60000000 ? 0 : 1; /* hipIpcMemLazyEnablePeerAccess: the only flag, and demanded */
    int status = ((int (*)(void **, struct ipc_handle, unsigned))function)(&pointer, handle, lazily);
    keep(state, status, IPC_POINTER, pointer, 0);
    return status;
}

static int external(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    CASE(hipImportExternalMemory) {
        uint64_t size = number(arguments, 0, 1 << 20);
        int fd = memfd_create("graphics", 0);
        if (fd < 0 || ftruncate(fd, size)) return NOTHING_TO_USE;
        struct external_desc desc = {.type = OPAQUE_FD, .fd = fd, .size = size};
        void *made = NULL;
        int status = CALL(&made, &desc);
        keep(state, status, EXTERNAL, made, size);
        return status;
    }
    struct object *object = newest(state, EXTERNAL);
    if (!object) return NOTHING_TO_USE;
    struct buffer_desc desc = {.size = object->size};
    void *pointer = NULL;
    int status = CALL(&pointer, object->value, &desc);
    answer(state, " value=%p", pointer);
    return status;
}

/* ---- modules ---- */

static void *whole_file(const char *path) {
    int fd = open(path, O_RDONLY);
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    char *data = size > 0 ? malloc(size) : NULL;
    if (data && pread(fd, data, size, 0) != size) {
        free(data);
        data = NULL;
    }
    if (fd >= 0) close(fd);
    return data;
}

static int load_module(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    const char *path = text(arguments, 0);
    void *made = NULL;
    int status;
    if (!path) return NOTHING_TO_USE;
    CASE(hipModuleLoad) status = CALL(&made, path);
    else {
        void *data = whole_file(path);
        if (!data) return NOTHING_TO_USE;
        if (strstr(name, "Library")) {
            status = CALL(&made, data, NULL, NULL, 0u, NULL, NULL, 0u);
            keep(state, status, LIBRARY, made, 0);
            return status;
        }
        status = CALL(&made, data, 0u, NULL, NULL);
    }
    keep(state, status, MODULE, made, 0);
    return status;
}

static int module_global(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *module = newest(state, MODULE);
    (void)name;
    if (!module || !text(arguments, 0)) return NOTHING_TO_USE;
    void *pointer = NULL;
    size_t size = 0;
    int status = CALL(&pointer, &size, module->value, text(arguments, 0));
    answer(state, " value=%p size=%zu", pointer, size);
    return status;
}

static int library_kernels(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *library = newest(state, LIBRARY);
    unsigned count = 0;
    (void)name, (void)arguments;
    if (!library) return NOTHING_TO_USE;
    int status = CALL(&count, library->value);
    answer(state, " count=%u", count);
    return status;
}

static int library_kernel(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *library = newest(state, LIBRARY);
    void *kernel = NULL;
    if (!library) return NOTHING_TO_USE;
    if (strstr(name, "Enumerate")) return CALL(&kernel, 1u, library->value);
    return CALL(&kernel, library->value, text(arguments, 0) ? text(arguments, 0) : "touch");
}

/* ---- what a compiler puts into a program: a fat binary, its variables and kernels, by the address of something on the host ---- */

static char variable, kernel;   /* stand for the program's own */
static void *managed_variable;  /* the runtime writes the address here */

/* A bundle of one code object for each processor that the mock may be: the file's own. */
static void *bundle(const char *path, const char *processor) {
    int fd = open(path, O_RDONLY);
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    char *data = size > 0 ? aligned_alloc(4096, (4096 + size + 4095) / 4096 * 4096) : NULL;
    if (data && pread(fd, data + 4096, size, 0) != size) {
        free(data);
        data = NULL;
    }
    if (fd >= 0) close(fd);
    if (!data) return NULL;
    char triples[2][64] = {"host-x86_64-unknown-linux--"};
    snprintf(triples[1], sizeof triples[1], "hipv4-amdgcn-amd-amdhsa--%s", processor);
    memset(data, 0, 4096);
    memcpy(data, "__CLANG_OFFLOAD_BUNDLE__", 24);
    char *at = data + 24;
    uint64_t words[4] = {2};
    memcpy(at, words, 8);
    at += 8;
    for (int i = 0; i < 2; i++) {
        words[0] = 4096;
        words[1] = i ? size : 0;
        words[2] = strlen(triples[i]);
        memcpy(at, words, 24);
        memcpy(at + 24, triples[i], words[2]);
        at += 24 + words[2];
    }
    return data;
}

static int register_binary(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    static struct {
        uint32_t magic, version;
        void *binary, *unused;
    } wrapper = {0x48495046, 1, NULL, NULL};
    (void)name;
    if (!text(arguments, 0)) return NOTHING_TO_USE;
    wrapper.binary = bundle(text(arguments, 0), text(arguments, 1) ? text(arguments, 1) : "gfx1030");
    if (!wrapper.binary) return NOTHING_TO_USE;
    void *modules = ((void *(*)(void *))function)(&wrapper);
    keep(state, modules ? 0 : 1, BINARY, modules, 0);
    return modules ? 0 : 1;
}

static int register_symbol(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    static char names[64][64]; /* the runtime keeps the pointers */
    static int used;
    struct object *binary = newest(state, BINARY);
    if (!binary || !text(arguments, 0) || used == 64) return NOTHING_TO_USE;
    char *symbol = names[used++];
    snprintf(symbol, sizeof names[0], "%s", text(arguments, 0));
    size_t size = number(arguments, 1, 64 << 20);
    CASE(__hipRegisterVar) CALL(binary->value, &variable, symbol, symbol, 0, size, 0, 0);
    CASE(__hipRegisterFunction) CALL(binary->value, &kernel, symbol, symbol, -1, NULL, NULL, NULL, NULL, NULL);
    CASE(__hipRegisterManagedVar) CALL(binary->value, &managed_variable, calloc(1, size), symbol, size, 1u);
    answer(state, " value=%p", managed_variable);
    return 0;
}

/* Uses the registered variable or kernel, which makes the runtime load the module where it has not done so. */
static int use_symbol(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    static char host[64];
    struct object *graph = newest(state, GRAPH);
    void *stream = stream_of(state), *node = NULL, *pointer = NULL;
    size_t size = 0, none = 0, count = sizeof host;
    int result = 0, grid = 0, attributes[64] = {0}, status = NOTHING_TO_USE;
    unsigned value = 7;
    void *values[] = {&value};
    (void)arguments;
    if (!strncmp(name, "hipMemcpyToSymbol", 17)) status = CALL(&variable, host, count, none, 1, stream);
    if (!strncmp(name, "hipMemcpyFromSymbol", 19)) status = CALL(host, &variable, count, none, 2, stream);
    CASE(hipGetSymbolAddress) status = CALL(&pointer, &variable);
    CASE(hipGetSymbolSize) status = CALL(&size, &variable);
    CASE(hipFuncGetAttributes) status = CALL(attributes, &kernel);
    CASE(hipFuncSetAttribute) status = CALL(&kernel, 8, 0);
    CASE(hipGetFuncBySymbol) status = CALL(&pointer, &kernel);
    CASE(hipOccupancyMaxActiveBlocksPerMultiprocessor) status = CALL(&result, &kernel, 64, none);
    CASE(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) status = CALL(&result, &kernel, 64, none, 0u);
    CASE(hipOccupancyMaxPotentialBlockSize) status = CALL(&grid, &result, &kernel, none, 0);
    CASE(hipOccupancyAvailableDynamicSMemPerBlock) status = CALL(&size, &kernel, 1, 64);
    CASE(hipLaunchKernel) {
        struct dims {
            unsigned x, y, z;
        } one = {1, 1, 1};
        status = ((int (*)(void *, struct dims, struct dims, void **, size_t, void *))function)(&kernel, one, one, values, 0, stream);
    }
    if (graph) {
        struct {
            unsigned block[3];
            void **extra;
            void *function;
            unsigned grid[3];
            void **arguments;
            unsigned shared;
        } params = {{1, 1, 1}, NULL, &kernel, {1, 1, 1}, values, 0};
        CASE(hipGraphAddMemcpyNodeToSymbol) status = CALL(&node, graph->value, NULL, none, &variable, host, count, none, 1);
        CASE(hipGraphAddMemcpyNodeFromSymbol) status = CALL(&node, graph->value, NULL, none, host, &variable, count, none, 2);
        CASE(hipGraphAddKernelNode) status = CALL(&node, graph->value, NULL, none, &params);
    }
    answer(state, " value=%p size=%zu result=%d", pointer, size, result);
    return status;
}

/* ---- giving back ---- */

static const struct {
    const char *name;
    enum kind kind;
    char how; /* what comes after the object: - nothing, s a stream, z the size; v: there is no status */
} frees[] = {{"hipFree", DEVICE_POINTER, '-'},
             {"hipFreeAsync", ASYNC_POINTER, 's'},
             {"hipHostFree", HOST_POINTER, '-'},
             {"hipFreeHost", HOST_POINTER, '-'},
             {"hipHostUnregister", REGISTERED, '-'},
             {"hipFreeArray", ARRAY, '-'},
             {"hipArrayDestroy", ARRAY, '-'},
             {"hipFreeMipmappedArray", MIPMAP, '-'},
             {"hipMipmappedArrayDestroy", MIPMAP, '-'},
             {"hipMemRelease", HANDLE, '-'},
             {"hipMemUnmap", MAPPED, 'z'},
             {"hipMemAddressFree", RESERVED, 'z'},
             {"hipMemPoolDestroy", POOL, '-'},
             {"hipGraphDestroy", GRAPH, '-'},
             {"hipGraphExecDestroy", EXECUTABLE_GRAPH, '-'},
             {"hipStreamDestroy", STREAM, '-'},
             {"hipIpcCloseMemHandle", IPC_POINTER, '-'},
             {"hipDestroyExternalMemory", EXTERNAL, '-'},
             {"hipModuleUnload", MODULE, '-'},
             {"hipLibraryUnload", LIBRARY, '-'},
             {"__hipUnregisterFatBinary", BINARY, 'v'}, /* returns nothing */
             {"hipDestroySurfaceObject", SURFACE, '-'},
             {"hipDestroyTextureObject", TEXTURE, '-'},
             {"hipTexObjectDestroy", TEXTURE, '-'}};

/* Gives the newest object of its kind back; the argument names another kind: hipFree,async frees what hipMallocAsync gave, hipFree,node what a graph did. */
static int give_back(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    for (size_t i = 0; i < sizeof frees / sizeof *frees; i++) {
        if (strcmp(frees[i].name, name)) continue;
        enum kind kind = frees[i].kind;
        const char *other = text(arguments, 0);
        if (other && !strcmp(other, "async")) kind = ASYNC_POINTER;
        if (other && !strcmp(other, "node")) kind = NODE_POINTER;
        if (other && !strcmp(other, "device")) kind = DEVICE_POINTER;
        if (other && !strcmp(other, "null")) return CALL(NULL, NULL, NULL);
        struct object *object = newest(state, kind);
        if (!object) return NOTHING_TO_USE;
        struct object gone = *object;
        answer(state, " value=%p size=%llu", gone.value, (unsigned long long)gone.size);
        if (frees[i].how == 'v') {
            CALL(gone.value);
            forget(state, object);
            return 0;
        }
        int status = frees[i].how == 's' ? CALL(gone.value, stream_of(state)) : frees[i].how == 'z' ? CALL(gone.value, (size_t)gone.size) : CALL(gone.value);
        if (!status) {
            forget(state, object);
            if (kind == REGISTERED) free(gone.value);
        }
        return status;
    }
    return NOTHING_TO_USE;
}

/* ---- capacity ---- */

static int memory_info(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    size_t free_bytes = 0, total = 0;
    (void)name, (void)arguments;
    int status = CALL(&free_bytes, &total);
    answer(state, " free=%zu total=%zu", free_bytes, total);
    return status;
}

static int total_memory(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    size_t total = 0;
    (void)name;
    int status = CALL(&total, (int)number(arguments, 0, current_device()));
    answer(state, " total=%zu", total);
    return status;
}

static int properties(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    char bytes[4096] = {0};
    size_t total;
    int status = CALL(bytes, (int)number(arguments, 0, current_device()));
    memcpy(&total, bytes + (strstr(name, "R0600") ? 288 : 256), sizeof total);
    answer(state, " total=%zu", total);
    return status;
}

/* The device that a description with this much memory is answered with. */
static int choose(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    char bytes[4096] = {0};
    size_t total = number(arguments, 0, 1 << 30);
    int device = -1;
    memcpy(bytes + (strstr(name, "R0600") ? 288 : 256), &total, sizeof total);
    int status = CALL(&device, bytes);
    answer(state, " device=%d", device);
    return status;
}

static int limit(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    size_t value = 0;
    (void)name;
    int status = CALL(&value, (int)number(arguments, 0, 2));
    answer(state, " value=%zu", value);
    return status;
}

static int attribute(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    int value = 0;
    (void)name;
    int status = CALL(&value, (int)number(arguments, 0, 84), (int)number(arguments, 1, current_device()));
    answer(state, " value=%d", value);
    return status;
}

static int pointer_size(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *object = newest(state, DEVICE_POINTER);
    size_t size = 0;
    void *base = NULL;
    (void)arguments;
    if (!object) return NOTHING_TO_USE;
    int status;
    CASE(hipMemPtrGetInfo) status = CALL(object->value, &size);
    else status = CALL(&base, &size, object->value);
    answer(state, " size=%zu", size);
    return status;
}

/* ---- entry points ---- */

static int proc_address(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    void *found = NULL;
    int result = 0, status;
    const char *wanted = text(arguments, 0) ? text(arguments, 0) : "hipMalloc";
    CASE(hipGetProcAddress) status = CALL(wanted, &found, (int)number(arguments, 1, 70200000), (uint64_t)number(arguments, 2, 0), &result);
    else status = CALL(wanted, &found, (unsigned long long)number(arguments, 1, 0), &result);
    answer(state, " address=%p result=%d", found, result);
    return status;
}

/* ---- devices, streams, copies ---- */

static int device_count(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    int value = -1;
    (void)name, (void)arguments;
    int status = CALL(&value);
    answer(state, " value=%d", value);
    return status;
}

static int one_number(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    (void)state, (void)name;
    return CALL(number(arguments, 0, 0), number(arguments, 1, 0));
}

static int bus_id(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    char id[64] = "";
    (void)name;
    int status = CALL(id, (int)sizeof id, (int)number(arguments, 0, current_device()));
    answer(state, " id=%s", id);
    return status;
}

static int uuid(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    char id[17] = "";
    (void)name;
    int status = CALL(id, (int)number(arguments, 0, current_device()));
    answer(state, " id=%.16s", id);
    return status;
}

static int make_stream(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    uint32_t mask[4] = {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff};
    void *stream = NULL;
    int status;
    CASE(hipStreamCreate) status = CALL(&stream);
    else CASE(hipExtStreamCreateWithCUMask) status = CALL(&stream, 2u, mask);
    else status = CALL(&stream, (unsigned)number(arguments, 0, 0), (int)number(arguments, 1, 0));
    keep(state, status, STREAM, stream, 0);
    return status;
}

static int of_stream(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    (void)name, (void)arguments;
    return CALL(stream_of(state));
}

static int no_argument(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    (void)state, (void)name, (void)arguments;
    return CALL();
}

/* Writes a pattern to the newest device memory and reads it back: the status of the copies, and whether what came back is what went. */
static int copy_and_compare(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *object = newest(state, DEVICE_POINTER);
    if (!object) object = newest(state, ASYNC_POINTER);
    (void)name;
    if (!object) return NOTHING_TO_USE;
    uint64_t size = number(arguments, 0, object->size);
    unsigned char *out = malloc(size), *back = calloc(1, size);
    for (uint64_t i = 0; i < size; i++) out[i] = i * 31 + 7;
    int status = CALL(object->value, out, (size_t)size, 1);
    if (!status) status = CALL(back, object->value, (size_t)size, 2);
    answer(state, " same=%d", !memcmp(out, back, size));
    free(out);
    free(back);
    return status;
}

/* hipMemAdvise and hipMemPrefetchAsync on the newest device memory. */
static int advise(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *object = newest(state, DEVICE_POINTER);
    struct location location = {LOCATION_DEVICE, current_device()};
    (void)arguments;
    if (!object) return NOTHING_TO_USE;
    int status = -1;
    size_t size = object->size;
    CASE(hipMemAdvise) status = CALL(object->value, size, 3, location.id);
    CASE(hipMemAdvise_v2) status = ((int (*)(void *, size_t, int, struct location))function)(object->value, size, 3, location);
    CASE(hipMemPrefetchAsync) status = CALL(object->value, size, location.id, stream_of(state));
    CASE(hipMemPrefetchAsync_v2)
    status = ((int (*)(void *, size_t, struct location, unsigned, void *))function)(object->value, size, location, 0, stream_of(state));
    return status;
}

static int surface(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *object = newest(state, ARRAY);
    struct {
        int type;
        void *array;
        char rest[64];
    } resource = {.type = 0, .array = object ? object->value : NULL};
    void *made = NULL;
    (void)name, (void)arguments;
    if (!object) return NOTHING_TO_USE;
    int status = CALL(&made, &resource);
    keep(state, status, SURFACE, made, 0);
    return status;
}

static int texture(struct state *state, const char *name, void *function, const struct arguments *arguments) {
    struct object *object = newest(state, DEVICE_POINTER);
    if (!object) return NOTHING_TO_USE;
    (void)name;
    /* A pitched image at an offset: where the pitch or the address does not suit the hardware, the runtime may make an image of its own. */
    struct {
        int type;
        union {
            struct {
                void *pointer;
                struct channel_desc desc;
                size_t width, height, pitch;
            } pitch2d;
            char rest[64];
        };
    } resource = {.type = 3};
    size_t width, height;
    rows(number(arguments, 0, object->size), &width, &height);
    resource.pitch2d.pointer = (char *)object->value + number(arguments, 1, 0);
    resource.pitch2d.desc = (struct channel_desc){.x = 32, .kind = KIND_FLOAT};
    resource.pitch2d.width = width / 4;
    resource.pitch2d.height = height;
    resource.pitch2d.pitch = number(arguments, 2, width);
    int description[64] = {0};
    void *made = NULL;
    int status = CALL(&made, &resource, description, NULL);
    keep(state, status, TEXTURE, made, 0);
    return status;
}

#define ROWS(X)                                                                                                                                            \
    X(hipMalloc, pointer_of_size) X(hipExtMallocWithFlags, pointer_of_size) X(hipMallocManaged, pointer_of_size) X(hipMallocPitch, pitched_of_size)         \
    X(hipMemAllocPitch, pitched_of_size) X(hipMalloc3D, pitched_3d) X(hipMallocArray, array) X(hipMalloc3DArray, array) X(hipArrayCreate, array)            \
    X(hipArray3DCreate, array) X(hipMallocMipmappedArray, array) X(hipMipmappedArrayCreate, array) X(hipMallocAsync, stream_ordered)                        \
    X(hipMallocFromPoolAsync, stream_ordered) X(hipMemCreate, create_handle) X(hipHostMalloc, pointer_of_size) X(hipHostAlloc, pointer_of_size)             \
    X(hipMallocHost, pointer_of_size) X(hipMemAllocHost, pointer_of_size) X(hipHostRegister, register_host)                                                 \
    X(hipMemGetAllocationGranularity, granularity) X(hipMemAddressReserve, reserve) X(hipMemMap, map) X(hipMemSetAccess, set_access)                        \
    X(hipMemRetainAllocationHandle, retain) X(hipMemExportToShareableHandle, export_handle) X(hipMemPoolExportToShareableHandle, export_handle)             \
    X(hipMemImportFromShareableHandle, import_handle) X(hipMemPoolImportFromShareableHandle, import_handle) X(hipMemPoolCreate, make_pool)                  \
    X(hipDeviceGetDefaultMemPool, make_pool) X(hipDeviceGetMemPool, make_pool) X(hipMemPoolGetAttribute, pool_attribute)                                    \
    X(hipMemPoolSetAttribute, pool_attribute) X(hipMemPoolTrimTo, trim_pool) X(hipMemPoolExportPointer, pool_pointer)                                       \
    X(hipMemPoolImportPointer, pool_pointer) X(hipGraphCreate, make_graph) X(hipGraphAddMemAllocNode, alloc_node) X(hipGraphAddNode, alloc_node)            \
    X(hipGraphAddMemFreeNode, free_node) X(hipDrvGraphAddMemFreeNode, free_node) X(hipGraphInstantiate, instantiate)                                        \
    X(hipGraphInstantiateWithFlags, instantiate) X(hipGraphInstantiateWithParams, instantiate) X(hipGraphLaunch, launch_graph)                              \
    X(hipGraphLaunch_spt, launch_graph) X(hipGraphUpload, launch_graph) X(hipStreamBeginCapture, capture) X(hipStreamEndCapture, capture)                   \
    X(hipStreamBeginCapture_spt, capture) X(hipStreamEndCapture_spt, capture) X(hipDeviceGraphMemTrim, of_device) X(hipIpcGetMemHandle, ipc)                \
    X(hipIpcOpenMemHandle, ipc) X(hipImportExternalMemory, external) X(hipExternalMemoryGetMappedBuffer, external) X(hipModuleLoad, load_module)            \
    X(hipModuleLoadData, load_module) X(hipModuleLoadDataEx, load_module) X(hipModuleLoadFatBinary, load_module) X(hipLibraryLoadData, load_module)         \
    X(hipModuleGetGlobal, module_global) X(hipLibraryGetKernelCount, library_kernels) X(hipFree, give_back) X(hipFreeAsync, give_back)                      \
    X(hipHostFree, give_back) X(hipFreeHost, give_back) X(hipHostUnregister, give_back) X(hipFreeArray, give_back) X(hipArrayDestroy, give_back)            \
    X(hipFreeMipmappedArray, give_back) X(hipMipmappedArrayDestroy, give_back) X(hipMemRelease, give_back) X(hipMemUnmap, give_back)                        \
    X(hipMemAddressFree, give_back) X(hipMemPoolDestroy, give_back) X(hipGraphDestroy, give_back) X(hipGraphExecDestroy, give_back)                         \
    X(hipStreamDestroy, give_back) X(hipIpcCloseMemHandle, give_back) X(hipDestroyExternalMemory, give_back) X(hipModuleUnload, give_back)                  \
    X(hipLibraryUnload, give_back) X(hipDestroyTextureObject, give_back) X(hipTexObjectDestroy, give_back) X(hipMemGetInfo, memory_info)                    \
    X(hipDeviceTotalMem, total_memory) X(hipGetDeviceProperties, properties) X(hipGetDevicePropertiesR0600, properties)                                     \
    X(hipGetDevicePropertiesR0000, properties) X(hipDeviceGetAttribute, attribute) X(hipMemPtrGetInfo, pointer_size)                                        \
    X(hipMemGetAddressRange, pointer_size) X(hipGetProcAddress, proc_address) X(hipGetDriverEntryPoint, proc_address)                                       \
    X(hipGetDriverEntryPoint_spt, proc_address) X(hipGetDeviceCount, device_count) X(hipGetDevice, device_count) X(hipRuntimeGetVersion, device_count)      \
    X(hipSetDevice, one_number) X(hipInit, one_number) X(hipDeviceSetLimit, one_number) X(hipDeviceEnablePeerAccess, one_number)                            \
    X(hipDeviceDisablePeerAccess, one_number) X(hipDeviceGetPCIBusId, bus_id) X(hipDeviceGetUuid, uuid) X(hipStreamCreate, make_stream)                     \
    X(hipStreamCreateWithFlags, make_stream) X(hipStreamCreateWithPriority, make_stream) X(hipExtStreamCreateWithCUMask, make_stream)                       \
    X(hipStreamSynchronize, of_stream) X(hipStreamSynchronize_spt, of_stream) X(hipDeviceSynchronize, no_argument) X(hipDeviceReset, no_argument)           \
    X(hipMemcpy, copy_and_compare) X(hipCreateTextureObject, texture) X(hipTexObjectCreate, texture) X(hipGraphGetNodes, NULL)                       \
    X(hipLibraryGetKernel, library_kernel) X(hipLibraryEnumerateKernels, library_kernel) X(__hipRegisterFatBinary, register_binary)                         \
    X(__hipUnregisterFatBinary, give_back) X(__hipRegisterVar, register_symbol) X(__hipRegisterFunction, register_symbol)                                   \
    X(hipGraphExecUpdate, update_graph) X(__hipRegisterManagedVar, register_symbol) X(hipMemcpyToSymbol, use_symbol) X(hipMemcpyToSymbolAsync, use_symbol)                                      \
    X(hipMemcpyToSymbol_spt, use_symbol) X(hipMemcpyToSymbolAsync_spt, use_symbol) X(hipMemcpyFromSymbol, use_symbol)                                       \
    X(hipMemcpyFromSymbolAsync, use_symbol) X(hipMemcpyFromSymbol_spt, use_symbol) X(hipMemcpyFromSymbolAsync_spt, use_symbol)                              \
    X(hipGetSymbolAddress, use_symbol) X(hipGetSymbolSize, use_symbol) X(hipFuncGetAttributes, use_symbol) X(hipFuncSetAttribute, use_symbol)               \
    X(hipGetFuncBySymbol, use_symbol) X(hipOccupancyMaxActiveBlocksPerMultiprocessor, use_symbol)                                                           \
    X(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, use_symbol) X(hipOccupancyMaxPotentialBlockSize, use_symbol)                                   \
    X(hipOccupancyAvailableDynamicSMemPerBlock, use_symbol) X(hipLaunchKernel, use_symbol) X(hipGraphAddMemcpyNodeToSymbol, use_symbol)                     \
    X(hipGraphAddMemcpyNodeFromSymbol, use_symbol) X(hipGraphAddKernelNode, use_symbol) X(hipChooseDevice, choose) X(hipChooseDeviceR0600, choose)          \
    X(hipChooseDeviceR0000, choose) X(hipDeviceGetLimit, limit) X(hipMemAdvise, advise) X(hipMemAdvise_v2, advise) X(hipMemPrefetchAsync, advise)           \
    X(hipMemPrefetchAsync_v2, advise) X(hipCreateSurfaceObject, surface) X(hipDestroySurfaceObject, give_back)

#ifdef DIRECT
#define DECLARE(name, run) extern void name(void) __attribute__((weak));
ROWS(DECLARE)
#define ROW(name, run) {#name, run, (void *)name},
#else
#define ROW(name, run) {#name, run, NULL},
#endif

const struct call calls[] = {ROWS(ROW){NULL, NULL, NULL}};
