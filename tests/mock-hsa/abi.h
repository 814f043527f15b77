/* The part of HSA's binary interface that the mock answers: numbers and layouts, as hsa.h, hsa_ext_amd.h, hsa_ext_image.h and hsa_ven_amd_loader.h of
 * ROCr 5.2.3 to 7.2.4 give them. `abi_check.c` holds them against the headers themselves.
 *
 * HSA's handles are structs of one 64-bit word. Such a struct travels in a register like the word itself, so they are plain integers here. */
#ifndef ABI_H
#define ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t status_t;
typedef uint64_t agent_t, pool_t, signal_t, isa_t, reader_t, executable_t, symbol_t, loaded_t, image_t, sampler_t, vmem_t;

enum {
    OK = 0,
    INFO_BREAK = 1,
    ERROR = 0x1000,
    INVALID_ARGUMENT = 0x1001,
    INVALID_ALLOCATION = 0x1003,
    INVALID_AGENT = 0x1004,
    INVALID_SIGNAL = 0x1006,
    OUT_OF_RESOURCES = 0x1008,
    RESOURCE_FREE = 0x100A,
    NOT_INITIALIZED = 0x100B,
    INCOMPATIBLE_ARGUMENTS = 0x100D,
    INVALID_CODE_OBJECT = 0x1010,
    INVALID_EXECUTABLE = 0x1011,
    INVALID_SYMBOL_NAME = 0x1013,
    VARIABLE_UNDEFINED = 0x1015,
    INVALID_MEMORY_POOL = 40,
    NOT_SUPPORTED = 47
};

enum { /* hsa_agent_info_t */
    AGENT_NAME = 0,
    AGENT_VENDOR_NAME = 1,
    AGENT_FEATURE = 2,
    AGENT_MACHINE_MODEL = 3,
    AGENT_PROFILE = 4,
    AGENT_DEFAULT_FLOAT_ROUNDING_MODE = 5,
    AGENT_WAVEFRONT_SIZE = 6,
    AGENT_WORKGROUP_MAX_DIM = 7,
    AGENT_WORKGROUP_MAX_SIZE = 8,
    AGENT_GRID_MAX_DIM = 9,
    AGENT_GRID_MAX_SIZE = 10,
    AGENT_FBARRIER_MAX_SIZE = 11,
    AGENT_QUEUES_MAX = 12,
    AGENT_QUEUE_MIN_SIZE = 13,
    AGENT_QUEUE_MAX_SIZE = 14,
    AGENT_QUEUE_TYPE = 15,
    AGENT_NODE = 16,
    AGENT_DEVICE = 17,
    AGENT_CACHE_SIZE = 18,
    AGENT_ISA = 19,
    AGENT_EXTENSIONS = 20,
    AGENT_VERSION_MAJOR = 21,
    AGENT_VERSION_MINOR = 22,
    AGENT_FAST_F16_OPERATION = 24,
    AGENT_IMAGE_1D_MAX_ELEMENTS = 0x3000,
    AGENT_IMAGE_1DA_MAX_ELEMENTS = 0x3001,
    AGENT_IMAGE_1DB_MAX_ELEMENTS = 0x3002,
    AGENT_IMAGE_2D_MAX_ELEMENTS = 0x3003,
    AGENT_IMAGE_2DA_MAX_ELEMENTS = 0x3004,
    AGENT_IMAGE_2DDEPTH_MAX_ELEMENTS = 0x3005,
    AGENT_IMAGE_2DADEPTH_MAX_ELEMENTS = 0x3006,
    AGENT_IMAGE_3D_MAX_ELEMENTS = 0x3007,
    AGENT_IMAGE_ARRAY_MAX_LAYERS = 0x3008,
    AGENT_MAX_IMAGE_RD_HANDLES = 0x3009,
    AGENT_MAX_IMAGE_RORW_HANDLES = 0x300A,
    AGENT_MAX_SAMPLER_HANDLERS = 0x300B,
    AGENT_IMAGE_LINEAR_ROW_PITCH_ALIGNMENT = 0x300C,
    AGENT_CHIP_ID = 0xA000,
    AGENT_CACHELINE_SIZE = 0xA001,
    AGENT_COMPUTE_UNIT_COUNT = 0xA002,
    AGENT_MAX_CLOCK_FREQUENCY = 0xA003,
    AGENT_DRIVER_NODE_ID = 0xA004,
    AGENT_MAX_ADDRESS_WATCH_POINTS = 0xA005,
    AGENT_BDFID = 0xA006,
    AGENT_MEMORY_WIDTH = 0xA007,
    AGENT_MEMORY_MAX_FREQUENCY = 0xA008,
    AGENT_PRODUCT_NAME = 0xA009,
    AGENT_MAX_WAVES_PER_CU = 0xA00A,
    AGENT_NUM_SIMDS_PER_CU = 0xA00B,
    AGENT_NUM_SHADER_ENGINES = 0xA00C,
    AGENT_NUM_SHADER_ARRAYS_PER_SE = 0xA00D,
    AGENT_HDP_FLUSH = 0xA00E,
    AGENT_DOMAIN = 0xA00F,
    AGENT_COOPERATIVE_QUEUES = 0xA010,
    AGENT_UUID = 0xA011,
    AGENT_ASIC_REVISION = 0xA012,
    AGENT_SVM_DIRECT_HOST_ACCESS = 0xA013,
    AGENT_COOPERATIVE_COMPUTE_UNIT_COUNT = 0xA014,
    AGENT_MEMORY_AVAIL = 0xA015,
    AGENT_TIMESTAMP_FREQUENCY = 0xA016,
    AGENT_ASIC_FAMILY_ID = 0xA107,
    AGENT_UCODE_VERSION = 0xA108,
    AGENT_SDMA_UCODE_VERSION = 0xA109,
    AGENT_NUM_SDMA_ENG = 0xA10A,
    AGENT_NUM_SDMA_XGMI_ENG = 0xA10B,
    AGENT_IOMMU_SUPPORT = 0xA110,
    AGENT_NUM_XCC = 0xA111,
    AGENT_DRIVER_UID = 0xA112,
    AGENT_NEAREST_CPU = 0xA113,
    AGENT_MEMORY_PROPERTIES = 0xA114,
    AGENT_AQL_EXTENSIONS = 0xA115,
    AGENT_SCRATCH_LIMIT_MAX = 0xA116,
    AGENT_SCRATCH_LIMIT_CURRENT = 0xA117,
    AGENT_CLOCK_COUNTERS = 0xA118
};

