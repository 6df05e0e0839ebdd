// Verifies canaries and repairs them: one work-group a piece. The layouts of
// pieces and answers, and what answers mean, are those of `heap::pieces`.

typedef struct {
    ulong offset;
    uchar key[16];
    uint length, argument, before, unit, rows, grain;
} Piece;

typedef struct {
    uint changed, nearest, first, farthest;
    uchar found[16];
} Answer;

// Steps from what the canary guards to one of a piece's bytes.
uint ringfence_steps(global const Piece *piece, uint index)
{
    return (piece->before + index) / piece->unit % piece->rows;
}

// `sums` is the work-group's own: changed, nearest, first, farthest.
void ringfence_verify(global uchar *memory, global const Piece *piece, global Answer *answer, volatile local uint *sums)
{
    uint item = get_local_id(0), items = get_local_size(0);
    if (item == 0) {
        sums[0] = sums[3] = 0;
        sums[1] = sums[2] = 0xffffffff;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    // The pattern repeats every 16 bytes of the memory, which starts aligned.
    uint4 key = as_uint4(vload16(0, piece->key));
    ulong start = piece->offset, end = start + piece->length;
    ulong from = start / 16, to = (end + 15) / 16;
    for (ulong chunk = from + item; chunk < to; chunk += items) {
        ulong at = chunk * 16;
        if (at >= start && at + 16 <= end && all(((global const uint4 *)memory)[chunk] == key))
            continue;
        for (ulong byte = max(at, start); byte < min(at + 16, end); byte++)
            if (memory[byte] != piece->key[byte % 16]) {
                uint steps = ringfence_steps(piece, (uint)(byte - start));
                atomic_inc(&sums[0]);
                atomic_min(&sums[1], steps);
                atomic_max(&sums[3], steps);
            }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    // The same for all items.
    if (sums[0] != 0) {
        uint nearest = sums[1];
        for (uint index = item; index < piece->length; index += items)
            if (memory[start + index] != piece->key[(start + index) % 16] && ringfence_steps(piece, index) == nearest)
                atomic_min(&sums[2], piece->before + index);
        barrier(CLK_LOCAL_MEM_FENCE);
        uint shown = sums[2] / piece->grain * piece->grain - piece->before;
        for (uint index = item; index < 16; index += items)
            answer->found[index] = shown + index < piece->length ? memory[start + shown + index] : 0;
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (uint index = item; index < piece->length; index += items)
            if (memory[start + index] != piece->key[(start + index) % 16])
                memory[start + index] = piece->key[(start + index) % 16];
    }
    if (item == 0) {
        answer->changed = sums[0];
        answer->nearest = sums[1];
        answer->first = sums[2];
        answer->farthest = sums[3];
    }
}
