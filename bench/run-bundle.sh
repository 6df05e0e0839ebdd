#!/usr/bin/env bash
# Runs suite and benches of this folder on the machine's GPU.
#
#   ./run [suite|alone|opencl|bench|fence|isolation|soak|sharing|calls|protections|shadow|shadow-study|heap|host|canary|pages|planted|watch|compare|all]
#
# `alone`, which is not part of `all`, runs the suite's programs under `shadow`
# and under `pages` alone, for the tables.
# `opencl` is the part of `suite` and `bench` that is about OpenCL.
# `protections`, `canary` and `pages` are the parts of `bench` that tell what
# each protection, canaries around CUDA buffers and unmapped pages there cost.
# `planted` is the part of `bench` that plants wrong sizes in calls of libraries;
# it needs a `python3` that has PyTorch.
# `fence` is the part of `bench` that tells what fences cost.
# `isolation` is the part of `bench` that attacks tenants and the manager.
# `calls` is the part of `bench` that times single calls of tenants.
# `soak`, which is not part of `bench`, attacks tenants at random for $SOAK
# seconds (480 by default).
# `sharing`, which is not part of `bench`, compares tenants with MPS and time
# slicing, which takes twelve minutes; $SECONDS_ALONE is how long each program runs
# alone (5 by default).
# `shadow-study` is the part of `bench` that tells what the parts of checks
# against shadow memory cost; with misses of caches where `ncu` is on PATH or in
# /usr/local/cuda/bin.
# `watch` is the part of `bench` that is about the guard.
# `host` is the part of `bench` that is about the host's time; with steps of
# training where `python3` has PyTorch.
# `compare`, which is not part of `all`, runs the suite's programs alone and
# under compute-sanitizer, which must be on PATH or in /usr/local/cuda/bin.
#
# Results go to $OUT, or ./results. Ends with 0 when every verdict was right
# and every bench ran.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here/results}
what=${1:-all}
mkdir -p "$out"
status=0

[ -d "$here/cases" ] || tar --extract --xz --file "$here/cases.tar.xz" --directory "$here" || exit 1

# The driver's compilation cache would hide what a first load costs, and may
# not be writable here.
export CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-$out/.cuda-cache}

# The path of one of NVIDIA's tools.
of_toolkit() {
    PATH=$PATH:/usr/local/cuda/bin command -v "$1"
}

# The CUDA part of the suite.
cuda() {
    timeout --kill-after=10 420 "$here/ringfence-suite" run --device gpu --cases "$here/cases" \
        --ringfence "$here/ringfence" --jobs 4 --timeout 60 "$@"
}

if [ "$what" = suite ] || [ "$what" = all ]; then
    cuda --json "$out/suite-gpu.json"
    code=$?
    [ $code = 124 ] && echo "the suite ran out of time: 0 passed, 1 failed"
    [ $code = 0 ] || status=1
fi

if [ "$what" = alone ]; then
    for protection in shadow pages; do
        cuda --alone "$protection" --json "$out/suite-$protection-gpu.json" || status=1
    done
fi

# Runs a command with NVIDIA's platform, found by the loader in the bundle.
opencl() {
    mkdir -p "$out/.vendors"
    echo libnvidia-opencl.so.1 > "$out/.vendors/nvidia.icd"
    env -u OCL_ICD_FILENAMES OCL_ICD_VENDORS="$out/.vendors" \
        LD_LIBRARY_PATH="$here/opencl/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"
    code=$?
    rm -rf "$out/.vendors"
    [ $code = 124 ] && echo "$what on OpenCL ran out of time: 0 passed, 1 failed"
    [ $code = 0 ] || status=1
}

# One program at a time: several that share a GPU can bring NVIDIA's platform
# (driver 580) to a stop, without Ringfence too.
if [ "$what" = opencl ] || [ "$what" = suite ] || [ "$what" = all ]; then
    opencl timeout --kill-after=10 240 "$here/ringfence-suite" run --device gpu --cases "$here/opencl" \
        --ringfence "$here/ringfence" --json "$out/suite-opencl-gpu.json" --jobs 1 --timeout 30
    opencl timeout --kill-after=10 240 "$here/ringfence-suite" run --device gpu --cases "$here/opencl" \
        --ringfence "$here/ringfence" --set canary-checker=device --jobs 1 --timeout 30
