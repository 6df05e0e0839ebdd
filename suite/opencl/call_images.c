// bug: a write, a fill, a copy and a copy to a buffer leave their images
// expect: rule=copy-out-of-bounds-write call=clEnqueueWriteImage
// expect: rule=copy-out-of-bounds-write call=clEnqueueFillImage
// expect: rule=copy-out-of-bounds-read call=clEnqueueCopyImage
// expect: rule=copy-out-of-bounds-read call=clEnqueueCopyImageToBuffer
#include "case.h"

static const char *source = "kernel void zero(global uchar *data) { data[get_global_id(0)] = 0; }\n";

int main(int count, char **arguments) {
    int bad = is_bad(count, arguments);
    Case c = open_case(source);
    NEEDS(has_images(&c), "images");
    cl_kernel kernel = kernel_of(&c, "zero");
    cl_mem data = buffer_of(&c, CL_MEM_READ_WRITE, 4000, NULL);
    ARGUMENT(kernel, 0, data);
    size_t global = 4000;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    // The old functions and the new one.
    cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 20, .image_height = 10};
    cl_int code, wanted = bad ? CL_INVALID_VALUE : CL_SUCCESS;
    cl_mem small = clCreateImage2D(c.context, CL_MEM_READ_WRITE, &format, 20, 10, 0, NULL, &code);
    OK(code);
    cl_mem other = clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &description, NULL, &code);
    OK(code);
    cl_mem deep = clCreateImage3D(c.context, CL_MEM_READ_WRITE, &format, 8, 8, 4, 0, 0, NULL, &code);
    OK(code);
    static unsigned char pixels[32 * 32 * 4];
    cl_uint color[4] = {1, 2, 3, 4};
    size_t start[3] = {10, 0, 0}, row[3] = {10 + bad, 10, 1};
    MUST(clEnqueueWriteImage(c.queue, small, CL_TRUE, start, row, 0, 0, pixels, 0, NULL, NULL) == wanted); // BUG
    size_t corner[3] = {0, 0, 3}, slice[3] = {8, 8, 1 + bad};
    MUST(clEnqueueFillImage(c.queue, deep, color, corner, slice, 0, NULL, NULL) == wanted); // BUG
    size_t zero[3] = {0, 0, 0}, below[3] = {0, 5 + bad, 0}, half[3] = {20, 5, 1};
    MUST(clEnqueueCopyImage(c.queue, small, other, below, zero, half, 0, NULL, NULL) == wanted); // BUG
    MUST(clEnqueueCopyImageToBuffer(c.queue, small, data, below, half, 100, 0, NULL, NULL) == wanted); // BUG
    OK(clEnqueueReadImage(c.queue, small, CL_TRUE, start, (size_t[3]){10, 10, 1}, 0, 0, pixels, 0, NULL, NULL));
    OK(clFinish(c.queue));
    printf("%d\n", pixels[0]);
    OK(clReleaseMemObject(small));
    OK(clReleaseMemObject(other));
    OK(clReleaseMemObject(deep));
    OK(clReleaseMemObject(data));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