enum { /* hsa_system_info_t */
    SYSTEM_VERSION_MAJOR = 0,
    SYSTEM_VERSION_MINOR = 1,
    SYSTEM_TIMESTAMP = 2,
    SYSTEM_TIMESTAMP_FREQUENCY = 3,
    SYSTEM_SIGNAL_MAX_WAIT = 4,
    SYSTEM_ENDIANNESS = 5,
    SYSTEM_MACHINE_MODEL = 6,
    SYSTEM_EXTENSIONS = 7,
    SYSTEM_BUILD_VERSION = 0x200,
    SYSTEM_SVM_SUPPORTED = 0x201,
    SYSTEM_SVM_ACCESSIBLE_BY_DEFAULT = 0x202,
    SYSTEM_MWAITX_ENABLED = 0x203,
    SYSTEM_DMABUF_SUPPORTED = 0x204,
    SYSTEM_VIRTUAL_MEM_API_SUPPORTED = 0x205,
    SYSTEM_XNACK_ENABLED = 0x206,
    SYSTEM_EXT_VERSION_MAJOR = 0x207,
    SYSTEM_EXT_VERSION_MINOR = 0x208
};

enum { /* hsa_amd_memory_pool_info_t; the first eight are hsa_region_info_t's as well */
    POOL_SEGMENT = 0,
    POOL_GLOBAL_FLAGS = 1,
    POOL_SIZE = 2,
    REGION_ALLOC_MAX_SIZE = 4,
    POOL_ALLOC_ALLOWED = 5,
    POOL_ALLOC_GRANULE = 6,
    POOL_ALLOC_ALIGNMENT = 7,
    POOL_ACCESSIBLE_BY_ALL = 15,
    POOL_ALLOC_MAX_SIZE = 16,
    POOL_LOCATION = 17,
    POOL_ALLOC_REC_GRANULE = 18
};

