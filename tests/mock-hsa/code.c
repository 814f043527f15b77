/* Code objects: read from memory, loaded segment by segment into memory of a card, which is accounted as ROCr takes it: up to the end of the segments, in
 * pages. Symbols come from the dynamic symbol table. Nothing is relocated: no kernel runs. */
#include "mock.h"

#include <elf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct reader {
    const char *data;
    size_t size;
    bool mapped;
};

struct symbol {
    char *name;
    uint64_t address, size;
    bool kernel;
    int card;
    struct symbol *next;
};

struct loaded {
    struct executable *executable;
    int card;
    char *base;
    uint64_t span, lowest;
    struct loaded *next;
};

struct executable {
    struct loaded *loaded;
    struct symbol *symbols;
    struct executable *next;
};
static struct executable *executables;
static pthread_mutex_t code_lock = PTHREAD_MUTEX_INITIALIZER;

#define READER(handle) ((struct reader *)(uintptr_t)(handle))
#define EXECUTABLE(handle) ((struct executable *)(uintptr_t)(handle))
#define SYMBOL(handle) ((struct symbol *)(uintptr_t)(handle))

static status_t reader_new(const void *data, size_t size, bool mapped, reader_t *out) {
    struct reader *one = malloc(sizeof *one);
    if (!one) return OUT_OF_RESOURCES;
    *one = (struct reader){data, size, mapped};
    *out = (uintptr_t)one;
    return OK;
}

EXPORT status_t hsa_code_object_reader_create_from_memory(const void *data, size_t size, reader_t *out) {
    return data && size && out ? reader_new(data, size, false, out) : INVALID_ARGUMENT;
}

EXPORT status_t hsa_code_object_reader_create_from_file(int file, reader_t *out) {
    struct stat status;
    if (fstat(file, &status) || !status.st_size) return INVALID_ARGUMENT;
    void *data = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    return data == MAP_FAILED ? OUT_OF_RESOURCES : reader_new(data, status.st_size, true, out);
}

EXPORT status_t hsa_code_object_reader_destroy(reader_t reader) {
    if (READER(reader)->mapped) munmap((void *)(uintptr_t)READER(reader)->data, READER(reader)->size);
    free(READER(reader));
    return OK;
}

EXPORT status_t hsa_executable_create_alt(uint32_t profile, uint32_t rounding, const char *options, executable_t *out) {
    (void)profile, (void)rounding, (void)options;
    struct executable *one = calloc(1, sizeof *one);
    if (!one) return OUT_OF_RESOURCES;
    pthread_mutex_lock(&code_lock);
    one->next = executables;
    executables = one;
    pthread_mutex_unlock(&code_lock);
    *out = (uintptr_t)one;
    return OK;
}

EXPORT status_t hsa_executable_create(uint32_t profile, uint32_t state, const char *options, executable_t *out) {
    return (void)state, hsa_executable_create_alt(profile, 0, options, out);
}

EXPORT status_t hsa_executable_destroy(executable_t executable) {
    struct executable *one = EXECUTABLE(executable);
    if (!one) return INVALID_EXECUTABLE;
    pthread_mutex_lock(&code_lock);
    for (struct executable **link = &executables; *link; link = &(*link)->next) {
        if (*link != one) continue;
        *link = one->next;
        break;
    }
    pthread_mutex_unlock(&code_lock);
    while (one->symbols) {
        struct symbol *symbol = one->symbols;
        one->symbols = symbol->next;
        free(symbol->name);
        free(symbol);
    }
    while (one->loaded) {
        struct loaded *loaded = one->loaded;
        one->loaded = loaded->next;
        memory_free(loaded->base, "executable_destroy");
        free(loaded);
    }
    free(one);
    return OK;
}

EXPORT status_t hsa_executable_freeze(executable_t executable, const char *options) { return (void)executable, (void)options, OK; }
EXPORT status_t hsa_executable_validate(executable_t executable, uint32_t *result) { return (void)executable, *result = 0, OK; }

/* A place in the loaded image, or NULL when it is not all inside. */
static char *inside(const struct loaded *loaded, uint64_t address, uint64_t size) {
    uint64_t offset = address - loaded->lowest;
    return offset <= loaded->span && size <= loaded->span - offset ? loaded->base + offset : NULL;
}

