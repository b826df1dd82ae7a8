#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh PROGRAM LIMIT [KEEP]: one bounded run of a fuzzer. LIMIT is an option of libFuzzer,
# -runs=N or -max_total_time=SECONDS. New inputs are kept in the folder KEEP, if given, and the
# run then differs each time; without it the run is always the same.
set -eu
program=$1
limit=$2
name=$(basename "$program")
seeds=$(dirname "$0")/corpus/$name
crash=$(dirname "$program")/crash-$name-
keep=${3:-}

if [ -n "$keep" ]; then
	mkdir -p "$keep"
	set -- "$keep"
else
	# libFuzzer writes into the first folder it is given: let that not be the seeds.
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	set -- -seed=1 "$scratch"
fi
[ ! -d "$seeds" ] || set -- "$@" "$seeds"

if output=$("$program" "$limit" -timeout=10 -artifact_prefix="$crash" "$@" 2>&1); then
	printf '%s\n' "$output" | tail -n 1
	echo "ok fuzz_$name"
else
	printf '%s\n' "$output" | tail -n 60
	echo "not ok fuzz_$name: the input that did it is in $crash*"
	exit 1
fi
