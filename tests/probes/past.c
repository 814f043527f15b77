/* Goes past a preload in the ways that none can close, one step per argument:
 *
 *   elsewhere FILE NAME    opens a library in a namespace of its own and looks a name up in it
 *   here FILE NAME         the same in the program's namespace
 *   deeply FILE NAME       the same with RTLD_DEEPBIND, calls bound when they are made
 *   beside FILE            opens a library in the namespace of what was opened last
 *   look NAME              looks a name up in what was opened last
 *   call SIZE              calls what was looked up last: hipMalloc if it is that, else int (*)(size_t)
 *   device                 opens /dev/kfd, as a thunk that is linked in statically does
 *   refused                from now on the driver answers as it does to a process that has not opened the device
 *   fork                   a child that ends by itself, refused by the driver
 *   leave                  ends without destructors
 *
 * With -DRUNTIME it is a stand-in for HIP that needs nothing, with -DPLUGIN a library that is linked with it (with -DEARLY=CALL its constructor does that),
 * with -DAUDITOR one for LD_AUDIT. */
#define _GNU_SOURCE
#include <stddef.h>

#if defined(RUNTIME)

static char memory[16];
int hipMalloc(void **pointer, size_t size) { return *pointer = memory, size == 0; }
int hipFree(void *pointer) { return pointer != memory; }
int hipGetDeviceCount(int *count) { return *count = 1, 0; }

#elif defined(PLUGIN)

int hipMalloc(void **, size_t);
int hipFree(void *);
#ifdef EARLY
__attribute__((constructor)) static void early(void) {
    void *pointer = NULL;
    EARLY;
}
#endif
int allocate(size_t size) {
    void *pointer;
    return hipMalloc(&pointer, size) || hipFree(pointer);
}

#elif defined(AUDITOR)

unsigned la_version(unsigned version) { return version; }

#else

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void refuse(void) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x80084b01, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EBADF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) perror("prctl"), _exit(5);
}

int main(int count, char **values) {
    void *handle = NULL, *found = NULL;
    const char *name = "";
    for (int i = 1; i < count; i++) {
        const char *what = values[i];
        int is_elsewhere = !strcmp(what, "elsewhere"), is_deep = !strcmp(what, "deeply");
        if ((is_elsewhere || is_deep || !strcmp(what, "here")) && i + 2 < count) {
            const char *file = values[++i];
            name = values[++i];
            if (is_elsewhere) handle = dlmopen(LM_ID_NEWLM, file, RTLD_NOW);
            else handle = dlopen(file, is_deep ? RTLD_LAZY | RTLD_DEEPBIND : RTLD_NOW);
            if (!handle) return printf("%s\n", dlerror()), 3;
            if (*name) printf("%s %s\n", name, (found = dlsym(handle, name)) ? "found" : dlerror());
        } else if (!strcmp(what, "beside") && i + 1 < count && handle) {
            Lmid_t space;
            if (dlinfo(handle, RTLD_DI_LMID, &space) || !dlmopen(space, values[++i], RTLD_NOW)) return printf("%s\n", dlerror()), 3;
        } else if (!strcmp(what, "look") && i + 1 < count && handle) {
            name = values[++i];
            printf("%s %s\n", name, (found = dlsym(handle, name)) ? "found" : dlerror());
        } else if (!strcmp(what, "call") && i + 1 < count && found) {
            size_t size = strtoul(values[++i], NULL, 0);
            void *pointer;
            int is_hip = !strcmp(name, "hipMalloc");
            printf("%s %d\n", name, is_hip ? ((int (*)(void **, size_t))found)(&pointer, size) : ((int (*)(size_t))found)(size));
        } else if (!strcmp(what, "device")) {
            if (open("/dev/kfd", O_RDWR | O_CLOEXEC) < 0) return perror("/dev/kfd"), 3;
        } else if (!strcmp(what, "refused")) {
            refuse();
        } else if (!strcmp(what, "fork")) {
            fflush(stdout);
            int status = 0, child = fork();
            if (!child) return refuse(), 0;
            if (waitpid(child, &status, 0) != child || status) return 4;
        } else if (!strcmp(what, "leave")) {
            fflush(stdout);
            _exit(0);
        } else {
            return 2;
        }
    }
    return 0;
}

#endif
