// A toy interposer: says each allocation of device memory and passes it on. One line per door; vrocm-audit says which lines are missing.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

struct extent {
    size_t width, height, depth;
};

#define WRAP(name, parameters, arguments)                                      \
    __attribute__((visibility("default"))) int name parameters                 \
    {                                                                          \
        int(*next) parameters = (int(*) parameters)dlsym(RTLD_NEXT, #name);    \
        dprintf(2, "toy-shim: %s\n", #name);                                   \
        return next ? next arguments : 1;                                      \
    }

WRAP(hipArray3DCreate, (void **array, const void *descriptor), (array, descriptor))
WRAP(hipArrayCreate, (void **array, const void *descriptor), (array, descriptor))
WRAP(hipExtMallocWithFlags, (void **memory, size_t size, unsigned flags), (memory, size, flags))
WRAP(hipMalloc, (void **memory, size_t size), (memory, size))
WRAP(hipMalloc3D, (void *pitched, struct extent extent), (pitched, extent))
WRAP(hipMalloc3DArray, (void **array, const void *format, struct extent extent, unsigned flags), (array, format, extent, flags))
WRAP(hipMallocArray, (void **array, const void *format, size_t width, size_t height, unsigned flags), (array, format, width, height, flags))
WRAP(hipMallocAsync, (void **memory, size_t size, void *stream), (memory, size, stream))
WRAP(hipMallocFromPoolAsync, (void **memory, size_t size, void *pool, void *stream), (memory, size, pool, stream))
WRAP(hipMallocMipmappedArray, (void **array, const void *format, struct extent extent, unsigned levels, unsigned flags), (array, format, extent, levels, flags))
WRAP(hipMallocPitch, (void **memory, size_t *pitch, size_t width, size_t height), (memory, pitch, width, height))
WRAP(hipMemAllocPitch, (void **memory, size_t *pitch, size_t width, size_t height, unsigned element), (memory, pitch, width, height, element))
WRAP(hipMemCreate, (void **handle, size_t size, const void *properties, unsigned long long flags), (handle, size, properties, flags))
WRAP(hipMipmappedArrayCreate, (void **array, void *descriptor, unsigned levels), (array, descriptor, levels))
