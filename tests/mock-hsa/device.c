/* Agents and pools: one CPU, and cards that differ by PCI address, UUID and node. All pools of a card share its memory. */
#include "mock.h"

/* Handles tell what they are: agent 1 is the CPU, 16 + n card n; a pool is its agent's handle times 16 plus its kind. */
#define CARD_AGENT(card) ((agent_t)(16 + (card)))

agent_t card_agent(int card) { return card < 0 ? CPU_AGENT : CARD_AGENT(card); }
pool_t card_pool(int card) { return card_agent(card) << 4 | (card < 0 ? CPU_FINE : POOL_COARSE); }

bool agent_card(agent_t agent, int *card) {
    *card = agent == CPU_AGENT ? -1 : (int)(agent - 16);
    return agent == CPU_AGENT || (agent >= 16 && agent < CARD_AGENT(config.cards));
}

enum pool_kind pool_kind_of(pool_t pool, int *card) {
    if (!agent_card(pool >> 4, card)) return POOL_NONE;
    enum pool_kind kind = pool & 15;
    bool of_cpu = kind >= CPU_FINE && kind <= CPU_KERNARG;
    return of_cpu == (*card < 0) && kind < POOL_NONE ? kind : POOL_NONE;
}

static uint32_t pool_flags(enum pool_kind kind) {
    switch (kind) {
    case POOL_COARSE:
    case CPU_COARSE: return FLAG_COARSE;
    case POOL_FINE:
    case CPU_FINE: return FLAG_FINE;
    case POOL_EXTENDED: return FLAG_EXTENDED_FINE;
    case CPU_KERNARG: return FLAG_FINE | FLAG_KERNARG;
    default: return 0;
    }
}

static void card_uuid(int card, char out[21]) { snprintf(out, 21, "GPU-%016llx", 0xa0de000000000000ull + (unsigned)card); }

/* ROCR_VISIBLE_DEVICES, as ROCr reads it: positions or UUIDs, in that order, up to the first that is none. */
int visible_cards(int out[MOST_CARDS]) {
    int count = 0;
    if (!config.visible[0]) {
        for (int card = 0; card < config.cards; card++) out[count++] = card;
        return count;
    }
    char list[sizeof config.visible], *rest = list, *item;
    memcpy(list, config.visible, sizeof list);
    while ((item = strsep(&rest, ",")) && count < MOST_CARDS) {
        int found = -1;
        char uuid[21], *end;
        for (int card = 0; card < config.cards; card++) {
            card_uuid(card, uuid);
            if (!strcmp(item, uuid)) found = card;
        }
        long position = strtol(item, &end, 10);
        if (found < 0 && *item && !*end && position >= 0 && position < config.cards) found = position;
        if (found < 0) break;
        out[count++] = found;
    }
    return count;
}

EXPORT status_t hsa_iterate_agents(status_t (*callback)(agent_t, void *), void *data) {
    int cards[MOST_CARDS], count = visible_cards(cards);
    status_t status = callback(CPU_AGENT, data);
    for (int i = 0; i < count && !status; i++) status = callback(CARD_AGENT(cards[i]), data);
    return status;
}

/* Fields of a fixed width that the caller gives room for. */
static status_t text(void *value, size_t size, const char *content) {
    memset(value, 0, size);
    snprintf(value, size, "%s", content);
    return OK;
}
static status_t u16(void *value, uint16_t content) { return memcpy(value, &content, sizeof content), OK; }
static status_t u32(void *value, uint32_t content) { return memcpy(value, &content, sizeof content), OK; }
static status_t u64(void *value, uint64_t content) { return memcpy(value, &content, sizeof content), OK; }
static status_t flag(void *value, bool content) { return memcpy(value, &content, sizeof content), OK; }

static const char *processor(void) { return strrchr(config.isa, '-') + 1; }
static bool wave64(void) { return !strncmp(processor(), "gfx9", 4); }

