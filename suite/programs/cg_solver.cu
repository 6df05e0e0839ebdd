// about: conjugate gradients with a multigrid cycle as preconditioner, on a CSR matrix, its iteration in a graph
//
// Solves a 5-point Laplacian with variable coefficients. The right-hand side
// is made from a solution of small integers, so that rounding the answer gives
// the same digits on every device, whatever the order of its sums. All scalars
// of the iteration stay on the device: one captured graph is replayed until a
// pinned flag, copied by the graph itself, says that the residual is small.
#include "case.h"
#include <algorithm>
#include <cmath>
#include <cooperative_groups.h>
#include <memory>

namespace cg = cooperative_groups;

constexpr int kThreads = 128;
constexpr int kLevels = 4;
constexpr double kTolerance = 1e-9;

struct Csr {
    int rows;
    const int *starts;
    const int *columns;
    const double *values;
};

struct Scalars {
    double rho, rho_old, p_ap, residual, norm_b;
    int iterations;
    int converged;
};

// ------------------------------------------------------------------- kernels

// One tile of Lanes threads a row, as long rows want it.
template <int Lanes>
__global__ void spmv(Csr a, const double *x, double *y) {
    auto tile = cg::tiled_partition<Lanes>(cg::this_thread_block());
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / Lanes;
    if (row >= a.rows) return;
    double sum = 0;
    for (int k = a.starts[row] + tile.thread_rank(); k < a.starts[row + 1]; k += Lanes)
        sum += a.values[k] * x[a.columns[k]];
    for (int offset = Lanes / 2; offset > 0; offset /= 2) sum += tile.shfl_down(sum, offset);
    if (tile.thread_rank() == 0) y[row] = sum;
}

__device__ double block_sum(double value) {
    __shared__ double partial[kThreads / 32];
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    for (int offset = 16; offset > 0; offset /= 2) value += warp.shfl_down(value, offset);
    if (warp.thread_rank() == 0) partial[warp.meta_group_rank()] = value;
    __syncthreads();
    double sum = 0;
    for (int i = 0; i < kThreads / 32; i++) sum += partial[i];
    __syncthreads();
    return sum;
}

// Partial sums of a dot product, one for each block.
__global__ void dot_blocks(int n, const double *a, const double *b, double *partials) {
    double sum = 0;
    for (int i = blockIdx.x * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads)
        sum += a[i] * b[i];
    const double total = block_sum(sum);
    if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

enum class Target { Rho, PAp, Residual, NormB };

template <Target Where>
__global__ void dot_finish(int blocks, const double *partials, Scalars *scalars) {
    double sum = 0;
    for (int i = threadIdx.x; i < blocks; i += kThreads) sum += partials[i];
    const double total = block_sum(sum);
    if (threadIdx.x != 0) return;
    if constexpr (Where == Target::Rho) {
        scalars->rho_old = scalars->rho;
        scalars->rho = total;
    } else if constexpr (Where == Target::PAp) {
        scalars->p_ap = total;
    } else if constexpr (Where == Target::NormB) {
        scalars->norm_b = sqrt(total);
    } else {
        scalars->residual = sqrt(total);
        scalars->iterations++;
        scalars->converged = scalars->residual <= kTolerance * scalars->norm_b;
    }
}

__global__ void update_direction(int n, const Scalars *scalars, const double *z, double *p) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double beta = scalars->rho_old == 0 ? 0 : scalars->rho / scalars->rho_old;
    p[i] = z[i] + beta * p[i];
}

__global__ void update_solution(int n, const Scalars *scalars, const double *p, const double *ap,
                                double *x, double *r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || scalars->converged || scalars->p_ap == 0) return;
    const double alpha = scalars->rho / scalars->p_ap;
    x[i] += alpha * p[i];
    r[i] -= alpha * ap[i];
}

// Damped Jacobi: out = x + w (b - A x) / d; x may be null for zero.
__global__ void jacobi(Csr a, const double *diagonal, const double *b, const double *x, double *out) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= a.rows) return;
    double sum = b[row];
    if (x)
        for (int k = a.starts[row]; k < a.starts[row + 1]; k++) sum -= a.values[k] * x[a.columns[k]];
    out[row] = (x ? x[row] : 0) + 0.7 * sum / diagonal[row];
}

// Residual of the fine grid, summed over the aggregate of 2 x 2 points.
__global__ void restrict_residual(Csr a, int side, const double *b, const double *x, double *coarse) {
    const int half = side / 2, point = blockIdx.x * blockDim.x + threadIdx.x;
    if (point >= half * half) return;
    const int rows[4] = {(point / half * 2) * side + point % half * 2,
                         (point / half * 2) * side + point % half * 2 + 1,
                         (point / half * 2 + 1) * side + point % half * 2,
                         (point / half * 2 + 1) * side + point % half * 2 + 1};
    double sum = 0;
    for (int row : rows) {
        sum += b[row];
        for (int k = a.starts[row]; k < a.starts[row + 1]; k++) sum -= a.values[k] * x[a.columns[k]];
    }
    coarse[point] = sum;
}

