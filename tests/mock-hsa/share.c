/* Memory that somebody else allocated, and managed memory: IPC, dma-bufs, graphics interop, SVM attributes. None of it is accounted to who imports it.
 *
 * Anonymous memory cannot be shared afterwards, so an attached range holds a copy of what was there when it was attached. */
#include "mock.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define IPC_MAGIC 0x6d6f636bu

static status_t insert(char *base, size_t size, size_t mapped, uint32_t type, int card) {
    struct range *range = calloc(1, sizeof *range);
    if (!range) return OUT_OF_RESOURCES;
    *range = (struct range){.base = base, .size = size, .type = type, .card = card, .global_flags = FLAG_COARSE, .mapped = mapped};
    pthread_mutex_lock(&memory_lock);
    bool inserted = range_insert(range);
    pthread_mutex_unlock(&memory_lock);
    if (!inserted) free(range);
    return inserted ? OK : ERROR;
}

static status_t detach(void *address, uint32_t type, const char *call) {
    pthread_mutex_lock(&memory_lock);
    struct range *range = range_find(address);
    bool found = range && range->base == address && range->type == type;
    if (found) {
        range_remove(range);
        munmap(range->base, range->mapped);
    }
    pthread_mutex_unlock(&memory_lock);
    record(found ? "unimport" : "refuse", call, found ? range->card : -1, found ? range->size : 0, 0, (uintptr_t)address, found ? OK : INVALID_ARGUMENT);
    if (found) free(range);
    return found ? OK : INVALID_ARGUMENT;
}

EXPORT status_t hsa_amd_ipc_memory_create(void *address, size_t size, struct ipc_handle *out) {
    pthread_mutex_lock(&memory_lock);
    struct range *range = range_find(address);
    bool whole = range && range->base == address && range->type == POINTER_HSA && (range->size == size || round_up(range->size, PAGE) == size);
    int card = whole ? range->card : -1;
    pthread_mutex_unlock(&memory_lock);
    if (!whole) return INVALID_ARGUMENT;
    uint64_t word = (uintptr_t)address;
    *out = (struct ipc_handle){{word, word >> 32, getpid(), size, (uint64_t)size >> 32, card, IPC_MAGIC, 0}};
    record("export", "ipc_memory_create", card, size, 0, word, OK);
    return OK;
}

EXPORT status_t hsa_amd_ipc_memory_attach(const struct ipc_handle *handle, size_t size, uint32_t count, const agent_t *agents, void **out) {
    (void)count, (void)agents;
    const uint32_t *word = handle->word;
    uint64_t address = word[0] | (uint64_t)word[1] << 32, length = word[3] | (uint64_t)word[4] << 32;
    int card = (int32_t)word[5];
    if (word[6] != IPC_MAGIC || size > round_up(length, PAGE)) return INVALID_ARGUMENT;
    size_t mapped = round_up(length, PAGE);
    char *base = host_map(mapped, PAGE);
    if (!base) return OUT_OF_RESOURCES;
    struct iovec to = {base, length}, from = {(void *)(uintptr_t)address, length};
    if (process_vm_readv(word[2], &to, 1, &from, 1, 0) < 0) {
        munmap(base, mapped);
        record("refuse", "ipc_memory_attach", card, length, 0, address, INVALID_ARGUMENT);
        return INVALID_ARGUMENT; /* the process or its memory is gone */
    }
    status_t status = insert(base, length, mapped, POINTER_IPC, card);
    if (status) munmap(base, mapped);
    record(status ? "refuse" : "import", "ipc_memory_attach", card, length, 0, (uintptr_t)base, status);
    if (!status) *out = base;
    return status;
}

EXPORT status_t hsa_amd_ipc_memory_detach(void *address) { return detach(address, POINTER_IPC, "ipc_memory_detach"); }

EXPORT status_t hsa_amd_portable_export_dmabuf(const void *address, size_t size, int *out, uint64_t *offset) {
    pthread_mutex_lock(&memory_lock);
    struct range *range = range_find(address);
    bool inside = range && range->card >= 0 && (const char *)address + size <= range->base + round_up(range->size, PAGE);
    int card = inside ? range->card : -1;
    pthread_mutex_unlock(&memory_lock);
    if (!inside) return INVALID_AGENT;
    char name[32];
    snprintf(name, sizeof name, "mockhsa-card%d", card);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, size) || pwrite(fd, address, size, 0) < 0) {
        if (fd >= 0) close(fd);
        return OUT_OF_RESOURCES;
    }
    *out = fd;
    *offset = 0;
    record("export", "portable_export_dmabuf", card, size, 0, (uintptr_t)address, OK);
    return OK;
}

EXPORT status_t hsa_amd_portable_export_dmabuf_v2(const void *address, size_t size, int *out, uint64_t *offset, uint64_t flags) {
    (void)flags;
    return hsa_amd_portable_export_dmabuf(address, size, out, offset);
}

EXPORT status_t hsa_amd_portable_close_dmabuf(int fd) { return close(fd) ? RESOURCE_FREE : OK; }

EXPORT status_t hsa_amd_interop_map_buffer(uint32_t count, agent_t *agents, int fd, uint32_t flags, size_t *size, void **out, size_t *metadata_size,
                                           const void **metadata) {
    (void)flags;
    struct stat status;
    int card = -1;
    if (fstat(fd, &status) || !status.st_size) return ERROR;
    if (count && !agent_card(agents[0], &card)) return INVALID_AGENT;
    size_t mapped = round_up((size_t)status.st_size, PAGE);
    char *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) return ERROR;
    status_t result = insert(base, status.st_size, mapped, POINTER_GRAPHICS, card);
    record(result ? "refuse" : "import", "interop_map_buffer", card, status.st_size, 0, (uintptr_t)base, result);
    if (result) {
        munmap(base, mapped);
        return result;
    }
    *size = status.st_size;
    *out = base;
    if (metadata_size) *metadata_size = 0;
    if (metadata) *metadata = NULL;
    return OK;
}

EXPORT status_t hsa_amd_interop_unmap_buffer(void *address) { return detach(address, POINTER_GRAPHICS, "interop_unmap_buffer"); }

/* Managed memory shows here alone, and only that it is made; it is the program's own memory, so nothing is accounted. */
EXPORT status_t hsa_amd_svm_attributes_set(void *address, size_t size, struct svm_attribute *attributes, size_t count) {
    int card = 0;
    for (size_t i = 0; i < count; i++)
        if (attributes[i].value >= 16 && agent_card(attributes[i].value, &card)) break;
    if (card < 0) card = 0;
    bool fault = fault_meets("svm_attributes_set", card);
    record(fault ? "fault" : "managed", "svm_attributes_set", card, size, 0, (uintptr_t)address, fault ? OUT_OF_RESOURCES : OK);
    return fault ? OUT_OF_RESOURCES : OK;
}

EXPORT status_t hsa_amd_svm_attributes_get(void *address, size_t size, struct svm_attribute *attributes, size_t count) {
    (void)address, (void)size;
    for (size_t i = 0; i < count; i++) attributes[i].value = 0;
    return OK;
}
