// bug: a program that loads OpenCL itself overruns a buffer by a second launch of a cloned kernel
// expect: rule=canary-overwritten kernel=fill argument=out at=0 size=100
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_bad(int count, char **arguments) { return count > 1 && strcmp(arguments[1], "bad") == 0; }

static void *library;

static void *find(const char *name) {
    void *function = dlsym(library, name);
    if (!function) {
        fprintf(stderr, "no %s\n", name);
        exit(2);
    }
    return function;
}

#define GET(name) __typeof__(&name) p##name = find(#name)
#define OK(call)                                                               \
    do {                                                                       \
        cl_int code_ = (call);                                                 \
        if (code_ != CL_SUCCESS) {                                             \
            fprintf(stderr, "%s: %d\n", #call, code_);                         \
            exit(2);                                                           \
        }                                                                      \
    } while (0)

int main(int count, char **arguments) {
    library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return 2;
    GET(clGetPlatformIDs);
    GET(clGetDeviceIDs);
    GET(clCreateContext);
    GET(clCreateCommandQueueWithProperties);
    GET(clCreateProgramWithSource);
    GET(clBuildProgram);
    GET(clCreateKernel);
    GET(clCloneKernel);
    GET(clCreateBuffer);
    GET(clSetKernelArg);
    GET(clEnqueueNDRangeKernel);
    GET(clFinish);
    GET(clEnqueueReadBuffer);
    cl_platform_id platform;
    cl_device_id device;
    cl_int code;
    OK(pclGetPlatformIDs(1, &platform, NULL));
    OK(pclGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    cl_context context = pclCreateContext(NULL, 1, &device, NULL, NULL, &code);
    OK(code);
    cl_command_queue queue = pclCreateCommandQueueWithProperties(context, device, NULL, &code);
    OK(code);
    const char *source = "kernel void fill(global uchar *out, int n) { for (int i = 0; i < n; i++) out[i] = i; }";
    cl_program program = pclCreateProgramWithSource(context, 1, &source, NULL, &code);
    OK(code);
    OK(pclBuildProgram(program, 1, &device, "-cl-kernel-arg-info", NULL, NULL));
    cl_kernel kernel = pclCreateKernel(program, "fill", &code);
    OK(code);
    cl_mem out = pclCreateBuffer(context, CL_MEM_READ_WRITE, 100, NULL, &code);
    OK(code);
    int n = 100;
    OK(pclSetKernelArg(kernel, 0, sizeof out, &out));
    OK(pclSetKernelArg(kernel, 1, sizeof n, &n));
    size_t global = 1;
    OK(pclEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    cl_kernel clone = pclCloneKernel(kernel, &code);
    OK(code);
    n = is_bad(count, arguments) ? 110 : 90;
    OK(pclSetKernelArg(clone, 1, sizeof n, &n));
    OK(pclEnqueueNDRangeKernel(queue, clone, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    unsigned char last;
    OK(pclEnqueueReadBuffer(queue, out, CL_TRUE, 99, 1, &last, 0, NULL, NULL));
    OK(pclFinish(queue));
    printf("%d\n", last);
    return 0;
}
