/* A stand-in for ROCm's libraries: one card, and waves that ran where the test says. It knows nothing of masks.
 *   STANDIN_CARD    gfx,cu,engines,arrays,xcc
 *   STANDIN_WHOLE   place:xcc in hexadecimal, divided by commas: the words of the waves without a mask
 *   STANDIN_MASKED  the same under a mask;  STANDIN_SECOND  and on the second stream, if it differs there
 *   STANDIN_MASKS   a file with a line for each mask, the mask and its words with a tab between: instead of STANDIN_MASKED
 *   STANDIN_TENANTS a folder where processes that keep the card busy see each other: those with one mask share its units
 *   STANDIN_FAULT   crash, hang, silent (no wave ran), nocard, nocompile, hidden (HIP does not show the card)
 * A launch of the kernel `soak` takes 4 ms of the whole card, and more of a part of it. */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int fault(const char *name) {
    const char *set = getenv("STANDIN_FAULT");
    return set && !strcmp(set, name);
}

static int field(int index) {
    const char *at = getenv("STANDIN_CARD");
    while (index-- && at) at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    return at ? atoi(at) : 0;
}

int hsa_init(void) { return fault("nocard") ? 0x1008 : 0; }

int hsa_iterate_agents(int (*visit)(uint64_t, void *), void *data) {
    return visit(1, data) || visit(2, data);
}

int hsa_agent_get_info(uint64_t agent, int attribute, void *value) {
    switch (attribute) {
    case 0: return strcpy(value, agent == 1 ? "CPU" : getenv("STANDIN_CARD")), *strchrnul(value, ',') = 0, 0;
    case 17: return *(uint32_t *)value = agent == 2, 0;
    case 0xA002: return *(uint32_t *)value = field(1), 0;
    case 0xA006: return *(uint32_t *)value = 0xc300, 0;
    case 0xA009: return strcpy(value, "Stand-in"), 0;
    case 0xA00C: return *(uint32_t *)value = field(2), 0;
    case 0xA00D: return *(uint32_t *)value = field(3), 0;
    case 0xA00F: return *(uint32_t *)value = 0, 0;
    case 0xA111: return field(4) == 1 ? 0x1001 : (*(uint32_t *)value = field(4), 0);
    default: return 0x1001;
    }
}

int hiprtcCreateProgram(void **program, const char *source, const char *name, int count, const char **headers, const char **names) {
    (void)count, (void)headers, (void)names;
    *program = (void *)source;
    return (!strstr(source, "s_getreg") && !strstr(source, "soak")) || strcmp(name, "kernel.hip");
}
int hiprtcCompileProgram(void *program, int count, const char **options) {
    return (void)program, fault("nocompile") || count < 1 || strncmp(options[0], "--offload-arch=gfx", 18) ? 6 : 0;
}
int hiprtcGetProgramLogSize(void *program, size_t *size) { return (void)program, *size = 8, 0; }
int hiprtcGetProgramLog(void *program, char *log) { return (void)program, strcpy(log, "refused"), 0; }
int hiprtcGetCodeSize(void *program, size_t *size) { return (void)program, *size = 4, 0; }
int hiprtcGetCode(void *program, char *code) { return (void)program, memcpy(code, "code", 4), 0; }

/* ---- the card's time ---- */

static const char *mask(void) {
    const char *skip = getenv("HSA_CU_MASK_SKIP_INIT"), *hsa = getenv("HSA_CU_MASK"), *global = getenv("ROC_GLOBAL_CU_MASK");
    if (skip && !strcmp(skip, "1")) return NULL;
    return hsa ? hsa : global;
}

