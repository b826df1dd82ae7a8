#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# harness_test.sh SAMPLE: does the harness report what the sample's tests do?
set -u
sample=$1
unset WEFT_TEST
export ASAN_OPTIONS=detect_leaks=0 # slow, and not asked here
failed=0

# check NAME WANTED_STATUS WANTED_OUTPUT ARGUMENT...
check() {
	name=$1 wanted_status=$2 wanted=$3
	shift 3
	got=$("$sample" "$@")
	status=$?
	got=$(printf '%s\n' "$got" | sed 's/ [^ ]*harness_sample.c:[0-9]*: / /')
	if [ "$got" = "$wanted" ] && [ $status = "$wanted_status" ]; then
		echo "ok $name"
	else
		echo "not ok $name: status $status, output: $got"
		failed=1
	fi
}

check test_harness_passes 0 'ok sample_passes' passes
check test_harness_skips_77 77 'skip sample_skips: no loom here' skips
check test_harness_fails_once 1 'not ok sample_is_false: 1 + 1 == 3' is_false
check test_harness_leaves_from_helper 1 'not ok sample_fails_in_helper: 1 + 1 == 3' helper
check test_harness_shows_values 1 \
	'not ok sample_differs: 255 == 16: 255 (0xff) is not 16 (0x10)
not ok sample_differs_in_sign: (uint32_t)-1 == -1: 4294967295 (0xffffffff) is not -1 (0xffffffffffffffff)
not ok sample_differs_in_text: "warp" is not "(null)"
not ok sample_differs_in_memory: byte 3 of 4: 0x70 is not 0x74' differs
check test_harness_runs_what_is_named 0 'ok sample_passes
skip sample_skips: no loom here' passes skips
SAMPLE_ROUNDS=3
export SAMPLE_ROUNDS
check test_harness_runs_rounds 0 'ok sample_runs_three_rounds' three_rounds
SAMPLE_ROUNDS=9
check test_harness_stops_at_the_round_that_fails 1 \
	'not ok sample_runs_three_rounds: round_now < 3; in this round' three_rounds
exit $failed
