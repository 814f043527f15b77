/* Refuses nothing and prints a dump, with text of another row's verdict: words are no refusal. And refuses host memory, which is nobody's quota. */
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) { fprintf(stderr, "libvrocm[%d]: loaded\n", getpid()); }
__attribute__((destructor)) static void dump(void) {
    fprintf(stderr, "PASS\nlibvrocm[%d]: counter hipMalloc calls=9 refused=9 failed=0\nlibvrocm[1]: counter hipMallocManaged calls=9 refused=9 failed=0\n", getpid());
}
int hipHostMalloc(void **pointer, size_t size, unsigned flags) {
    (void)pointer, (void)size, (void)flags;
    return 2;
}
