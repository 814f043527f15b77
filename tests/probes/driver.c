/* Calls entry points of HIP by name and says how each ended: the tests' hand inside a process that has a HIP runtime.
 *
 *   driver [--way=WAY] [--lib=libamdhip64.so.7] [--repeat=N] [--threads=N] [COMMAND…]      without commands they are read from standard input, one a line
 *
 * A command is `name[,argument…]`: hipMalloc,64M hipFree hipMemGetInfo. What a call makes is kept, and the next that needs such a thing takes the newest.
 * One line for each: `name status detail`. The status is HIP's own, `absent` when the way does not lead to the name, `unused` when an object is missing.
 * Ways: direct (linked), dlsym (a handle opened RTLD_LOCAL), dlvsym (that handle, with a version: --version=hip_4.2), default (dlsym on RTLD_DEFAULT),
 * proc (hipGetProcAddress found by dlsym), entry (hipGetDriverEntryPoint), entry_spt (hipGetDriverEntryPoint_spt).
 * Other commands: sleep,MS  touch,PATH  wait,PATH  mark,TEXT  mock,KNOB,VALUE  kill  fork,COMMAND…  closefrom,N  abandon (forgets all objects)
 */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *way = "dlsym", *library = "libamdhip64.so", *version = "hip_4.2";
static int repeat = 1, threads = 1;
static void *handle;
static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

static const struct call *row(const char *name) {
    for (const struct call *call = calls; call->name; call++)
        if (!strcmp(call->name, name)) return call;
    return NULL;
}

void *entry(const char *name) {
    void *found = NULL;
    const struct call *call = row(name);
    if (!strcmp(way, "direct")) return call ? call->direct : NULL;
    if (!strcmp(way, "default")) return dlsym(RTLD_DEFAULT, name);
    if (!strcmp(way, "dlvsym")) return dlvsym(handle, name, version);
    if (!strcmp(way, "proc")) {
        int (*get)(const char *, void **, int, uint64_t, int *) = dlsym(handle, "hipGetProcAddress");
        int result = 0;
        return get && !get(name, &found, 70200000, 0, &result) ? found : NULL;
    }
    if (!strncmp(way, "entry", 5)) {
        int (*get)(const char *, void **, unsigned long long, int *) = dlsym(handle, way[5] ? "hipGetDriverEntryPoint_spt" : "hipGetDriverEntryPoint");
        int result = 0;
        return get && !get(name, &found, 0, &result) ? found : NULL;
    }
    return dlsym(handle, name);
}

static void say(const char *name, const char *status, const char *detail) {
    pthread_mutex_lock(&output);
    printf("%s %s%s\n", name, status, detail);
    fflush(stdout);
    pthread_mutex_unlock(&output);
}

/* Commands that are not calls. Returns false for a name that is none. */
static bool control(struct state *state, const char *name, const struct arguments *arguments) {
    const char *first = arguments->count ? arguments->text[0] : "";
    if (!strcmp(name, "sleep")) {
        usleep(number(arguments, 0, 1) * 1000);
    } else if (!strcmp(name, "touch")) {
        FILE *file = fopen(first, "w");
        if (file) fclose(file);
    } else if (!strcmp(name, "wait")) {
        while (access(first, F_OK)) usleep(1000);
    } else if (!strcmp(name, "mark")) {
        say("mark", first, "");
    } else if (!strcmp(name, "kill")) {
        kill(getpid(), SIGKILL);
    } else if (!strcmp(name, "closefrom")) {
        closefrom(number(arguments, 0, 3));
    } else if (!strcmp(name, "abandon")) {
        state->count = 0;
    } else if (!strcmp(name, "pid")) {
        char text[32];
        snprintf(text, sizeof text, "%d", (int)getpid());
        say("pid", text, "");
    } else if (!strcmp(name, "mock")) {
        void *hsa = dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_NOLOAD);
        int (*set)(const char *, const char *) = hsa ? dlsym(hsa, "mockhsa_control") : NULL;
        say("mock", set && arguments->count > 1 && !set(first, arguments->text[1]) ? "0" : "absent", "");
    } else {
        return false;
    }
    return true;
}

static void run(struct state *state, const char *command) {
    char copy[1024];
    struct arguments arguments = {0};
    snprintf(copy, sizeof copy, "%s", command);
    char *rest = copy, *name = strsep(&rest, ",");
    while (rest && arguments.count < MOST_ARGUMENTS) arguments.text[arguments.count++] = strsep(&rest, ",");
    if (!*name || control(state, name, &arguments)) return;
    state->answer[0] = 0;
    const struct call *call = row(name);
    void *function = call && call->run ? entry(name) : NULL;
    if (!function) {
        say(name, call ? "absent" : "unknown", "");
        return;
    }
    int result = call->run(state, name, function, &arguments);
    char status[32];
    snprintf(status, sizeof status, "%d", result);
    say(name, result == NOTHING_TO_USE ? "unused" : status, state->answer);
}

struct work {
    char **commands;
    int count;
};

static void *run_all(void *given) {
    const struct work *work = given;
    struct state *state = calloc(1, sizeof *state);
    if (!state) return NULL;
    for (int round = 0; round < repeat; round++) {
        for (int i = 0; i < work->count; i++) {
            if (strcmp(work->commands[i], "fork")) {
                run(state, work->commands[i]);
                continue;
            }
            /* The child does the rest, the parent waits and ends with it. */
            fflush(stdout);
            pid_t child = fork();
            if (child == 0) continue;
            int status = 0;
            waitpid(child, &status, 0);
            say("fork", WIFEXITED(status) ? "exit" : "signal", "");
            return NULL;
        }
    }
    return NULL;
}

static void run_lines(void) {
    char line[1024];
    struct state *state = calloc(1, sizeof *state);
    if (!state) return;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        run(state, line);
    }
}

int main(int count, char **values) {
    int first = 1;
    for (; first < count && !strncmp(values[first], "--", 2); first++) {
        const char *option = values[first] + 2, *value = strchr(option, '=') ? strchr(option, '=') + 1 : "";
        if (!strncmp(option, "way=", 4)) way = value;
        else if (!strncmp(option, "lib=", 4)) library = value;
        else if (!strncmp(option, "version=", 8)) version = value;
        else if (!strncmp(option, "repeat=", 7)) repeat = atoi(value);
        else if (!strncmp(option, "threads=", 8)) threads = atoi(value);
        else {
            fprintf(stderr, "driver: %s: unknown\n", values[first]);
            return 2;
        }
    }
    bool linked = !strcmp(way, "direct") || !strcmp(way, "default");
    if (!linked && !(handle = dlopen(library, RTLD_NOW | RTLD_LOCAL))) {
        fprintf(stderr, "driver: %s\n", dlerror());
        return 3;
    }
    struct work work = {values + first, count - first};
    if (work.count == 0) {
        run_lines();
    } else if (threads <= 1) {
        run_all(&work);
    } else {
        pthread_t others[64];
        if (threads > 64) threads = 64;
        for (int i = 0; i < threads; i++) pthread_create(&others[i], NULL, run_all, &work);
        for (int i = 0; i < threads; i++) pthread_join(others[i], NULL);
    }
    say("end", "0", "");
    return 0;
}
