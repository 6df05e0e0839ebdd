// Correct programs that use much of OpenCL: what they read, are told and called.
#include "../include/case.h"
#include <stdatomic.h>
#include <time.h>

static const char *source =
    "kernel void add(global int *data, int n, int by) { if (get_global_id(0) < n) data[get_global_id(0)] += by; }\n"
    "kernel void join(global const int *a, global const int *b, global int *to) { int i = get_global_id(0); to[i] = a[i] * 3 + b[i]; }\n"
    "kernel void sums(global int *data, local int *room, int n) {\n"
    "    int i = get_local_id(0);\n"
    "    room[i] = data[get_global_id(0)];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    int sum = 0;\n"
    "    for (int k = 0; k < get_local_size(0); k++) sum += room[k];\n"
    "    data[get_global_id(0)] = sum + n;\n"
    "}\n"
    "typedef struct { global int *next; int value; } Node;\n"
    "kernel void walk(global Node *first, global int *out) { out[get_global_id(0)] = first->value + first->next[get_global_id(0)]; }\n"
    "kernel void flip(read_only image2d_t in, write_only image2d_t out, sampler_t sampler) {\n"
    "    int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
    "    write_imagei(out, at, read_imagei(in, sampler, (int2)(15 - at.x, at.y)) + 1);\n"
    "}\n"
    "kernel void nothing(void) {}\n"
    "kernel void big(global long *out, long handle) { out[0] = handle != 0; }\n";

enum { COUNT = 256 };
static Case c;
static cl_int code;

static cl_kernel adding(cl_mem data, int by) {
    cl_kernel kernel = kernel_of(&c, "add");
    int n = COUNT;
    ARGUMENT(kernel, 0, data);
    ARGUMENT(kernel, 1, n);
    ARGUMENT(kernel, 2, by);
    return kernel;
}

static void launch(cl_command_queue queue, cl_kernel kernel, cl_uint count, const cl_event *list, cl_event *event) {
    size_t global = COUNT;
    OK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, count, list, event));
}