EXPORT status_t hsa_agent_get_info(agent_t agent, uint32_t attribute, void *value) {
    int card;
    if (!agent_card(agent, &card)) return INVALID_AGENT;
    bool gpu = card >= 0;
    switch (attribute) {
    case AGENT_NAME: {
        char name[64];
        size_t length = strcspn(processor(), ":");
        memcpy(name, processor(), length);
        name[length] = 0;
        return text(value, 64, gpu ? name : "Mock CPU");
    }
    case AGENT_VENDOR_NAME: return text(value, 64, gpu ? "AMD" : "CPU");
    case AGENT_PRODUCT_NAME: return text(value, 64, gpu ? "Mock card" : "Mock CPU");
    case AGENT_FEATURE: return u32(value, gpu ? 1 : 0);
    case AGENT_MACHINE_MODEL: return u32(value, 1);
    case AGENT_PROFILE: return u32(value, gpu ? 0 : 1);
    case AGENT_DEFAULT_FLOAT_ROUNDING_MODE: return u32(value, 2);
    case AGENT_FAST_F16_OPERATION: return flag(value, true);
    case AGENT_WAVEFRONT_SIZE: return u32(value, wave64() ? 64 : 32);
    case AGENT_WORKGROUP_MAX_DIM: return memcpy(value, (uint16_t[3]){1024, 1024, 1024}, 6), OK;
    case AGENT_WORKGROUP_MAX_SIZE: return u32(value, 1024);
    case AGENT_GRID_MAX_DIM: return memset(value, 0xff, 12), OK;
    case AGENT_GRID_MAX_SIZE: return u32(value, UINT32_MAX);
    case AGENT_FBARRIER_MAX_SIZE: return u32(value, 32);
    case AGENT_QUEUES_MAX: return u32(value, gpu ? 128 : 0);
    case AGENT_QUEUE_MIN_SIZE: return u32(value, gpu ? 64 : 0);
    case AGENT_QUEUE_MAX_SIZE: return u32(value, gpu ? 131072 : 0);
    case AGENT_QUEUE_TYPE: return u32(value, 0);
    case AGENT_NODE:
    case AGENT_DRIVER_NODE_ID: return u32(value, card + 1);
    case AGENT_DEVICE: return u32(value, gpu ? 1 : 0);
    case AGENT_CACHE_SIZE: return memcpy(value, (uint32_t[4]){16 << 10, 4 << 20, 0, 0}, 16), OK;
    case AGENT_ISA: return u64(value, 1);
    case AGENT_EXTENSIONS: return memset(value, 0, 128), *(uint8_t *)value = 1 << EXTENSION_IMAGES, OK;
    case AGENT_VERSION_MAJOR:
    case AGENT_VERSION_MINOR: return u16(value, 1);
    case AGENT_IMAGE_1D_MAX_ELEMENTS:
    case AGENT_IMAGE_1DA_MAX_ELEMENTS: return u32(value, 16384);
    case AGENT_IMAGE_1DB_MAX_ELEMENTS: return u64(value, 4294967295u);
    case AGENT_IMAGE_2D_MAX_ELEMENTS:
    case AGENT_IMAGE_2DA_MAX_ELEMENTS:
    case AGENT_IMAGE_2DDEPTH_MAX_ELEMENTS:
    case AGENT_IMAGE_2DADEPTH_MAX_ELEMENTS: return memcpy(value, (uint32_t[2]){16384, 16384}, 8), OK;
    case AGENT_IMAGE_3D_MAX_ELEMENTS: return memcpy(value, (uint32_t[3]){16384, 16384, 8192}, 12), OK;
    case AGENT_IMAGE_ARRAY_MAX_LAYERS: return u32(value, 8192);
    case AGENT_MAX_IMAGE_RD_HANDLES:
    case AGENT_MAX_IMAGE_RORW_HANDLES: return u32(value, 128);
    case AGENT_MAX_SAMPLER_HANDLERS: return u32(value, 16);
    case AGENT_IMAGE_LINEAR_ROW_PITCH_ALIGNMENT: return u32(value, 256);
    case AGENT_CHIP_ID: return u32(value, 0x73bf);
    case AGENT_CACHELINE_SIZE: return u32(value, 128);
    case AGENT_COMPUTE_UNIT_COUNT:
    case AGENT_COOPERATIVE_COMPUTE_UNIT_COUNT: return u32(value, gpu ? 60 : 4);
    case AGENT_MAX_CLOCK_FREQUENCY: return u32(value, 2500);
    case AGENT_MAX_ADDRESS_WATCH_POINTS: return u32(value, 4);
    /* Bus 3, 0x13, 0x23, …: no two cards on one bus. */
    case AGENT_BDFID: return u32(value, gpu ? (0x03 + 0x10 * card) << 8 : 0);
    case AGENT_DOMAIN: return u32(value, 0);
    case AGENT_UUID: {
        char uuid[21] = "CPU-XX";
        if (gpu) card_uuid(card, uuid);
        return text(value, 21, uuid);
    }
    case AGENT_MEMORY_WIDTH: return u32(value, 256);
    case AGENT_MEMORY_MAX_FREQUENCY: return u32(value, 1000);
    case AGENT_MAX_WAVES_PER_CU: return u32(value, 32);
    case AGENT_NUM_SIMDS_PER_CU: return u32(value, wave64() ? 4 : 2);
    case AGENT_NUM_SHADER_ENGINES: return u32(value, 4);
    case AGENT_NUM_SHADER_ARRAYS_PER_SE: return u32(value, 2);
    case AGENT_HDP_FLUSH: return memset(value, 0, 2 * sizeof(void *)), OK;
    case AGENT_COOPERATIVE_QUEUES: return flag(value, true);
    case AGENT_ASIC_REVISION: return u32(value, 0);
    case AGENT_SVM_DIRECT_HOST_ACCESS: return flag(value, false);
    case AGENT_MEMORY_AVAIL:
        if (!gpu) return INVALID_ARGUMENT;
        return u64(value, account_free(card) + memory_cached(card));
    case AGENT_TIMESTAMP_FREQUENCY: return u64(value, 100000000);
    case AGENT_ASIC_FAMILY_ID: return u32(value, 143);
    case AGENT_UCODE_VERSION:
    case AGENT_SDMA_UCODE_VERSION: return u32(value, 100);
    case AGENT_NUM_SDMA_ENG: return u32(value, 2);
    case AGENT_NUM_SDMA_XGMI_ENG: return u32(value, 0);
    case AGENT_IOMMU_SUPPORT: return u32(value, 0);
    case AGENT_NUM_XCC: return u32(value, 1);
    case AGENT_DRIVER_UID: return u32(value, 100 + card);
    case AGENT_NEAREST_CPU: return u64(value, CPU_AGENT);
    case AGENT_MEMORY_PROPERTIES:
    case AGENT_AQL_EXTENSIONS: return memset(value, 0, 8), OK;
    case AGENT_SCRATCH_LIMIT_MAX:
    case AGENT_SCRATCH_LIMIT_CURRENT: return u64(value, 1ull << 30);
    case AGENT_CLOCK_COUNTERS: return memset(value, 0, 4 * sizeof(uint64_t)), OK;
    default: log_line("mock-hsa: agent attribute %x is not answered", attribute); return INVALID_ARGUMENT;
    }
}