/* The largest symbol index that a GNU hash table names, plus one. */
static uint64_t count_of_gnu_hash(const struct loaded *loaded, uint64_t table) {
    const uint32_t *head = (uint32_t *)inside(loaded, table, 16);
    if (!head) return 0;
    uint64_t buckets_at = table + 16 + head[2] * 8ull, most = 0;
    const uint32_t *buckets = (uint32_t *)inside(loaded, buckets_at, head[0] * 4ull);
    if (!buckets) return 0;
    for (uint32_t i = 0; i < head[0]; i++)
        if (buckets[i] > most) most = buckets[i];
    if (most < head[1]) return head[1];
    for (uint64_t chain_at = buckets_at + head[0] * 4ull;; most++) {
        const uint32_t *chain = (uint32_t *)inside(loaded, chain_at + (most - head[1]) * 4, 4);
        if (!chain || *chain & 1) return most + 1;
    }
}

static void read_symbols(struct executable *executable, const struct loaded *loaded, uint64_t dynamic, uint64_t size) {
    uint64_t table = 0, strings = 0, strings_size = 0, hash = 0, gnu_hash = 0;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= size; at += sizeof(Elf64_Dyn)) {
        const Elf64_Dyn *entry = (Elf64_Dyn *)inside(loaded, dynamic + at, sizeof *entry);
        if (!entry || entry->d_tag == DT_NULL) break;
        if (entry->d_tag == DT_SYMTAB) table = entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRSZ) strings_size = entry->d_un.d_val;
        if (entry->d_tag == DT_HASH) hash = entry->d_un.d_ptr;
        if (entry->d_tag == DT_GNU_HASH) gnu_hash = entry->d_un.d_ptr;
    }
    const uint32_t *chains = hash ? (uint32_t *)inside(loaded, hash, 8) : NULL;
    uint64_t count = chains ? chains[1] : gnu_hash ? count_of_gnu_hash(loaded, gnu_hash) : 0;
    const char *names = inside(loaded, strings, strings_size);
    for (uint64_t i = 1; names && i < count; i++) {
        const Elf64_Sym *symbol = (Elf64_Sym *)inside(loaded, table + i * sizeof *symbol, sizeof *symbol);
        if (!symbol) return;
        if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_name >= strings_size) continue;
        char *address = inside(loaded, symbol->st_value, symbol->st_size);
        struct symbol *one = address ? calloc(1, sizeof *one) : NULL;
        if (!one) continue;
        one->name = strndup(names + symbol->st_name, strings_size - symbol->st_name);
        if (!one->name) {
            free(one);
            continue;
        }
        size_t length = strlen(one->name);
        one->kernel = length > 3 && !strcmp(one->name + length - 3, ".kd");
        one->address = (uintptr_t)address;
        one->size = symbol->st_size;
        one->card = loaded->card;
        one->next = executable->symbols;
        executable->symbols = one;
    }
}

/* Memory of the card for what is loaded next. */
static status_t take(struct executable *executable, int card, uint64_t size, uint64_t lowest) {
    struct loaded *loaded = calloc(1, sizeof *loaded);
    if (!loaded) return OUT_OF_RESOURCES;
    *loaded = (struct loaded){.executable = executable, .card = card, .span = size, .lowest = lowest, .next = executable->loaded};
    status_t status = device_allocate(card, size, false, FLAG_COARSE, "load_agent_code_object", (void **)&loaded->base);
    if (status) {
        free(loaded);
        return status;
    }
    executable->loaded = loaded;
    return OK;
}

/* The first version of code objects has a segment each for variables, constants and code of a card, and memory for each. */
static bool is_piece(const Elf64_Phdr *segment) { return segment->p_type > PT_LOOS && segment->p_type <= PT_LOOS + 3 && segment->p_memsz; }