// How many hold an object once no more than `last` do. The platform may let go of
// what has ended a little after clFinish; it has five seconds.
static cl_uint held(cl_mem object, cl_uint last) {
    cl_uint count = 0;
    for (int i = 0; i < 1000; i++) {
        OK(clGetMemObjectInfo(object, CL_MEM_REFERENCE_COUNT, sizeof count, &count, NULL));
        if (count <= last)
            break;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return count;
}

static cl_uint kernel_held(cl_kernel kernel, cl_uint last) {
    cl_uint count = 0;
    for (int i = 0; i < 1000; i++) {
        OK(clGetKernelInfo(kernel, CL_KERNEL_REFERENCE_COUNT, sizeof count, &count, NULL));
        if (count <= last)
            break;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return count;
}

static void show(const char *what, cl_command_queue queue, cl_mem data) {
    int result[COUNT];
    OK(clEnqueueReadBuffer(queue, data, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    printf("%s: ", what);
    print_sum(result, COUNT);
}

static cl_mem counted(cl_mem_flags flags) {
    static int start[COUNT];
    for (int i = 0; i < COUNT; i++)
        start[i] = i;
    return buffer_of(&c, flags | CL_MEM_COPY_HOST_PTR, sizeof start, start);
}

static void out_of_order(void) {
    cl_command_queue queue = clCreateCommandQueue(c.context, c.device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE, &code);
    OK(code);
    cl_command_queue other = clCreateCommandQueue(c.context, c.device, 0, &code);
    OK(code);
    cl_mem a = counted(CL_MEM_READ_WRITE), b = counted(CL_MEM_READ_WRITE), to = buffer_of(&c, CL_MEM_WRITE_ONLY, COUNT * sizeof(int), NULL);
    cl_kernel first = adding(a, 1), second = adding(b, 2), join = kernel_of(&c, "join");
    ARGUMENT(join, 0, a);
    ARGUMENT(join, 1, b);
    ARGUMENT(join, 2, to);
    for (int round = 0; round < 10; round++) {
        cl_event gate = clCreateUserEvent(c.context, &code), done[2], marker, joined, barrier, copied;
        OK(code);
        launch(queue, first, 1, &gate, &done[0]);
        launch(other, second, 1, &gate, &done[1]);
        OK(clEnqueueMarkerWithWaitList(queue, 2, done, &marker));
        launch(queue, join, 1, &marker, &joined);
        OK(clEnqueueBarrierWithWaitList(queue, 0, NULL, &barrier));
        OK(clEnqueueCopyBuffer(queue, to, a, 0, 0, COUNT * sizeof(int) / 2, 1, &barrier, &copied));
        cl_int status;
        OK(clGetEventInfo(joined, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
        MUST(status > CL_COMPLETE);
        OK(clFlush(queue));
        OK(clFlush(other));
        OK(clSetUserEventStatus(gate, CL_COMPLETE));
        OK(clWaitForEvents(1, &copied));
        OK(clGetEventInfo(joined, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
        MUST(status == CL_COMPLETE);
        cl_ulong times[4];
        OK(clGetEventProfilingInfo(joined, CL_PROFILING_COMMAND_QUEUED, 8, &times[0], NULL));
        OK(clGetEventProfilingInfo(joined, CL_PROFILING_COMMAND_SUBMIT, 8, &times[1], NULL));
        OK(clGetEventProfilingInfo(joined, CL_PROFILING_COMMAND_START, 8, &times[2], NULL));
        OK(clGetEventProfilingInfo(joined, CL_PROFILING_COMMAND_END, 8, &times[3], NULL));
        MUST(times[0] <= times[1] && times[1] <= times[2] && times[2] <= times[3]);
        cl_event all[] = {gate, done[0], done[1], marker, joined, barrier, copied};
        for (int i = 0; i < 7; i++)
            OK(clReleaseEvent(all[i]));
    }
    show("out of order", queue, a);
    show("joined", queue, to);
    // Halves, without order between them.
    cl_buffer_region halves[] = {{0, COUNT * 2}, {COUNT * 2, COUNT * 2}};
    cl_event done[20];
    for (int i = 0; i < 20; i++) {
        cl_mem half = clCreateSubBuffer(a, 0, CL_BUFFER_CREATE_TYPE_REGION, &halves[i % 2], &code);
        OK(code);
        cl_kernel kernel = adding(half, i);
        int n = COUNT / 2;
        ARGUMENT(kernel, 1, n);
        launch(queue, kernel, i >= 2, i >= 2 ? &done[i - 2] : NULL, &done[i]);
        OK(clReleaseKernel(kernel));
        OK(clReleaseMemObject(half));
    }
    OK(clWaitForEvents(2, done + 18));
    for (int i = 0; i < 20; i++)
        OK(clReleaseEvent(done[i]));
    show("halves", queue, a);
    OK(clFinish(queue));
    OK(clFinish(other));
    cl_uint of_buffer = held(b, 1), of_kernel = kernel_held(first, 1);
    printf("references %u %u\n", of_buffer, of_kernel);
    OK(clReleaseKernel(first));
    OK(clReleaseKernel(second));
    OK(clReleaseKernel(join));
    OK(clReleaseMemObject(a));
    OK(clReleaseMemObject(b));
    OK(clReleaseMemObject(to));
    OK(clReleaseCommandQueue(queue));
    OK(clReleaseCommandQueue(other));
}

static atomic_int calls, order;

static void CL_CALLBACK called(cl_event event, cl_int status, void *data) {
    (void)event;
    atomic_fetch_add(&calls, 1);
    // Submitted before running before complete.
    MUST(atomic_load(&order) >= status || status != CL_COMPLETE || data);
}

static void CL_CALLBACK destroyed(cl_mem object, void *data) {
    (void)object;
    printf("destroyed %s\n", (const char *)data);
}

static void CL_CALLBACK context_destroyed(cl_context context, void *data) {
    (void)context;
    printf("context destroyed %s\n", (const char *)data);
}

static void events(void) {
    cl_mem data = counted(CL_MEM_READ_WRITE);
    cl_kernel kernel = adding(data, 1);
    for (int round = 0; round < 50; round++) {
        cl_event gate = clCreateUserEvent(c.context, &code), event, read;
        OK(code);
        int result[COUNT];
        launch(c.queue, kernel, 1, &gate, &event);
        OK(clEnqueueReadBuffer(c.queue, data, CL_FALSE, 0, sizeof result, result, 1, &event, &read));
        OK(clSetEventCallback(event, CL_SUBMITTED, called, &calls));
        OK(clSetEventCallback(event, CL_RUNNING, called, &calls));
        OK(clSetEventCallback(event, CL_COMPLETE, called, &calls));
        OK(clSetEventCallback(event, CL_COMPLETE, called, &calls));
        OK(clSetEventCallback(read, CL_COMPLETE, called, &calls));
        OK(clRetainEvent(event));
        OK(clReleaseEvent(event));
        OK(clSetUserEventStatus(gate, CL_COMPLETE));
        if (round % 2)
            OK(clWaitForEvents(1, &event));
        OK(clReleaseEvent(event));
        OK(clReleaseEvent(gate));
        OK(clWaitForEvents(1, &read));
        MUST(result[3] == 4 + round);
        OK(clReleaseEvent(read));
    }
    OK(clFinish(c.queue));
    for (int i = 0; i < 1000 && atomic_load(&calls) < 250; i++)
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    printf("calls %d\n", atomic_load(&calls));
    // A callback on what is over is called at once.
    cl_event event;
    launch(c.queue, kernel, 0, NULL, &event);
    OK(clWaitForEvents(1, &event));
    int before = atomic_load(&calls);
    OK(clSetEventCallback(event, CL_COMPLETE, called, &calls));
    for (int i = 0; i < 1000 && atomic_load(&calls) == before; i++)
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    printf("calls %d\n", atomic_load(&calls) - before);
    OK(clReleaseEvent(event));
    OK(clReleaseKernel(kernel));
    cl_buffer_region region = {128, 128};
    cl_mem part = clCreateSubBuffer(data, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    OK(code);
    OK(clSetMemObjectDestructorCallback(data, destroyed, "whole, set first"));
    OK(clSetMemObjectDestructorCallback(data, destroyed, "whole, set second"));
    OK(clSetMemObjectDestructorCallback(part, destroyed, "part"));
    OK(clFinish(c.queue));
    printf("references %u\n", held(data, 2));
    OK(clReleaseMemObject(data));
    printf("released the whole\n");
    OK(clReleaseMemObject(part));
    printf("released the part\n");
}

static void memory(void) {
    static int host[COUNT] __attribute__((aligned(4096)));
    for (int i = 0; i < COUNT; i++)
        host[i] = 1000 - i;
    cl_mem used = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, sizeof host, host);
    cl_mem pinned = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, sizeof host, NULL);
    cl_mem plain = counted(CL_MEM_READ_WRITE);
    cl_kernel kernel = adding(used, 5);
    launch(c.queue, kernel, 0, NULL, NULL);
    int *mapped = clEnqueueMapBuffer(c.queue, used, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 64, 128, 0, NULL, NULL, &code);
    OK(code);
    MUST(mapped == host + 16);
    mapped[3] = -7;
    OK(clEnqueueUnmapMemObject(c.queue, used, mapped, 0, NULL, NULL));
    launch(c.queue, kernel, 0, NULL, NULL);
    show("of the host", c.queue, used);
    cl_event gate = clCreateUserEvent(c.context, &code), event;
    int *one = clEnqueueMapBuffer(c.queue, plain, CL_FALSE, CL_MAP_WRITE_INVALIDATE_REGION, 0, 512, 1, &gate, &event, &code);
    OK(code);
    OK(clSetUserEventStatus(gate, CL_COMPLETE));
    OK(clWaitForEvents(1, &event));
    for (int i = 0; i < 128; i++)
        one[i] = 7 * i;
    int *two = clEnqueueMapBuffer(c.queue, plain, CL_TRUE, CL_MAP_READ, 512, 512, 0, NULL, NULL, &code);
    OK(code);
    cl_uint maps;
    OK(clGetMemObjectInfo(plain, CL_MEM_MAP_COUNT, 4, &maps, NULL));
    printf("maps %u, read %d\n", maps, two[1]);
    OK(clEnqueueUnmapMemObject(c.queue, plain, two, 0, NULL, NULL));
    OK(clEnqueueUnmapMemObject(c.queue, plain, one, 0, NULL, NULL));
    OK(clFinish(c.queue));
    OK(clGetMemObjectInfo(plain, CL_MEM_MAP_COUNT, 4, &maps, NULL));
    printf("maps %u\n", maps);
    show("mapped", c.queue, plain);
    OK(clReleaseEvent(gate));
    OK(clReleaseEvent(event));
    OK(clEnqueueFillBuffer(c.queue, pinned, "x", 1, 0, sizeof host, 0, NULL, NULL));
    for (size_t bytes = 1; bytes <= 128; bytes *= 2) {
        char pattern[128];
        for (int i = 0; i < 128; i++)
            pattern[i] = (char)(i + bytes);
        OK(clEnqueueFillBuffer(c.queue, pinned, pattern, bytes, bytes, sizeof host - 2 * bytes, 0, NULL, NULL));
    }
    show("filled", c.queue, pinned);
    cl_mem objects[] = {plain, pinned, used};
    OK(clEnqueueMigrateMemObjects(c.queue, 3, objects, CL_MIGRATE_MEM_OBJECT_HOST, 0, NULL, NULL));
    OK(clEnqueueMigrateMemObjects(c.queue, 3, objects, 0, 0, NULL, NULL));
    show("migrated", c.queue, plain);
    OK(clEnqueueMigrateMemObjects(c.queue, 1, objects, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL));
    OK(clEnqueueCopyBuffer(c.queue, plain, pinned, 4, 8, 400, 0, NULL, NULL));
    OK(clEnqueueCopyBuffer(c.queue, pinned, pinned, 8, 600, 200, 0, NULL, NULL));
    show("copied", c.queue, pinned);
    cl_kernel sums = kernel_of(&c, "sums");
    int n = 3;
    ARGUMENT(sums, 0, pinned);
    OK(clSetKernelArg(sums, 1, 64 * sizeof(int), NULL));
    ARGUMENT(sums, 2, n);
    size_t global = COUNT, local = 64;
    OK(clEnqueueNDRangeKernel(c.queue, sums, 1, NULL, &global, &local, 0, NULL, NULL));
    cl_kernel clone = clCloneKernel(sums, &code);
    printf("clone %d\n", code);
    if (clone) {
        OK(clEnqueueNDRangeKernel(c.queue, clone, 1, NULL, &global, &local, 0, NULL, NULL));
        OK(clReleaseKernel(clone));
    }
    show("sums", c.queue, pinned);
    // A number that is a handle.
    cl_kernel big = kernel_of(&c, "big");
    ARGUMENT(big, 0, pinned);
    ARGUMENT(big, 1, plain);
    launch(c.queue, big, 0, NULL, NULL);
    cl_kernel nothing = kernel_of(&c, "nothing");
    launch(c.queue, nothing, 0, NULL, NULL);
    OK(clEnqueueTask(c.queue, nothing, 0, NULL, NULL));
    show("big", c.queue, pinned);
    OK(clReleaseKernel(nothing));
    OK(clReleaseKernel(big));
    OK(clReleaseKernel(sums));
    OK(clReleaseKernel(kernel));
    for (int i = 0; i < 3; i++)
        OK(clReleaseMemObject(objects[i]));
}

static atomic_int freed;

static void CL_CALLBACK free_them(cl_command_queue queue, cl_uint count, void **pointers, void *data) {
    (void)queue;
    for (cl_uint i = 0; i < count; i++)
        clSVMFree(data, pointers[i]);
    atomic_store(&freed, (int)count);
}

static void shared(void) {
    if (!has_svm(&c, CL_DEVICE_SVM_COARSE_GRAIN_BUFFER))
        return;
    struct Node {
        int *next;
        int value;
    };
    struct Node *node = clSVMAlloc(c.context, CL_MEM_READ_WRITE, sizeof *node, 0);
    int *next = clSVMAlloc(c.context, CL_MEM_READ_WRITE, COUNT * sizeof(int), 0);
    int *out = clSVMAlloc(c.context, CL_MEM_READ_WRITE, COUNT * sizeof(int), 64);
    MUST(node && next && out);
    OK(clEnqueueSVMMap(c.queue, CL_TRUE, CL_MAP_WRITE, node, sizeof *node, 0, NULL, NULL));
    OK(clEnqueueSVMMap(c.queue, CL_TRUE, CL_MAP_WRITE, next, COUNT * sizeof(int), 0, NULL, NULL));
    node->next = next, node->value = 11;
    for (int i = 0; i < COUNT; i++)
        next[i] = i;
    OK(clEnqueueSVMUnmap(c.queue, next, 0, NULL, NULL));
    OK(clEnqueueSVMUnmap(c.queue, node, 0, NULL, NULL));
    cl_kernel walk = kernel_of(&c, "walk");
    OK(clSetKernelArgSVMPointer(walk, 0, node));
    OK(clSetKernelArgSVMPointer(walk, 1, out));
    void *indirect[] = {next};
    OK(clSetKernelExecInfo(walk, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof indirect, indirect));
    launch(c.queue, walk, 0, NULL, NULL);
    int seven = 7, host[COUNT];
    OK(clEnqueueSVMMemFill(c.queue, out + 16, &seven, sizeof seven, 64, 0, NULL, NULL));
    OK(clEnqueueSVMMemcpy(c.queue, CL_FALSE, next, out, 512, 0, NULL, NULL));
    OK(clEnqueueSVMMemcpy(c.queue, CL_TRUE, host, out, sizeof host, 0, NULL, NULL));
    printf("shared: ");
    print_sum(host, COUNT);
    cl_mem used = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, COUNT * sizeof(int), next);
    cl_bool uses = 9;
    OK(clGetMemObjectInfo(used, CL_MEM_USES_SVM_POINTER, sizeof uses, &uses, NULL));
    cl_kernel add = adding(used, 3);
    launch(c.queue, add, 0, NULL, NULL);
    show("buffer of shared memory", c.queue, used);
    printf("uses %u\n", uses);
    OK(clReleaseKernel(add));
    OK(clReleaseMemObject(used));
    OK(clReleaseKernel(walk));
    OK(clFinish(c.queue));
    void *pointers[] = {out, next};
    cl_event event;
    OK(clEnqueueSVMFree(c.queue, 2, pointers, free_them, c.context, 0, NULL, &event));
    OK(clWaitForEvents(1, &event));
    OK(clReleaseEvent(event));
    printf("freed %d\n", atomic_load(&freed));
    void *last[] = {node};
    OK(clEnqueueSVMFree(c.queue, 1, last, NULL, NULL, 0, NULL, NULL));
    OK(clFinish(c.queue));
}

static void images(void) {
    if (!has_images(&c))
        return;
    int pixels[256], result[256];
    for (int i = 0; i < 256; i++)
        pixels[i] = 5 * i;
    cl_image_format format = {CL_R, CL_SIGNED_INT32};
    cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 16};
    cl_mem in = clCreateImage(c.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, &format, &description, pixels, &code);
    OK(code);
    cl_mem out = clCreateImage(c.context, CL_MEM_WRITE_ONLY, &format, &description, NULL, &code);
    OK(code);
    cl_sampler sampler = clCreateSampler(c.context, CL_FALSE, CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_NEAREST, &code);
    OK(code);
    cl_kernel flip = kernel_of(&c, "flip");
    ARGUMENT(flip, 0, in);
    ARGUMENT(flip, 1, out);
    ARGUMENT(flip, 2, sampler);
    size_t global[] = {16, 16}, zero[3] = {0, 0, 0}, whole[3] = {16, 16, 1}, part[3] = {5, 3, 1}, at[3] = {2, 9, 0};
    OK(clEnqueueNDRangeKernel(c.queue, flip, 2, NULL, global, NULL, 0, NULL, NULL));
    OK(clEnqueueReadImage(c.queue, out, CL_TRUE, zero, whole, 0, 0, result, 0, NULL, NULL));
    printf("image: ");
    print_sum(result, 256);
    OK(clEnqueueCopyImage(c.queue, out, in, zero, at, part, 0, NULL, NULL));
    int color[4] = {42, 0, 0, 0};
    OK(clEnqueueFillImage(c.queue, in, color, at, part, 0, NULL, NULL));
    size_t row;
    int *mapped = clEnqueueMapImage(c.queue, in, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, at, part, &row, NULL, 0, NULL, NULL, &code);
    OK(code);
    printf("row %zu, pixel %d\n", row, mapped[1]);
    mapped[1] = -1;
    OK(clEnqueueUnmapMemObject(c.queue, in, mapped, 0, NULL, NULL));
    cl_mem data = counted(CL_MEM_READ_WRITE);
    OK(clEnqueueCopyImageToBuffer(c.queue, in, data, zero, whole, 0, 0, NULL, NULL));
    OK(clEnqueueCopyBufferToImage(c.queue, data, out, 64, zero, part, 0, NULL, NULL));
    show("image copied", c.queue, data);
    cl_buffer_region region = {256, 512};
    cl_mem half = clCreateSubBuffer(data, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    OK(code);
    OK(clReleaseMemObject(half));
    OK(clFinish(c.queue));
    cl_uint of_out = held(out, 1), of_data = held(data, 1);
    printf("references %u %u\n", of_out, of_data);
    cl_mem_object_type kinds[] = {CL_MEM_OBJECT_IMAGE1D, CL_MEM_OBJECT_IMAGE1D_ARRAY, CL_MEM_OBJECT_IMAGE2D_ARRAY, CL_MEM_OBJECT_IMAGE3D, CL_MEM_OBJECT_IMAGE1D_BUFFER};
    for (int i = 0; i < 5; i++) {
        cl_image_desc other = {.image_type = kinds[i], .image_width = 8, .image_height = 4, .image_depth = 2, .image_array_size = 2, .mem_object = i == 4 ? data : NULL};
        cl_mem image = clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &other, NULL, &code);
        printf("kind %x: %d", kinds[i], code);
        cl_image_info names[] = {CL_IMAGE_FORMAT, CL_IMAGE_ELEMENT_SIZE, CL_IMAGE_ROW_PITCH, CL_IMAGE_SLICE_PITCH, CL_IMAGE_WIDTH, CL_IMAGE_HEIGHT, CL_IMAGE_DEPTH, CL_IMAGE_ARRAY_SIZE, CL_IMAGE_NUM_MIP_LEVELS, CL_IMAGE_NUM_SAMPLES};
        for (int k = 0; image && k < 10; k++) {
            cl_ulong value = 0;
            size_t size = 0;
            cl_int answer = clGetImageInfo(image, names[k], sizeof value, &value, &size);
            printf(" %d/%zu/%llx", answer, size, (unsigned long long)value);
        }
        if (image) {
            cl_mem associated = NULL, of = NULL;
            cl_mem_flags flags;
            size_t size;
            OK(clGetMemObjectInfo(image, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof associated, &associated, NULL));
            OK(clGetMemObjectInfo(image, CL_MEM_FLAGS, sizeof flags, &flags, NULL));
            OK(clGetMemObjectInfo(image, CL_MEM_SIZE, sizeof size, &size, NULL));
            code = clGetImageInfo(image, CL_IMAGE_BUFFER, sizeof of, &of, NULL);
            printf(" associated %d buffer %d %d flags %llx size %zu", associated == data, code, of == data, (unsigned long long)flags, size);
            OK(clReleaseMemObject(image));
        }
        printf("\n");
    }
    printf("references %u\n", held(data, 1));
    OK(clReleaseMemObject(in));
    OK(clReleaseMemObject(out));
    OK(clReleaseMemObject(data));
    OK(clReleaseSampler(sampler));
    OK(clReleaseKernel(flip));
}

int main(void) {
    c = open_case(source);
    OK(clSetContextDestructorCallback(c.context, context_destroyed, "at the end"));
    out_of_order();
    events();
    memory();
    shared();
    images();
    OK(clFinish(c.queue));
    // The platform may let go of what has ended a little after clFinish.
    cl_uint references[3], before = 0;
    for (int i = 0; i < 1000; i++) {
        OK(clGetContextInfo(c.context, CL_CONTEXT_REFERENCE_COUNT, 4, &references[0], NULL));
        OK(clGetCommandQueueInfo(c.queue, CL_QUEUE_REFERENCE_COUNT, 4, &references[1], NULL));
        if (references[1] == 1 && references[0] == before) break;
        before = references[0];
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    OK(clGetProgramInfo(c.program, CL_PROGRAM_REFERENCE_COUNT, 4, &references[2], NULL));
    printf("references %u %u %u\n", references[0], references[1], references[2]);
    cl_uint kernels = 0;
    char options[256] = "";
    OK(clGetProgramBuildInfo(c.program, c.device, CL_PROGRAM_BUILD_OPTIONS, sizeof options, options, NULL));
    OK(clCreateKernelsInProgram(c.program, 0, NULL, &kernels));
    printf("kernels %u, options %s\n", kernels, options);
    close_case(&c);
    printf("closed\n");
    return 0;
}
