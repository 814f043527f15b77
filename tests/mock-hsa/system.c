/* The runtime as a whole: start and end, what the system says of itself, extension tables. */
#include "mock.h"

#include <unistd.h>

extern void *const loader_table[], *const image_table[];
extern const size_t loader_table_size, image_table_size;

EXPORT status_t hsa_init(void) {
    record("init", "init", -1, 0, 0, 0, OK);
    engine_start();
    return OK;
}

EXPORT status_t hsa_shut_down(void) {
    record("shutdown", "shut_down", -1, 0, 0, 0, OK);
    engine_stop();
    return OK;
}

EXPORT status_t hsa_status_string(status_t status, const char **out) {
    static const struct {
        status_t status;
        const char *text;
    } texts[] = {{OK, "HSA_STATUS_SUCCESS"},
                 {ERROR, "HSA_STATUS_ERROR"},
                 {INVALID_ARGUMENT, "HSA_STATUS_ERROR_INVALID_ARGUMENT"},
                 {INVALID_ALLOCATION, "HSA_STATUS_ERROR_INVALID_ALLOCATION"},
                 {OUT_OF_RESOURCES, "HSA_STATUS_ERROR_OUT_OF_RESOURCES"}};
    *out = "an HSA status";
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status) *out = texts[i].text;
    return OK;
}

EXPORT status_t hsa_system_get_info(uint32_t attribute, void *value) {
    switch (attribute) {
    case SYSTEM_VERSION_MAJOR:
    case SYSTEM_EXT_VERSION_MAJOR: *(uint16_t *)value = 1; return OK;
    case SYSTEM_VERSION_MINOR: *(uint16_t *)value = 1; return OK;
    case SYSTEM_EXT_VERSION_MINOR: *(uint16_t *)value = 10; return OK;
    case SYSTEM_TIMESTAMP: *(uint64_t *)value = now_ns(); return OK;
    case SYSTEM_TIMESTAMP_FREQUENCY: *(uint64_t *)value = 1000000000; return OK;
    case SYSTEM_SIGNAL_MAX_WAIT: *(uint64_t *)value = UINT64_MAX; return OK;
    case SYSTEM_ENDIANNESS: *(uint32_t *)value = 0; return OK;
    case SYSTEM_MACHINE_MODEL: *(uint32_t *)value = 1; return OK;
    case SYSTEM_EXTENSIONS: memset(value, 0, 128); return OK;
    case SYSTEM_BUILD_VERSION: *(const char **)value = "mock"; return OK;
    case SYSTEM_SVM_SUPPORTED:
    case SYSTEM_DMABUF_SUPPORTED: *(bool *)value = true; return OK;
    case SYSTEM_VIRTUAL_MEM_API_SUPPORTED: *(bool *)value = config.virtual_memory; return OK;
    case SYSTEM_SVM_ACCESSIBLE_BY_DEFAULT:
    case SYSTEM_MWAITX_ENABLED:
    case SYSTEM_XNACK_ENABLED: *(bool *)value = false; return OK;
    default: log_line("mock-hsa: system attribute %x is not answered", attribute); return INVALID_ARGUMENT;
    }
}

EXPORT status_t hsa_system_extension_supported(uint16_t extension, uint16_t major, uint16_t minor, bool *out) {
    (void)major, (void)minor;
    *out = extension == EXTENSION_IMAGES || extension == EXTENSION_LOADER;
    return OK;
}

EXPORT status_t hsa_agent_extension_supported(uint16_t extension, agent_t agent, uint16_t major, uint16_t minor, bool *out) {
    int card;
    return agent_card(agent, &card) ? hsa_system_extension_supported(extension, major, minor, out) : INVALID_AGENT;
}

EXPORT status_t hsa_system_get_major_extension_table(uint16_t extension, uint16_t major, size_t size, void *out) {
    void *const *table = extension == EXTENSION_IMAGES ? image_table : extension == EXTENSION_LOADER ? loader_table : NULL;
    size_t whole = extension == EXTENSION_IMAGES ? image_table_size : loader_table_size;
    if (!table || major != 1 || !out) return ERROR;
    memset(out, 0, size);
    memcpy(out, table, size < whole ? size : whole);
    return OK;
}

/* Of HSA 1.0: the caller gives no size, and takes the whole table of that version. */
EXPORT status_t hsa_system_get_extension_table(uint16_t extension, uint16_t major, uint16_t minor, void *out) {
    (void)minor;
    return hsa_system_get_major_extension_table(extension, major, extension == EXTENSION_IMAGES ? image_table_size : loader_table_size, out);
}

EXPORT status_t hsa_amd_register_system_event_handler(status_t (*callback)(const void *, void *), void *data) { return (void)callback, (void)data, OK; }
EXPORT status_t hsa_amd_enable_logging(uint8_t *flags, void *file) { return (void)flags, (void)file, OK; }
EXPORT status_t hsa_amd_coherency_set_type(agent_t agent, uint32_t type) { return (void)agent, (void)type, OK; }
EXPORT status_t hsa_amd_coherency_get_type(agent_t agent, uint32_t *type) { return (void)agent, *type = 0, OK; }
EXPORT status_t hsa_amd_agent_set_async_scratch_limit(agent_t agent, size_t limit) { return (void)agent, (void)limit, OK; }
