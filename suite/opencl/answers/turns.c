// Correct programs whose kernels share memory of the host, in several queues
// and threads, with and without the program's own events between them.
#include "../include/case.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, COUNT = 1024, PART = COUNT / THREADS, ROUNDS = 40 };

static const char *source = "kernel void add(global int *data, int from, int n) { if (get_global_id(0) < n) data[from + get_global_id(0)] += 1; }\n"
                            "kernel void sum(global int *data, global int *out) { out[get_global_id(0)] = data[get_global_id(0)] * 2; }\n"
                            "kernel void paint(write_only image2d_t out, int y) { write_imagei(out, (int2)(get_global_id(0), y), (int4)(y, 0, 0, 0)); }\n";

static Case c;
static cl_mem shared, parent, image;
static atomic_int calls;

static void CL_CALLBACK called(cl_event event, cl_int status, void *data) {
    cl_int now = 9;
    OK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof now, &now, NULL));
    if (status == CL_COMPLETE && now == CL_COMPLETE)
        atomic_fetch_add((atomic_int *)data, 1);
}

static void launch(cl_command_queue queue, cl_kernel kernel, size_t global, cl_uint count, const cl_event *list, cl_event *event) {
    OK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, count, list, event));
}

// Each thread has a queue, and its own part of the memory.
static void *work(void *number) {
    int from = (int)(size_t)number * PART, n = PART;
    cl_int code;
    cl_command_queue queue = clCreateCommandQueue(c.context, c.device, (size_t)number % 2 ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0, &code);
    OK(code);
    cl_kernel kernel = kernel_of(&c, "add"), paint = kernel_of(&c, "paint");
    ARGUMENT(kernel, 1, from);
    ARGUMENT(kernel, 2, n);
    cl_event before = NULL;
    for (int i = 0; i < ROUNDS; i++) {
        cl_event event;
        ARGUMENT(kernel, 0, shared);
        launch(queue, kernel, PART, before != NULL, before ? &before : NULL, &event);
        OK(clSetEventCallback(event, CL_COMPLETE, called, &calls));
        if (before)
            OK(clReleaseEvent(before));
        before = event;
        // A part of its own of a buffer that all share.
        cl_buffer_region region = {from * sizeof(int), PART * sizeof(int)};
        cl_mem part = clCreateSubBuffer(parent, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
        OK(code);
        int none = 0;
        ARGUMENT(kernel, 0, part);
        ARGUMENT(kernel, 1, none);
        launch(queue, kernel, PART, 1, &before, &event);
        ARGUMENT(kernel, 1, from);
        OK(clReleaseMemObject(part));
        OK(clReleaseEvent(before));
        before = event;
        if (i % 8 == 7)
            OK(clFinish(queue));
    }
    int y = (int)(size_t)number;
    ARGUMENT(paint, 0, image);
    ARGUMENT(paint, 1, y);
    launch(queue, paint, 16, 0, NULL, NULL);
    OK(clWaitForEvents(1, &before));
    OK(clReleaseEvent(before));
    OK(clFinish(queue));
    OK(clReleaseKernel(kernel));
    OK(clReleaseKernel(paint));
    OK(clReleaseCommandQueue(queue));
    return NULL;
}

int main(void) {
    c = open_case(source);
    static int host[COUNT] __attribute__((aligned(4096))), zero[COUNT], result[COUNT], pixels[64];
    cl_int code;
    shared = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, sizeof host, host);
    parent = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zero, zero);
    cl_image_format format = {CL_R, CL_SIGNED_INT32};
    cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 4};
    image = clCreateImage(c.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, &format, &description, pixels, &code);
    OK(code);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    OK(clEnqueueReadBuffer(c.queue, shared, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, COUNT);
    OK(clEnqueueReadBuffer(c.queue, parent, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, COUNT);
    size_t origin[3] = {0, 0, 0}, region[3] = {16, 4, 1};
    OK(clEnqueueReadImage(c.queue, image, CL_TRUE, origin, region, 0, 0, pixels, 0, NULL, NULL));
    print_sum(pixels, 64);

    // A kernel waits for the program, which waits for kernels that use the same
    // memory in another queue, and in none of their order.
    cl_command_queue other = clCreateCommandQueue(c.context, c.device, 0, &code);
    OK(code);
    cl_command_queue loose = clCreateCommandQueue(c.context, c.device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    OK(code);
    cl_mem out = buffer_of(&c, CL_MEM_READ_WRITE, sizeof host, NULL);
    cl_kernel sum = kernel_of(&c, "sum"), add = kernel_of(&c, "add");
    int from = 0, n = COUNT;
    ARGUMENT(sum, 0, shared);
    ARGUMENT(sum, 1, out);
    ARGUMENT(add, 0, shared);
    ARGUMENT(add, 1, from);
    ARGUMENT(add, 2, n);
    for (int i = 0; i < 5; i++) {
        cl_event gate = clCreateUserEvent(c.context, &code), first, second, early;
        OK(code);
        launch(loose, sum, COUNT, 1, &gate, &first);
        launch(loose, sum, COUNT, 1, &first, &second);
        launch(other, add, COUNT, 0, NULL, NULL);
        OK(clFinish(other));
        launch(loose, add, COUNT, 0, NULL, &early);
        OK(clWaitForEvents(1, &early));
        OK(clSetUserEventStatus(gate, CL_COMPLETE));
        OK(clWaitForEvents(1, &second));
        OK(clEnqueueReadBuffer(c.queue, out, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
        print_sum(result, COUNT);
        cl_event all[] = {gate, first, second, early};
        for (int k = 0; k < 4; k++)
            OK(clReleaseEvent(all[k]));
    }
    OK(clFinish(c.queue));
    while (atomic_load(&calls) < THREADS * ROUNDS)
        ;
    printf("calls %d\n", atomic_load(&calls));
    OK(clReleaseKernel(sum));
    OK(clReleaseKernel(add));
    OK(clReleaseMemObject(out));
    OK(clReleaseMemObject(shared));
    OK(clReleaseMemObject(parent));
    OK(clReleaseMemObject(image));
    OK(clReleaseCommandQueue(other));
    OK(clReleaseCommandQueue(loose));
    close_case(&c);
    return 0;
}
