// about: local alignment of sequences by tiles along the antidiagonals, with traceback into device-side memory
//
// Smith-Waterman with affine gaps. Tiles of the score matrix are computed
// wave by wave: the threads of a tile walk its antidiagonals, scores of
// neighbouring cells are in dynamic shared memory, carved into three rows and
// two strings, and the edges of tiles in global memory. Directions are packed
// into nibbles. A second kernel walks back from the best cell and writes the
// alignment into memory from malloc() on the device, a list of pieces that a
// third kernel copies out and frees.
#include "case.h"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

constexpr int kTile = 32;
constexpr int kMatch = 5, kMismatch = -3, kOpen = 8, kExtend = 2;
constexpr int kLow = -1000000;

enum Direction : uint8_t { Stop = 0, Diagonal = 1, Up = 2, Left = 3, UpOpens = 4, LeftOpens = 8 };

struct Problem {
    const char *a, *b;
    int rows, columns;  // lengths of a and b
    int *bottom_score, *bottom_up;     // last row of the tiles above, by column
    int *right_score, *right_left;     // last column of the tiles to the left, by row
    int *corners;                      // bottom right score of each tile
    uint8_t *directions;               // two cells a byte
    unsigned long long *best;          // score << 40 | row << 20 | column, inverted places
};

__host__ __device__ constexpr size_t shared_bytes() { return 3 * (kTile + 1) * 2 * sizeof(int) + 2 * kTile; }

// A tile's scores. Rows of the three antidiagonals rotate.
class Diagonals {
  public:
    __device__ explicit Diagonals(int *memory) : memory_(memory) {}
    __device__ int &score(int age, int row) { return memory_[(turn_ + 3 - age) % 3 * 2 * (kTile + 1) + row]; }
    __device__ int &up(int age, int row) { return memory_[((turn_ + 3 - age) % 3 * 2 + 1) * (kTile + 1) + row]; }
    __device__ void next() { turn_ = (turn_ + 1) % 3; }

  private:
    int *memory_;
    int turn_ = 0;
};

__device__ int substitution(char a, char b) { return a == b ? kMatch : kMismatch; }

// One tile a block of kTile threads; thread t owns row t of the tile.
__global__ void wave(Problem problem, int wave_index, int first_tile_row, int tile_columns) {
    extern __shared__ __align__(8) unsigned char memory[];
    int *cells = reinterpret_cast<int *>(memory);
    char *a = reinterpret_cast<char *>(cells + 3 * 2 * (kTile + 1)), *b = a + kTile;
    const int tile_row = first_tile_row + blockIdx.x, tile_column = wave_index - tile_row;
    const int row0 = tile_row * kTile, column0 = tile_column * kTile, t = threadIdx.x;
    const int rows = min(kTile, problem.rows - row0), columns = min(kTile, problem.columns - column0);
    const int row = row0 + t;
    if (t < rows) a[t] = problem.a[row];
    if (t < columns) b[t] = problem.b[column0 + t];
    __syncthreads();
    const bool active = t < rows;
    // What stands to the left of this thread's row.
    int left_score = active && tile_column > 0 ? problem.right_score[row] : 0;
    int left_gap = active && tile_column > 0 ? problem.right_left[row] : kLow;
    int diagonal_score;
    if (t > 0)
        diagonal_score = active && tile_column > 0 ? problem.right_score[row - 1] : 0;
    else
        diagonal_score = tile_row > 0 && tile_column > 0 ? problem.corners[(tile_row - 1) * tile_columns + tile_column - 1] : 0;
    Diagonals diagonals(cells);
    int best = 0, best_column = 0;
    unsigned packed = 0;
    const size_t stride = (problem.columns + 1) / 2;
    for (int step = 0; step < rows + columns - 1; step++) {
        const int column = step - t;
        if (active && column >= 0 && column < columns) {
            int up_score, up_gap;
            if (t == 0) {
                up_score = tile_row > 0 ? problem.bottom_score[column0 + column] : 0;
                up_gap = tile_row > 0 ? problem.bottom_up[column0 + column] : kLow;
            } else {
                up_score = diagonals.score(1, t - 1);
                up_gap = diagonals.up(1, t - 1);
            }
            uint8_t direction = Stop;
            const int up_open = up_score - kOpen, up_extend = up_gap - kExtend;
            const int left_open = left_score - kOpen, left_extend = left_gap - kExtend;
            const int up = max(up_open, up_extend), left = max(left_open, left_extend);
            if (up_open >= up_extend) direction |= UpOpens;
            if (left_open >= left_extend) direction |= LeftOpens;
            const int through = diagonal_score + substitution(a[t], b[column]);
            int score = max(max(0, through), max(up, left));
            if (score > 0) direction |= score == through ? Diagonal : score == up ? Up : Left;
            diagonals.score(0, t) = score;
            diagonals.up(0, t) = up;
            // For this thread's next column.
            diagonal_score = up_score;
            left_score = score;
            left_gap = left;
            if (score > best) {
                best = score;
                best_column = column0 + column;
            }
            if (column % 2 == 0) packed = direction;
            if (column % 2 == 1 || column == columns - 1)
                problem.directions[row * stride + (column0 + column) / 2] =
                    static_cast<uint8_t>(column % 2 ? packed | direction << 4 : packed);
            if (t == rows - 1) {
                problem.bottom_score[column0 + column] = score;
                problem.bottom_up[column0 + column] = up;
            }
            if (column == columns - 1) {
                if (t == rows - 1) problem.corners[tile_row * tile_columns + tile_column] = score;
            }
        }
        diagonals.next();
        __syncthreads();
    }
    if (active) {
        problem.right_score[row] = left_score;
        problem.right_left[row] = left_gap;
    }
    if (best > 0)
        atomicMax(problem.best, static_cast<unsigned long long>(best) << 40 |
                                    static_cast<unsigned long long>((1 << 20) - 1 - row) << 20 |
                                    static_cast<unsigned long long>((1 << 20) - 1 - best_column));
}

