// about: breadth-first search with frontiers, shortest paths, and connected components of a random graph
//
// Three searches over one graph in CSR form, each checked against the host:
// * breadth-first search that turns from top-down (a queue of vertices, filled
//   through shared memory) to bottom-up (a bitmap) when the frontier is large;
// * single-source shortest paths with near and far piles (delta stepping);
// * connected components by hooking and pointer jumping.
// The size of the next frontier reaches the host through mapped pinned memory.
#include "case.h"
#include <algorithm>
#include <cstdint>
#include <deque>
#include <queue>

constexpr int kThreads = 128;
constexpr int kUnreached = 0x7fffffff;

struct Graph {
    int vertices;
    int edges;
    const int *starts;
    const int *targets;
    const int *weights;
};

// Counters that kernels and host share.
struct Counters {
    int next;
    int far;
    int changed;
};

// ------------------------------------------------------------- breadth first

// Vertices found by a block gather in shared memory and leave in one piece.
__global__ void expand(Graph graph, const int *frontier, int size, int level, int *levels, int *next,
                       Counters *counters) {
    constexpr int kRoom = 4 * kThreads;
    __shared__ int queue[kRoom];
    __shared__ int count, base;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < size) {
        const int vertex = frontier[at];
        for (int k = graph.starts[vertex]; k < graph.starts[vertex + 1]; k++) {
            const int target = graph.targets[k];
            if (atomicCAS(&levels[target], kUnreached, level) != kUnreached) continue;
            const int slot = atomicAdd(&count, 1);
            if (slot < kRoom)
                queue[slot] = target;
            else
                next[atomicAdd(&counters->next, 1)] = target;
        }
    }
    __syncthreads();
    const int kept = min(count, kRoom);
    if (threadIdx.x == 0) base = atomicAdd(&counters->next, kept);
    __syncthreads();
    for (int i = threadIdx.x; i < kept; i += blockDim.x) next[base + i] = queue[i];
}

__device__ bool test_bit(const unsigned *bits, int index) { return bits[index / 32] >> (index % 32) & 1; }

// Each unreached vertex looks for a parent; a warp makes a word of the bitmap.
__global__ void bottom_up(Graph graph, const unsigned *front, unsigned *next, int level, int *levels,
                          Counters *counters) {
    const int vertex = blockIdx.x * blockDim.x + threadIdx.x;
    bool found = false;
    if (vertex < graph.vertices && levels[vertex] == kUnreached) {
        for (int k = graph.starts[vertex]; k < graph.starts[vertex + 1] && !found; k++)
            found = test_bit(front, graph.targets[k]);
        if (found) levels[vertex] = level;
    }
    const unsigned word = __ballot_sync(0xffffffffu, found);
    if ((threadIdx.x & 31) == 0 && vertex < graph.vertices) {
        next[vertex / 32] = word;
        if (word) atomicAdd(&counters->next, __popc(word));
    }
}

__global__ void queue_to_bits(const int *frontier, int size, unsigned *bits) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < size) atomicOr(&bits[frontier[at] / 32], 1u << (frontier[at] % 32));
}

// ------------------------------------------------------------ shortest paths

__global__ void relax(Graph graph, const int *pile, int size, int limit, int *distances, int *near, int *far,
                      int *marks, int round, Counters *counters) {
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (warp >= size) return;
    const int vertex = pile[warp], distance = distances[vertex];
    for (int k = graph.starts[vertex] + lane; k < graph.starts[vertex + 1]; k += 32) {
        const int target = graph.targets[k], through = distance + graph.weights[k];
        if (through >= atomicMin(&distances[target], through)) continue;
        if (through < limit) {
            if (atomicExch(&marks[target], round) != round) near[atomicAdd(&counters->next, 1)] = target;
        } else {
            far[atomicAdd(&counters->far, 1)] = target;
        }
    }
}

// The far pile is sorted into what is near now and what is still far. Entries
// that are settled already fall out.
__global__ void split_far(const int *pile, int size, int settled, int limit, const int *distances, int *near,
                          int *far, int *marks, int round, Counters *counters) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= size) return;
    const int vertex = pile[at], distance = distances[vertex];
    if (distance < settled || atomicExch(&marks[vertex], round) == round) return;
    if (distance < limit)
        near[atomicAdd(&counters->next, 1)] = vertex;
    else
        far[atomicAdd(&counters->far, 1)] = vertex;
}

