/* Calls HSA directly, as UCX and OpenCL do: hsa COMMAND…, or one command a line on standard input. Linked with libhsa-runtime64.so.1.
 *
 *   card,N  pool_allocate,SIZE[,FLAGS]  memory_allocate,SIZE  pool_free[,null]  memory_free
 *   vmem_create,SIZE  vmem_release[,0]  vmem_reserve,SIZE  vmem_map  vmem_access  vmem_retain  vmem_unmap  vmem_unreserve  vmem_export  vmem_import
 *   ipc_create,FILE  ipc_attach,FILE  ipc_detach  pool_size  region_size  available  pointer_info  load,FILE  load_file,FILE  load_old,FILE  load_part,FILE
 *   load_part_old,FILE  reader,FILE  reader_gone  readers,COUNT  load_reader  unload  queue,PRIVATE  soft_queue,PACKETS  queue_gone  sampling,BUFFER  sampling_id,BUFFER  sampling_gone  svm,SIZE  svm_none
 *   shut_down
 *
 * One line for each: `name status detail`, the status as a decimal number. What a call makes is kept, and the next that needs such a thing takes the newest. */
#include "../mock-hsa/abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

status_t hsa_init(void);
status_t hsa_iterate_agents(status_t (*)(agent_t, void *), void *);
status_t hsa_agent_get_info(agent_t, uint32_t, void *);
status_t hsa_amd_agent_iterate_memory_pools(agent_t, status_t (*)(pool_t, void *), void *);
status_t hsa_amd_memory_pool_get_info(pool_t, uint32_t, void *);
status_t hsa_amd_memory_pool_allocate(pool_t, size_t, uint32_t, void **);
status_t hsa_amd_memory_pool_free(void *);
status_t hsa_memory_allocate(pool_t, size_t, void **);
status_t hsa_memory_free(void *);
status_t hsa_amd_pointer_info(const void *, struct pointer_info *, void *(*)(size_t), uint32_t *, agent_t **);
status_t hsa_amd_vmem_handle_create(pool_t, size_t, uint32_t, uint64_t, vmem_t *);
status_t hsa_amd_vmem_handle_release(vmem_t);
status_t hsa_amd_vmem_address_reserve(void **, size_t, uint64_t, uint64_t);
status_t hsa_amd_vmem_address_free(void *, size_t);
status_t hsa_amd_vmem_map(void *, size_t, size_t, vmem_t, uint64_t);
status_t hsa_amd_vmem_unmap(void *, size_t);
status_t hsa_amd_vmem_set_access(void *, size_t, const struct access_desc *, size_t);
status_t hsa_amd_vmem_retain_alloc_handle(vmem_t *, void *);
status_t hsa_amd_vmem_export_shareable_handle(int *, vmem_t, uint64_t);
status_t hsa_amd_vmem_import_shareable_handle(int, vmem_t *);
status_t hsa_amd_ipc_memory_create(void *, size_t, struct ipc_handle *);
status_t hsa_amd_ipc_memory_attach(const struct ipc_handle *, size_t, uint32_t, const agent_t *, void **);
status_t hsa_amd_ipc_memory_detach(void *);
status_t hsa_code_object_reader_create_from_memory(const void *, size_t, reader_t *);
status_t hsa_executable_create_alt(uint32_t, uint32_t, const char *, executable_t *);
status_t hsa_executable_load_agent_code_object(executable_t, agent_t, reader_t, const char *, loaded_t *);
status_t hsa_executable_destroy(executable_t);
status_t hsa_region_get_info(pool_t, uint32_t, void *);
status_t hsa_code_object_reader_create_from_file(int, reader_t *);
status_t hsa_code_object_reader_destroy(reader_t);
status_t hsa_executable_load_code_object(executable_t, agent_t, uint64_t, const char *);
status_t hsa_queue_create(agent_t, uint32_t, uint32_t, void *, void *, uint32_t, uint32_t, struct queue **);
status_t hsa_soft_queue_create(pool_t, uint32_t, uint32_t, uint32_t, signal_t, struct queue **);
status_t hsa_queue_destroy(struct queue *);
status_t hsa_ven_amd_pcs_create(agent_t, uint32_t, uint32_t, size_t, size_t, size_t, void *, void *, uint64_t *);
status_t hsa_ven_amd_pcs_create_from_id(uint32_t, agent_t, uint32_t, uint32_t, size_t, size_t, size_t, void *, void *, uint64_t *);
status_t hsa_ven_amd_pcs_destroy(uint64_t);
status_t hsa_amd_svm_attributes_set(void *, size_t, struct svm_attribute *, size_t);
status_t hsa_system_get_extension_table(uint16_t, uint16_t, uint16_t, void *);
status_t hsa_system_get_major_extension_table(uint16_t, uint16_t, size_t, void *);
status_t hsa_shut_down(void);

static agent_t agents[16];
static int agent_count;
static int card;
static pool_t pool;

