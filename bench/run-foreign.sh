#!/usr/bin/env bash
# Measures third-party programs on all GPUs of this machine, with this folder.
#
#   ./run-foreign build FOLDER SECONDS     build the programs of a collection
#   ./run-foreign times FOLDER SECONDS     time kernels, a share on each GPU
#   ./run-foreign sum FOLDER               put the shares together: gpu-foreign.json
#   ./run-foreign compare FOLDER SECONDS   run and compare, four at a time
#   ./run-foreign opencl SECONDS FOLDER..  time OpenCL programs: opencl-apps-gpu.json
#
# FOLDER is a collection, or what `cargo xtask foreign COLLECTION --pack FOLDER`
# wrote. Each call begins nothing after SECONDS, and the next one goes on where
# it ended. Programs are built in $WORK, or /tmp/ringfence-foreign; results go to
# $OUT, or ./results. docs/foreign.md explains what is measured.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here/results}
work=${WORK:-/tmp/ringfence-foreign}
mkdir -p "$out" "$work"
export PATH=$PATH:/usr/local/cuda/bin
what=${1:-}
[ $# -ge 2 ] || { sed -n '4,8p' "$0" >&2; exit 2; }

# Builds, and what is known of each program, are in a folder for each GPU, so
# that two do not write to the same lines.
gpus=$(nvidia-smi -L | grep -c '^GPU')
[ "$gpus" -gt 0 ] || { echo "there is no GPU" >&2; exit 1; }

foreign() {
    "$here/ringfence-suite" foreign "$@" --ringfence "$here/ringfence" --device gpu \
        --commit "$(cat "$here/commit")"
}

# Of the collection in $1, whose state is $work/NAME-GPU.
of() {
    echo "$work/$(basename "$1")-$2"
}

sized=${SIZED:-"--limit 16 --repeats 20"}
case $what in
build)
    # Each GPU gets the programs of its own share: a size at which a program is quick is
    # only found where not too many others run on the same GPU.
    jobs=$(($(nproc) / 2 / gpus))
    for gpu in $(seq 0 $((gpus - 1))); do
        # shellcheck disable=SC2086 # several options
        CUDA_VISIBLE_DEVICES=$gpu foreign "$2" --out "$(of "$2" "$gpu")" $sized --build-only \
            --jobs "$((jobs > 1 ? jobs : 1))" --shard "$((gpu + 1))/$gpus" --budget "$3" \
            > "$out/build-$gpu.log" 2>&1 &
    done
    wait
    tail -qn 1 "$out"/build-*.log
    ;;
times)
    for gpu in $(seq 0 $((gpus - 1))); do
        # shellcheck disable=SC2086
        CUDA_VISIBLE_DEVICES=$gpu foreign "$2" --out "$(of "$2" "$gpu")" $sized \
            --times "$work/share-$gpu.json" --shard "$((gpu + 1))/$gpus" --budget "$3" \
            > "$out/times-$gpu.log" 2>&1 &
    done
    wait
    wc -l "$work"/*/times.jsonl
    ;;
sum)
    all=$(of "$2" all)
    mkdir -p "$all"
    for gpu in $(seq 0 $((gpus - 1))); do
        cat "$(of "$2" "$gpu")/times.jsonl"
    done | sort -u > "$all/times.jsonl"
    # shellcheck disable=SC2086
    foreign "$2" --out "$all" $sized --times "$out/gpu-foreign.json" --budget 0
    ;;
compare)
    # shellcheck disable=SC2086
    foreign "$2" --out "$work/$(basename "$2")-compare" $sized --jobs 4 --budget "$3"
    cp "$work/$(basename "$2")-compare/foreign.jsonl" "$out"
    ;;
opencl)
    seconds=$2
    shift 2
    mkdir -p "$work/vendors"
    echo libnvidia-opencl.so.1 > "$work/vendors/nvidia.icd"
    unset OCL_ICD_FILENAMES
    export OCL_ICD_VENDORS=$work/vendors
    export LD_LIBRARY_PATH="$here/opencl/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    for folder in "$@"; do
        foreign "$folder" --opencl --out "$work/opencl" --limit 10 --rounds 3 \
            --times "$out/opencl-apps-gpu.json" --budget "$seconds"
    done
    ;;
*)
    echo "$what is none of build, times, sum, compare and opencl" >&2
    exit 2
    ;;
esac
