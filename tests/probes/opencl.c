/* A program on OpenCL: opencl LIBRARY SIZE. Says what the device has, makes a buffer of SIZE MiB, writes to it and gives it back: one `name value` a line. The
 * functions are declared here as cl.h does, so that nothing of OpenCL is needed to compile it. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_GPU = 1 << 2, MAX_ALLOC_SIZE = 0x1010, GLOBAL_SIZE = 0x101F, READ_WRITE = 1 };

static void *library;
#define CL(name) ((intptr_t(*)())find(#name))
static void *find(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        printf("%s absent\n", name);
        exit(3);
    }
    return found;
}

int main(int count, char **values) {
    if (count != 3 || !(library = dlopen(values[1], RTLD_NOW | RTLD_LOCAL))) {
        fprintf(stderr, "opencl: %s\n", count == 3 ? dlerror() : "LIBRARY SIZE");
        return 2;
    }
    size_t bytes = strtoull(values[2], NULL, 0) << 20;
    void *platform = NULL, *device = NULL;
    int status = CL(clGetPlatformIDs)(1, &platform, NULL);
    printf("platform %d\n", status);
    status = CL(clGetDeviceIDs)(platform, (uint64_t)DEVICE_GPU, 1, &device, NULL);
    printf("device %d\n", status);
    if (status) return 0;
    uint64_t size = 0;
    CL(clGetDeviceInfo)(device, GLOBAL_SIZE, sizeof size, &size, NULL);
    printf("global %llu\n", (unsigned long long)size);
    CL(clGetDeviceInfo)(device, MAX_ALLOC_SIZE, sizeof size, &size, NULL);
    printf("largest %llu\n", (unsigned long long)size);
    void *context = (void *)CL(clCreateContext)(NULL, 1, &device, NULL, NULL, &status);
    printf("context %d\n", status);
    void *queue = (void *)CL(clCreateCommandQueue)(context, device, (uint64_t)0, &status);
    printf("queue %d\n", status);
    void *buffer = (void *)CL(clCreateBuffer)(context, (uint64_t)READ_WRITE, bytes, NULL, &status);
    printf("buffer %d\n", status);
    if (status) return 0;
    /* Memory is taken at first use. */
    char byte = 1;
    status = CL(clEnqueueWriteBuffer)(queue, buffer, 1u, (size_t)0, sizeof byte, &byte, 0u, NULL, NULL);
    printf("write %d\n", status);
    fflush(stdout);
    getchar();
    printf("release %d\n", (int)CL(clReleaseMemObject)(buffer));
    fflush(stdout);
    getchar();
    return 0;
}