#define MOST 4096
static struct {
    void *value;
    size_t size;
} pointers[MOST];
static int pointer_count;
static vmem_t handles[MOST];
static int handle_count;
static void *reserved;
static size_t reserved_size, mapped_size;
static int exported = -1;
static void *attached;
static executable_t executable;
static reader_t reader;
static struct queue *queue;
static uint64_t session;
static char code[1 << 16];
static size_t code_size;

static void read_code(const char *path) {
    FILE *file = fopen(path, "r");
    code_size = file ? fread(code, 1, sizeof code, file) : 0;
    if (file) fclose(file);
    hsa_executable_create_alt(0, 0, NULL, &executable);
}

static status_t load_reader(void) { return hsa_executable_load_agent_code_object(executable, agents[card], reader, NULL, NULL); }

/* The sixth function of the loader's table opens a part of a file: here all of it. */
static status_t load_part(const char *path, bool old) {
    status_t (*table[16])(int, size_t, size_t, reader_t *) = {NULL};
    status_t status = old ? hsa_system_get_extension_table(EXTENSION_LOADER, 1, 3, table)
                          : hsa_system_get_major_extension_table(EXTENSION_LOADER, 1, sizeof table, table);
    FILE *file = fopen(path, "r");
    hsa_executable_create_alt(0, 0, NULL, &executable);
    if (file && !fseek(file, 0, SEEK_END) && status == OK) status = table[5](fileno(file), 0, ftell(file), &reader);
    if (file) fclose(file);
    return status == OK ? load_reader() : status;
}

/* Opens a code object and closes it again, each time at another address: the place of the last one is taken meanwhile. */
static status_t open_and_close(size_t count) {
    status_t status = OK;
    while (count-- && status == OK) {
        status = hsa_code_object_reader_create_from_memory(code, code_size, &reader);
        if (status == OK) status = hsa_code_object_reader_destroy(reader);
        if (!malloc(24)) return ERROR;
    }
    return status;
}

/* Access of the card (0x200) or of nobody (0x202) to what was reserved. */
static status_t give_access(uint64_t attribute, size_t size) {
    struct svm_attribute one = {attribute, agents[card]};
    return hsa_amd_svm_attributes_set(reserved, size, &one, 1);
}

static status_t keep_agent(agent_t agent, void *unused) {
    uint32_t device;
    (void)unused;
    hsa_agent_get_info(agent, AGENT_DEVICE, &device);
    if (device == 1 && agent_count < 16) agents[agent_count++] = agent;
    return OK;
}

static status_t keep_pool(pool_t found, void *unused) {
    uint32_t segment, flags;
    (void)unused;
    hsa_amd_memory_pool_get_info(found, POOL_SEGMENT, &segment);
    hsa_amd_memory_pool_get_info(found, POOL_GLOBAL_FLAGS, &flags);
    if (segment != SEGMENT_GLOBAL || !(flags & FLAG_COARSE)) return OK;
    pool = found;
    return INFO_BREAK;
}

static size_t size_of(const char *text) {
    char *end;
    size_t value = strtoull(text, &end, 0);
    return *end == 'G' ? value << 30 : *end == 'M' ? value << 20 : *end == 'K' ? value << 10 : value;
}

