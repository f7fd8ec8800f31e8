#!/usr/bin/env bash
# What launchers of parallel programs call in the place of ssh: runs a command line beside a host, by a shell.
# The fabric is IBEMU_FABRIC (default: ib), ibemu is IBEMU (default: the one beside this, else that of the release build here).
#
#   mpirun.openmpi --mca plm_rsh_agent $PWD/netns-scripts/rsh.sh --host h0,h1 PROGRAM
#   mpiexec.hydra -launcher ssh -launcher-exec $PWD/netns-scripts/rsh.sh -hosts h0,h1 PROGRAM
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Options of ssh; these have a value.
while [[ ${1-} == -* ]]; do
    [[ $1 == -[bcDEeFIiJLlmOopQRSWw] ]] && shift
    shift
done
if (($# < 2)); then
    echo "usage: ${0##*/} [OPTIONS OF SSH] HOST COMMAND..." >&2
    exit 2
fi
host=$1
shift
ibemu=$here/ibemu
[[ -x $ibemu ]] || ibemu=$here/../target/release/ibemu
exec "${IBEMU:-$ibemu}" --fabric "${IBEMU_FABRIC:-ib}" exec "$host" sh -c "$*"
