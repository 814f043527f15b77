/* Virtual memory: addresses reserved, handles of physical memory, and what maps one to the other.
 *
 * A handle lives as long as somebody refers to it or maps it, as in ROCr: released while mapped, it goes with the last mapping. Its memory is a memfd that
 * stays mapped once more (`master`); mappings are copies of that one, so nothing depends on a descriptor that the program may close. */
#include "mock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct vmem {
    int card;
    uint64_t size;
    long references, uses;
    int fd; /* for export; -1 when there was none to be had */
    ino_t inode;
    char *master;
    bool imported; /* somebody else's memory: not accounted */
    pool_t pool;
    uint32_t type;
    struct vmem *next;
};

struct reservation {
    char *base;
    size_t size;
    long uses;
    struct reservation *next;
};

static struct vmem *handles;
static struct reservation *reservations; /* both under memory_lock */

static struct reservation *reservation_of(const char *address, size_t size) {
    for (struct reservation *one = reservations; one; one = one->next)
        if (address >= one->base && address + size <= one->base + one->size) return one;
    return NULL;
}

struct range vmem_reservation_at(const void *address) {
    const struct reservation *found = reservation_of(address, 1);
    return found ? (struct range){.base = found->base, .size = found->size} : (struct range){0};
}

static struct vmem *handle_of(vmem_t handle) {
    for (struct vmem *one = handles; one; one = one->next)
        if ((uintptr_t)one == handle) return one;
    return NULL;
}

/* `plain` memory (the flag HSA_AMD_VMEM_ADDRESS_NO_REGISTER) is ordinary memory of the process that may be used at once: managed memory is made so. */
static status_t reserve(void **out, size_t size, uint64_t wish, uint64_t align, bool plain) {
    if (!plain && !config.virtual_memory) return ERROR;
    if (!out || !size || size % PAGE || align % PAGE || (align & (align - 1))) return INVALID_ARGUMENT;
    struct reservation *one = calloc(1, sizeof *one);
    if (!one) return OUT_OF_RESOURCES;
    char *base = MAP_FAILED;
    if (wish && !plain)
        base = mmap((void *)(uintptr_t)wish, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (base == MAP_FAILED) {
        base = host_map(size, align);
        if (!base || (!plain && mprotect(base, size, PROT_NONE))) {
            free(one);
            return OUT_OF_RESOURCES;
        }
    }
    pthread_mutex_lock(&memory_lock);
    *one = (struct reservation){.base = base, .size = size, .next = reservations};
    reservations = one;
    pthread_mutex_unlock(&memory_lock);
    record("reserve", "vmem_address_reserve", -1, size, 0, (uintptr_t)base, OK);
    *out = base;
    return OK;
}

EXPORT status_t hsa_amd_vmem_address_reserve(void **out, size_t size, uint64_t wish, uint64_t flags) {
    return reserve(out, size, wish, 0, flags & 1);
}

EXPORT status_t hsa_amd_vmem_address_reserve_align(void **out, size_t size, uint64_t wish, uint64_t align, uint64_t flags) {
    return reserve(out, size, wish, align, flags & 1);
}

EXPORT status_t hsa_amd_vmem_address_free(void *address, size_t size) {
    status_t status = INVALID_ALLOCATION;
    pthread_mutex_lock(&memory_lock);
    for (struct reservation **link = &reservations; *link; link = &(*link)->next) {
        struct reservation *one = *link;
        if (one->base != address) continue;
        status = one->size != size ? INVALID_ARGUMENT : one->uses ? RESOURCE_FREE : OK;
        if (status) break;
        *link = one->next;
        munmap(one->base, one->size);
        free(one);
        break;
    }
    pthread_mutex_unlock(&memory_lock);
    record(status ? "refuse" : "unreserve", "vmem_address_free", -1, size, 0, (uintptr_t)address, status);
    return status;
}

/* A descriptor above those that programs count on; the low one goes. */
static int high_descriptor(int fd) {
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 200);
    close(fd);
    return high;
}

static status_t create(int card, size_t size, struct vmem **out) {
    struct vmem *one = calloc(1, sizeof *one);
    char name[32];
    snprintf(name, sizeof name, "mockhsa-card%d", card);
    int fd = one ? memfd_create(name, MFD_CLOEXEC) : -1;
    struct stat status;
    char *master = MAP_FAILED;
    if (fd >= 0 && !ftruncate(fd, size) && !fstat(fd, &status)) master = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (master == MAP_FAILED) {
        if (fd >= 0) close(fd);
        free(one);
        return OUT_OF_RESOURCES;
    }
    *one = (struct vmem){.card = card, .size = size, .references = 1, .fd = high_descriptor(fd), .inode = status.st_ino, .master = master};
    *out = one;
    return OK;
}