static status_t run(const char *name, const char *argument, const char *second, char *detail, size_t room) {
    status_t status = INVALID_ARGUMENT;
    size_t size = size_of(argument);
    void *pointer = pointer_count ? pointers[pointer_count - 1].value : NULL;
    vmem_t handle = handle_count ? handles[handle_count - 1] : 0;
#define IS(word) else if (!strcmp(name, #word))
    if (!strcmp(name, "card")) {
        card = atoi(argument);
        if (card >= agent_count) return INVALID_AGENT;
        hsa_amd_agent_iterate_memory_pools(agents[card], keep_pool, NULL);
        return OK;
    }
    IS(pool_allocate) status = hsa_amd_memory_pool_allocate(pool, size, atoi(second), &pointer);
    IS(memory_allocate) status = hsa_memory_allocate(pool, size, &pointer);
    IS(pool_free) status = hsa_amd_memory_pool_free(strcmp(argument, "null") ? pointer : NULL);
    IS(memory_free) status = hsa_memory_free(pointer);
    IS(vmem_create) status = hsa_amd_vmem_handle_create(pool, size, 0, 0, &handle);
    IS(vmem_release) status = hsa_amd_vmem_handle_release(strcmp(argument, "0") ? handle : 0);
    IS(vmem_reserve) status = hsa_amd_vmem_address_reserve(&reserved, reserved_size = size, 0, 0);
    IS(vmem_unreserve) status = hsa_amd_vmem_address_free(reserved, reserved_size);
    IS(vmem_map) status = hsa_amd_vmem_map(reserved, mapped_size = reserved_size, 0, handle, 0);
    IS(vmem_unmap) status = hsa_amd_vmem_unmap(reserved, mapped_size);
    IS(vmem_access) {
        struct access_desc access = {PERMISSION_BOTH, agents[card]};
        status = hsa_amd_vmem_set_access(reserved, mapped_size, &access, 1);
        if (status == OK) memset(reserved, 1, mapped_size);
    }
    IS(vmem_retain) status = hsa_amd_vmem_retain_alloc_handle(&handle, reserved);
    IS(vmem_export) status = hsa_amd_vmem_export_shareable_handle(&exported, handle, 0);
    IS(vmem_import) status = hsa_amd_vmem_import_shareable_handle(exported, &handle);
    IS(ipc_create) {
        struct ipc_handle shared;
        status = hsa_amd_ipc_memory_create(pointer, pointers[pointer_count - 1].size, &shared);
        FILE *file = fopen(argument, "w");
        if (file) fwrite(&shared, sizeof shared, 1, file), fclose(file);
    }
    IS(ipc_attach) {
        struct ipc_handle shared = {0};
        FILE *file = fopen(argument, "r");
        if (file && fread(&shared, sizeof shared, 1, file) == 1)
            status = hsa_amd_ipc_memory_attach(&shared, shared.word[3], 1, &agents[card], &attached);
        if (file) fclose(file);
    }
    IS(ipc_detach) status = hsa_amd_ipc_memory_detach(attached);
    IS(pool_size) status = hsa_amd_memory_pool_get_info(pool, POOL_SIZE, &size);
    IS(available) status = hsa_agent_get_info(agents[card], AGENT_MEMORY_AVAIL, &size);
    IS(pointer_info) {
        struct pointer_info info = {.size = sizeof info};
        status = hsa_amd_pointer_info(pointer, &info, NULL, NULL, NULL);
        size = info.bytes;
        snprintf(detail, room, " type=%u", info.type);
    }
    IS(load) {
        read_code(argument);
        if (!hsa_code_object_reader_create_from_memory(code, code_size, &reader)) status = load_reader();
    }
    IS(load_file) {
        FILE *file = fopen(argument, "r");
        hsa_executable_create_alt(0, 0, NULL, &executable);
        if (file && !hsa_code_object_reader_create_from_file(fileno(file), &reader)) status = load_reader();
        if (file) fclose(file);
    }
    IS(load_old) {
        read_code(argument);
        status = hsa_executable_load_code_object(executable, agents[card], (uintptr_t)code, NULL);
    }
    IS(load_part) status = load_part(argument, false);
    IS(load_part_old) status = load_part(argument, true);
    IS(readers) status = open_and_close(size);
    IS(reader) {
        read_code(argument);
        status = hsa_code_object_reader_create_from_memory(code, code_size, &reader);
    }
    IS(reader_gone) status = hsa_code_object_reader_destroy(reader);
    IS(load_reader) status = load_reader();
    IS(region_size) status = hsa_region_get_info(pool, POOL_SIZE, &size);
    IS(queue) status = hsa_queue_create(agents[card], 64, 0, NULL, NULL, size, 0, &queue);
    IS(soft_queue) status = hsa_soft_queue_create(pool, size, 0, 0, 0, &queue);
    IS(queue_gone) status = hsa_queue_destroy(queue);
    IS(sampling) status = hsa_ven_amd_pcs_create(agents[card], 0, 0, 0, 0, size, NULL, NULL, &session);
    IS(sampling_id) status = hsa_ven_amd_pcs_create_from_id(1, agents[card], 0, 0, 0, 0, size, NULL, NULL, &session);
    IS(sampling_gone) status = hsa_ven_amd_pcs_destroy(session);
    IS(svm) {
        status = hsa_amd_vmem_address_reserve(&reserved, reserved_size = size, 0, 0);
        if (status == OK) status = give_access(0x200, size);
    }
    IS(svm_none) status = give_access(0x202, reserved_size);
    IS(shut_down) status = hsa_shut_down();
    IS(unload) status = hsa_executable_destroy(executable);
    else snprintf(detail, room, " unknown");
#undef IS
    if (strstr(name, "_allocate") && !status && pointer_count < MOST) {
        pointers[pointer_count].value = pointer;
        pointers[pointer_count++].size = size;
    }
    if ((!strcmp(name, "pool_free") || !strcmp(name, "memory_free")) && !status && pointer_count && strcmp(argument, "null")) pointer_count--;
    if ((!strcmp(name, "vmem_create") || !strcmp(name, "vmem_retain") || !strcmp(name, "vmem_import")) && !status && handle_count < MOST)
        handles[handle_count++] = handle;
    if (!strcmp(name, "vmem_release") && !status && handle_count) handle_count--;
    size_t used = strlen(detail);
    snprintf(detail + used, room - used, " size=%zu", size);
    return status;
}

static void command(char *text) {
    char *name = strsep(&text, ","), *argument = strsep(&text, ","), *second = strsep(&text, ","), detail[256] = "";
    status_t status = run(name, argument ? argument : "", second ? second : "0", detail, sizeof detail);
    printf("%s %u%s\n", name, status, detail);
    fflush(stdout);
}

int main(int count, char **values) {
    if (hsa_init() != OK || hsa_iterate_agents(keep_agent, NULL) != OK || !agent_count) return 3;
    hsa_amd_agent_iterate_memory_pools(agents[0], keep_pool, NULL);
    for (int i = 1; i < count; i++) command(values[i]);
    char line[512];
    while (count == 1 && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        command(line);
    }
    printf("end 0\n");
    return 0;
}