enum { SEGMENT_GLOBAL = 0, SEGMENT_GROUP = 3 };
enum { FLAG_KERNARG = 1, FLAG_FINE = 2, FLAG_COARSE = 4, FLAG_EXTENDED_FINE = 8 };
enum { AGENT_POOL_ACCESS = 0, AGENT_POOL_LINK_HOPS = 1, AGENT_POOL_LINK_INFO = 2 };
enum { ACCESS_NEVER = 0, ACCESS_BY_DEFAULT = 1, ACCESS_ON_REQUEST = 2 };
enum { POINTER_UNKNOWN = 0, POINTER_HSA = 1, POINTER_LOCKED = 2, POINTER_GRAPHICS = 3, POINTER_IPC = 4, POINTER_RESERVED = 5, POINTER_VMEM = 6 };
enum { PERMISSION_NONE = 0, PERMISSION_READ = 1, PERMISSION_WRITE = 2, PERMISSION_BOTH = 3 };
enum { CONDITION_EQ = 0, CONDITION_NE = 1, CONDITION_LT = 2, CONDITION_GTE = 3 };
enum { EXTENSION_IMAGES = 1, EXTENSION_LOADER = 0x201 };
enum { PACKET_VENDOR = 0, PACKET_INVALID = 1, PACKET_KERNEL = 2, PACKET_BARRIER_AND = 3, PACKET_AGENT = 4, PACKET_BARRIER_OR = 5 };
enum { VENDOR_BARRIER_VALUE = 2 };
enum { SYMBOL_VARIABLE = 0, SYMBOL_KERNEL = 1 };
enum { /* hsa_executable_symbol_info_t */
    SYMBOL_TYPE = 0,
    SYMBOL_NAME_LENGTH = 1,
    SYMBOL_NAME = 2,
    SYMBOL_LINKAGE = 5,
    SYMBOL_IS_DEFINITION = 17,
    SYMBOL_VARIABLE_ADDRESS = 21,
    SYMBOL_VARIABLE_SIZE = 9,
    SYMBOL_AGENT = 20,
    SYMBOL_KERNEL_OBJECT = 22,
    SYMBOL_KERNARG_SIZE = 11,
    SYMBOL_KERNARG_ALIGNMENT = 12,
    SYMBOL_GROUP_SIZE = 13,
    SYMBOL_PRIVATE_SIZE = 14,
    SYMBOL_DYNAMIC_CALLSTACK = 15
};
enum { ISA_NAME_LENGTH = 0, ISA_NAME = 1 };
enum { LOADED_EXECUTABLE = 1, LOADED_KIND = 2, LOADED_AGENT = 3, LOADED_LOAD_BASE = 9, LOADED_LOAD_SIZE = 10 };

struct pointer_info { /* hsa_amd_pointer_info_t */
    uint32_t size, type;
    void *agent_base, *host_base;
    size_t bytes;
    void *user_data;
    agent_t owner;
    uint32_t global_flags;
    bool registered; /* since 6.2: only written when `size` reaches it */
};

struct access_desc { /* hsa_amd_memory_access_desc_t */
    uint32_t permissions;
    agent_t agent;
};

struct svm_attribute { /* hsa_amd_svm_attribute_pair_t */
    uint64_t attribute, value;
};

struct link_info { /* hsa_amd_memory_pool_link_info_t */
    uint32_t min_latency, max_latency, min_bandwidth, max_bandwidth;
    bool atomics32, atomics64, coherent;
    uint32_t type, numa_distance;
};

struct queue { /* hsa_queue_t */
    uint32_t type, features;
    void *base;
    signal_t doorbell;
    uint32_t size, reserved;
    uint64_t id;
};

struct pitched { /* hsa_pitched_ptr_t */
    void *base;
    size_t pitch, slice;
};

struct dim3 { /* hsa_dim3_t */
    uint32_t x, y, z;
};

struct image_descriptor { /* hsa_ext_image_descriptor_t */
    uint32_t geometry;
    size_t width, height, depth, array_size;
    uint32_t channel_type, channel_order;
};

struct image_info { /* hsa_ext_image_data_info_t */
    size_t size, alignment;
};

struct image_region { /* hsa_ext_image_region_t */
    struct dim3 offset, range;
};

struct ipc_handle { /* hsa_amd_ipc_memory_t */
    uint32_t word[8];
};

struct copy_time { /* hsa_amd_profiling_dispatch_time_t, hsa_amd_profiling_async_copy_time_t */
    uint64_t start, end;
};

#endif
