/* The ground truth: what this process holds of each card, in the shared file where there is one, and a line for each call in the record. */
#include "account.h"
#include "mock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct account private_account = {.lock = PTHREAD_MUTEX_INITIALIZER, .slots_used = 1};
static struct account *account = &private_account;
static int own; /* our slot */
static pthread_once_t attached = PTHREAD_ONCE_INIT;
static bool shared;

/* The pid as the file's other users see it: /proc may belong to an outer namespace. */
static uint64_t visible_pid(void) {
    char text[32];
    ssize_t length = readlink("/proc/self", text, sizeof text - 1);
    if (length <= 0) return getpid();
    text[length] = 0;
    return strtoull(text, NULL, 10);
}

static uint64_t own_start(void) {
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    if (!file) return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    char *field = strrchr(text, ')');
    unsigned long long began = 0;
    if (!field || sscanf(field + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &began) != 1) return 0;
    return began;
}

/* A forked child holds nothing of a card: what its parent allocated stays the parent's. The mapping is not inherited. */
static void forget_after_fork(void) {
    private_account = (struct account){.lock = PTHREAD_MUTEX_INITIALIZER, .slots_used = 1};
    account = &private_account;
    shared = false;
    attached = (pthread_once_t)PTHREAD_ONCE_INIT;
}

/* Takes a slot and locks its byte. The mapping keeps the lock when the descriptor is closed, here or by the program. */
static void attach(void) {
    static bool fork_handled;
    if (!fork_handled) {
        fork_handled = true;
        pthread_atfork(NULL, NULL, forget_after_fork);
    }
    if (!config.shared[0]) return;
    int fd;
    struct account *file = account_open(config.shared, &fd);
    if (!file) {
        fprintf(stderr, "mock-hsa: %s: no shared file of this mock\n", config.shared);
        abort();
    }
    madvise(file, sizeof *file, MADV_DONTFORK);
    uint64_t pid = visible_pid(), start = own_start();
    account_lock(file);
    account_sweep(file, config.shared);
    for (int i = 0; i < ACCOUNT_SLOTS; i++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = account_byte(i), .l_len = 1};
        if (file->slot[i].pid || fcntl(fd, F_OFD_SETLK, &lock)) continue;
        memset(&file->slot[i], 0, sizeof file->slot[i]);
        file->slot[i].pid = pid;
        file->slot[i].start = start;
        if (file->slots_used < (uint64_t)i + 1) file->slots_used = i + 1;
        own = i;
        account = file;
        shared = true;
        break;
    }
    account_unlock(file);
    close(fd);
    if (!shared) {
        fprintf(stderr, "mock-hsa: %s: every slot is taken\n", config.shared);
        abort();
    }
}

static struct card_bytes sum(int card) {
    struct card_bytes total = {0};
    for (uint64_t i = 0; i < account->slots_used; i++) {
        total.asked += account->slot[i].card[card].asked;
        total.block += account->slot[i].card[card].block;
    }
    return total;
}

bool account_take(int card, uint64_t asked, uint64_t block) {
    pthread_once(&attached, attach);
    account_lock(account);
    struct card_bytes total = sum(card);
    uint64_t limit = config.limit[card];
    bool over = total.block + block > limit;
    bool highest = total.asked + asked > account->highest[card].asked || total.block + block > account->highest[card].block;
    if (shared && (over || highest)) {
        /* The dead count neither against the limit nor for the high-water mark. */
        account_sweep(account, config.shared);
        total = sum(card);
        over = total.block + block > limit;
    }
    struct card_bytes *mine = &account->slot[own].card[card];
    if (!over) {
        mine->asked += asked;
        mine->block += block;
        if (asked) mine->taken++;
        if (total.asked + asked > account->highest[card].asked) account->highest[card].asked = total.asked + asked;
        if (total.block + block > account->highest[card].block) account->highest[card].block = total.block + block;
    }
    account_unlock(account);
    return !over;
}

void account_give(int card, uint64_t asked, uint64_t block) {
    pthread_once(&attached, attach);
    account_lock(account);
    struct card_bytes *mine = &account->slot[own].card[card];
    mine->asked -= asked;
    mine->block -= block;
    if (asked) mine->given++;
    account_unlock(account);
}

uint64_t account_free(int card) {
    pthread_once(&attached, attach);
    account_lock(account);
    if (shared) account_sweep(account, config.shared);
    uint64_t used = sum(card).block;
    account_unlock(account);
    return used < config.limit[card] ? config.limit[card] - used : 0;
}

/* One write, so that the lines of several processes do not mix. The file is opened for each: the program may close descriptors that it does not know. */
void record(const char *kind, const char *call, int card, uint64_t asked, uint64_t block, uint64_t key, status_t status) {
    log_line("mock-hsa: %s %s card %d asked %llu block %llu key %llx status %x", kind, call, card, (unsigned long long)asked, (unsigned long long)block,
             (unsigned long long)key, status);
    if (!config.record[0]) return;
    char line[256];
    int length = snprintf(line, sizeof line, "%d\t%ld\t%s\t%s\t%d\t%llu\t%llu\t%llx\t%x\n", (int)getpid(), syscall(SYS_gettid), kind, call, card,
                          (unsigned long long)asked, (unsigned long long)block, (unsigned long long)key, status);
    int fd = open(config.record, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return;
    if (write(fd, line, length) != length) log_line("mock-hsa: the record is cut");
    close(fd);
}