__global__ void prolong(int side, const double *coarse, double *x) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= side * side) return;
    x[i] += coarse[(i / side / 2) * (side / 2) + i % side / 2];
}

// ---------------------------------------------------------------------- host

struct HostCsr {
    std::vector<int> starts{0}, columns;
    std::vector<double> values, diagonal;

    void add(int column, double value) {
        columns.push_back(column);
        values.push_back(value);
    }
    void end_row() { starts.push_back(static_cast<int>(columns.size())); }
    int rows() const { return static_cast<int>(starts.size()) - 1; }

    void multiply(const std::vector<double> &x, std::vector<double> &y) const {
        for (int row = 0; row < rows(); row++) {
            y[row] = 0;
            for (int k = starts[row]; k < starts[row + 1]; k++) y[row] += values[k] * x[columns[k]];
        }
    }
};

// Conductance of the edge between two points: 1 to 3, the same both ways.
double conductance(int a, int b) { return 1.0 + (a + b + a * b % 7) % 3; }

HostCsr laplacian(int side) {
    HostCsr matrix;
    for (int row = 0; row < side * side; row++) {
        const int x = row % side, y = row / side;
        double diagonal = 0.05;
        const int next[4] = {y > 0 ? row - side : -1, x > 0 ? row - 1 : -1,
                             x + 1 < side ? row + 1 : -1, y + 1 < side ? row + side : -1};
        for (int other : next) {
            if (other < 0) continue;
            diagonal += conductance(row, other);
            matrix.add(other, -conductance(row, other));
        }
        matrix.add(row, diagonal);
        matrix.diagonal.push_back(diagonal);
        matrix.end_row();
    }
    return matrix;
}

// The Galerkin product with aggregates of 2 x 2 points.
HostCsr coarsen(const HostCsr &fine, int side) {
    const int half = side / 2;
    HostCsr coarse;
    auto aggregate = [&](int point) { return point / side / 2 * half + point % side / 2; };
    for (int row = 0; row < half * half; row++) {
        std::vector<std::pair<int, double>> entries;
        for (int part = 0; part < 4; part++) {
            const int point = (row / half * 2 + part / 2) * side + row % half * 2 + part % 2;
            for (int k = fine.starts[point]; k < fine.starts[point + 1]; k++) {
                const int column = aggregate(fine.columns[k]);
                auto at = std::find_if(entries.begin(), entries.end(),
                                       [&](const auto &entry) { return entry.first == column; });
                if (at == entries.end())
                    entries.emplace_back(column, fine.values[k]);
                else
                    at->second += fine.values[k];
            }
        }
        for (const auto &[column, value] : entries) {
            coarse.add(column, value);
            if (column == row) coarse.diagonal.push_back(value);
        }
        coarse.end_row();
    }
    return coarse;
}

// One grid of the multigrid hierarchy, on the device.
struct Level {
    int side, rows;
    HostCsr host;
    Csr matrix;
    double *diagonal, *b, *x, *scratch;

    Level(int side_, HostCsr host_) : side(side_), rows(side_ * side_), host(std::move(host_)) {
        matrix = {rows, upload(host.starts), upload(host.columns), upload(host.values)};
        diagonal = upload(host.diagonal);
        b = zeroed<double>(rows);
        x = zeroed<double>(rows);
        scratch = zeroed<double>(rows);
    }
    ~Level() {
        for (const void *memory : {static_cast<const void *>(matrix.starts), static_cast<const void *>(matrix.columns),
                                   static_cast<const void *>(matrix.values), static_cast<const void *>(diagonal),
                                   static_cast<const void *>(b), static_cast<const void *>(x),
                                   static_cast<const void *>(scratch)})
            CHECK(cudaFree(const_cast<void *>(memory)));
    }
    int grid() const { return (rows + kThreads - 1) / kThreads; }
};

class Solver {
  public:
    explicit Solver(int side) {
        levels_.push_back(std::make_unique<Level>(side, laplacian(side)));
        for (int level = 1; level < kLevels; level++, side /= 2)
            levels_.push_back(std::make_unique<Level>(side / 2, coarsen(levels_.back()->host, side)));
        const int n = fine().rows;
        for (double **vector : {&r_, &z_, &p_, &ap_}) *vector = zeroed<double>(n);
        partials_ = zeroed<double>(kBlocks);
        CHECK(cudaMallocManaged(&scalars_, sizeof(Scalars)));
        CHECK(cudaMallocHost(&converged_, sizeof(int)));
        CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        CHECK(cudaStreamCreateWithFlags(&side_stream_, cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&forked_, cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&joined_, cudaEventDisableTiming));
    }
    ~Solver() {
        for (double *vector : {r_, z_, p_, ap_, partials_}) CHECK(cudaFree(vector));
        CHECK(cudaFree(scalars_));
        CHECK(cudaFreeHost(converged_));
        CHECK(cudaEventDestroy(forked_));
        CHECK(cudaEventDestroy(joined_));
        CHECK(cudaStreamDestroy(stream_));
        CHECK(cudaStreamDestroy(side_stream_));
    }

