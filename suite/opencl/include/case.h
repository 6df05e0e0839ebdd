// What every OpenCL case starts with: a device, a context, a queue and a
// program, or a clear end. Calls that a finding must name stand in the cases
// themselves, so that it names their lines.

#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Ends the program if a call failed.
#define OK(call)                                                               \
    do {                                                                       \
        cl_int code_ = (call);                                                 \
        if (code_ != CL_SUCCESS) {                                             \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call,      \
                    code_);                                                    \
            exit(2);                                                           \
        }                                                                      \
    } while (0)

// Ends the program if something that must hold does not.
#define MUST(condition)                                                        \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__,         \
                    #condition);                                               \
            exit(3);                                                           \
        }                                                                      \
    } while (0)

// Ends a program that needs what the platform, which was asked for it, lacks.
#define NEEDS(condition, what)                                                 \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "not runnable: the platform has no %s\n", what);   \
            exit(77);                                                          \
        }                                                                      \
    } while (0)

typedef struct {
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
} Case;

static inline Case open_with(const char *source, cl_command_queue_properties properties) {
    Case c;
    memset(&c, 0, sizeof c);
    cl_int code;
    OK(clGetPlatformIDs(1, &c.platform, NULL));
    OK(clGetDeviceIDs(c.platform, CL_DEVICE_TYPE_ALL, 1, &c.device, NULL));
    c.context = clCreateContext(NULL, 1, &c.device, NULL, NULL, &code);
    OK(code);
    c.queue = clCreateCommandQueue(c.context, c.device, properties, &code);
    OK(code);
    c.program = clCreateProgramWithSource(c.context, 1, &source, NULL, &code);
    OK(code);
    code = clBuildProgram(c.program, 1, &c.device, "-cl-kernel-arg-info", NULL, NULL);
    if (code != CL_SUCCESS) {
        char log[4096] = "";
        clGetProgramBuildInfo(c.program, c.device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
        fprintf(stderr, "%s\n", log);
    }
    OK(code);
    return c;
}

static inline int has_svm(const Case *c, cl_device_svm_capabilities wanted) {
    cl_device_svm_capabilities capabilities = 0;
    return clGetDeviceInfo(c->device, CL_DEVICE_SVM_CAPABILITIES, sizeof capabilities, &capabilities, NULL) ==
               CL_SUCCESS &&
           (capabilities & wanted) == wanted;
}

static inline int has_images(const Case *c) {
    cl_bool images = CL_FALSE;
    OK(clGetDeviceInfo(c->device, CL_DEVICE_IMAGE_SUPPORT, sizeof images, &images, NULL));
    return images;
}

static inline Case open_case(const char *source) { return open_with(source, 0); }

static inline cl_kernel kernel_of(Case *c, const char *name) {
    cl_int code;
    cl_kernel kernel = clCreateKernel(c->program, name, &code);
    OK(code);
    return kernel;
}

static inline cl_mem buffer_of(Case *c, cl_mem_flags flags, size_t bytes, void *host) {
    cl_int code;
    cl_mem buffer = clCreateBuffer(c->context, flags, bytes, host, &code);
    OK(code);
    return buffer;
}

#define ARGUMENT(kernel, index, value) OK(clSetKernelArg(kernel, index, sizeof(value), &(value)))

static inline void close_case(Case *c) {
    OK(clReleaseProgram(c->program));
    OK(clReleaseCommandQueue(c->queue));
    OK(clReleaseContext(c->context));
}

static inline int is_bad(int count, char **arguments) {
    return count > 1 && strcmp(arguments[1], "bad") == 0;
}

// A sum that is the same wherever the program runs.
static inline void print_sum(const int *values, size_t count) {
    long sum = 0;
    for (size_t index = 0; index < count; index++)
        sum = sum * 31 % 1000003 + values[index];
    printf("%ld\n", sum);
}
