// bug: behind copies between images and buffers a kernel overruns the buffer
// expect: rule=canary-overwritten kernel=lift argument=data at=0 size=1024
#include "case.h"

static const char *source = "kernel void lift(read_only image2d_t in, global int *data, int n) {\n"
                            "    const sampler_t sampler = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;\n"
                            "    int i = get_global_id(0);\n"
                            "    if (i < n) data[i] += read_imagei(in, sampler, (int2)(i % 16 + 100 * (i == 255), i / 16)).x;\n"
                            "}\n";

int main(int count, char **arguments) {
    int n = is_bad(count, arguments) ? 257 : 256;
    int pixels[256], result[256];
    for (int i = 0; i < 256; i++)
        pixels[i] = 3 * i;
    Case c = open_case(source);
    NEEDS(has_images(&c), "images");
    cl_kernel kernel = kernel_of(&c, "lift");
    cl_image_format format = {CL_R, CL_SIGNED_INT32};
    cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 16};
    cl_int code;
    cl_mem image = clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &description, NULL, &code);
    OK(code);
    cl_mem other = clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &description, NULL, &code);
    OK(code);
    cl_mem data = buffer_of(&c, CL_MEM_READ_WRITE, sizeof result, NULL);
    size_t origin[3] = {0, 0, 0}, region[3] = {16, 16, 1}, global = 300;
    OK(clEnqueueWriteImage(c.queue, image, CL_TRUE, origin, region, 0, 0, pixels, 0, NULL, NULL));
    OK(clEnqueueCopyImage(c.queue, image, other, origin, origin, region, 0, NULL, NULL));
    OK(clEnqueueCopyImageToBuffer(c.queue, other, data, origin, region, 0, 0, NULL, NULL));
    OK(clEnqueueCopyBufferToImage(c.queue, data, image, 0, origin, region, 0, NULL, NULL));
    ARGUMENT(kernel, 0, image);
    ARGUMENT(kernel, 1, data);
    ARGUMENT(kernel, 2, n);
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL)); // BUG
    OK(clEnqueueReadBuffer(c.queue, data, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    print_sum(result, 256);
    OK(clReleaseMemObject(image));
    OK(clReleaseMemObject(other));
    OK(clReleaseMemObject(data));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