static status_t load(struct executable *executable, int card, const char *data, size_t size) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)data;
    if (size < sizeof *header || memcmp(data, ELFMAG, SELFMAG) || header->e_ident[EI_CLASS] != ELFCLASS64) return INVALID_CODE_OBJECT;
    if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phoff > size || header->e_phnum > (size - header->e_phoff) / sizeof(Elf64_Phdr))
        return INVALID_CODE_OBJECT;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(data + header->e_phoff);
    uint64_t lowest = UINT64_MAX, end = 0;
    int pieces = 0;
    for (int i = 0; i < header->e_phnum; i++) {
        const Elf64_Phdr *segment = &segments[i];
        pieces += is_piece(segment);
        if (segment->p_type != PT_LOAD) continue;
        if (segment->p_filesz > segment->p_memsz || segment->p_offset > size || segment->p_filesz > size - segment->p_offset) return INVALID_CODE_OBJECT;
        if (segment->p_vaddr + segment->p_memsz < segment->p_vaddr) return INVALID_CODE_OBJECT;
        if (segment->p_vaddr / PAGE * PAGE < lowest) lowest = segment->p_vaddr / PAGE * PAGE;
        if (segment->p_vaddr + segment->p_memsz > end) end = segment->p_vaddr + segment->p_memsz;
    }
    if (pieces) {
        status_t status = OK;
        for (int i = 0; !status && i < header->e_phnum; i++)
            if (is_piece(&segments[i])) status = take(executable, card, segments[i].p_memsz, segments[i].p_vaddr);
        return status;
    }
    if (end <= lowest) return INVALID_CODE_OBJECT;
    /* As ROCr: up to the end, wherever the first begins. */
    status_t status = take(executable, card, end, lowest);
    if (status) return status;
    struct loaded *loaded = executable->loaded;
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD) memcpy(loaded->base + segments[i].p_vaddr - lowest, data + segments[i].p_offset, segments[i].p_filesz);
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_DYNAMIC) read_symbols(executable, loaded, segments[i].p_vaddr, segments[i].p_memsz);
    return OK;
}

EXPORT status_t hsa_executable_load_agent_code_object(executable_t executable, agent_t agent, reader_t reader, const char *options, loaded_t *out) {
    (void)options;
    int card;
    if (!executable || !reader) return INVALID_ARGUMENT;
    if (!agent_card(agent, &card) || card < 0) return INVALID_AGENT;
    status_t status = load(EXECUTABLE(executable), card, READER(reader)->data, READER(reader)->size);
    /* As ROCr: a symbol is missed when the segments are there, and they stay until the executable ends. */
    if (!status && fault_meets("load_symbols", card)) status = VARIABLE_UNDEFINED;
    if (!status && out) *out = (uintptr_t)EXECUTABLE(executable)->loaded;
    return status;
}

/* Of HSA 1.0: the handle is the address of the file in memory, whose section headers are taken to come last, as linkers lay them. */
EXPORT status_t hsa_executable_load_code_object(executable_t executable, agent_t agent, uint64_t object, const char *options) {
    (void)options;
    int card;
    if (!executable || !object) return INVALID_ARGUMENT;
    if (!agent_card(agent, &card) || card < 0) return INVALID_AGENT;
    const Elf64_Ehdr *header = (Elf64_Ehdr *)(uintptr_t)object;
    return load(EXECUTABLE(executable), card, (const char *)header, header->e_shoff + header->e_shnum * sizeof(Elf64_Shdr));
}

EXPORT status_t hsa_executable_get_symbol_by_name(executable_t executable, const char *name, const agent_t *agent, symbol_t *out) {
    int card = -1;
    if (agent && !agent_card(*agent, &card)) return INVALID_AGENT;
    for (struct symbol *one = EXECUTABLE(executable)->symbols; one; one = one->next) {
        if (strcmp(one->name, name) || (agent && one->card != card)) continue;
        *out = (uintptr_t)one;
        return OK;
    }
    return INVALID_SYMBOL_NAME;
}

EXPORT status_t hsa_executable_get_symbol(executable_t executable, const char *module, const char *name, agent_t agent, int32_t convention, symbol_t *out) {
    (void)module, (void)convention;
    return hsa_executable_get_symbol_by_name(executable, name, &agent, out);
}

EXPORT status_t hsa_executable_iterate_symbols(executable_t executable, status_t (*callback)(executable_t, symbol_t, void *), void *data) {
    status_t status = OK;
    for (struct symbol *one = EXECUTABLE(executable)->symbols; one && !status; one = one->next) status = callback(executable, (uintptr_t)one, data);
    return status;
}

EXPORT status_t hsa_executable_iterate_agent_symbols(executable_t executable, agent_t agent, status_t (*callback)(executable_t, agent_t, symbol_t, void *),
                                                     void *data) {
    status_t status = OK;
    for (struct symbol *one = EXECUTABLE(executable)->symbols; one && !status; one = one->next)
        if (card_agent(one->card) == agent) status = callback(executable, agent, (uintptr_t)one, data);
    return status;
}