EXPORT status_t hsa_agent_iterate_isas(agent_t agent, status_t (*callback)(isa_t, void *), void *data) {
    int card;
    return agent_card(agent, &card) ? callback(1, data) : INVALID_AGENT;
}

EXPORT status_t hsa_isa_get_info_alt(isa_t isa, uint32_t attribute, void *value) {
    (void)isa;
    size_t length = strlen(config.isa);
    if (attribute == ISA_NAME_LENGTH) return u32(value, length);
    if (attribute != ISA_NAME) return INVALID_ARGUMENT;
    /* Some callers give room for the name alone, so no more than that is written. */
    return memcpy(value, config.isa, length), OK;
}

static status_t iterate_pools(agent_t agent, status_t (*callback)(pool_t, void *), void *data) {
    static const enum pool_kind of_card[] = {POOL_COARSE, POOL_FINE, POOL_EXTENDED, POOL_LDS, POOL_NONE};
    static const enum pool_kind of_cpu[] = {CPU_FINE, CPU_KERNARG, CPU_COARSE, POOL_NONE};
    int card;
    if (!agent_card(agent, &card)) return INVALID_AGENT;
    status_t status = OK;
    for (const enum pool_kind *kind = card < 0 ? of_cpu : of_card; *kind != POOL_NONE && !status; kind++) status = callback(agent << 4 | *kind, data);
    return status;
}