fi

if [ "$what" = opencl ] || [ "$what" = bench ] || [ "$what" = all ]; then
    opencl timeout --kill-after=10 300 "$here/ringfence-bench" opencl --program "$here/opencl/canaries" \
        --ringfence "$here/ringfence" --json "$out/opencl-gpu.json" --rounds 1 --launches 21 --repeated 1000 \
        --commit "$(cat "$here/commit")"
fi

# Runs one bench of CUDA programs: its name here, its command, its results, the
# seconds that it may take, and further options.
bench() {
    [ "$what" = "$1" ] || [ "$what" = bench ] || [ "$what" = all ] || return
    local command=$2 json=$3 seconds=$4
    shift 4
    timeout --kill-after=10 "$seconds" "$here/ringfence-bench" "$command" --programs "$here" \
        --ringfence "$here/ringfence" --json "$out/$json" --commit "$(cat "$here/commit")" "$@"
    code=$?
    [ $code = 124 ] && echo "the bench $command ran out of time"
    [ $code = 0 ] || status=1
}

bench bench gpu gpu-bounds.json 540
bench fence fence gpu-fence.json 240
bench isolation isolation isolation-gpu.json 570
bench calls calls gpu-calls.json 120
bench protections protections gpu-protections.json 240
bench shadow shadow gpu-shadow.json 300
counters=()
case $what in
shadow-study | bench | all)
    if ncu=$(of_toolkit ncu); then
        counters=(--ncu "$ncu")
    else
        echo "no ncu found: cache misses are not counted"
    fi
    ;;
esac
bench shadow-study shadow-study gpu-shadow-study.json 480 "${counters[@]}"
bench heap heap gpu-heap.json 120
bench watch watch gpu-watch.json 240

# Options of the benches that use PyTorch, where there is one.
steps=() planted=()
case $what in
host | pages | planted | bench | all)
    if python3 -c 'import torch' 2> /dev/null; then
        steps=(--python "$(command -v python3)" --steps "$here/steps.py")
        planted=(--python "$(command -v python3)" --script "$here/planted.py")
    else
        echo "python3 has no PyTorch: no steps of training are measured, and no wrong sizes planted"
    fi
    ;;
esac
bench host host gpu-host.json 540 "${steps[@]}"
bench pages pages gpu-pages.json 480 "${steps[@]}"
bench canary canary gpu-canary.json 240
[ ${#planted[@]} = 0 ] || bench planted planted gpu-planted.json 420 "${planted[@]}"

if [ "$what" = soak ]; then
    seconds=${SOAK:-480}
    timeout --kill-after=10 $((seconds + 90)) "$here/ringfence-bench" soak --programs "$here" \
        --ringfence "$here/ringfence" --json "$out/soak-gpu.json" --commit "$(cat "$here/commit")" \
        --seconds "$seconds"
    code=$?
    [ $code = 124 ] && echo "the soak ran out of time"
    [ $code = 0 ] || status=1
fi

if [ "$what" = sharing ] || [ "$what" = all ]; then
    timeout --kill-after=30 1000 "$here/ringfence-bench" sharing --programs "$here" \
        --ringfence "$here/ringfence" --json "$out/gpu-sharing.json" --commit "$(cat "$here/commit")" \
        --seconds "${SECONDS_ALONE:-5}" --timeout 150
    code=$?
    [ $code = 124 ] && echo "the bench sharing ran out of time"
    [ $code = 0 ] || status=1
fi

if [ "$what" = compare ]; then
    sanitizer=$(of_toolkit compute-sanitizer)
    if [ -n "$sanitizer" ]; then
        timeout --kill-after=10 580 "$here/ringfence-suite" compare --cases "$here/cases" \
            --sanitizer "$sanitizer" --json "$out/suite-compute-sanitizer.json" --jobs 8 --timeout 60
        code=$?
        [ $code = 124 ] && echo "the comparison ran out of time"
        [ $code = 0 ] || status=1
    else
        echo "no compute-sanitizer found"
        status=1
    fi
fi

rm -rf "$out/.cuda-cache"
exit $status
