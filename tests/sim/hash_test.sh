#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hash_test.sh WEFT BY COMMAND...: a seed is one history, whatever compiled or runs it. COMMAND is another
# weft, BY is what WEFT and COMMAND differ in: gcc_and_clang, two_processors. WEFT_HASH_SEEDS: of so many seeds
# of each world.
set -eu
count=${WEFT_HASH_SEEDS:-20}

hashes() {
	"$@" sim --seed 1 --count "$count" --hash
	"$@" sim --world iwarp --seed 1 --count "$count" --hash
	"$@" sim --world roce --seed 1 --count "$count" --hash
	for world in roce-near roce-near-uc roce-near-ud roce-near-xrc roce-near-rd; do
		"$@" sim --world $world --seed 1 --count "$count" --hash
	done
	"$@" sim --world card --seed 1 --count "$count" --hash
	"$@" sim --world fabric --seed 1 --count "$count" --hash
	"$@" sim --world cells --seed 1 --count "$count" --hash
	"$@" sim --world iscsi --seed 1 --count "$count" --hash
	"$@" sim --world iscsi-iser --seed 1 --count "$count" --hash
	"$@" sim --world rio --seed 1 --count "$count" --hash
}

[ -x "$1" ] || {
	echo "not ok test_sim_hash_same_in_two_runs: there is no $1"
	exit 1
}
weft=$1 by=$2
shift 2
first=$(hashes "$weft")
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

same test_sim_hash_same_in_two_runs "$(hashes "$weft")"
if command -v "$1" >/dev/null; then
	same "test_sim_hash_same_by_$by" "$(hashes "$@")"
else
	echo "skip test_sim_hash_same_by_$by: $1 is not there"
fi
exit $status
