// about: blocked LU factorization in shared tiles, triangular solves, and a matrix inverse by its columns
// build: arch=80
//
// The matrix is the product of a unit lower and an upper triangle of small
// integers, so that factorization without pivoting is exact in double
// precision and every digit is the same on every device. Panels are factored
// in shared memory, the trailing matrix is updated with tiles in registers,
// and the shape of a step is chosen by function pointers in constant memory.
#include "case.h"
#include <cmath>

constexpr int kBlock = 16;
constexpr int kRegisters = 4;

// A view of a row-major matrix.
struct Matrix {
    double *data;
    int rows, columns, stride;

    __host__ __device__ double &at(int row, int column) const { return data[row * stride + column]; }
    __host__ __device__ Matrix part(int row, int column, int height, int width) const {
        return {data + row * stride + column, height, width, stride};
    }
};

// ------------------------------------------------------------- element steps

// What is done to an element once its column of the inverse is known.
using Finish = double (*)(double value, double diagonal);

__device__ double keep(double value, double) { return value; }
__device__ double divide(double value, double diagonal) { return value / diagonal; }

__constant__ Finish finishers[2];

__global__ void set_finishers(Finish *out) {
    out[0] = keep;
    out[1] = divide;
}

// ------------------------------------------------------------------- kernels

// Factors the diagonal block in shared memory, in one block of threads.
__global__ void factor_diagonal(Matrix a) {
    __shared__ double tile[kBlock][kBlock + 1];
    const int x = threadIdx.x, y = threadIdx.y, n = a.rows;
    if (x < n && y < n) tile[y][x] = a.at(y, x);
    for (int k = 0; k < n; k++) {
        __syncthreads();
        if (x == k && y > k && y < n) tile[y][k] /= tile[k][k];
        __syncthreads();
        if (x > k && x < n && y > k && y < n) tile[y][x] -= tile[y][k] * tile[k][x];
    }
    __syncthreads();
    if (x < n && y < n) a.at(y, x) = tile[y][x];
}

// Rows right of the diagonal block: each thread solves for one column.
__global__ void solve_right(Matrix diagonal, Matrix right) {
    __shared__ double lower[kBlock * kBlock];
    const int n = diagonal.rows;
    for (int i = threadIdx.x; i < n * n; i += blockDim.x) lower[i] = diagonal.at(i / n, i % n);
    __syncthreads();
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= right.columns) return;
    double values[kBlock];
    for (int row = 0; row < n; row++) {
        double value = right.at(row, column);
        for (int k = 0; k < row; k++) value -= lower[row * n + k] * values[k];
        values[row] = value;
        right.at(row, column) = value;
    }
}

// Rows below the diagonal block: each thread solves for one row.
__global__ void solve_below(Matrix diagonal, Matrix below) {
    extern __shared__ double upper[];
    const int n = diagonal.rows;
    for (int i = threadIdx.x; i < n * n; i += blockDim.x) upper[i] = diagonal.at(i / n, i % n);
    __syncthreads();
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= below.rows) return;
    double values[kBlock];
    for (int column = 0; column < n; column++) {
        double value = below.at(row, column);
        for (int k = 0; k < column; k++) value -= values[k] * upper[k * n + column];
        values[column] = value / upper[column * n + column];
        below.at(row, column) = values[column];
    }
}

// c -= a * b; a block of threads makes a tile of kBlock x kBlock * kRegisters.
__global__ void __launch_bounds__(kBlock *kBlock) update_trailing(Matrix a, Matrix b, Matrix c) {
    __shared__ double left[kBlock][kBlock + 1];
    __shared__ double right[kBlock][kBlock * kRegisters];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * kBlock + y, first = blockIdx.x * kBlock * kRegisters;
    double sums[kRegisters] = {};
    for (int step = 0; step < a.columns; step += kBlock) {
        left[y][x] = row < a.rows && step + x < a.columns ? a.at(row, step + x) : 0;
        for (int r = 0; r < kRegisters; r++) {
            const int column = first + r * kBlock + x;
            right[y][r * kBlock + x] = step + y < b.rows && column < b.columns ? b.at(step + y, column) : 0;
        }
        __syncthreads();
        for (int k = 0; k < kBlock; k++)
            for (int r = 0; r < kRegisters; r++) sums[r] += left[y][k] * right[k][r * kBlock + x];
        __syncthreads();
    }
    for (int r = 0; r < kRegisters; r++) {
        const int column = first + r * kBlock + x;
        if (row < c.rows && column < c.columns) c.at(row, column) -= sums[r];
    }
}

// Solves L y = b, then U x = y, a block of threads a right-hand side, which is
// held in dynamic shared memory.
__global__ void solve(Matrix lu, Matrix sides, int which) {
    extern __shared__ double column[];
    const int n = lu.rows, side = blockIdx.x;
    const Finish finish = finishers[which];
    for (int i = threadIdx.x; i < n; i += blockDim.x) column[i] = sides.at(i, side);
    __syncthreads();
    for (int k = 0; k < n; k++) {
        const double value = column[k];
        for (int row = k + 1 + threadIdx.x; row < n; row += blockDim.x) column[row] -= lu.at(row, k) * value;
        __syncthreads();
    }
    for (int k = n - 1; k >= 0; k--) {
        if (threadIdx.x == 0) column[k] = finish(column[k], lu.at(k, k));
        __syncthreads();
        const double value = column[k];
        for (int row = threadIdx.x; row < k; row += blockDim.x) column[row] -= lu.at(row, k) * value;
        __syncthreads();
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x) sides.at(i, side) = column[i];
}