/* The words of the waves under the mask that is set. */
static const char *words(int second) {
    static char line[1 << 16];
    const char *table = getenv("STANDIN_MASKS"), *set = mask();
    if (!set) return getenv("STANDIN_WHOLE");
    if (!table) return getenv(second && getenv("STANDIN_SECOND") ? "STANDIN_SECOND" : "STANDIN_MASKED");
    FILE *file = fopen(table, "r");
    while (file && fgets(line, sizeof line, file)) {
        char *tab = strchr(line, '\t');
        if (!tab || strlen(set) != (size_t)(tab - line) || strncmp(line, set, tab - line)) continue;
        tab[strcspn(tab, "\n")] = 0;
        return fclose(file), tab + 1;
    }
    if (file) fclose(file);
    return getenv("STANDIN_WHOLE");
}

static int units(const char *list) {
    int count = 1;
    for (; *list; list++) count += *list == ',';
    return count;
}

static char own[4096];
static void leave(void) { unlink(own); }
static void enter(void) {
    const char *folder = getenv("STANDIN_TENANTS");
    if (!folder || *own) return;
    snprintf(own, sizeof own, "%s/%d.%s", folder, getpid(), mask() ? mask() : "whole");
    FILE *file = fopen(own, "w");
    if (file) fclose(file), atexit(leave);
}

static int tenants(void) {
    int count = 0;
    DIR *folder = *own ? opendir(getenv("STANDIN_TENANTS")) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        const char *theirs = strchr(entry->d_name, '.'), *mine = strchr(strrchr(own, '/'), '.');
        count += atoi(entry->d_name) > 0 && !strcmp(theirs, mine) && !kill(atoi(entry->d_name), 0);
    }
    if (folder) closedir(folder);
    return count ? count : 1;
}

static double busy_until; /* seconds of CLOCK_MONOTONIC */

/* What is launched late, because this machine was busy, the card makes good: its rate is that of its units. Memory that is set begins anew. */
static void occupy(double seconds) { busy_until += seconds; }
static void begin(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    busy_until = now.tv_sec + now.tv_nsec * 1e-9;
}

int hipDeviceSynchronize(void) {
    struct timespec until = {busy_until, (busy_until - (long)busy_until) * 1e9};
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL), 0;
}

int hipInit(unsigned flags) { return (int)flags; }
int hipGetDeviceCount(int *count) { return *count = 2, 0; }
int hipDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, length, "0000:%02x:00.0", device == 1 && !fault("hidden") ? 0xC3 : 1);
    return 0;
}
int hipSetDevice(int device) { return device != 1; }
int hipModuleLoadData(void **module, const void *code) { return *module = (void *)code, memcmp(code, "code", 4); }
int hipModuleGetFunction(void **function, void *module, const char *name) {
    *function = (void *)(uintptr_t)(strcmp(name, "soak") ? 1 : 2);
    if (!strcmp(name, "soak")) enter();
    return (void)module, strcmp(name, "cumask_probe") && strcmp(name, "soak");
}
int hipStreamCreate(void **stream) { return *stream = (void *)1, 0; }
int hipMalloc(void **memory, size_t size) { return !(*memory = malloc(size)); }
int hipFree(void *memory) { return free(memory), 0; }
int hipMemset(void *memory, int value, size_t size) { return begin(), memset(memory, value, size), 0; }
int hipMemcpy(void *to, const void *from, size_t size, int kind) { return memcpy(to, from, size), kind != 2; }

int hipModuleLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c, unsigned shared, void *stream, void **arguments, void **extra) {
    (void)y, (void)z, (void)a, (void)b, (void)c, (void)shared, (void)extra;
    if (fault("crash")) abort();
    if (fault("hang")) for (;;) pause();
    if (fault("silent")) return 0;
    const char *list = words(stream != NULL), *at = list;
    uint32_t *out = *(uint32_t **)arguments[0];
    if (function == (void *)2) {
        out[0] += x;
        return occupy(0.004 * units(getenv("STANDIN_WHOLE")) / units(list) * tenants()), 0;
    }
    for (unsigned block = 0; block < x; block++) {
        char *end;
        out[2 * block] = strtoul(at, &end, 16);
        out[2 * block + 1] = strtoul(end + 1, &end, 16) | 0x80000000u;
        at = *end ? end + 1 : list;
    }
    return 0;
}