// ----------------------------------------------------------------- traceback

// A stretch of an alignment: a list from its end to its start.
struct Piece {
    static constexpr int kRoom = 60;
    Piece *next;
    int used;
    char steps[kRoom];
};

struct Path {
    Piece *pieces;
    int score, row, column, length;
};

__device__ bool append(Path &path, char step) {
    Piece *piece = path.pieces;
    if (!piece || piece->used == Piece::kRoom) {
        piece = static_cast<Piece *>(malloc(sizeof(Piece)));
        if (!piece) return false;
        piece->next = path.pieces;
        piece->used = 0;
        path.pieces = piece;
    }
    piece->steps[piece->used++] = step;
    path.length++;
    return true;
}

// One thread a problem.
__global__ void trace(const Problem *problems, int count, Path *paths) {
    const int which = blockIdx.x * blockDim.x + threadIdx.x;
    if (which >= count) return;
    const Problem problem = problems[which];
    Path path = {};
    const unsigned long long best = *problem.best;
    path.score = static_cast<int>(best >> 40);
    int row = (1 << 20) - 1 - static_cast<int>(best >> 20 & 0xfffff);
    int column = (1 << 20) - 1 - static_cast<int>(best & 0xfffff);
    const size_t stride = (problem.columns + 1) / 2;
    auto direction_at = [&](int r, int c) { return problem.directions[r * stride + c / 2] >> (c % 2 * 4) & 15; };
    int inside = Stop;  // Up or Left while a gap is being walked
    while (path.score > 0 && row >= 0 && column >= 0) {
        const int direction = direction_at(row, column);
        const int move = inside ? inside : direction & 3;
        if (move == Stop) break;
        if (move == Diagonal) {
            append(path, problem.a[row] == problem.b[column] ? '=' : 'x');
            row--;
            column--;
        } else if (move == Up) {
            append(path, 'd');
            inside = direction & UpOpens ? Stop : Up;
            row--;
        } else {
            append(path, 'i');
            inside = direction & LeftOpens ? Stop : Left;
            column--;
        }
    }
    path.row = row + 1;
    path.column = column + 1;
    paths[which] = path;
}

// Turns each list into a string and frees its pieces.
__global__ void collect(Path *paths, int count, char *out, int room) {
    const int which = blockIdx.x * blockDim.x + threadIdx.x;
    if (which >= count) return;
    char *to = out + static_cast<size_t>(which) * room;
    Piece *piece = paths[which].pieces;
    int at = 0;
    while (piece) {
        for (int i = piece->used - 1; i >= 0; i--)
            if (at < room - 1) to[at++] = piece->steps[i];
        Piece *next = piece->next;
        free(piece);
        piece = next;
    }
    to[at] = 0;
    paths[which].pieces = nullptr;
}

// ---------------------------------------------------------------------- host

