/* Types of HIP as the probes and the stand-in need them, written out: no header of one release serves all. */
#ifndef HIP_H
#define HIP_H

#include <stddef.h>

struct extent {
    size_t width, height, depth;
};
struct pitched {
    void *pointer;
    size_t pitch, xsize, ysize;
};
struct channel_desc {
    int x, y, z, w, kind;
};
struct array_desc {
    size_t width, height;
    int format;
    unsigned channels;
};
struct array3d_desc {
    size_t width, height, depth;
    int format;
    unsigned channels, flags;
};
struct location {
    int type, id;
};
struct pool_props { /* 88 bytes */
    int type, handle_types;
    struct location location;
    void *security;
    size_t max_size;
    unsigned char reserved[56];
};
struct access {
    struct location location;
    int flags;
};
struct alloc_params { /* 120 bytes */
    struct pool_props props;
    const struct access *access;
    size_t access_count, bytes;
    void *pointer;
};
struct node_params { /* 256 bytes */
    int type, reserved[3];
    union {
        struct alloc_params alloc;
        void *free_pointer;
        char rest[240];
    };
};

#endif
