/* Looks names up in every way there is and says what came of it, so that a run under the shim can be compared with one without.
 *
 *   lookup plain                      names that are nobody's business
 *   lookup absent                     names of a runtime while none is loaded
 *   lookup private RUNTIME NAME…      dlsym and dlvsym on a handle of its own
 *   lookup proc RUNTIME               what the runtime's own look-ups hand out
 *   lookup again RUNTIME              opened, used, closed, and opened again somewhere else
 *   lookup through PLUGIN MODE        a library that is linked with the runtime, opened as MODE (local, global, deepbind; -lazy), allocates
 *
 * With -DPLUGIN it is that library; with -DSTUB one that stands between a program and the runtime $STUB_OF, with names of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(PLUGIN)

int hipMalloc(void **, size_t);
int allocate(size_t size) {
    void *pointer = NULL;
    return hipMalloc(&pointer, size);
}
/* By this library's own place in line. */
void *next_of(const char *name) { return dlsym(RTLD_NEXT, name); }

#elif defined(STUB)

static void *real(const char *name) {
    static void *runtime;
    if (!runtime) runtime = dlopen(getenv("STUB_OF"), RTLD_NOW | RTLD_LOCAL);
    return runtime ? dlsym(runtime, name) : NULL;
}
int hipMalloc(void **pointer, size_t size) { return ((int (*)(void **, size_t))real("hipMalloc"))(pointer, size); }
int hipFree(void *pointer) { return ((int (*)(void *))real("hipFree"))(pointer); }
int hipGetDeviceCount(int *count) { return ((int (*)(int *))real("hipGetDeviceCount"))(count); }

#else

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Where an address lies: the file and the name there, without addresses, which differ from run to run. */
static void say(const char *what, const char *name, void *address) {
    Dl_info info = {0};
    const char *error = dlerror();
    if (!address) printf("%s %s null, %s\n", what, name, error ? strstr(error, ": ") ? strstr(error, ": ") + 2 : error : "no error");
    else if (dladdr(address, &info) && info.dli_fname) printf("%s %s %s %s\n", what, name, base_name(info.dli_fname), info.dli_sname ? info.dli_sname : "?");
    else printf("%s %s somewhere\n", what, name);
}

static void everywhere(const char *name, const char *version) {
    say("default", name, dlsym(RTLD_DEFAULT, name));
    say("next", name, dlsym(RTLD_NEXT, name));
    say("version", name, dlvsym(RTLD_DEFAULT, name, version));
    say("next version", name, dlvsym(RTLD_NEXT, name, version));
}

typedef int (*malloc_t)(void **, size_t);
typedef int (*free_t)(void *);