EXPORT status_t hsa_amd_vmem_handle_create(pool_t pool, size_t size, uint32_t type, uint64_t flags, vmem_t *out) {
    (void)flags;
    int card;
    if (!config.virtual_memory) return ERROR;
    if (!size || !out || type > 1) return INVALID_ARGUMENT;
    enum pool_kind kind = pool_kind_of(pool, &card);
    if (kind == POOL_NONE || kind == POOL_LDS || size % PAGE) return INVALID_ARGUMENT;
    if (card >= 0 && size > config.vram) return INVALID_ALLOCATION;
    const char *call = "vmem_handle_create";
    if (fault_meets(call, card)) {
        record("fault", call, card, size, 0, 0, OUT_OF_RESOURCES);
        return OUT_OF_RESOURCES;
    }
    struct vmem *one = NULL;
    status_t status = card >= 0 && !account_take(card, size, size) ? OUT_OF_RESOURCES : OK;
    if (!status) {
        status = create(card, size, &one);
        if (status && card >= 0) account_give(card, size, size);
    }
    if (status) {
        record("refuse", call, card, size, 0, 0, status);
        return status;
    }
    one->pool = pool;
    one->type = type;
    pthread_mutex_lock(&memory_lock);
    one->next = handles;
    handles = one;
    record("alloc", call, card, size, size, (uintptr_t)one, OK);
    pthread_mutex_unlock(&memory_lock);
    *out = (uintptr_t)one;
    delay_allocation(card);
    return OK;
}

/* Under memory_lock: the handle goes when nobody refers to it and nothing maps it. */
static void settle(struct vmem *one, const char *call) {
    if (one->references || one->uses) return;
    struct vmem **link = &handles;
    while (*link != one) link = &(*link)->next;
    *link = one->next;
    record(one->imported ? "unimport" : "free", call, one->card, one->size, one->imported ? 0 : one->size, (uintptr_t)one, OK);
    munmap(one->master, one->size);
    if (one->fd >= 0) {
        /* The number may be somebody else's by now. */
        struct stat status;
        if (!fstat(one->fd, &status) && status.st_ino == one->inode) close(one->fd);
    }
    if (!one->imported && one->card >= 0) account_give(one->card, one->size, one->size);
    free(one);
}

EXPORT status_t hsa_amd_vmem_handle_release(vmem_t handle) {
    pthread_mutex_lock(&memory_lock);
    struct vmem *one = handle_of(handle);
    status_t status = one && one->references ? OK : INVALID_ALLOCATION;
    if (status) {
        record("refuse", "vmem_handle_release", -1, 0, 0, handle, status);
    } else {
        one->references--;
        record("release", "vmem_handle_release", one->card, one->size, 0, handle, OK);
        settle(one, "vmem_handle_release");
    }
    pthread_mutex_unlock(&memory_lock);
    return status;
}

static status_t map(char *address, size_t size, size_t offset, vmem_t handle) {
    struct reservation *place = reservation_of(address, size);
    struct vmem *one = handle_of(handle);
    if (!place || !one || !size || offset + size > one->size) return INVALID_ARGUMENT;
    struct range *range = calloc(1, sizeof *range);
    if (!range) return OUT_OF_RESOURCES;
    *range = (struct range){.base = address, .size = size, .type = POINTER_VMEM, .card = one->card, .global_flags = FLAG_COARSE, .vmem = one};
    if (!range_insert(range)) {
        free(range);
        return INVALID_ARGUMENT; /* something is mapped there */
    }
    if (mremap(one->master + offset, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, address) != address || mprotect(address, size, PROT_NONE)) {
        range_remove(range);
        free(range);
        return ERROR;
    }
    place->uses++;
    one->uses++;
    return OK;
}

EXPORT status_t hsa_amd_vmem_map(void *address, size_t size, size_t offset, vmem_t handle, uint64_t flags) {
    (void)flags;
    pthread_mutex_lock(&memory_lock);
    status_t status = map(address, size, offset, handle);
    struct vmem *one = handle_of(handle);
    record(status ? "refuse" : "map", "vmem_map", one ? one->card : -1, size, 0, handle, status);
    pthread_mutex_unlock(&memory_lock);
    return status;
}

