/* Knobs: MOCKHSA_* in the environment, read when the library is loaded, and `mockhsa_control` afterwards. The list is in README.md. */
#include "mock.h"

#include <stdarg.h>
#include <time.h>
#include <unistd.h>

struct config config;

#define MOST_FAULTS 8
struct fault {
    char call[48];
    long from; /* the first call that fails, counted from 1 */
    bool onwards;
    long seen;
};
static struct fault faults[MOST_FAULTS];
static int fault_count;
static long allocation_us, free_us;
static char pause_path[256];
static pthread_mutex_t knob_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t mebibytes(const char *text) { return strtoull(text, NULL, 0) << 20; }

/* "pool_allocate:3,device:1+": the third pool_allocate on a card fails, and every call that takes memory of a card from the first on. */
static void set_faults(const char *text) {
    fault_count = 0;
    while (text && *text && fault_count < MOST_FAULTS) {
        struct fault *fault = &faults[fault_count];
        size_t length = strcspn(text, ",");
        const char *colon = memchr(text, ':', length);
        if (colon && (size_t)(colon - text) < sizeof fault->call) {
            *fault = (struct fault){0};
            memcpy(fault->call, text, colon - text);
            char *end;
            fault->from = strtol(colon + 1, &end, 10);
            fault->onwards = *end == '+';
            fault_count++;
        }
        text += length + (text[length] == ',');
    }
}

/* One knob, by its name without MOCKHSA_ and in any case. Returns 0, or -1 for a name that is none. */
static int set(const char *knob, const char *value) {
    if (!strcasecmp(knob, "CARDS")) {
        int cards = atoi(value);
        config.cards = cards < 0 ? 0 : cards > MOST_CARDS ? MOST_CARDS : cards;
    } else if (!strcasecmp(knob, "VRAM_MB")) {
        config.vram = mebibytes(value);
    } else if (!strcasecmp(knob, "LIMIT_MB")) {
        for (int card = 0; card < MOST_CARDS; card++) config.limit[card] = mebibytes(value);
    } else if (!strncasecmp(knob, "LIMIT_MB_", 9)) {
        int card = atoi(knob + 9);
        if (card < 0 || card >= MOST_CARDS) return -1;
        config.limit[card] = mebibytes(value);
    } else if (!strcasecmp(knob, "BLOCKS")) {
        config.blocks = atoi(value) != 0;
    } else if (!strcasecmp(knob, "VMEM")) {
        config.virtual_memory = atoi(value) != 0;
    } else if (!strcasecmp(knob, "LOG")) {
        config.log = atoi(value) != 0;
    } else if (!strcasecmp(knob, "ISA")) {
        snprintf(config.isa, sizeof config.isa, "amdgcn-amd-amdhsa--%s", value);
    } else if (!strcasecmp(knob, "RECORD")) {
        snprintf(config.record, sizeof config.record, "%s", value);
    } else if (!strcasecmp(knob, "SHARED")) {
        snprintf(config.shared, sizeof config.shared, "%s", value);
    } else if (!strcasecmp(knob, "FAIL")) {
        set_faults(value);
    } else if (!strcasecmp(knob, "DELAY_ALLOC_US")) {
        allocation_us = atol(value);
    } else if (!strcasecmp(knob, "DELAY_FREE_US")) {
        free_us = atol(value);
    } else if (!strcasecmp(knob, "PAUSE")) {
        snprintf(pause_path, sizeof pause_path, "%s", value);
    } else {
        return -1;
    }
    return 0;
}

/* The first copy of the environment wins over nothing: a knob that is not set keeps its default. */
void config_load(void) {
    static const char *const names[] = {"CARDS",  "VRAM_MB", "LIMIT_MB", "BLOCKS", "VMEM",           "LOG",           "ISA",
                                        "RECORD", "SHARED",  "FAIL",     "PAUSE",  "DELAY_ALLOC_US", "DELAY_FREE_US", NULL};
    config = (struct config){.cards = 1, .vram = 16ull << 30, .blocks = true, .virtual_memory = true};
    for (int card = 0; card < MOST_CARDS; card++) config.limit[card] = UINT64_MAX;
    set("ISA", "gfx1030");
    char variable[64];
    for (int i = 0; names[i]; i++) {
        snprintf(variable, sizeof variable, "MOCKHSA_%s", names[i]);
        const char *value = getenv(variable);
        if (value && *value) set(names[i], value);
    }
    for (int card = 0; card < MOST_CARDS; card++) {
        snprintf(variable, sizeof variable, "MOCKHSA_LIMIT_MB_%d", card);
        const char *value = getenv(variable);
        if (value && *value) config.limit[card] = mebibytes(value);
        if (config.limit[card] > config.vram) config.limit[card] = config.vram;
    }
    const char *visible = getenv("ROCR_VISIBLE_DEVICES");
    if (visible) snprintf(config.visible, sizeof config.visible, "%s", visible);
}

EXPORT int mockhsa_control(const char *knob, const char *value) {
    pthread_mutex_lock(&knob_lock);
    int result = set(knob, value);
    pthread_mutex_unlock(&knob_lock);
    return result;
}

bool fault_meets(const char *call, int card) {
    bool meets = false;
    pthread_mutex_lock(&knob_lock);
    for (int i = 0; i < fault_count; i++) {
        struct fault *fault = &faults[i];
        bool named = card < 0 ? !strcmp(fault->call, "host") : !strcmp(fault->call, call) || !strcmp(fault->call, "device");
        if (!named) continue;
        fault->seen++;
        if (fault->onwards ? fault->seen >= fault->from : fault->seen == fault->from) meets = true;
    }
    pthread_mutex_unlock(&knob_lock);
    return meets;
}

/* Stops in the middle of an allocation for as long as the file is there; `<file>.reached` says that somebody is waiting. */
static void pause_here(void) {
    char path[256], reached[264];
    pthread_mutex_lock(&knob_lock);
    memcpy(path, pause_path, sizeof path);
    pthread_mutex_unlock(&knob_lock);
    if (!path[0] || access(path, F_OK)) return;
    snprintf(reached, sizeof reached, "%s.reached", path);
    FILE *file = fopen(reached, "w");
    if (file) fclose(file);
    while (!access(path, F_OK)) usleep(500);
}

void delay_allocation(int card) {
    if (card < 0) return;
    pause_here();
    if (allocation_us > 0) usleep(allocation_us);
}

void delay_free(int card) {
    if (card >= 0 && free_us > 0) usleep(free_us);
}

void log_line(const char *format, ...) {
    if (!config.log) return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    if (length > (int)sizeof line - 2) length = sizeof line - 2;
    line[length++] = '\n';
    if (write(2, line, length) < 0) return;
}

__attribute__((constructor)) static void load(void) { config_load(); }
