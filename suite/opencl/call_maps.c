// bug: maps of an image, of an image made of a buffer and of shared virtual memory leave them, as does a read
// expect: rule=copy-out-of-bounds-read call=clEnqueueMapImage
// expect: rule=copy-out-of-bounds-write call=clEnqueueMapImage
// expect: rule=copy-out-of-bounds-read call=clEnqueueReadImage
// expect: rule=copy-out-of-bounds-write call=clEnqueueSVMMap size=1000
#include "case.h"

static const char *source = "kernel void zero(global uchar *data) { data[get_global_id(0)] = 0; }\n";

int main(int count, char **arguments) {
    int bad = is_bad(count, arguments);
    static int pixels[256];
    Case c = open_case(source);
    NEEDS(has_images(&c), "images");
    NEEDS(has_svm(&c, CL_DEVICE_SVM_COARSE_GRAIN_BUFFER), "shared virtual memory");
    cl_kernel kernel = kernel_of(&c, "zero");
    cl_mem data = buffer_of(&c, CL_MEM_READ_WRITE, sizeof pixels, NULL);
    ARGUMENT(kernel, 0, data);
    size_t global = sizeof pixels;
    OK(clEnqueueNDRangeKernel(c.queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    cl_image_format format = {CL_R, CL_SIGNED_INT32};
    cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 16};
    cl_int code, wanted = bad ? CL_INVALID_VALUE : CL_SUCCESS;
    cl_mem image = clCreateImage(c.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, &format, &description, pixels, &code);
    OK(code);
    cl_image_desc line = {.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = 256, .mem_object = data};
    cl_mem made = clCreateImage(c.context, CL_MEM_READ_WRITE, &format, &line, NULL, &code);
    OK(code);
    size_t origin[3] = {0, 15, 0}, region[3] = {16, 1 + bad, 1}, row;
    void *mapped = clEnqueueMapImage(c.queue, image, CL_TRUE, CL_MAP_READ, origin, region, &row, NULL, 0, NULL, NULL, &code); // BUG
    MUST(code == wanted && (mapped == NULL) == bad);
    if (mapped)
        OK(clEnqueueUnmapMemObject(c.queue, image, mapped, 0, NULL, NULL));
    size_t start[3] = {255, 0, 0}, pixel[3] = {1 + bad, 1, 1};
    mapped = clEnqueueMapImage(c.queue, made, CL_TRUE, CL_MAP_WRITE, start, pixel, &row, NULL, 0, NULL, NULL, &code); // BUG
    MUST(code == wanted && (mapped == NULL) == bad);
    if (mapped) {
        memset(mapped, 1, sizeof(int));
        OK(clEnqueueUnmapMemObject(c.queue, made, mapped, 0, NULL, NULL));
    }
    MUST(clEnqueueReadImage(c.queue, made, CL_TRUE, start, pixel, 0, 0, pixels, 0, NULL, NULL) == wanted); // BUG
    unsigned char *shared = clSVMAlloc(c.context, CL_MEM_READ_WRITE, 1000, 0);
    MUST(shared != NULL);
    MUST(clEnqueueSVMMap(c.queue, CL_TRUE, CL_MAP_WRITE, shared + 500, 500 + bad, 0, NULL, NULL) == wanted); // BUG
    if (!bad)
        OK(clEnqueueSVMUnmap(c.queue, shared + 500, 0, NULL, NULL));
    OK(clFinish(c.queue));
    clSVMFree(c.context, shared);
    printf("%d\n", pixels[0]);
    OK(clReleaseMemObject(made));
    OK(clReleaseMemObject(image));
    OK(clReleaseMemObject(data));
    OK(clReleaseKernel(kernel));
    close_case(&c);
    return 0;
}
