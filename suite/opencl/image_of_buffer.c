// bug: behind kernels that use images made of buffers, alone and with the buffers, a kernel overruns
// expect: rule=canary-overwritten kernel=add argument=data at=0 size=1024
#include "case.h"

enum { COUNT = 256 };

static const char *source = "kernel void add(global int *data, int n) { if (get_global_id(0) < n) data[get_global_id(0)] += 1; }\n"
                            "kernel void lift(read_only image1d_buffer_t in, global int *out) { out[get_global_id(0)] = 3 * read_imagei(in, (int)get_global_id(0)).x; }\n"
                            "kernel void lower(write_only image1d_buffer_t out, global const int *in) {\n"
                            "    int i = get_global_id(0);\n"
                            "    if (i < 128) write_imagei(out, i, (int4)(in[2 * i] - 1, 0, 0, 0));\n"
                            "}\n";

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? COUNT + 1 : COUNT, start[COUNT], result[COUNT];
    for (int i = 0; i < COUNT; i++)
        start[i] = i * i;
    Case c = open_case(source);
    NEEDS(has_images(&c), "images");
    cl_kernel add = kernel_of(&c, "add"), lift = kernel_of(&c, "lift"), lower = kernel_of(&c, "lower");
    cl_mem data = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof start, start);
    cl_mem other = buffer_of(&c, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof start, start);
    cl_image_format format = {CL_R, CL_SIGNED_INT32};
    cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = COUNT, .mem_object = data};
    cl_int code;
    cl_mem image = clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &description, NULL, &code);
    OK(code);
    cl_mem of = NULL;
    OK(clGetImageInfo(image, CL_IMAGE_BUFFER, sizeof of, &of, NULL));
    MUST(of == data);
    OK(clGetMemObjectInfo(image, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof of, &of, NULL));
    MUST(of == data);
    size_t global = COUNT, more = 300;
    // The image is seen through the buffer, and the buffer through the image.
    ARGUMENT(add, 0, data);
    cl_int enough = COUNT;
    ARGUMENT(add, 1, enough);
    OK(clEnqueueNDRangeKernel(c.queue, add, 1, NULL, &more, NULL, 0, NULL, NULL));
    ARGUMENT(lift, 0, image);
    ARGUMENT(lift, 1, other);
    OK(clEnqueueNDRangeKernel(c.queue, lift, 1, NULL, &global, NULL, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(c.queue, other, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, COUNT);
    ARGUMENT(lower, 0, image);
    ARGUMENT(lower, 1, data);
    OK(clEnqueueNDRangeKernel(c.queue, lower, 1, NULL, &global, NULL, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(c.queue, data, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result + COUNT / 2, COUNT / 2);
    size_t origin[3] = {8, 0, 0}, region[3] = {16, 1, 1};
    OK(clEnqueueWriteImage(c.queue, image, CL_TRUE, origin, region, 0, 0, start, 0, NULL, NULL));
    OK(clEnqueueReadBuffer(c.queue, data, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result + 8, 16);
    OK(clEnqueueWriteBuffer(c.queue, data, CL_FALSE, 0, sizeof start, start, 0, NULL, NULL));
    OK(clEnqueueReadImage(c.queue, image, CL_TRUE, origin, region, 0, 0, result, 0, NULL, NULL));
    print_sum(result, 16);
    size_t row;
    int *mapped = clEnqueueMapImage(c.queue, image, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, origin, region, &row, NULL, 0, NULL, NULL, &code);
    OK(code);
    print_sum(mapped, 16);
    for (int i = 0; i < 16; i++)
        mapped[i] = -i;
    OK(clEnqueueUnmapMemObject(c.queue, image, mapped, 0, NULL, NULL));
    ARGUMENT(add, 1, n);
    OK(clEnqueueNDRangeKernel(c.queue, add, 1, NULL, &more, NULL, 0, NULL, NULL)); // BUG
    OK(clReleaseMemObject(data));
    region[0] = COUNT, origin[0] = 0;
    OK(clEnqueueReadImage(c.queue, image, CL_TRUE, origin, region, 0, 0, result, 0, NULL, NULL));
    print_sum(result, COUNT);
    OK(clReleaseMemObject(image));
    OK(clReleaseMemObject(other));
    OK(clReleaseKernel(add));
    OK(clReleaseKernel(lift));
    OK(clReleaseKernel(lower));
    close_case(&c);
    return 0;
}
