// Buffers and parts of them with all flags: what the platform answers.
#include "../include/case.h"

static const cl_mem_flags access_flags[] = {0, CL_MEM_READ_WRITE, CL_MEM_WRITE_ONLY, CL_MEM_READ_ONLY, CL_MEM_READ_WRITE | CL_MEM_READ_ONLY, CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY};
static const cl_mem_flags host_flags[] = {0, CL_MEM_HOST_WRITE_ONLY, CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS};
static const cl_mem_flags pointer_flags[] = {0, CL_MEM_USE_HOST_PTR, CL_MEM_ALLOC_HOST_PTR, CL_MEM_COPY_HOST_PTR, CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR, CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR, CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR, (cl_mem_flags)1 << 40};

#define EACH(name, list) for (size_t name = 0; name < sizeof list / sizeof *list; name++)

static cl_uint host_memory[64] __attribute__((aligned(128)));

static void show(cl_mem object, cl_mem parent) {
    cl_mem_flags flags = 0;
    size_t size = 0, offset = 99, length = 99;
    void *pointer = NULL;
    cl_uint maps = 99, references = 99;
    cl_mem_object_type type = 0;
    cl_mem associated = NULL;
    cl_mem_properties properties[4] = {9, 9, 9, 9};
    OK(clGetMemObjectInfo(object, CL_MEM_FLAGS, sizeof flags, &flags, NULL));
    OK(clGetMemObjectInfo(object, CL_MEM_SIZE, sizeof size, &size, NULL));
    OK(clGetMemObjectInfo(object, CL_MEM_OFFSET, sizeof offset, &offset, NULL));
    OK(clGetMemObjectInfo(object, CL_MEM_HOST_PTR, sizeof pointer, &pointer, NULL));
    OK(clGetMemObjectInfo(object, CL_MEM_MAP_COUNT, sizeof maps, &maps, NULL));
    OK(clGetMemObjectInfo(object, CL_MEM_REFERENCE_COUNT, sizeof references, &references, NULL));
    OK(clGetMemObjectInfo(object, CL_MEM_TYPE, sizeof type, &type, NULL));
    OK(clGetMemObjectInfo(object, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof associated, &associated, NULL));
    cl_int code = clGetMemObjectInfo(object, CL_MEM_PROPERTIES, sizeof properties, properties, &length);
    printf(" flags %llx size %zu offset %zu pointer %ld maps %u references %u type %x associated %s properties %d %zu %llu\n", (unsigned long long)flags, size, offset,
           pointer ? (long)((char *)pointer - (char *)host_memory) : -1, maps, references, type, associated ? associated == parent ? "parent" : "other" : "none",
           code, length, (unsigned long long)properties[0]);
}

static void parts(const Case *c, cl_mem buffer) {
    EACH(a, access_flags) EACH(h, host_flags) EACH(p, pointer_flags) {
        if (a > 3 || p > 4)
            continue;
        cl_mem_flags flags = access_flags[a] | host_flags[h] | pointer_flags[p];
        cl_buffer_region region = {128, 64};
        cl_int code = 1;
        cl_mem part = clCreateSubBuffer(buffer, flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
        printf("  part %llx: %d %s", (unsigned long long)flags, code, part ? "" : "none\n");
        if (part) {
            show(part, buffer);
            OK(clReleaseMemObject(part));
        }
    }
    static const cl_buffer_region regions[] = {{0, 0}, {0, 256}, {0, 257}, {256, 1}, {4, 16}, {128, 129}, {0, 1}};
    EACH(r, regions) {
        cl_int code = 1;
        cl_mem part = clCreateSubBuffer(buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &regions[r], &code);
        printf("  region %zu: %d %s", r, code, part ? "" : "none\n");
        if (!part)
            continue;
        show(part, buffer);
        cl_buffer_region inside = {0, 1};
        cl_mem nested = clCreateSubBuffer(part, 0, CL_BUFFER_CREATE_TYPE_REGION, &inside, &code);
        printf("  nested %d %s\n", code, nested ? "made" : "none");
        OK(clReleaseMemObject(part));
    }
    cl_int code = 1;
    clCreateSubBuffer(buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, NULL, &code);
    printf("  no region: %d\n", code);
    clCreateSubBuffer(buffer, 0, 0x9999, &regions[1], &code);
    printf("  no such kind: %d\n", code);
    cl_mem unseen = clCreateSubBuffer(buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &regions[1], NULL);
    printf("  without a place for the code: %s\n", unseen ? "made" : "none");
    if (unseen)
        OK(clReleaseMemObject(unseen));
    cl_uint references = 0;
    OK(clGetMemObjectInfo(buffer, CL_MEM_REFERENCE_COUNT, sizeof references, &references, NULL));
    printf("  references %u\n", references);
    (void)c;
}

int main(void) {
    Case c = open_case("kernel void none(void) {}\n");
    EACH(a, access_flags) EACH(h, host_flags) EACH(p, pointer_flags) for (int host = 0; host < 2; host++) {
        cl_mem_flags flags = access_flags[a] | host_flags[h] | pointer_flags[p];
        cl_int code = 1;
        cl_mem buffer = clCreateBuffer(c.context, flags, sizeof host_memory, host ? host_memory : NULL, &code);
        printf("%llx %d: %d %s", (unsigned long long)flags, host, code, buffer ? "" : "none\n");
        if (buffer) {
            show(buffer, NULL);
            parts(&c, buffer);
            OK(clReleaseMemObject(buffer));
        }
    }
    cl_mem_properties none[] = {0}, some[] = {0x1234, 1, 0};
    cl_mem_properties *lists[] = {NULL, none, some};
    EACH(l, lists) {
        cl_int code = 1;
        cl_mem buffer = clCreateBufferWithProperties(c.context, lists[l], CL_MEM_READ_WRITE, 64, NULL, &code);
        printf("properties %zu: %d %s", l, code, buffer ? "" : "none\n");
        if (buffer) {
            show(buffer, NULL);
            OK(clReleaseMemObject(buffer));
        }
    }
    static const size_t sizes[] = {0, 1, 3, ~(size_t)0, ~(size_t)0 / 2};
    EACH(s, sizes) {
        cl_int code = 1;
        cl_mem buffer = clCreateBuffer(c.context, 0, sizes[s], NULL, &code);
        printf("size %zu: %d %s", s, code, buffer ? "" : "none\n");
        if (buffer) {
            show(buffer, NULL);
            OK(clReleaseMemObject(buffer));
        }
    }
    cl_int code = 1;
    cl_mem buffer = clCreateBuffer(NULL, 0, 64, NULL, &code);
    printf("no context: %d %s\n", code, buffer ? "made" : "none");
    close_case(&c);
    return 0;
}
