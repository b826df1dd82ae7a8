#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hash_test.sh WEFT_GCC WEFT_CLANG: a seed is one history, whoever runs it and whatever compiled it.
set -eu

hashes() {
	"$1" sim --seed 1 --count 50 --hash
	"$1" sim --world iwarp --seed 1 --count 50 --hash
	"$1" sim --world rio --seed 1 --count 50 --hash
}

[ -x "$1" ] || {
	echo "not ok test_sim_hash_same_in_two_runs: there is no $1"
	exit 1
}
first=$(hashes "$1")
status=0

# same NAME HASHES: compares with the first run, names the first line that differs.
same() {
	if [ "$first" = "$2" ] && [ -n "$first" ]; then
		echo "ok $1"
		return
	fi
	why=$({
		printf '%s\n' "$first"
		printf '%s\n' "$2"
	} | sort | uniq -u | sort -k 2 -n | head -n 2 | tr '\n' ',')
	echo "not ok $1: ${why:-no hashes}"
	status=1
}

same test_sim_hash_same_in_two_runs "$(hashes "$1")"
if [ -x "$2" ]; then
	same test_sim_hash_same_by_gcc_and_clang "$(hashes "$2")"
else
	echo "skip test_sim_hash_same_by_gcc_and_clang: the clang build is not there (./dev build clang)"
fi
exit $status
