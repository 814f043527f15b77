/* Images: sizes, and handles that describe memory which the runtime allocated. Copies to and from an image treat it as rows, without any tiling. */
#include "mock.h"

struct image {
    uint32_t resource[64]; /* the runtime copies the first words into its kernels' arguments */
    char *data;
    size_t pitch, slice, element;
};
#define IMAGE(handle) ((struct image *)(uintptr_t)(handle))

static size_t channel_bytes(uint32_t type) {
    switch (type) {
    case 0: case 2: case 8: case 11: return 1;               /* 8 bits, normalised or not */
    case 1: case 3: case 9: case 12: case 14: return 2;      /* 16 bits, half included */
    case 5: case 6: return 2;                                /* 555, 565: all channels together */
    default: return 4;
    }
}

static size_t element_bytes(const struct image_descriptor *image) {
    if (image->channel_type >= 4 && image->channel_type <= 7) return channel_bytes(image->channel_type);
    switch (image->channel_order) {
    case 3: case 5: return 2 * channel_bytes(image->channel_type);                                     /* RG, RA */
    case 4: case 6: case 12: return 3 * channel_bytes(image->channel_type);                            /* RGX, RGB, SRGB */
    case 7: case 8: case 9: case 10: case 11: case 13: case 14: case 15: return 4 * channel_bytes(image->channel_type); /* four channels */
    default: return channel_bytes(image->channel_type);
    }
}

static size_t at_least_one(size_t count) { return count ? count : 1; }

static void layout(const struct image_descriptor *image, size_t row, size_t slice, struct image *out) {
    out->element = element_bytes(image);
    out->pitch = row ? row : round_up(image->width * out->element, 256);
    out->slice = slice ? slice : out->pitch * at_least_one(image->height);
}

static size_t bytes(const struct image_descriptor *image, size_t row, size_t slice) {
    struct image plan;
    layout(image, row, slice, &plan);
    return round_up(plan.slice * at_least_one(image->depth) * at_least_one(image->array_size), PAGE);
}

EXPORT status_t hsa_ext_image_get_capability(agent_t agent, uint32_t geometry, const void *format, uint32_t *mask) {
    return (void)agent, (void)geometry, (void)format, *mask = 0x7f, OK;
}

EXPORT status_t hsa_ext_image_get_capability_with_layout(agent_t agent, uint32_t geometry, const void *format, uint32_t kind, uint32_t *mask) {
    return (void)kind, hsa_ext_image_get_capability(agent, geometry, format, mask);
}

EXPORT status_t hsa_ext_image_data_get_info_with_layout(agent_t agent, const struct image_descriptor *image, uint32_t access, uint32_t kind, size_t row,
                                                        size_t slice, struct image_info *out) {
    (void)agent, (void)access, (void)kind;
    if (!image || !out) return INVALID_ARGUMENT;
    *out = (struct image_info){.size = bytes(image, row, slice), .alignment = PAGE};
    return OK;
}

EXPORT status_t hsa_ext_image_data_get_info(agent_t agent, const struct image_descriptor *image, uint32_t access, struct image_info *out) {
    return hsa_ext_image_data_get_info_with_layout(agent, image, access, 0, 0, 0, out);
}

EXPORT status_t hsa_ext_image_create_with_layout(agent_t agent, const struct image_descriptor *image, const void *data, uint32_t access, uint32_t kind,
                                                 size_t row, size_t slice, image_t *out) {
    (void)agent, (void)access, (void)kind;
    if (!image || !data || !out) return INVALID_ARGUMENT;
    struct image *one = aligned_alloc(256, round_up(sizeof *one, 256));
    if (!one) return OUT_OF_RESOURCES;
    memset(one, 0, sizeof *one);
    layout(image, row, slice, one);
    one->data = (char *)(uintptr_t)data;
    *out = (uintptr_t)one;
    return OK;
}

EXPORT status_t hsa_ext_image_create(agent_t agent, const struct image_descriptor *image, const void *data, uint32_t access, image_t *out) {
    return hsa_ext_image_create_with_layout(agent, image, data, access, 0, 0, 0, out);
}

