// A loader of OpenCL that has no layers, as that of the CUDA toolkit: it knows
// one platform, PoCL, and calls the functions in its objects' tables. Its
// device has no room for buffers of more than PLAIN_LOADER_MOST bytes.

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

// Every object starts with its platform's table.
#define TABLE(object) (*(cl_icd_dispatch **)(object))

typedef cl_int (*Platforms)(cl_uint, cl_platform_id *, cl_uint *);

cl_int clGetPlatformIDs(cl_uint count, cl_platform_id *platforms, cl_uint *known) {
    static Platforms ask;
    if (!ask) {
        void *library = dlopen("libpocl.so.2", RTLD_NOW | RTLD_LOCAL);
        void *(*find)(const char *) =
            library ? (void *(*)(const char *))dlsym(library, "clGetExtensionFunctionAddress") : NULL;
        ask = find ? (Platforms)find("clIcdGetPlatformIDsKHR") : NULL;
        if (!ask) return -1001;
    }
    return ask(count, platforms, known);
}

#define P(...) __VA_ARGS__
#define PASS(type, name, parameters, object, arguments)                        \
    type name(parameters) { return TABLE(object)->name(arguments); }

PASS(cl_int, clGetPlatformInfo, P(cl_platform_id a, cl_platform_info b, size_t c, void *d, size_t *e), a, P(a, b, c, d, e))
PASS(cl_int, clGetDeviceIDs, P(cl_platform_id a, cl_device_type b, cl_uint c, cl_device_id *d, cl_uint *e), a, P(a, b, c, d, e))
PASS(cl_int, clGetDeviceInfo, P(cl_device_id a, cl_device_info b, size_t c, void *d, size_t *e), a, P(a, b, c, d, e))
PASS(cl_context, clCreateContext, P(const cl_context_properties *a, cl_uint b, const cl_device_id *c, void (*d)(const char *, const void *, size_t, void *), void *e, cl_int *f), c[0], P(a, b, c, d, e, f))
PASS(cl_int, clGetContextInfo, P(cl_context a, cl_context_info b, size_t c, void *d, size_t *e), a, P(a, b, c, d, e))
PASS(cl_int, clReleaseContext, P(cl_context a), a, P(a))
PASS(cl_command_queue, clCreateCommandQueue, P(cl_context a, cl_device_id b, cl_command_queue_properties c, cl_int *d), a, P(a, b, c, d))
PASS(cl_int, clGetCommandQueueInfo, P(cl_command_queue a, cl_command_queue_info b, size_t c, void *d, size_t *e), a, P(a, b, c, d, e))
PASS(cl_int, clReleaseCommandQueue, P(cl_command_queue a), a, P(a))

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code) {
    const char *most = getenv("PLAIN_LOADER_MOST");
    if (most && size > strtoul(most, NULL, 10)) {
        if (code) *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return NULL;
    }
    return TABLE(context)->clCreateBuffer(context, flags, size, host, code);
}

PASS(cl_mem, clCreateSubBuffer, P(cl_mem a, cl_mem_flags b, cl_buffer_create_type c, const void *d, cl_int *e), a, P(a, b, c, d, e))
PASS(cl_int, clGetMemObjectInfo, P(cl_mem a, cl_mem_info b, size_t c, void *d, size_t *e), a, P(a, b, c, d, e))
PASS(cl_int, clRetainMemObject, P(cl_mem a), a, P(a))
PASS(cl_int, clReleaseMemObject, P(cl_mem a), a, P(a))
PASS(cl_int, clSetMemObjectDestructorCallback, P(cl_mem a, void (*b)(cl_mem, void *), void *c), a, P(a, b, c))
PASS(cl_program, clCreateProgramWithSource, P(cl_context a, cl_uint b, const char **c, const size_t *d, cl_int *e), a, P(a, b, c, d, e))
PASS(cl_int, clBuildProgram, P(cl_program a, cl_uint b, const cl_device_id *c, const char *d, void (*e)(cl_program, void *), void *f), a, P(a, b, c, d, e, f))
PASS(cl_int, clGetProgramInfo, P(cl_program a, cl_program_info b, size_t c, void *d, size_t *e), a, P(a, b, c, d, e))
PASS(cl_int, clGetProgramBuildInfo, P(cl_program a, cl_device_id b, cl_program_build_info c, size_t d, void *e, size_t *f), a, P(a, b, c, d, e, f))
PASS(cl_int, clReleaseProgram, P(cl_program a), a, P(a))
PASS(cl_kernel, clCreateKernel, P(cl_program a, const char *b, cl_int *c), a, P(a, b, c))
PASS(cl_int, clGetKernelInfo, P(cl_kernel a, cl_kernel_info b, size_t c, void *d, size_t *e), a, P(a, b, c, d, e))
PASS(cl_int, clGetKernelArgInfo, P(cl_kernel a, cl_uint b, cl_kernel_arg_info c, size_t d, void *e, size_t *f), a, P(a, b, c, d, e, f))
PASS(cl_int, clGetKernelWorkGroupInfo, P(cl_kernel a, cl_device_id b, cl_kernel_work_group_info c, size_t d, void *e, size_t *f), a, P(a, b, c, d, e, f))
PASS(cl_int, clSetKernelArg, P(cl_kernel a, cl_uint b, size_t c, const void *d), a, P(a, b, c, d))
PASS(cl_int, clReleaseKernel, P(cl_kernel a), a, P(a))
PASS(cl_int, clEnqueueNDRangeKernel, P(cl_command_queue a, cl_kernel b, cl_uint c, const size_t *d, const size_t *e, const size_t *f, cl_uint g, const cl_event *h, cl_event *i), a, P(a, b, c, d, e, f, g, h, i))
PASS(cl_int, clEnqueueReadBuffer, P(cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void *f, cl_uint g, const cl_event *h, cl_event *i), a, P(a, b, c, d, e, f, g, h, i))
PASS(cl_int, clEnqueueWriteBuffer, P(cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, const void *f, cl_uint g, const cl_event *h, cl_event *i), a, P(a, b, c, d, e, f, g, h, i))
PASS(cl_int, clEnqueueCopyBuffer, P(cl_command_queue a, cl_mem b, cl_mem c, size_t d, size_t e, size_t f, cl_uint g, const cl_event *h, cl_event *i), a, P(a, b, c, d, e, f, g, h, i))
PASS(cl_int, clEnqueueMarkerWithWaitList, P(cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), a, P(a, b, c, d))
PASS(cl_int, clWaitForEvents, P(cl_uint a, const cl_event *b), b[0], P(a, b))
PASS(cl_int, clGetEventInfo, P(cl_event a, cl_event_info b, size_t c, void *d, size_t *e), a, P(a, b, c, d, e))
PASS(cl_int, clSetEventCallback, P(cl_event a, cl_int b, void (*c)(cl_event, cl_int, void *), void *d), a, P(a, b, c, d))
PASS(cl_int, clRetainEvent, P(cl_event a), a, P(a))
PASS(cl_int, clReleaseEvent, P(cl_event a), a, P(a))
PASS(cl_int, clFlush, P(cl_command_queue a), a, P(a))
PASS(cl_int, clFinish, P(cl_command_queue a), a, P(a))