EXPORT status_t hsa_executable_symbol_get_info(symbol_t handle, uint32_t attribute, void *value) {
    const struct symbol *one = SYMBOL(handle);
    uint32_t descriptor[3] = {0}; /* of a kernel: group, private and argument bytes */
    if (one->kernel && one->size >= sizeof descriptor) memcpy(descriptor, (void *)(uintptr_t)one->address, sizeof descriptor);
    switch (attribute) {
    case SYMBOL_TYPE: *(uint32_t *)value = one->kernel ? SYMBOL_KERNEL : SYMBOL_VARIABLE; return OK;
    case SYMBOL_NAME_LENGTH: *(uint32_t *)value = strlen(one->name); return OK;
    case SYMBOL_NAME: memcpy(value, one->name, strlen(one->name)); return OK;
    case SYMBOL_LINKAGE: *(uint32_t *)value = 1; return OK;
    case SYMBOL_IS_DEFINITION: *(bool *)value = true; return OK;
    case SYMBOL_VARIABLE_ADDRESS:
    case SYMBOL_KERNEL_OBJECT: *(uint64_t *)value = one->address; return OK;
    case SYMBOL_VARIABLE_SIZE: *(uint32_t *)value = one->size; return OK;
    case SYMBOL_AGENT: *(uint64_t *)value = card_agent(one->card); return OK;
    case SYMBOL_GROUP_SIZE: *(uint32_t *)value = descriptor[0]; return OK;
    case SYMBOL_PRIVATE_SIZE: *(uint32_t *)value = descriptor[1]; return OK;
    case SYMBOL_KERNARG_SIZE: *(uint32_t *)value = descriptor[2]; return OK;
    case SYMBOL_KERNARG_ALIGNMENT: *(uint32_t *)value = 16; return OK;
    case SYMBOL_DYNAMIC_CALLSTACK: *(bool *)value = false; return OK;
    default: return INVALID_ARGUMENT;
    }
}

EXPORT status_t hsa_executable_agent_global_variable_define(executable_t executable, agent_t agent, const char *name, void *address) {
    return (void)executable, (void)agent, (void)name, (void)address, OK;
}

/* The loader extension's table, in the order of hsa_ven_amd_loader_1_03_pfn_t. */
static status_t query_host_address(const void *device, const void **host) { return *host = device, OK; }

static status_t query_segments(void *descriptors, size_t *count) { return (void)descriptors, *count = 0, OK; }

static struct loaded *loaded_at(const void *address, struct executable **of) {
    for (struct executable *one = executables; one; one = one->next)
        for (struct loaded *loaded = one->loaded; loaded; loaded = loaded->next)
            if ((const char *)address >= loaded->base && (const char *)address < loaded->base + loaded->span) return *of = one, loaded;
    return NULL;
}

static status_t query_executable(const void *address, executable_t *out) {
    struct executable *one = NULL;
    pthread_mutex_lock(&code_lock);
    loaded_at(address, &one);
    pthread_mutex_unlock(&code_lock);
    *out = (uintptr_t)one;
    return one ? OK : INVALID_ARGUMENT;
}

static status_t iterate_loaded(executable_t executable, status_t (*callback)(executable_t, loaded_t, void *), void *data) {
    status_t status = OK;
    for (struct loaded *one = EXECUTABLE(executable)->loaded; one && !status; one = one->next) status = callback(executable, (uintptr_t)one, data);
    return status;
}

static status_t loaded_info(loaded_t handle, uint32_t attribute, void *value) {
    const struct loaded *one = (struct loaded *)(uintptr_t)handle;
    switch (attribute) {
    case LOADED_EXECUTABLE: *(uint64_t *)value = (uintptr_t)one->executable; return OK;
    case LOADED_KIND: *(uint32_t *)value = 2; return OK;
    case LOADED_AGENT: *(uint64_t *)value = card_agent(one->card); return OK;
    case LOADED_LOAD_BASE: *(uint64_t *)value = (uintptr_t)one->base; return OK;
    case LOADED_LOAD_SIZE: *(uint64_t *)value = one->span; return OK;
    default: return INVALID_ARGUMENT;
    }
}

static status_t reader_of_slice(int file, size_t offset, size_t size, reader_t *out) {
    char *data = malloc(size);
    if (!data) return OUT_OF_RESOURCES;
    if (pread(file, data, size, offset) != (ssize_t)size) {
        free(data);
        return INVALID_ARGUMENT;
    }
    return reader_new(data, size, false, out); /* the copy stays as long as the process */
}

static status_t iterate_executables(status_t (*callback)(executable_t, void *), void *data) {
    status_t status = OK;
    pthread_mutex_lock(&code_lock);
    for (struct executable *one = executables; one && !status; one = one->next) status = callback((uintptr_t)one, data);
    pthread_mutex_unlock(&code_lock);
    return status;
}

void *const loader_table[] = {query_host_address, query_segments, query_executable, iterate_loaded, loaded_info, reader_of_slice, iterate_executables};
const size_t loader_table_size = sizeof loader_table;
