/* A stand-in for ROCm's libraries: one card, and waves that ran where the test says. It knows nothing of masks.
 *   STANDIN_CARD    gfx,cu,engines,arrays,xcc
 *   STANDIN_WHOLE   place:xcc in hexadecimal, divided by commas: the words of the waves without a mask
 *   STANDIN_MASKED  the same under a mask;  STANDIN_SECOND  and on the second stream, if it differs there
 *   STANDIN_FAULT   crash, hang, silent (no wave ran), nocard, nocompile, hidden (HIP does not show the card) */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    return !strstr(source, "s_getreg") || strcmp(name, "cumask.hip");
}
int hiprtcCompileProgram(void *program, int count, const char **options) {
    return (void)program, fault("nocompile") || count < 1 || strncmp(options[0], "--offload-arch=gfx", 18) ? 6 : 0;
}
int hiprtcGetProgramLogSize(void *program, size_t *size) { return (void)program, *size = 8, 0; }
int hiprtcGetProgramLog(void *program, char *log) { return (void)program, strcpy(log, "refused"), 0; }
int hiprtcGetCodeSize(void *program, size_t *size) { return (void)program, *size = 4, 0; }
int hiprtcGetCode(void *program, char *code) { return (void)program, memcpy(code, "code", 4), 0; }

int hipInit(unsigned flags) { return (int)flags; }
int hipGetDeviceCount(int *count) { return *count = 2, 0; }
int hipDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, length, "0000:%02x:00.0", device == 1 && !fault("hidden") ? 0xC3 : 1);
    return 0;
}
int hipSetDevice(int device) { return device != 1; }
int hipModuleLoadData(void **module, const void *code) { return *module = (void *)code, memcmp(code, "code", 4); }
int hipModuleGetFunction(void **function, void *module, const char *name) { return *function = module, strcmp(name, "cumask_probe"); }
int hipStreamCreate(void **stream) { return *stream = (void *)1, 0; }
int hipMalloc(void **memory, size_t size) { return !(*memory = malloc(size)); }
int hipFree(void *memory) { return free(memory), 0; }
int hipMemset(void *memory, int value, size_t size) { return memset(memory, value, size), 0; }
int hipMemcpy(void *to, const void *from, size_t size, int kind) { return memcpy(to, from, size), kind != 2; }
int hipDeviceSynchronize(void) { return 0; }

int hipModuleLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c, unsigned shared, void *stream, void **arguments, void **extra) {
    (void)function, (void)y, (void)z, (void)a, (void)b, (void)c, (void)shared, (void)extra;
    if (fault("crash")) abort();
    if (fault("hang")) for (;;) pause();
    if (fault("silent")) return 0;
    int masked = getenv("HSA_CU_MASK") || getenv("ROC_GLOBAL_CU_MASK");
    const char *list = getenv(!masked ? "STANDIN_WHOLE" : stream && getenv("STANDIN_SECOND") ? "STANDIN_SECOND" : "STANDIN_MASKED"), *at = list;
    uint32_t *out = *(uint32_t **)arguments[0];
    for (unsigned block = 0; block < x; block++) {
        char *end;
        out[2 * block] = strtoul(at, &end, 16);
        out[2 * block + 1] = strtoul(end + 1, &end, 16) | 0x80000000u;
        at = *end ? end + 1 : list;
    }
    return 0;
}
