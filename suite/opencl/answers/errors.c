// Calls with all sorts of wrong arguments: what the platform answers.
#include "../include/case.h"
#include <unistd.h>

static const char *source = "kernel void one(global int *data, int n) { if (get_global_id(0) < n) data[get_global_id(0)] = 1; }\n"
                            "kernel void paint(write_only image2d_t out) { write_imagei(out, (int2)(0, 0), (int4)(1)); }\n";

static int line;
#define SHOW(call) (line = __LINE__, printf("%d: %d\n", line, (call)), clFinish(c.queue))
#define MADE(call)                                                                                  \
    do {                                                                                            \
        cl_int code = 1;                                                                            \
        void *made = (void *)(call);                                                                \
        printf("%d: %d %s\n", __LINE__, code, made ? "made" : "none");                              \
    } while (0)
// With a wait list that is wrong in each way.
#define LISTS(call)                                                                                 \
    do {                                                                                            \
        cl_uint n = 1;                                                                              \
        const cl_event *l = NULL;                                                                   \
        SHOW(call);                                                                                 \
        n = 0, l = &good;                                                                           \
        SHOW(call);                                                                                 \
        n = 1, l = &none;                                                                           \
        SHOW(call);                                                                                 \
        n = 1, l = &foreign_event;                                                                  \
        SHOW(call);                                                                                 \
        n = 1, l = &good;                                                                           \
        SHOW(call);                                                                                 \
        n = 0, l = NULL;                                                                            \
        SHOW(call);                                                                                 \
    } while (0)

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    static int host[1024];
    Case c = open_case(source);
    cl_int code;
    cl_context other = clCreateContext(NULL, 1, &c.device, NULL, NULL, &code);
    OK(code);
    cl_mem a = buffer_of(&c, CL_MEM_READ_WRITE, 1024, NULL), b = buffer_of(&c, CL_MEM_READ_WRITE, 1024, NULL);
    cl_mem kept = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS, 1024, NULL);
    cl_mem readable = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_HOST_READ_ONLY, 1024, NULL);
    cl_mem writable = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_HOST_WRITE_ONLY, 1024, NULL);
    cl_mem foreign = clCreateBuffer(other, CL_MEM_READ_WRITE, 1024, NULL, &code);
    OK(code);
    cl_buffer_region half = {128, 512};
    cl_mem part = clCreateSubBuffer(a, 0, CL_BUFFER_CREATE_TYPE_REGION, &half, &code);
    OK(code);
    cl_image_format format = {CL_R, CL_SIGNED_INT32};
    cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 16};
    cl_mem image = clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &description, NULL, &code);
    OK(code);
    cl_event good = clCreateUserEvent(c.context, &code), none = NULL, foreign_event = clCreateUserEvent(other, &code);
    OK(clSetUserEventStatus(good, CL_COMPLETE));
    OK(clSetUserEventStatus(foreign_event, CL_COMPLETE));
    cl_command_queue q = c.queue;
    int x = 5;

    OK(clEnqueueFillBuffer(q, a, &x, 4, 0, 1024, 0, NULL, NULL));
    OK(clEnqueueFillBuffer(q, b, &x, 4, 0, 1024, 0, NULL, NULL));
    OK(clFinish(q));

    // Reads and writes.
    LISTS(clEnqueueReadBuffer(q, a, CL_TRUE, 0, 16, host, n, l, NULL));
    LISTS(clEnqueueWriteBuffer(q, a, CL_TRUE, 0, 16, host, n, l, NULL));
    cl_mem objects[] = {a, kept, readable, writable, foreign, part, NULL};
    for (int i = 0; i < 7; i++) {
        // What is wrong in two ways may be answered either way.
        int sound = i == 0 || i == 5;
        printf("object %d\n", i);
        SHOW(clEnqueueReadBuffer(q, objects[i], CL_TRUE, 0, 16, host, 0, NULL, NULL));
        SHOW(clEnqueueReadBuffer(q, objects[i], CL_TRUE, 0, 0, host, 0, NULL, NULL));
        SHOW(clEnqueueReadBuffer(q, objects[i], CL_TRUE, 0, 16, NULL, 0, NULL, NULL));
        if (sound)
            SHOW(clEnqueueReadBuffer(q, objects[i], CL_TRUE, 1020, 5, host, 0, NULL, NULL));
        if (sound)
            SHOW(clEnqueueReadBuffer(q, objects[i], CL_TRUE, ~(size_t)0, 5, host, 0, NULL, NULL));
        SHOW(clEnqueueWriteBuffer(q, objects[i], CL_TRUE, 0, 16, host, 0, NULL, NULL));
        SHOW(clEnqueueWriteBuffer(q, objects[i], CL_TRUE, 0, 0, host, 0, NULL, NULL));
        SHOW(clEnqueueWriteBuffer(q, objects[i], CL_TRUE, 0, 16, NULL, 0, NULL, NULL));
        if (sound)
            SHOW(clEnqueueWriteBuffer(q, objects[i], CL_TRUE, 1024, 1, host, 0, NULL, NULL));
        SHOW(clEnqueueFillBuffer(q, objects[i], &x, 4, 0, 16, 0, NULL, NULL));
        SHOW(clEnqueueFillBuffer(q, objects[i], &x, 3, 0, 12, 0, NULL, NULL));
        SHOW(clEnqueueFillBuffer(q, objects[i], &x, 4, 2, 16, 0, NULL, NULL));
        SHOW(clEnqueueFillBuffer(q, objects[i], &x, 4, 0, 6, 0, NULL, NULL));
        SHOW(clEnqueueFillBuffer(q, objects[i], NULL, 4, 0, 16, 0, NULL, NULL));
        SHOW(clEnqueueFillBuffer(q, objects[i], &x, 0, 0, 16, 0, NULL, NULL));
        if (sound)
            SHOW(clEnqueueFillBuffer(q, objects[i], &x, 4, 1020, 8, 0, NULL, NULL));
        SHOW(clEnqueueFillBuffer(q, objects[i], &x, 4, 0, 0, 0, NULL, NULL));
        SHOW(clEnqueueCopyBuffer(q, objects[i], b, 0, 0, 16, 0, NULL, NULL));
        SHOW(clEnqueueCopyBuffer(q, b, objects[i], 0, 0, 16, 0, NULL, NULL));
        SHOW(clEnqueueCopyBuffer(q, objects[i], objects[i], 0, 8, 16, 0, NULL, NULL));
        SHOW(clEnqueueCopyBuffer(q, objects[i], objects[i], 0, 16, 16, 0, NULL, NULL));
        SHOW(clEnqueueCopyBuffer(q, objects[i], b, 0, 0, 0, 0, NULL, NULL));
        if (sound)
            SHOW(clEnqueueCopyBuffer(q, objects[i], b, 1020, 0, 8, 0, NULL, NULL));
        if (sound)
            SHOW(clEnqueueCopyBuffer(q, b, objects[i], 0, 1020, 8, 0, NULL, NULL));
        SHOW(clEnqueueMigrateMemObjects(q, 1, &objects[i], 0, 0, NULL, NULL));
        cl_map_flags maps[] = {0, CL_MAP_READ, CL_MAP_WRITE, CL_MAP_READ | CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION, CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION, 1 << 9};
        for (int m = 0; m < 7; m++) {
            size_t ranges[][2] = {{0, 16}, {1000, 24}, {1000, 25}, {0, 0}, {~(size_t)0, 2}};
            for (int r = 0; r < 5; r++) {
                if (!sound && (r == 2 || r == 4))
                    continue;
                code = 1;
                void *pointer = clEnqueueMapBuffer(q, objects[i], CL_TRUE, maps[m], ranges[r][0], ranges[r][1], 0, NULL, NULL, &code);
                cl_uint count = 9;
                if (objects[i])
                    OK(clGetMemObjectInfo(objects[i], CL_MEM_MAP_COUNT, sizeof count, &count, NULL));
                printf("map %d %d: %d %s %u\n", m, r, code, pointer ? "mapped" : "none", count);
                if (pointer) {
                    SHOW(clEnqueueUnmapMemObject(q, b, pointer, 0, NULL, NULL));
                    SHOW(clEnqueueUnmapMemObject(q, objects[i], (char *)pointer + 1, 0, NULL, NULL));
                    SHOW(clEnqueueUnmapMemObject(q, objects[i], pointer, 0, NULL, NULL));
                    SHOW(clFinish(q));
                    // PoCL counts a little later, also without Ringfence.
                    for (int wait = 0; wait < 2000 && count; wait++) {
                        OK(clGetMemObjectInfo(objects[i], CL_MEM_MAP_COUNT, sizeof count, &count, NULL));
                        usleep(1000);
                    }
                    SHOW(clEnqueueUnmapMemObject(q, objects[i], pointer, 0, NULL, NULL));
                }
            }
        }
    }
    SHOW(clEnqueueUnmapMemObject(q, a, NULL, 0, NULL, NULL));
    LISTS(clEnqueueCopyBuffer(q, a, b, 0, 0, 16, n, l, NULL));
    LISTS(clEnqueueFillBuffer(q, a, &x, 4, 0, 16, n, l, NULL));
    LISTS(clEnqueueMigrateMemObjects(q, 1, &a, 0, n, l, NULL));
    SHOW(clEnqueueMigrateMemObjects(q, 0, &a, 0, 0, NULL, NULL));
    SHOW(clEnqueueMigrateMemObjects(q, 1, NULL, 0, 0, NULL, NULL));
    SHOW(clEnqueueMigrateMemObjects(q, 1, &a, 0x100, 0, NULL, NULL));
    SHOW(clEnqueueMigrateMemObjects(q, 1, &a, CL_MIGRATE_MEM_OBJECT_HOST, 0, NULL, NULL));
    SHOW(clEnqueueMigrateMemObjects(q, 1, &image, CL_MIGRATE_MEM_OBJECT_HOST, 0, NULL, NULL));

    // Boxes.
    size_t zero[3] = {0, 0, 0}, box[3] = {16, 4, 2}, flat[3] = {16, 0, 1}, far[3] = {0, 0, 1000}, next[3] = {8, 1, 0};
    struct {
        const size_t *at, *goal, *region;
        size_t row, slice, row2, slice2;
    } boxes[] = {{zero, zero, box, 0, 0, 0, 0}, {zero, zero, flat, 0, 0, 0, 0}, {far, zero, box, 0, 0, 0, 0}, {zero, far, box, 0, 0, 0, 0}, {zero, zero, box, 8, 0, 0, 0}, {zero, zero, box, 16, 32, 16, 64}, {zero, zero, box, 16, 65, 16, 64}, {zero, zero, box, 0, 0, 8, 0}, {next, zero, box, 64, 256, 64, 256}, {next, next, box, 64, 512, 32, 128}, {next, next, box, 64, 512, 64, 512}};
    for (int i = 0; i < 11; i++) {
        printf("box %d\n", i);
        SHOW(clEnqueueReadBufferRect(q, a, CL_TRUE, boxes[i].at, boxes[i].goal, boxes[i].region, boxes[i].row, boxes[i].slice, boxes[i].goal == far ? 1 : boxes[i].row2, boxes[i].slice2, host, 0, NULL, NULL));
        if (boxes[i].goal != far)
            SHOW(clEnqueueWriteBufferRect(q, a, CL_TRUE, boxes[i].at, boxes[i].goal, boxes[i].region, boxes[i].row, boxes[i].slice, boxes[i].row2, boxes[i].slice2, host, 0, NULL, NULL));
        SHOW(clEnqueueCopyBufferRect(q, a, b, boxes[i].at, boxes[i].goal, boxes[i].region, boxes[i].row, boxes[i].slice, boxes[i].row2, boxes[i].slice2, 0, NULL, NULL));
        SHOW(clEnqueueCopyBufferRect(q, a, a, boxes[i].at, boxes[i].goal, boxes[i].region, boxes[i].row, boxes[i].slice, boxes[i].row2, boxes[i].slice2, 0, NULL, NULL));
        if (i != 2 && i != 3)
            SHOW(clEnqueueCopyBufferRect(NULL, a, b, boxes[i].at, boxes[i].goal, boxes[i].region, boxes[i].row, boxes[i].slice, boxes[i].row2, boxes[i].slice2, 0, NULL, NULL));
    }
    SHOW(clEnqueueCopyBufferRect(q, a, foreign, zero, zero, box, 0, 0, 0, 0, 0, NULL, NULL));
    SHOW(clEnqueueReadBufferRect(q, kept, CL_TRUE, zero, zero, box, 0, 0, 0, 0, host, 0, NULL, NULL));
    SHOW(clEnqueueWriteBufferRect(q, readable, CL_TRUE, zero, zero, box, 0, 0, 0, 0, host, 0, NULL, NULL));
    SHOW(clEnqueueReadBufferRect(q, a, CL_TRUE, zero, zero, box, 0, 0, 0, 0, NULL, 0, NULL, NULL));
    LISTS(clEnqueueCopyBufferRect(q, a, b, zero, zero, box, 0, 0, 0, 0, n, l, NULL));
    // Inside one buffer, at all distances.
    for (size_t d = 0; d < 40; d++) {
        size_t to[3] = {d, d / 16, d % 3}, small[3] = {4, 2, 2};
        SHOW(clEnqueueCopyBufferRect(q, a, a, zero, to, small, 10, 40, 10, 40, 0, NULL, NULL));
    }

    // Images.
    size_t whole[3] = {16, 16, 1}, too_much[3] = {17, 16, 1}, nothing[3] = {0, 16, 1}, deep[3] = {16, 16, 2}, off[3] = {1, 0, 0};
    const size_t *regions[] = {whole, too_much, nothing, deep, NULL};
    const size_t *origins[] = {zero, off, far, NULL};
    for (int r = 0; r < 5; r++)
        for (int o = 0; o < 4; o++) {
            printf("region %d origin %d\n", r, o);
            SHOW(clEnqueueReadImage(q, image, CL_TRUE, origins[o], regions[r], 0, 0, host, 0, NULL, NULL));
            SHOW(clEnqueueReadImage(q, image, CL_TRUE, origins[o], regions[r], 3, 0, host, 0, NULL, NULL));
            SHOW(clEnqueueWriteImage(q, image, CL_TRUE, origins[o], regions[r], 0, 0, host, 0, NULL, NULL));
            if (r != 2)
                SHOW(clEnqueueCopyImageToBuffer(q, image, a, origins[o], regions[r], 0, 0, NULL, NULL));
            if (r != 2)
                SHOW(clEnqueueCopyBufferToImage(q, a, image, 0, origins[o], regions[r], 0, NULL, NULL));
            if (r != 2)
                SHOW(clEnqueueCopyBufferToImage(q, a, image, 4, origins[o], regions[r], 0, NULL, NULL));
            if (r != 2)
                SHOW(clEnqueueCopyImageToBuffer(q, image, part, origins[o], regions[r], 0, 0, NULL, NULL));
            int color[4] = {1, 2, 3, 4};
            SHOW(clEnqueueFillImage(q, image, color, origins[o], regions[r], 0, NULL, NULL));
            size_t row = 0;
            code = 1;
            void *pointer = clEnqueueMapImage(q, image, CL_TRUE, CL_MAP_READ, origins[o], regions[r], &row, NULL, 0, NULL, NULL, &code);
            printf("map %d %s %zu\n", code, pointer ? "mapped" : "none", row);
            if (pointer)
                SHOW(clEnqueueUnmapMemObject(q, image, pointer, 0, NULL, NULL));
        }
    LISTS(clEnqueueReadImage(q, image, CL_TRUE, zero, whole, 0, 0, host, n, l, NULL));
    LISTS(clEnqueueCopyImageToBuffer(q, image, a, zero, whole, 0, n, l, NULL));
    SHOW(clEnqueueReadImage(q, a, CL_TRUE, zero, whole, 0, 0, host, 0, NULL, NULL));
    SHOW(clEnqueueReadBuffer(q, image, CL_TRUE, 0, 16, host, 0, NULL, NULL));
    SHOW(clEnqueueCopyImageToBuffer(q, a, image, zero, whole, 0, 0, NULL, NULL));
    MADE(clCreateSubBuffer(image, 0, CL_BUFFER_CREATE_TYPE_REGION, &half, &code));
    cl_image_desc line1 = {.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = 256, .mem_object = a};
    MADE(clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &line1, NULL, &code));
    MADE(clCreateImage(c.context, CL_MEM_HOST_NO_ACCESS, &format, &line1, NULL, &code));
    line1.image_width = 257;
    MADE(clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &line1, NULL, &code));
    line1.image_width = 16, line1.mem_object = part;
    MADE(clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &line1, NULL, &code));
    line1.mem_object = NULL;
    MADE(clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &line1, NULL, &code));
    description.mem_object = a;
    MADE(clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &description, NULL, &code));
    MADE(clCreateImage(c.context, CL_MEM_READ_WRITE, NULL, &line1, NULL, &code));
    MADE(clCreateImage(c.context, CL_MEM_READ_WRITE, &format, NULL, NULL, &code));

    // Kernels.
    cl_kernel kernel = kernel_of(&c, "one"), paint = kernel_of(&c, "paint");
    size_t global = 16, local = 16, odd = 5, empty = 0;
    SHOW(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    SHOW(clSetKernelArg(kernel, 0, sizeof a, &a));
    SHOW(clSetKernelArg(kernel, 0, 4, &a));
    SHOW(clSetKernelArg(kernel, 0, sizeof image, &image));
    SHOW(clSetKernelArg(kernel, 0, sizeof a, &a));
    SHOW(clSetKernelArg(kernel, 7, sizeof a, &a));
    SHOW(clSetKernelArg(kernel, 1, sizeof a, &a));
    SHOW(clSetKernelArg(kernel, 1, sizeof x, &x));
    SHOW(clSetKernelArg(NULL, 1, sizeof x, &x));
    SHOW(clSetKernelArg(paint, 0, sizeof image, &image));
    SHOW(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &global, NULL, 1, &good, NULL));
    SHOW(clEnqueueTask(q, paint, 1, &good, NULL));
    SHOW(clEnqueueNDRangeKernel(q, kernel, 0, NULL, &global, NULL, 0, NULL, NULL));
    SHOW(clEnqueueNDRangeKernel(q, kernel, 4, NULL, &global, NULL, 0, NULL, NULL));
    SHOW(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &global, &local, 0, NULL, NULL));
    SHOW(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &empty, NULL, 0, NULL, NULL));
    SHOW(clEnqueueNDRangeKernel(q, kernel, 1, &odd, &global, NULL, 0, NULL, NULL));
    local = ~(size_t)0;
    SHOW(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &global, &local, 0, NULL, NULL));
    SHOW(clEnqueueNDRangeKernel(NULL, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));

    // Events.
    LISTS(clEnqueueMarkerWithWaitList(q, n, l, NULL));
    LISTS(clEnqueueBarrierWithWaitList(q, n, l, NULL));
    SHOW(clWaitForEvents(0, NULL));
    SHOW(clWaitForEvents(1, NULL));
    SHOW(clWaitForEvents(1, &none));
    cl_event mixed[] = {good, foreign_event};
    SHOW(clWaitForEvents(2, mixed));
    SHOW(clWaitForEvents(0, &good));
    SHOW(clSetUserEventStatus(good, CL_COMPLETE));
    SHOW(clSetUserEventStatus(good, -1));
    SHOW(clSetUserEventStatus(NULL, 0));
    cl_event event;
    SHOW(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &global, NULL, 0, NULL, &event));
    SHOW(clFinish(q));
    SHOW(clSetUserEventStatus(event, 0));
    SHOW(clSetEventCallback(event, CL_COMPLETE, NULL, NULL));
    SHOW(clSetEventCallback(event, 17, NULL, NULL));
    cl_command_type type = 0;
    cl_int status = 9;
    size_t size = 0;
    cl_command_queue theirs = NULL;
    SHOW(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, &size));
    printf("type %x size %zu\n", type, size);
    SHOW(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, &size));
    printf("status %d size %zu\n", status, size);
    SHOW(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, 1, &status, &size));
    SHOW(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, 0, NULL, &size));
    SHOW(clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof theirs, &theirs, &size));
    printf("queue %d\n", theirs == q);
    SHOW(clGetEventInfo(event, 0x9999, sizeof theirs, &theirs, &size));
    SHOW(clGetEventInfo(NULL, CL_EVENT_COMMAND_TYPE, sizeof type, &type, &size));
    cl_ulong time;
    SHOW(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof time, &time, NULL));
    SHOW(clReleaseEvent(event));
    SHOW(clFinish(NULL));

    // Shared virtual memory.
    cl_int(*unused)(void) = NULL;
    (void)unused;
    char *shared = clSVMAlloc(c.context, CL_MEM_READ_WRITE, 256, 0);
    printf("svm %s %s %s %s %s\n", shared ? "made" : "none", clSVMAlloc(c.context, 0, 0, 0) ? "made" : "none", clSVMAlloc(NULL, 0, 16, 0) ? "made" : "none",
           clSVMAlloc(c.context, 0, 16, 3) ? "made" : "none", clSVMAlloc(c.context, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 16, 0) ? "made" : "none");
    LISTS(clEnqueueSVMMemcpy(q, CL_TRUE, shared, shared + 128, 16, n, l, NULL));
    SHOW(clEnqueueSVMMemcpy(q, CL_TRUE, shared, shared + 8, 16, 0, NULL, NULL));
    SHOW(clEnqueueSVMMemcpy(q, CL_TRUE, NULL, shared + 8, 16, 0, NULL, NULL));
    SHOW(clEnqueueSVMMemcpy(q, CL_TRUE, shared, NULL, 16, 0, NULL, NULL));
    SHOW(clEnqueueSVMMemcpy(q, CL_TRUE, shared, host, 0, 0, NULL, NULL));
    LISTS(clEnqueueSVMMemFill(q, shared, &x, 4, 64, n, l, NULL));
    SHOW(clEnqueueSVMMemFill(q, shared, &x, 3, 63, 0, NULL, NULL));
    SHOW(clEnqueueSVMMemFill(q, shared, &x, 4, 63, 0, NULL, NULL));
    SHOW(clEnqueueSVMMemFill(q, shared + 1, &x, 4, 64, 0, NULL, NULL));
    LISTS(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, shared, 64, n, l, NULL));
    SHOW(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, NULL, 64, 0, NULL, NULL));
    SHOW(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, shared, 0, 0, NULL, NULL));
    SHOW(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION, shared, 8, 0, NULL, NULL));
    LISTS(clEnqueueSVMUnmap(q, shared, n, l, NULL));
    SHOW(clEnqueueSVMUnmap(q, NULL, 0, NULL, NULL));
    SHOW(clSetKernelArgSVMPointer(kernel, 0, shared));
    SHOW(clSetKernelArgSVMPointer(kernel, 0, shared + 16));
    SHOW(clSetKernelArgSVMPointer(kernel, 1, shared));
    SHOW(clSetKernelArgSVMPointer(kernel, 9, shared));
    SHOW(clEnqueueNDRangeKernel(q, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    SHOW(clFinish(q));
    const void *pointers[] = {shared};
    SHOW(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof pointers, pointers));
    SHOW(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, 0, NULL));
    SHOW(clSetKernelExecInfo(kernel, 0x9999, sizeof pointers, pointers));
    SHOW(clEnqueueSVMMigrateMem(q, 1, pointers, NULL, 0, 0, NULL, NULL));
    size_t too_long = 1 << 20, sizes[] = {64};
    SHOW(clEnqueueSVMMigrateMem(q, 1, pointers, sizes, 0, 0, NULL, NULL));
    (void)too_long;
    SHOW(clEnqueueSVMFree(q, 1, (void **)pointers, NULL, NULL, 1, NULL, NULL));
    SHOW(clEnqueueSVMFree(q, 0, NULL, NULL, NULL, 0, NULL, NULL));
    SHOW(clEnqueueSVMFree(q, 1, (void **)pointers, NULL, NULL, 0, NULL, NULL));
    SHOW(clFinish(q));
    clSVMFree(c.context, NULL);

    // Questions.
    cl_mem_info names[] = {CL_MEM_TYPE, CL_MEM_FLAGS, CL_MEM_SIZE, CL_MEM_HOST_PTR, CL_MEM_MAP_COUNT, CL_MEM_REFERENCE_COUNT, CL_MEM_CONTEXT, CL_MEM_ASSOCIATED_MEMOBJECT, CL_MEM_OFFSET, CL_MEM_USES_SVM_POINTER, CL_MEM_PROPERTIES, 0x9999};
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < 12; k++) {
            char value[64];
            size_t needed = 99;
            code = clGetMemObjectInfo(objects[i], names[k], 0, NULL, &needed);
            printf("%d %x: %d %zu", i, names[k], code, needed);
            printf(" %d %d %d\n", clGetMemObjectInfo(objects[i], names[k], sizeof value, value, NULL), clGetMemObjectInfo(objects[i], names[k], 1, value, NULL), clGetMemObjectInfo(objects[i], names[k], 0, NULL, NULL));
        }
    SHOW(clRetainMemObject(NULL));
    SHOW(clReleaseMemObject(NULL));
    SHOW(clRetainEvent(NULL));
    SHOW(clReleaseEvent(NULL));
    cl_uint references;
    OK(clGetMemObjectInfo(a, CL_MEM_REFERENCE_COUNT, sizeof references, &references, NULL));
    OK(clReleaseMemObject(part));
    OK(clReleaseKernel(kernel));
    OK(clReleaseKernel(paint));
    close_case(&c);
    return 0;
}
