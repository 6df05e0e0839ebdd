// bug: behind many questions whose answers must not show any canary, a kernel overruns
// expect: rule=canary-overwritten kernel=set argument=out at=0 size=1000
#include "case.h"
#include <unistd.h>

static const char *source = "kernel void set(global uchar *out, int n) { if (get_global_id(0) < n) out[get_global_id(0)] = 5; }\n";

#define IS(object, name, type, wanted)                                         \
    do {                                                                       \
        type value_;                                                           \
        size_t size_;                                                          \
        OK(clGetMemObjectInfo(object, name, sizeof value_, &value_, &size_));  \
        MUST(size_ == sizeof value_ && value_ == (type)(wanted));              \
    } while (0)

static volatile int destroyed;

static void CL_CALLBACK gone(cl_mem object, void *data) { destroyed += *(int *)data; }

static cl_uint references(cl_mem object) {
    cl_uint number;
    OK(clGetMemObjectInfo(object, CL_MEM_REFERENCE_COUNT, sizeof number, &number, NULL));
    return number;
}

// The count is "immediately stale": the least that is seen for a while, so that
// no event counts that is just going.
static cl_uint context_references(cl_context context) {
    cl_uint least = ~0u;
    for (int i = 0; i < 30; i++) {
        cl_uint number;
        OK(clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof number, &number, NULL));
        if (number < least) least = number;
        usleep(1000);
    }
    return least;
}

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? 1001 : 1000, one = 1, ten = 10;
    unsigned char data[1000];
    memset(data, 3, sizeof data);
    Case c = open_case(source);
    cl_kernel kernel = kernel_of(&c, "set");
    // What platforms count differs, so it is printed and compared.
    cl_uint counted[4] = {context_references(c.context)};
    cl_mem_flags flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR | CL_MEM_HOST_READ_ONLY;
    cl_mem buffer = buffer_of(&c, flags, sizeof data, data);
    counted[1] = context_references(c.context);
    IS(buffer, CL_MEM_TYPE, cl_mem_object_type, CL_MEM_OBJECT_BUFFER);
    IS(buffer, CL_MEM_FLAGS, cl_mem_flags, flags);
    IS(buffer, CL_MEM_SIZE, size_t, 1000);
    IS(buffer, CL_MEM_HOST_PTR, void *, NULL);
    IS(buffer, CL_MEM_MAP_COUNT, cl_uint, 0);
    IS(buffer, CL_MEM_CONTEXT, cl_context, c.context);
    IS(buffer, CL_MEM_ASSOCIATED_MEMOBJECT, cl_mem, NULL);
    IS(buffer, CL_MEM_OFFSET, size_t, 0);
    cl_uint own = references(buffer);
    MUST(own == 1);
    OK(clSetMemObjectDestructorCallback(buffer, gone, &one));
    // The host may read it only.
    MUST(clEnqueueWriteBuffer(c.queue, buffer, CL_TRUE, 0, 10, data, 0, NULL, NULL) == CL_INVALID_OPERATION);

    cl_buffer_region region = {512, 256}, outside = {512, 489}, inside = {0, 128};
    cl_int code;
    cl_mem part = clCreateSubBuffer(buffer, CL_MEM_READ_ONLY, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    OK(code);
    counted[2] = context_references(c.context);
    IS(part, CL_MEM_SIZE, size_t, 256);
    IS(part, CL_MEM_OFFSET, size_t, 512);
    IS(part, CL_MEM_ASSOCIATED_MEMOBJECT, cl_mem, buffer);
    OK(clSetMemObjectDestructorCallback(part, gone, &ten));
    // Platforms differ in the code, and one (NVIDIA's, driver 580) makes parts
    // that lie outside, and parts of parts.
    cl_mem odd = clCreateSubBuffer(buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &outside, &code);
    MUST(!odd == (code != CL_SUCCESS));
    if (odd) OK(clReleaseMemObject(odd));
    odd = clCreateSubBuffer(part, 0, CL_BUFFER_CREATE_TYPE_REGION, &inside, &code);
    MUST(!odd == (code != CL_SUCCESS));
    if (odd) OK(clReleaseMemObject(odd));
    MUST(!clCreateBuffer(c.context, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 10, NULL, &code) && code == CL_INVALID_VALUE);
    MUST(!clCreateBuffer(c.context, CL_MEM_COPY_HOST_PTR, 10, NULL, &code) && code == CL_INVALID_HOST_PTR);
    MUST(!clCreateBuffer(c.context, 0, 0, NULL, &code) && code == CL_INVALID_BUFFER_SIZE);

    unsigned char *mapped = clEnqueueMapBuffer(c.queue, buffer, CL_TRUE, CL_MAP_READ, 0, 1000, 0, NULL, NULL, &code);
    OK(code);
    MUST(mapped[0] == 3 && mapped[999] == 3);
    IS(buffer, CL_MEM_MAP_COUNT, cl_uint, 1);
    OK(clEnqueueUnmapMemObject(c.queue, buffer, mapped, 0, NULL, NULL));
    OK(clFinish(c.queue));
    // The count is "immediately stale" by the standard: some platforms count
    // down a moment after the command is complete.
    cl_uint maps = 1;
    for (int patience = 0; maps && patience < 1000; patience++) {
        OK(clGetMemObjectInfo(buffer, CL_MEM_MAP_COUNT, sizeof maps, &maps, NULL));
        if (maps) usleep(1000);
    }
    MUST(maps == 0);
    OK(clEnqueueMigrateMemObjects(c.queue, 1, &buffer, 0, 0, NULL, NULL));

    ARGUMENT(kernel, 0, buffer);
    ARGUMENT(kernel, 1, n);
    size_t global = 1024;
    cl_event event;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, &event)); // BUG
    cl_int status = CL_QUEUED;
    OK(clFlush(c.queue));
    while (status != CL_COMPLETE)
        OK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
    OK(clReleaseEvent(event));
    OK(clEnqueueReadBuffer(c.queue, buffer, CL_TRUE, 0, sizeof data, data, 0, NULL, NULL));
    OK(clFinish(c.queue));
    MUST(references(part) == 1);
    OK(clReleaseMemObject(part));
    // Platforms may call back later.
    for (int patience = 0; destroyed != 10 && patience < 1000; patience++)
        usleep(1000);
    MUST(destroyed == 10);
    for (int patience = 0; references(buffer) != own && patience < 1000; patience++)
        usleep(1000);
    MUST(references(buffer) == own);
    OK(clReleaseKernel(kernel));
    OK(clReleaseMemObject(buffer));
    counted[3] = context_references(c.context);
    printf("%d %d %d, %u %u %u %u\n", data[0], data[999], destroyed, counted[0], counted[1], counted[2], counted[3]);
    close_case(&c);
    return 0;
}