// ---------------------------------------------------------------- components

__global__ void hook(Graph graph, const int *sources, int *labels, Counters *counters) {
    const int edge = blockIdx.x * blockDim.x + threadIdx.x;
    if (edge >= graph.edges) return;
    const int a = labels[sources[edge]], b = labels[graph.targets[edge]];
    if (a == b) return;
    atomicMin(&labels[max(a, b)], min(a, b));
    counters->changed = 1;
}

__global__ void jump(int vertices, int *labels) {
    const int vertex = blockIdx.x * blockDim.x + threadIdx.x;
    if (vertex >= vertices) return;
    int label = labels[vertex];
    while (label != labels[label]) label = labels[label];
    labels[vertex] = label;
}

// ---------------------------------------------------------------------- host

template <typename T>
void fill(T *device, const std::vector<T> &values) {
    CHECK(cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
}

template <typename T>
std::vector<T> download(const T *device, size_t count) {
    std::vector<T> values(count);
    CHECK(cudaMemcpy(values.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}

int blocks_for(int threads) { return (threads + kThreads - 1) / kThreads; }

class Search {
  public:
    Search(int vertices, int degree) {
        uint64_t state = 0x9e3779b97f4a7c15ull;
        auto random = [&](int below) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            return static_cast<int>((state >> 33) % below);
        };
        std::vector<std::vector<std::pair<int, int>>> lists(vertices);
        // Vertices in groups of 512; the last group stays apart.
        for (int i = 0; i < vertices * degree / 2; i++) {
            const int a = random(vertices), last = (vertices - 1) / 512;
            int b = random(4) ? a / 512 * 512 + random(512) : random(vertices);
            b = std::min(b, vertices - 1);
            if ((a / 512 == last) != (b / 512 == last)) continue;
            const int weight = 1 + random(100);
            lists[a].push_back({b, weight});
            lists[b].push_back({a, weight});
        }
        starts_.push_back(0);
        for (int vertex = 0; vertex < vertices; vertex++) {
            for (auto [target, weight] : lists[vertex]) {
                sources_.push_back(vertex);
                targets_.push_back(target);
                weights_.push_back(weight);
            }
            starts_.push_back(static_cast<int>(targets_.size()));
        }
        graph_ = {vertices, static_cast<int>(targets_.size()), upload(starts_), upload(targets_), upload(weights_)};
        // A vertex is appended once for each time its distance falls.
        for (int **pile : {&piles_[0], &piles_[1], &piles_[2], &piles_[3]})
            *pile = zeroed<int>(4 * graph_.edges);
        result_ = zeroed<int>(vertices);
        marks_ = zeroed<int>(vertices);
        for (unsigned *&bits : bits_) bits = zeroed<unsigned>((vertices + 31) / 32);
        CHECK(cudaHostAlloc(&counters_, sizeof(Counters), cudaHostAllocMapped));
        CHECK(cudaHostGetDevicePointer(&device_counters_, counters_, 0));
    }

    ~Search() {
        for (const int *memory : {graph_.starts, graph_.targets, graph_.weights}) CHECK(cudaFree((void *)memory));
        for (int *memory : {piles_[0], piles_[1], piles_[2], piles_[3], result_, marks_}) CHECK(cudaFree(memory));
        for (unsigned *bits : bits_) CHECK(cudaFree(bits));
        CHECK(cudaFreeHost(counters_));
    }

    bool breadth_first(int source) {
        std::vector<int> levels(graph_.vertices, kUnreached);
        levels[source] = 0;
        fill(result_, levels);
        fill(piles_[0], {source});
        int size = 1, level = 1, turned = 0;
        bool as_bits = false;
        const size_t bytes = (graph_.vertices + 31) / 32 * sizeof(unsigned);
        while (size > 0) {
            *counters_ = {};
            const bool large = size > graph_.vertices / 16;
            if (large && !as_bits) {
                CHECK(cudaMemset(bits_[0], 0, bytes));
                queue_to_bits<<<blocks_for(size), kThreads>>>(piles_[0], size, bits_[0]);
                as_bits = true;
                turned++;
            }
            if (as_bits) {
                bottom_up<<<blocks_for(graph_.vertices), kThreads>>>(graph_, bits_[0], bits_[1], level, result_,
                                                                    device_counters_);
                std::swap(bits_[0], bits_[1]);
            } else {
                expand<<<blocks_for(size), kThreads>>>(graph_, piles_[0], size, level, result_, piles_[1],
                                                       device_counters_);
                std::swap(piles_[0], piles_[1]);
            }
            FINISH();
            size = counters_->next;
            level++;
        }
        std::deque<int> queue{source};
        while (!queue.empty()) {
            const int vertex = queue.front();
            queue.pop_front();
            for (int k = starts_[vertex]; k < starts_[vertex + 1]; k++)
                if (levels[targets_[k]] == kUnreached) {
                    levels[targets_[k]] = levels[vertex] + 1;
                    queue.push_back(targets_[k]);
                }
        }
        print_digest("levels", result_, graph_.vertices);
        return download(result_, graph_.vertices) == levels && turned == 1;
    }

    bool shortest_paths(int source, int delta) {
        std::vector<int> distances(graph_.vertices, kUnreached);
        distances[source] = 0;
        fill(result_, distances);
        fill(piles_[0], {source});
        CHECK(cudaMemset(marks_, 0, graph_.vertices * sizeof(int)));
        int near = 1, far = 0, limit = delta, round = 0;
        while (near > 0 || far > 0) {
            round++;
            if (near > 0) {
                *counters_ = {0, far, 0};
                relax<<<blocks_for(near * 32), kThreads>>>(graph_, piles_[0], near, limit, result_, piles_[1],
                                                          piles_[2], marks_, round, device_counters_);
                std::swap(piles_[0], piles_[1]);
            } else {
                *counters_ = {};
                split_far<<<blocks_for(far), kThreads>>>(piles_[2], far, limit, limit + delta, result_, piles_[0],
                                                        piles_[3], marks_, round, device_counters_);
                limit += delta;
                std::swap(piles_[2], piles_[3]);
            }
            FINISH();
            near = counters_->next;
            far = counters_->far;
        }
        using Entry = std::pair<int, int>;
        std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
        queue.push({0, source});
        while (!queue.empty()) {
            const auto [distance, vertex] = queue.top();
            queue.pop();
            if (distance > distances[vertex]) continue;
            for (int k = starts_[vertex]; k < starts_[vertex + 1]; k++)
                if (distance + weights_[k] < distances[targets_[k]]) {
                    distances[targets_[k]] = distance + weights_[k];
                    queue.push({distances[targets_[k]], targets_[k]});
                }
        }
        print_digest("distances", result_, graph_.vertices);
        return download(result_, graph_.vertices) == distances;
    }

    bool components() {
        fill(result_, counting<int>(graph_.vertices));
        int *sources = upload(sources_);
        do {
            *counters_ = {};
            hook<<<blocks_for(graph_.edges), kThreads>>>(graph_, sources, result_, device_counters_);
            jump<<<blocks_for(graph_.vertices), kThreads>>>(graph_.vertices, result_);
            FINISH();
        } while (counters_->changed);
        CHECK(cudaFree(sources));
        std::vector<int> labels = counting<int>(graph_.vertices);
        auto root = [&](int vertex) {
            while (labels[vertex] != vertex) vertex = labels[vertex] = labels[labels[vertex]];
            return vertex;
        };
        for (int edge = 0; edge < graph_.edges; edge++) {
            const int a = root(sources_[edge]), b = root(targets_[edge]);
            labels[std::max(a, b)] = std::min(a, b);
        }
        for (int vertex = 0; vertex < graph_.vertices; vertex++) labels[vertex] = root(vertex);
        print_digest("components", result_, graph_.vertices);
        return download(result_, graph_.vertices) == labels;
    }

  private:
    Graph graph_;
    std::vector<int> starts_, sources_, targets_, weights_;
    int *piles_[4], *result_, *marks_;
    unsigned *bits_[2];
    Counters *counters_, *device_counters_;
};

int main() {
    Search search(6001, 8);
    const bool levels = search.breadth_first(17), paths = search.shortest_paths(17, 40),
               components = search.components();
    std::printf("breadth first %s, shortest paths %s, components %s\n", levels ? "right" : "WRONG",
                paths ? "right" : "WRONG", components ? "right" : "WRONG");
    return !(levels && paths && components);
}