EXPORT status_t hsa_amd_vmem_unmap(void *address, size_t size) {
    pthread_mutex_lock(&memory_lock);
    struct range *range = range_find(address);
    bool found = range && range->type == POINTER_VMEM && range->base == address;
    status_t status = !found ? INVALID_ALLOCATION : range->size != size ? INVALID_ARGUMENT : OK;
    record(status ? "refuse" : "unmap", "vmem_unmap", found ? range->card : -1, size, 0, found ? (uintptr_t)range->vmem : 0, status);
    if (!status) {
        mmap(address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        reservation_of(address, size)->uses--;
        range->vmem->uses--;
        range_remove(range);
        settle(range->vmem, "vmem_unmap");
        free(range);
    }
    pthread_mutex_unlock(&memory_lock);
    return status;
}

EXPORT status_t hsa_amd_vmem_set_access(void *address, size_t size, const struct access_desc *access, size_t count) {
    int card;
    for (size_t i = 0; i < count; i++)
        if (!agent_card(access[i].agent, &card)) return INVALID_AGENT;
    status_t status = OK;
    pthread_mutex_lock(&memory_lock);
    if (!reservation_of(address, size)) status = INVALID_ARGUMENT;
    for (char *at = address; !status && at < (char *)address + size;) {
        struct range *range = range_find(at);
        if (!range || range->type != POINTER_VMEM || range->base != at) {
            status = INVALID_ALLOCATION;
            break;
        }
        /* The host reaches what any agent reaches: copies are made by the host here. */
        bool reachable = false;
        for (size_t i = 0; i < count; i++) {
            agent_card(access[i].agent, &card);
            if (card >= 0) range->access[card] = access[i].permissions;
            reachable |= access[i].permissions != PERMISSION_NONE;
        }
        if (reachable) mprotect(range->base, range->size, PROT_READ | PROT_WRITE);
        at += range->size;
    }
    pthread_mutex_unlock(&memory_lock);
    return status;
}

EXPORT status_t hsa_amd_vmem_get_access(void *address, uint32_t *permissions, agent_t agent) {
    int card;
    *permissions = PERMISSION_NONE;
    pthread_mutex_lock(&memory_lock);
    struct range *range = range_find(address);
    status_t status = range && range->type == POINTER_VMEM ? OK : INVALID_ALLOCATION;
    if (!status && (!agent_card(agent, &card) || card < 0)) status = INVALID_AGENT;
    if (!status) *permissions = range->access[card];
    pthread_mutex_unlock(&memory_lock);
    return status;
}

EXPORT status_t hsa_amd_vmem_retain_alloc_handle(vmem_t *out, void *address) {
    pthread_mutex_lock(&memory_lock);
    struct range *range = range_find(address);
    bool found = range && range->type == POINTER_VMEM && range->base == address;
    if (found) {
        range->vmem->references++;
        *out = (uintptr_t)range->vmem;
    }
    record(found ? "retain" : "refuse", "vmem_retain_alloc_handle", found ? range->card : -1, 0, 0, found ? *out : 0, found ? OK : INVALID_ALLOCATION);
    pthread_mutex_unlock(&memory_lock);
    return found ? OK : INVALID_ALLOCATION;
}

EXPORT status_t hsa_amd_vmem_get_alloc_properties_from_handle(vmem_t handle, pool_t *pool, uint32_t *type) {
    pthread_mutex_lock(&memory_lock);
    struct vmem *one = handle_of(handle);
    if (one) {
        *pool = one->pool;
        *type = one->type;
    }
    pthread_mutex_unlock(&memory_lock);
    return one ? OK : INVALID_ALLOCATION;
}

EXPORT status_t hsa_amd_vmem_export_shareable_handle(int *out, vmem_t handle, uint64_t flags) {
    (void)flags;
    *out = -1;
    pthread_mutex_lock(&memory_lock);
    struct vmem *one = handle_of(handle);
    struct stat status;
    if (one && one->fd >= 0 && !fstat(one->fd, &status) && status.st_ino == one->inode) *out = dup(one->fd);
    pthread_mutex_unlock(&memory_lock);
    status_t result = *out >= 0 ? OK : one ? OUT_OF_RESOURCES : INVALID_ALLOCATION;
    record(result ? "refuse" : "export", "vmem_export_shareable_handle", one ? one->card : -1, one ? one->size : 0, 0, handle, result);
    return result;
}

/* The card whose memory the descriptor stands for: its name says so, whoever made it. -2: not one of ours. */
static int card_of_descriptor(int fd) {
    char path[64], name[128];
    int card;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, name, sizeof name - 1);
    if (length <= 0) return -2;
    name[length] = 0;
    return sscanf(name, "/memfd:mockhsa-card%d", &card) == 1 ? card : -2;
}

EXPORT status_t hsa_amd_vmem_import_shareable_handle(int fd, vmem_t *out) {
    struct stat status;
    int card = card_of_descriptor(fd);
    if (card == -2 || fstat(fd, &status)) return INCOMPATIBLE_ARGUMENTS;
    pthread_mutex_lock(&memory_lock);
    struct vmem *one = handles;
    while (one && one->inode != status.st_ino) one = one->next;
    bool known = one != NULL;
    if (known) {
        one->references++;
    } else if ((one = calloc(1, sizeof *one))) {
        char *master = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (master == MAP_FAILED) {
            free(one);
            one = NULL;
        } else {
            *one = (struct vmem){.card = card,
                                 .size = status.st_size,
                                 .references = 1,
                                 .fd = fcntl(fd, F_DUPFD_CLOEXEC, 200),
                                 .inode = status.st_ino,
                                 .master = master,
                                 .imported = true,
                                 .pool = card_pool(card),
                                 .next = handles};
            handles = one;
        }
    }
    if (one) *out = (uintptr_t)one;
    status_t result = one ? OK : OUT_OF_RESOURCES;
    record(result ? "refuse" : known ? "retain" : "import", "vmem_import_shareable_handle", card, status.st_size, 0, (uintptr_t)one, result);
    pthread_mutex_unlock(&memory_lock);
    return result;
}
