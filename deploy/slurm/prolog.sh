#!/bin/sh
# Makes the slice of a job that asks for one, which only its user may use. Run by
# slurmd as root. If it fails, Slurm drains the node and queues the job again.
set -eu
. "$(dirname "$0")/ringfence.conf"

# How many units the job has on this node. Slurm's environment does not say it.
job=$("$SCONTROL" -d show job "$SLURM_JOB_ID")
units=0
while read -r line; do
    case $line in
    *Nodes=*" GRES="*) ;;
    *) continue ;;
    esac
    nodes=${line#*Nodes=}
    nodes=${nodes%% *}
    "$SCONTROL" show hostnames "$nodes" | grep -qxF -- "$SLURMD_NODENAME" || continue
    # Such as GRES=ringfence(CNT:4),other:2.
    found=$(printf '%s\n' "${line#*GRES=}" | tr ',' '\n' |
        sed -n "s/^\(gres:\)\{0,1\}$GRES\((CNT:\|:\)\([0-9]*\).*/\3/p")
    units=$((units + ${found:-0}))
done <<END
$job
END
[ "$units" -gt 0 ] || exit 0

"$PREFIX/bin/ringfence" slice --slices "$SLICES" add "job-$SLURM_JOB_ID" \
    --owner "$SLURM_JOB_UID" --memory "$((units * UNIT_MIB))m"
