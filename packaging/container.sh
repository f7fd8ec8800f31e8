#!/bin/sh
# What a container of ibemu runs: brings a fabric up, with the arguments of `ibemu up`, keeps it until SIGTERM or SIGINT, and
# takes it down.
set -eu
trap 'ibemu down --all' EXIT
trap 'exit 0' TERM INT
ibemu up "$@"
sleep infinity &
wait $!
