#!/bin/sh
# Ends the slice of a job, and what still runs on the device of it. Run by slurmd
# as root.
set -eu
. "$(dirname "$0")/ringfence.conf"

[ -e "$SLICES/limits/job-$SLURM_JOB_ID" ] || exit 0
"$PREFIX/bin/ringfence" slice --slices "$SLICES" remove "job-$SLURM_JOB_ID"