EXPORT status_t hsa_amd_image_create(agent_t agent, const struct image_descriptor *image, const void *layout_words, const void *data, uint32_t access,
                                     image_t *out) {
    return (void)layout_words, hsa_ext_image_create_with_layout(agent, image, data, access, 0, 0, 0, out);
}

EXPORT status_t hsa_ext_image_destroy(agent_t agent, image_t image) { return (void)agent, free(IMAGE(image)), OK; }

/* Rows between linear memory and an image. */
static void transfer(struct image *image, char *linear, size_t row, size_t slice, const struct image_region *region, bool into) {
    size_t width = region->range.x * image->element;
    linear = host_address(linear);
    if (!row) row = width;
    if (!slice) slice = row * at_least_one(region->range.y);
    for (uint32_t z = 0; z < at_least_one(region->range.z); z++)
        for (uint32_t y = 0; y < at_least_one(region->range.y); y++) {
            char *there = image->data + (region->offset.z + z) * image->slice + (region->offset.y + y) * image->pitch + region->offset.x * image->element;
            char *here = linear + z * slice + y * row;
            memmove(into ? there : here, into ? here : there, width);
        }
}

EXPORT status_t hsa_ext_image_import(agent_t agent, const void *from, size_t row, size_t slice, image_t image, const struct image_region *region) {
    (void)agent;
    transfer(IMAGE(image), (char *)(uintptr_t)from, row, slice, region, true);
    return OK;
}

EXPORT status_t hsa_ext_image_export(agent_t agent, image_t image, void *to, size_t row, size_t slice, const struct image_region *region) {
    (void)agent;
    transfer(IMAGE(image), to, row, slice, region, false);
    return OK;
}

EXPORT status_t hsa_ext_image_copy(agent_t agent, image_t from, const struct dim3 *from_offset, image_t to, const struct dim3 *to_offset,
                                   const struct dim3 *range) {
    (void)agent;
    struct image *source = IMAGE(from);
    char *start = source->data + from_offset->z * source->slice + from_offset->y * source->pitch + from_offset->x * source->element;
    transfer(IMAGE(to), start, source->pitch, source->slice, &(struct image_region){*to_offset, *range}, true);
    return OK;
}

EXPORT status_t hsa_ext_image_clear(agent_t agent, image_t image, const void *data, const struct image_region *region) {
    return (void)agent, (void)image, (void)data, (void)region, OK;
}

static status_t sampler_new(sampler_t *out) {
    void *words = aligned_alloc(256, 256);
    if (!words) return OUT_OF_RESOURCES;
    memset(words, 0, 256);
    *out = (uintptr_t)words;
    return OK;
}

EXPORT status_t hsa_ext_sampler_create(agent_t agent, const void *sampler, sampler_t *out) { return (void)agent, (void)sampler, sampler_new(out); }
EXPORT status_t hsa_ext_sampler_create_v2(agent_t agent, const void *sampler, sampler_t *out) { return (void)agent, (void)sampler, sampler_new(out); }
EXPORT status_t hsa_ext_sampler_destroy(agent_t agent, sampler_t sampler) { return (void)agent, free((void *)(uintptr_t)sampler), OK; }

/* The image extension's table, in the order of hsa_ext_images_1_pfn_t. */
void *const image_table[] = {hsa_ext_image_get_capability,
                             hsa_ext_image_data_get_info,
                             hsa_ext_image_create,
                             hsa_ext_image_destroy,
                             hsa_ext_image_copy,
                             hsa_ext_image_import,
                             hsa_ext_image_export,
                             hsa_ext_image_clear,
                             hsa_ext_sampler_create,
                             hsa_ext_sampler_destroy,
                             hsa_ext_image_get_capability_with_layout,
                             hsa_ext_image_data_get_info_with_layout,
                             hsa_ext_image_create_with_layout,
                             hsa_ext_sampler_create_v2};
const size_t image_table_size = sizeof image_table;