EXPORT status_t hsa_amd_agent_iterate_memory_pools(agent_t agent, status_t (*callback)(pool_t, void *), void *data) {
    return iterate_pools(agent, callback, data);
}

EXPORT status_t hsa_agent_iterate_regions(agent_t agent, status_t (*callback)(pool_t, void *), void *data) {
    return iterate_pools(agent, callback, data);
}

EXPORT status_t hsa_amd_memory_pool_get_info(pool_t pool, uint32_t attribute, void *value) {
    int card;
    enum pool_kind kind = pool_kind_of(pool, &card);
    if (kind == POOL_NONE) return INVALID_MEMORY_POOL;
    bool lds = kind == POOL_LDS;
    uint64_t size = lds ? 64 << 10 : card < 0 ? 64ull << 30 : config.vram;
    switch (attribute) {
    case POOL_SEGMENT: return u32(value, lds ? SEGMENT_GROUP : SEGMENT_GLOBAL);
    case POOL_GLOBAL_FLAGS: return u32(value, pool_flags(kind));
    case POOL_SIZE: return u64(value, size);
    case REGION_ALLOC_MAX_SIZE:
    case POOL_ALLOC_MAX_SIZE: return u64(value, lds ? 0 : size);
    case POOL_ALLOC_ALLOWED: return flag(value, !lds);
    case POOL_ALLOC_GRANULE:
    case POOL_ALLOC_ALIGNMENT: return u64(value, lds ? 0 : PAGE);
    case POOL_ACCESSIBLE_BY_ALL: return flag(value, card < 0);
    case POOL_LOCATION: return lds ? INVALID_ARGUMENT : u32(value, card < 0 ? 0 : 1);
    case POOL_ALLOC_REC_GRANULE: return u64(value, lds ? 0 : card < 0 || !config.blocks ? PAGE : BLOCK);
    default: log_line("mock-hsa: pool attribute %x is not answered", attribute); return INVALID_ARGUMENT;
    }
}

EXPORT status_t hsa_region_get_info(pool_t region, uint32_t attribute, void *value) { return hsa_amd_memory_pool_get_info(region, attribute, value); }

EXPORT status_t hsa_amd_agent_memory_pool_get_info(agent_t agent, pool_t pool, uint32_t attribute, void *value) {
    int card, owner;
    if (!agent_card(agent, &card)) return INVALID_AGENT;
    enum pool_kind kind = pool_kind_of(pool, &owner);
    if (kind == POOL_NONE) return INVALID_MEMORY_POOL;
    bool own = card == owner;
    switch (attribute) {
    case AGENT_POOL_ACCESS: return u32(value, own ? ACCESS_BY_DEFAULT : kind == POOL_LDS ? ACCESS_NEVER : ACCESS_ON_REQUEST);
    case AGENT_POOL_LINK_HOPS: return u32(value, own ? 0 : 1);
    case AGENT_POOL_LINK_INFO:
        if (own) return OK;
        *(struct link_info *)value = (struct link_info){.atomics32 = true, .atomics64 = true, .coherent = true, .type = 2, .numa_distance = 20};
        return OK;
    default: return INVALID_ARGUMENT;
    }
}
