/* Makes a code object: compile PROCESSOR SOURCE OUTPUT. Run under HIP 7.2.4 with its compiler; fixtures/README.md says when. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*function_t)();

static void *hiprtc;

static function_t entry(const char *name) {
    function_t found = (function_t)dlsym(hiprtc, name);
    if (!found) {
        fprintf(stderr, "compile: %s: absent\n", name);
        exit(3);
    }
    return found;
}

int main(int count, char **arguments) {
    if (count != 4 || !(hiprtc = dlopen("libhiprtc.so.7", RTLD_NOW))) {
        fprintf(stderr, "compile: %s\n", count != 4 ? "usage: compile PROCESSOR SOURCE OUTPUT" : dlerror());
        return 2;
    }
    char source[1 << 16] = "", architecture[64];
    FILE *in = fopen(arguments[2], "r");
    if (!in || !fread(source, 1, sizeof source - 1, in)) return 2;
    snprintf(architecture, sizeof architecture, "--offload-arch=%s", arguments[1]);
    /* Without an identity of the compilation, which would differ each time. The fourth format is the oldest that this compiler makes and the newest that HIP 5.2 reads. */
    const char *options[] = {architecture, "-mcode-object-version=4", "-fuse-cuid=none"};
    void *program = NULL;
    size_t size = 0;
    int status = entry("hiprtcCreateProgram")(&program, source, "module.hip", 0, NULL, NULL);
    if (!status) status = entry("hiprtcCompileProgram")(program, 3, options);
    if (status) {
        char log[1 << 16] = "";
        entry("hiprtcGetProgramLog")(program, log);
        fprintf(stderr, "compile: status %d\n%s", status, log);
        return 1;
    }
    entry("hiprtcGetCodeSize")(program, &size);
    char *code = malloc(size);
    entry("hiprtcGetCode")(program, code);
    FILE *out = fopen(arguments[3], "w");
    return out && fwrite(code, 1, size, out) == size && !fclose(out) ? 0 : 1;
}