int host_score(const std::string &a, const std::string &b) {
    std::vector<int> score(b.size() + 1, 0), up(b.size() + 1, kLow);
    int best = 0;
    for (size_t i = 1; i <= a.size(); i++) {
        int diagonal = 0, left = kLow;
        score[0] = 0;
        for (size_t j = 1; j <= b.size(); j++) {
            up[j] = std::max(score[j] - kOpen, up[j] - kExtend);
            left = std::max(score[j - 1] - kOpen, left - kExtend);
            const int through = diagonal + (a[i - 1] == b[j - 1] ? kMatch : kMismatch);
            diagonal = score[j];
            score[j] = std::max({0, through, up[j], left});
            best = std::max(best, score[j]);
        }
    }
    return best;
}

// What an alignment is worth, so that a path is checked and not only a score.
int path_score(const std::string &a, const std::string &b, const Path &path, const std::string &steps) {
    int row = path.row, column = path.column, score = 0;
    char last = 0;
    for (char step : steps) {
        if (step == '=' || step == 'x') {
            if ((a.at(row++) == b.at(column++)) != (step == '=')) return -1;
            score += step == '=' ? kMatch : kMismatch;
        } else {
            score -= last == step ? kExtend : kOpen;
            (step == 'd' ? row : column)++;
        }
        last = step;
    }
    return score;
}

int main() {
    constexpr int count = 5, room = 2048;
    std::vector<std::string> as, bs;
    unsigned seed = 7;
    auto letter = [&] { return "ACGT"[(seed = seed * 1103515245u + 12345u) >> 16 & 3]; };
    const int lengths[count] = {320, 333, 31, 257, 1};
    for (int length : lengths) {
        std::string a, b;
        for (int i = 0; i < length; i++) a += letter();
        for (int i = 0; i < length; i++) {
            const int kind = (i * 29 + length) % 31;
            if (kind == 3) b += letter();
            if (kind == 11 || kind == 12) continue;
            b += kind == 20 ? letter() : a[i];
        }
        if (b.empty()) b = a;
        as.push_back(a);
        bs.push_back(b + "TTTTTT");
    }
    std::vector<Problem> problems(count);
    std::vector<void *> owned;
    auto keep = [&](auto *memory) {
        owned.push_back((void *)memory);
        return memory;
    };
    for (int i = 0; i < count; i++) {
        Problem &p = problems[i];
        p.rows = static_cast<int>(as[i].size());
        p.columns = static_cast<int>(bs[i].size());
        p.a = keep(upload(std::vector<char>(as[i].begin(), as[i].end())));
        p.b = keep(upload(std::vector<char>(bs[i].begin(), bs[i].end())));
        const int tile_rows = (p.rows + kTile - 1) / kTile, tile_columns = (p.columns + kTile - 1) / kTile;
        p.bottom_score = keep(zeroed<int>(p.columns));
        p.bottom_up = keep(zeroed<int>(p.columns));
        p.right_score = keep(zeroed<int>(p.rows));
        p.right_left = keep(zeroed<int>(p.rows));
        p.corners = keep(zeroed<int>(tile_rows * tile_columns));
        p.directions = keep(zeroed<uint8_t>(static_cast<size_t>(p.rows) * ((p.columns + 1) / 2)));
        p.best = keep(zeroed<unsigned long long>(1));
        for (int index = 0; index < tile_rows + tile_columns - 1; index++) {
            const int first = std::max(0, index - tile_columns + 1), last = std::min(index, tile_rows - 1);
            wave<<<last - first + 1, kTile, shared_bytes()>>>(p, index, first, tile_columns);
        }
    }
    const Problem *device_problems = keep(upload(problems));
    Path *paths = keep(zeroed<Path>(count));
    char *steps = keep(zeroed<char>(count * room));
    trace<<<1, 32>>>(device_problems, count, paths);
    collect<<<1, 32>>>(paths, count, steps, room);
    FINISH();
    std::vector<Path> found(count);
    std::vector<char> text(count * room);
    CHECK(cudaMemcpy(found.data(), paths, count * sizeof(Path), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(text.data(), steps, text.size(), cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        const std::string path(&text[i * room]);
        const int expected = host_score(as[i], bs[i]);
        const bool right = found[i].score == expected && path_score(as[i], bs[i], found[i], path) == expected &&
                           static_cast<int>(path.size()) == found[i].length;
        std::printf("%d x %d: score %d from (%d, %d) in %d steps, %016llx %s\n", problems[i].rows, problems[i].columns,
                    found[i].score, found[i].row, found[i].column, found[i].length, digest_bytes(path.data(), path.size()),
                    right ? "right" : "WRONG");
        wrong += !right;
    }
    for (void *memory : owned) CHECK(cudaFree(memory));
    return wrong;
}
