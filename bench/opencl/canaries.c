// Launches kernels that do nothing with many memory objects, so that what a
// launch takes is what the launch itself and looks at canaries take.
//
//   canaries checks KIND ROUNDS      KIND: buffers, svm or images
//       one line for each number of objects: `KIND COUNT MICROSECONDS`, the
//       median of a launch and the wait for its end
//   canaries repeated KIND LAUNCHES
//       lines for 8 objects: `KIND LAUNCHES MILLISECONDS`, from the first
//       launch to the end of that one
//
// A platform that lacks the kind gives the line `KIND none`.

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OK(call)                                                               \
    do {                                                                       \
        cl_int code_ = (call);                                                 \
        if (code_ != CL_SUCCESS) {                                             \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call,      \
                    code_);                                                    \
            exit(2);                                                           \
        }                                                                      \
    } while (0)

enum { BYTES = 4096, SIDE = 256, MOST = 256, ROUNDS = 1000 };

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

typedef struct {
    const char *kind;
    int count;
    cl_program program;
    cl_kernel kernel;
    cl_mem objects[MOST];
    void *shared[MOST];
} Work;

static int is(const char *kind, const char *name) { return strcmp(kind, name) == 0; }

// The most objects of a kind that a kernel can take, at most so many.
static int most(const char *kind) {
    cl_uint images = 0;
    cl_device_svm_capabilities shared = 0;
    size_t bytes = 1024;
    if (is(kind, "images")) {
        cl_bool any = CL_FALSE;
        OK(clGetDeviceInfo(device, CL_DEVICE_IMAGE_SUPPORT, sizeof any, &any, NULL));
        if (any) OK(clGetDeviceInfo(device, CL_DEVICE_MAX_WRITE_IMAGE_ARGS, sizeof images, &images, NULL));
        return images > 32 ? 32 : (int)images;
    }
    if (is(kind, "svm")) {
        clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof shared, &shared, NULL);
        return shared & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER ? MOST : 0;
    }
    OK(clGetDeviceInfo(device, CL_DEVICE_MAX_PARAMETER_SIZE, sizeof bytes, &bytes, NULL));
    return bytes / sizeof(void *) < MOST ? (int)(bytes / sizeof(void *)) : MOST;
}

static Work make(const char *kind, int count) {
    Work work;
    memset(&work, 0, sizeof work);
    work.kind = kind;
    work.count = count;
    // One pointer into shared memory reaches all of it.
    int parameters = is(kind, "svm") ? 1 : count;
    static char text[MOST * 40];
    size_t length = sprintf(text, "kernel void work(");
    for (int i = 0; i < parameters; i++)
        length += sprintf(text + length, "%s%s a%d", i ? ", " : "",
                          is(kind, "images") ? "write_only image2d_t" : "global int *", i);
    sprintf(text + length, ") {}\n");
    const char *source = text;
    cl_int code;
    work.program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    OK(code);
    OK(clBuildProgram(work.program, 1, &device, "", NULL, NULL));
    work.kernel = clCreateKernel(work.program, "work", &code);
    OK(code);
    for (int i = 0; i < count; i++) {
        if (is(kind, "svm")) {
            work.shared[i] = clSVMAlloc(context, CL_MEM_READ_WRITE, BYTES, 0);
            if (!work.shared[i]) OK(CL_MEM_OBJECT_ALLOCATION_FAILURE);
            if (i == 0) OK(clSetKernelArgSVMPointer(work.kernel, 0, work.shared[0]));
            continue;
        }
        if (is(kind, "images")) {
            cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
            cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = SIDE, .image_height = SIDE};
            work.objects[i] = clCreateImage(context, CL_MEM_READ_WRITE, &format, &description, NULL, &code);
        } else {
            work.objects[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, BYTES, NULL, &code);
        }
        OK(code);
        OK(clSetKernelArg(work.kernel, i, sizeof(cl_mem), &work.objects[i]));
    }
    return work;
}

static void end(Work *work) {
    OK(clFinish(queue));
    OK(clReleaseKernel(work->kernel));
    OK(clReleaseProgram(work->program));
    for (int i = 0; i < work->count; i++) {
        if (work->objects[i]) OK(clReleaseMemObject(work->objects[i]));
        if (work->shared[i]) clSVMFree(context, work->shared[i]);
    }
}

static void launch(Work *work) {
    size_t global = 64, local = 64;
    OK(clEnqueueNDRangeKernel(queue, work->kernel, 1, NULL, &global, &local, 0, NULL, NULL));
    OK(clFinish(queue));
}

static void checks(const char *kind, int limit, int rounds) {
    for (int count = 1; count <= limit; count *= 2) {
        Work work = make(kind, count);
        for (int i = 0; i < 5; i++)
            launch(&work);
        double times[ROUNDS];
        for (int i = 0; i < rounds; i++) {
            double start = now();
            launch(&work);
            times[i] = now() - start;
        }
        qsort(times, rounds, sizeof *times, compare);
        printf("%s %d %.2f\n", kind, count, times[rounds / 2]);
        fflush(stdout);
        end(&work);
    }
}

static void repeated(const char *kind, int last) {
    Work work = make(kind, 8);
    double start = now();
    for (int launches = 1, told = 1; launches <= last; launches++) {
        launch(&work);
        if (launches == told) {
            printf("%s %d %.3f\n", kind, launches, (now() - start) / 1e3);
            // 1, 2, 5, 10, 20, …
            int digit = told;
            while (digit >= 10)
                digit /= 10;
            told = digit == 2 ? told / 2 * 5 : told * 2;
        }
    }
    end(&work);
}

int main(int count, char **arguments) {
    int number = count == 4 ? atoi(arguments[3]) : 0;
    if (number < 1 || (is(arguments[1], "checks") && number > ROUNDS)) {
        fprintf(stderr, "usage: canaries checks|repeated buffers|svm|images NUMBER\n");
        return 2;
    }
    const char *kind = arguments[2];
    cl_platform_id platform;
    cl_int code;
    char name[200], version[200];
    OK(clGetPlatformIDs(1, &platform, NULL));
    OK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    OK(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL));
    OK(clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof version, version, NULL));
    printf("device %s\nplatform %s\n", name, version);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    OK(code);
    queue = clCreateCommandQueue(context, device, 0, &code);
    OK(code);
    int limit = most(kind);
    if (limit < 8)
        printf("%s none\n", kind);
    else if (is(arguments[1], "checks"))
        checks(kind, limit, number);
    else
        repeated(kind, number);
    OK(clReleaseCommandQueue(queue));
    OK(clReleaseContext(context));
    return 0;
}