int main(int count, char **values) {
    const char *what = count > 1 ? values[1] : "";
    if (!strcmp(what, "plain")) {
        const char *names[] = {"getenv", "open", "malloc", "main", "hipster", "hsa", "no_such_name", "environ", ""};
        for (unsigned i = 0; i < sizeof names / sizeof *names; i++) everywhere(names[i], "GLIBC_2.2.5");
        for (int i = 0; i < 3; i++) printf("same %d\n", dlsym(RTLD_NEXT, "open") == dlsym(RTLD_NEXT, "open"));
        void *math = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
        say("handle", "cos", dlsym(math, "cos"));
        say("handle", "open", dlsym(math, "open"));
        say("handle", "nothing", dlsym(math, "nothing"));
        say("handle version", "cos", dlvsym(math, "cos", "GLIBC_2.2.5"));
        say("handle version", "cos", dlvsym(math, "cos", "GLIBC_9"));
        dlerror();
        dlsym(RTLD_DEFAULT, "no_such_name");
        int first = dlerror() != NULL, second = dlerror() != NULL;
        printf("error once %d, then %d\n", first, second);
        dlsym(RTLD_DEFAULT, "no_such_name");
        dlsym(RTLD_DEFAULT, "open");
        printf("error after success %d\n", dlerror() != NULL);
    } else if (!strcmp(what, "absent")) {
        const char *names[] = {"hipMalloc", "hsa_init", "hipGetProcAddress"};
        for (unsigned i = 0; i < sizeof names / sizeof *names; i++) everywhere(names[i], "hip_4.2");
    } else if (!strcmp(what, "private") && count > 2) {
        void *runtime = dlopen(values[2], RTLD_NOW | RTLD_LOCAL);
        if (!runtime) return printf("%s\n", dlerror()), 3;
        for (int i = 3; i < count; i++) {
            say("handle", values[i], dlsym(runtime, values[i]));
            say("handle again", values[i], dlsym(runtime, values[i]));
            say("handle version", values[i], dlvsym(runtime, values[i], "hip_4.2"));
            say("handle version", values[i], dlvsym(runtime, values[i], "hip_9"));
        }
    } else if (!strcmp(what, "proc") && count > 2) {
        void *runtime = dlopen(values[2], RTLD_NOW | RTLD_LOCAL);
        int (*proc)(const char *, void **, int, unsigned long, int *) = runtime ? dlsym(runtime, "hipGetProcAddress") : NULL;
        int (*entry)(const char *, void **, unsigned long long, int *) = runtime ? dlsym(runtime, "hipGetDriverEntryPoint") : NULL;
        int (*entry_spt)(const char *, void **, unsigned long long, int *) = runtime ? dlsym(runtime, "hipGetDriverEntryPoint_spt") : NULL;
        const char *names[] = {"hipMalloc", "hipGetDeviceProperties", "hipGetDevicePropertiesR0600", "hipMallocAsync", "hipStreamCreate", "hipGetProcAddress", "hipNothing"};
        int versions[] = {502, 600, 704};
        for (unsigned i = 0; proc && i < sizeof names / sizeof *names; i++)
            for (int v = 0; v < 3; v++) {
                void *function = NULL;
                int found = -1, status = proc(names[i], &function, versions[v], 0, &found);
                printf("%d %d %d ", versions[v], status, found);
                say("proc", names[i], function);
            }
        for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
            void *function = NULL;
            int found = -1;
            if (entry) printf("%d ", entry(names[i], &function, 0, &found)), say("entry", names[i], function);
            function = NULL;
            if (entry_spt) printf("%d ", entry_spt(names[i], &function, 0, &found)), say("entry_spt", names[i], function);
        }
    } else if (!strcmp(what, "again") && count > 2) {
        for (int i = 0; i < 3; i++) {
            void *runtime = dlopen(values[2], RTLD_NOW | RTLD_LOCAL), *pointer = NULL;
            if (!runtime) return printf("%s\n", dlerror()), 3;
            malloc_t allocate = (malloc_t)dlsym(runtime, "hipMalloc");
            free_t release = (free_t)dlsym(runtime, "hipFree");
            int status = allocate(&pointer, 48 << 20), above = allocate(&pointer, 32 << 20);
            printf("allocated %d, above %d\n", status, above);
            (void)release;
            /* What lies where it was must not be taken for it. */
            Dl_info info;
            dladdr(dlvsym(runtime, "hipInit", "hip_4.2"), &info);
            void *place = info.dli_fbase;
            printf("closed %d\n", dlclose(runtime));
            mmap(place, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        }
    } else if (!strcmp(what, "through") && count > 3) {
        int mode = strstr(values[3], "global") ? RTLD_GLOBAL : strstr(values[3], "deepbind") ? RTLD_DEEPBIND : RTLD_LOCAL;
        void *plugin = dlopen(values[2], (strstr(values[3], "lazy") ? RTLD_LAZY : RTLD_NOW) | mode);
        if (!plugin) return printf("%s\n", dlerror()), 3;
        int (*allocate)(size_t) = dlsym(plugin, "allocate");
        void *(*next_of)(const char *) = dlsym(plugin, "next_of");
        if (allocate) {
            int status = allocate(48 << 20), above = allocate(32 << 20);
            printf("allocated %d, above %d\n", status, above);
        }
        if (next_of) {
            say("plugin's next", "hipMalloc", next_of("hipMalloc"));
            say("plugin's next", "open", next_of("open"));
        }
        if (!allocate) {
            void *pointer;
            malloc_t direct = (malloc_t)dlsym(plugin, "hipMalloc");
            int status = direct(&pointer, 48 << 20), above = direct(&pointer, 32 << 20);
            printf("allocated %d, above %d\n", status, above);
        }
    } else {
        return 2;
    }
    return 0;
}

#endif
