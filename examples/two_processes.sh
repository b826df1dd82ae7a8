#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# two_processes.sh BUILD: two processes do RDMA over TCP; then their capture, in words.
set -eu
build=$1
folder=$(mktemp -d)
capture=$folder/two_processes.pcapng
trap 'rm -rf "$folder"' EXIT

WEFT_PCAP=$capture "$build/examples/two_processes" listen 127.0.0.1:0 >"$folder/listener" &
listener=$!
# It says when it is ready; if it ends instead, there is nothing to wait for.
until grep -q ready "$folder/listener" || ! kill -0 "$listener" 2>/dev/null; do
	:
done
address=$(sed -n 's/.*ready at \([^,]*\),.*/\1/p' "$folder/listener")
"$build/examples/two_processes" dial "$address"
wait "$listener"
cat "$folder/listener"
printf '\n$ weft dump two_processes.pcapng\n\n'
"$build/weft" dump "$capture"