    Level &fine() { return *levels_[0]; }

    // Iterates until the residual is small; x holds the answer.
    int solve(const std::vector<double> &rhs, std::vector<double> &answer) {
        const int n = fine().rows;
        double *x = zeroed<double>(n);
        CHECK(cudaMemcpy(r_, rhs.data(), n * sizeof(double), cudaMemcpyHostToDevice));
        *scalars_ = Scalars{};
        dot<Target::NormB>(r_, r_);

        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
        iterate(x);
        CHECK(cudaStreamEndCapture(stream_, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        *converged_ = 0;
        int launches = 0;
        for (; !*converged_ && launches < 200; launches++) {
            CHECK(cudaGraphLaunch(exec, stream_));
            CHECK(cudaStreamSynchronize(stream_));
        }
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaMemcpy(answer.data(), x, n * sizeof(double), cudaMemcpyDeviceToHost));
        CHECK(cudaFree(x));
        return scalars_->converged ? launches : -1;
    }

  private:
    static constexpr int kBlocks = 24;

    template <Target Where>
    void dot(const double *a, const double *b) {
        dot_blocks<<<kBlocks, kThreads, 0, stream_>>>(fine().rows, a, b, partials_);
        dot_finish<Where><<<1, kThreads, 0, stream_>>>(kBlocks, partials_, scalars_);
    }

    // One V-cycle with an approximate solve on the coarsest grid.
    void cycle(size_t at, const double *b, double *x) {
        Level &level = *levels_[at];
        jacobi<<<level.grid(), kThreads, 0, stream_>>>(level.matrix, level.diagonal, b, nullptr, x);
        if (at + 1 == levels_.size()) {
            for (int sweep = 0; sweep < 6; sweep++) {
                jacobi<<<level.grid(), kThreads, 0, stream_>>>(level.matrix, level.diagonal, b, x, level.scratch);
                jacobi<<<level.grid(), kThreads, 0, stream_>>>(level.matrix, level.diagonal, b, level.scratch, x);
            }
            return;
        }
        Level &coarse = *levels_[at + 1];
        restrict_residual<<<coarse.grid(), kThreads, 0, stream_>>>(level.matrix, level.side, b, x, coarse.b);
        cycle(at + 1, coarse.b, coarse.x);
        prolong<<<level.grid(), kThreads, 0, stream_>>>(level.side, coarse.x, x);
        jacobi<<<level.grid(), kThreads, 0, stream_>>>(level.matrix, level.diagonal, b, x, level.scratch);
        CHECK(cudaMemcpyAsync(x, level.scratch, level.rows * sizeof(double), cudaMemcpyDeviceToDevice, stream_));
    }

    void iterate(double *x) {
        const int n = fine().rows, grid = fine().grid();
        cycle(0, r_, z_);
        dot<Target::Rho>(r_, z_);
        update_direction<<<grid, kThreads, 0, stream_>>>(n, scalars_, z_, p_);
        spmv<4><<<(n * 4 + kThreads - 1) / kThreads, kThreads, 0, stream_>>>(fine().matrix, p_, ap_);
        dot<Target::PAp>(p_, ap_);
        update_solution<<<grid, kThreads, 0, stream_>>>(n, scalars_, p_, ap_, x, r_);
        dot<Target::Residual>(r_, r_);
        // The flag travels on a second stream, forked and joined by events.
        CHECK(cudaEventRecord(forked_, stream_));
        CHECK(cudaStreamWaitEvent(side_stream_, forked_, 0));
        CHECK(cudaMemcpyAsync(converged_, &scalars_->converged, sizeof(int), cudaMemcpyDefault, side_stream_));
        CHECK(cudaEventRecord(joined_, side_stream_));
        CHECK(cudaStreamWaitEvent(stream_, joined_, 0));
    }

    std::vector<std::unique_ptr<Level>> levels_;
    double *r_, *z_, *p_, *ap_, *partials_;
    Scalars *scalars_;
    int *converged_;
    cudaStream_t stream_, side_stream_;
    cudaEvent_t forked_, joined_;
};

int main() {
    constexpr int side = 64;
    std::vector<double> expected(side * side), rhs(side * side), answer(side * side);
    for (int i = 0; i < side * side; i++) expected[i] = (i * 7919 % 41) - 20;
    Solver solver(side);
    solver.fine().host.multiply(expected, rhs);
    const int iterations = solver.solve(rhs, answer);
    std::vector<int> rounded(side * side);
    int wrong = 0;
    for (int i = 0; i < side * side; i++) {
        rounded[i] = static_cast<int>(std::lround(answer[i]));
        wrong += std::fabs(answer[i] - expected[i]) > 1e-4;
    }
    // Plain conjugate gradients take well over 100.
    const bool quick = iterations > 0 && iterations < 60;
    std::printf("solution %016llx, %d wrong, %s\n", digest_bytes(rounded.data(), rounded.size() * sizeof(int)), wrong,
                quick ? "converged" : "not converged");
    return wrong != 0 || !quick;
}
