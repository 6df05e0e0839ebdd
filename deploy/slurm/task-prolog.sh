#!/bin/sh
# Prints what Slurm puts into the environment of a task: that of a tenant of the
# job's slice, if it has one. Run by slurmstepd as the job's user.
set -eu
. "$(dirname "$0")/ringfence.conf"

[ -d "$SLICES/slices/job-$SLURM_JOB_ID/run" ] || exit 0
"$PREFIX/bin/ringfence" slice --slices "$SLICES" env "job-$SLURM_JOB_ID"