// Largest difference, as the bits of a float that is not negative.
__global__ void largest_difference(Matrix a, Matrix b, unsigned *worst) {
    float mine = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a.rows * a.columns; i += gridDim.x * blockDim.x) {
        const int row = i / a.columns, column = i % a.columns;
        mine = fmaxf(mine, static_cast<float>(fabs(a.at(row, column) - b.at(row, column))));
    }
    const unsigned most = __reduce_max_sync(0xffffffffu, __float_as_uint(mine));
    if ((threadIdx.x & 31) == 0) atomicMax(worst, most);
}

// ---------------------------------------------------------------------- host

Matrix device_matrix(const std::vector<double> &values, int rows, int columns) {
    return {upload(values), rows, columns, columns};
}

void factor(Matrix a, cudaStream_t main, cudaStream_t other) {
    cudaEvent_t ready, done;
    CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    for (int k = 0; k < a.rows; k += kBlock) {
        const int size = std::min(kBlock, a.rows - k), rest = a.rows - k - size;
        const Matrix diagonal = a.part(k, k, size, size);
        factor_diagonal<<<1, dim3(kBlock, kBlock), 0, main>>>(diagonal);
        if (rest == 0) break;
        const Matrix right = a.part(k, k + size, size, rest), below = a.part(k + size, k, rest, size);
        // The two panels are independent of each other.
        CHECK(cudaEventRecord(ready, main));
        CHECK(cudaStreamWaitEvent(other, ready, 0));
        solve_right<<<(rest + 31) / 32, 32, 0, main>>>(diagonal, right);
        solve_below<<<(rest + 31) / 32, 32, size * size * sizeof(double), other>>>(diagonal, below);
        CHECK(cudaEventRecord(done, other));
        CHECK(cudaStreamWaitEvent(main, done, 0));
        const dim3 grid((rest + kBlock * kRegisters - 1) / (kBlock * kRegisters), (rest + kBlock - 1) / kBlock);
        update_trailing<<<grid, dim3(kBlock, kBlock), 0, main>>>(below, right, a.part(k + size, k + size, rest, rest));
    }
    CHECK(cudaStreamSynchronize(main));
    CHECK(cudaEventDestroy(ready));
    CHECK(cudaEventDestroy(done));
}

int run(int n) {
    std::vector<double> lower(n * n, 0), upper(n * n, 0), product(n * n, 0), packed(n * n);
    for (int row = 0; row < n; row++)
        for (int column = 0; column < n; column++) {
            const int noise = (row * 31 + column * 17 + row * column) % 7;
            if (row == column) {
                lower[row * n + row] = 1;
                upper[row * n + row] = noise % 2 ? 1 : 2;
            } else if (row - column > 0 && row - column < 40) {
                lower[row * n + column] = noise % 3 - 1;
            } else if (column - row > 0 && column - row < 40) {
                upper[row * n + column] = noise % 3 - 1;
            }
        }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            if (lower[i * n + k] != 0)
                for (int j = 0; j < n; j++) product[i * n + j] += lower[i * n + k] * upper[k * n + j];
    for (int i = 0; i < n * n; i++) packed[i] = i % n < i / n ? lower[i] : upper[i];

    cudaStream_t main, other;
    CHECK(cudaStreamCreateWithFlags(&main, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    const Matrix a = device_matrix(product, n, n), expected = device_matrix(packed, n, n);
    factor(a, main, other);
    unsigned *worst = zeroed<unsigned>(1);
    largest_difference<<<4, 128>>>(a, expected, worst);
    FINISH();
    float difference;
    CHECK(cudaMemcpy(&difference, worst, sizeof(difference), cudaMemcpyDeviceToHost));
    char name[32];
    std::snprintf(name, sizeof(name), "factors of %d", n);
    print_digest(name, a.data, n * n);

    // Two right-hand sides whose solutions are small integers.
    std::vector<double> solution(n * 2), sides(n * 2, 0);
    for (int i = 0; i < n * 2; i++) solution[i] = i * 13 % 9 - 4;
    for (int row = 0; row < n; row++)
        for (int side = 0; side < 2; side++)
            for (int k = 0; k < n; k++) sides[row * 2 + side] += product[row * n + k] * solution[k * 2 + side];
    const Matrix right = device_matrix(sides, n, 2);
    solve<<<2, 64, n * sizeof(double)>>>(a, right, 1);
    FINISH();
    std::vector<double> got(n * 2);
    CHECK(cudaMemcpy(got.data(), right.data, got.size() * sizeof(double), cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < n * 2; i++) wrong += got[i] != solution[i];
    std::printf("%d: largest difference %g, %d of the solutions are wrong\n", n, difference, wrong);
    for (double *memory : {a.data, expected.data, right.data}) CHECK(cudaFree(memory));
    CHECK(cudaFree(worst));
    CHECK(cudaStreamDestroy(main));
    CHECK(cudaStreamDestroy(other));
    return wrong != 0 || difference != 0;
}

int main() {
    Finish *table = zeroed<Finish>(2);
    set_finishers<<<1, 1>>>(table);
    FINISH();
    CHECK(cudaMemcpyToSymbol(finishers, table, 2 * sizeof(Finish), 0, cudaMemcpyDeviceToDevice));
    CHECK(cudaFree(table));
    int failed = 0;
    // A multiple of the block, one more, and less than one block.
    for (int n : {128, 97, 11}) failed += run(n);
    return failed;
}
