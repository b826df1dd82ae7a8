#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Drives the guest under QEMU on a network of its own.
#
#   rig.sh up [-k SERIES] [-m MTU] [-a tcg|count|kvm] [-c PROCESSORS]
#                                      boots the kernel that build.sh made; tcg, the default, is
#                                      software emulation, and count is that by a clock that counts
#                                      instructions, a nanosecond each
#   rig.sh exec [-t SECS] CMD          runs CMD in the guest; its output and status
#   rig.sh host CMD [ARG...]           runs a program of this machine on the guest's network; those of
#                                      the guest that build.sh made are found as well
#   rig.sh mtu BYTES                   changes it, at both ends
#   rig.sh capture-start FILE [FILTER] / rig.sh capture-stop
#   rig.sh pid | rig.sh log | rig.sh down
#
# A bridge, the guest's tap and QEMU live in one network namespace that `up` makes and `down`
# removes: nothing leaves the machine. This machine is 10.77.0.1 and fd77::1 there, the guest
# 10.77.0.11 and fd77::11. `exec` does not use that network but a second card, on QEMU's user
# networking, so captures have nothing of it.
#
# $WEFT_RIG_CACHE: where build.sh put things. $WEFT_RIG_NETNS: name of the namespace.
set -euo pipefail
cache=${WEFT_RIG_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weft-rig}/siw
ns=${WEFT_RIG_NETNS:-weft-interop}
state=$cache/state-$ns
bridge=rig0
boot_seconds_max=180
kvm_boot_seconds_max=30
mtu_max=9000

die() {
	echo "rig: $*" >&2
	exit 1
}

running() { # running PID: there, and not a zombie
	local word
	word=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) || return 1
	[ -n "$word" ] && [ "$word" != Z ]
}
alive() { [ -s "$1" ] && running "$(cat "$1")"; } # alive PIDFILE

stop_pid() { # stop_pid PIDFILE: TERM, and KILL after 3 s
	local pid n
	alive "$1" || {
		rm -f "$1"
		return 0
	}
	pid=$(cat "$1")
	kill "$pid" 2>/dev/null || true
	for n in $(seq 30); do
		running "$pid" || break
		sleep 0.1
	done
	kill -9 "$pid" 2>/dev/null || true
	rm -f "$1"
}

down() {
	stop_pid "$state/tcpdump.pid"
	stop_pid "$state/qemu.pid"
	if ip netns list | grep -qw "^$ns"; then ip netns del "$ns"; fi
}

network_make() { # network_make MTU
	ip netns add "$ns"
	ip -n "$ns" link set lo up
	ip -n "$ns" link add "$bridge" type bridge stp_state 0 forward_delay 0 mcast_snooping 0
	ip -n "$ns" link set "$bridge" address 52:54:00:77:00:01 mtu "$1" up
	ip -n "$ns" addr add 10.77.0.1/24 dev "$bridge"
	ip -n "$ns" -6 addr add fd77::1/64 dev "$bridge" nodad
	ip -n "$ns" tuntap add rigtap mode tap
	ip -n "$ns" link set rigtap mtu "$1" master "$bridge" up
}

# machine_choose ACCEL: sets machine, QEMU and its words for this processor, and console, what the guest
# calls its serial line.
machine_choose() {
	local bytewise=erms=off,fsrm=off # QEMU copies a byte at a time by these, and the others
	local bitwise=pclmulqdq=off,sse4.2=off # compute CRCs a bit at a time; but count as one
	case $(uname -m),$1 in
	aarch64,kvm) machine=(qemu-system-aarch64 -M "virt,gic-version=host" -cpu host) ;;
	aarch64,*) machine=(qemu-system-aarch64 -M "virt,gic-version=2" -cpu cortex-a72) ;;
	x86_64,kvm) machine=(qemu-system-x86_64 -M q35 -cpu host) ;;
	x86_64,count) machine=(qemu-system-x86_64 -M q35 -cpu "max,$bytewise") ;;
	x86_64,*) machine=(qemu-system-x86_64 -M q35 -cpu "max,$bytewise,$bitwise") ;;
	*) die "no guest for $(uname -m)" ;;
	esac
	case $1 in
	tcg) machine+=(-accel "tcg,thread=multi,tb-size=256") ;;
	count) machine+=(-accel "tcg,thread=single,tb-size=256" -icount "shift=0,sleep=off") ;;
	kvm) machine+=(-accel kvm) boot_seconds_max=$kvm_boot_seconds_max ;;
	*) die "no way to run a guest is called $1" ;;
	esac
	console=ttyS0
	[ "$(uname -m)" != aarch64 ] || console=ttyAMA0
}

up() {
	local series=6.1 mtu=1500 accel=tcg processors=1 opt k net begun machine console
	while getopts k:m:a:c: opt; do
		case $opt in
		k) series=$OPTARG ;;
		m) mtu=$OPTARG ;;
		a) accel=$OPTARG ;;
		c) processors=$OPTARG ;;
		*) exit 2 ;;
		esac
	done
	k=$cache/kernel-$series
	[ -e "$k/initrd" ] || die "no kernel $series in $cache; run build.sh $series"
	mkdir -p "$state"
	if alive "$state/qemu.pid"; then die "the guest is up"; fi
	down
	network_make "$mtu"
	# Without offloads, frames on the bridge are what a wire would carry.
	net=csum=off,guest_csum=off,gso=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off
	net+=,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off
	rm -f "$state/console.log"
	machine_choose "$accel"
	ip netns exec "$ns" "${machine[@]}" \
		-name "$ns-guest" -smp "$processors" -m 1024 \
		-nodefaults -display none -no-reboot \
		-kernel "$k/Image" -initrd "$k/initrd" \
		-append "console=$console quiet loglevel=4 panic=-1 net.ifnames=0 mitigations=off nokaslr audit=0 tsc=reliable rig.mtu=$mtu" \
		-serial "file:$state/console.log" \
		-netdev "tap,id=data,ifname=rigtap,script=no,downscript=no,vhost=off,vnet_hdr=off" \
		-device "virtio-net-pci,netdev=data,mac=52:54:00:77:00:0b,host_mtu=$mtu_max,romfile=,$net" \
		-netdev "user,id=oob,restrict=on,net=10.0.2.0/24,hostfwd=tcp:127.0.0.1:2301-10.0.2.15:2323" \
		-device "virtio-net-pci,netdev=oob,mac=52:54:00:78:00:01,romfile=" \
		-object rng-random,filename=/dev/urandom,id=rng -device virtio-rng-pci,rng=rng \
		-pidfile "$state/qemu.pid" -daemonize
	begun=$(date +%s)
	until grep -qa '^RIG-READY' "$state/console.log" 2>/dev/null; do
		alive "$state/qemu.pid" || {
			tail -n 20 "$state/console.log" >&2
			die "the guest died"
		}
		[ $(($(date +%s) - begun)) -lt $boot_seconds_max ] || die "the guest is not ready"
		sleep 0.1
	done
	until (guest_exec -t 5 true) >/dev/null 2>&1 </dev/null; do # the agent comes last
		[ $(($(date +%s) - begun)) -lt $boot_seconds_max ] || die "the agent is not ready"
		sleep 0.1
	done
	grep -a '^RIG-READY' "$state/console.log"
}

guest_exec() {
	local seconds=0 opt
	while getopts t: opt; do
		case $opt in
		t) seconds=$OPTARG ;;
		*) exit 2 ;;
		esac
	done
	shift $((OPTIND - 1))
	alive "$state/qemu.pid" || die "the guest is not up"
	exec ip netns exec "$ns" "$cache/agent" exec 127.0.0.1 2301 "$seconds" \
		"export PATH=/rig:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root; ulimit -l unlimited; $*"
}

mtu_set() { # mtu_set BYTES
	ip -n "$ns" link set rigtap mtu "$1"
	ip -n "$ns" link set "$bridge" mtu "$1"
	guest_exec -t 10 "ip link set eth0 mtu $1" </dev/null
}

capture_start() {
	if alive "$state/tcpdump.pid"; then die "a capture is running"; fi
	rm -f "$1"
	# The ring of -B KiB has slots of -s bytes. By -s 0 it would have 64 of them, and lose packets.
	ip netns exec "$ns" tcpdump -i rigtap -Z root --immediate-mode -U -s $((mtu_max + 64)) \
		-B 16384 -w "$1" "${2:-tcp}" \
		>/dev/null 2>"$state/tcpdump.log" </dev/null &
	echo $! >"$state/tcpdump.pid"
	until [ -s "$1" ]; do
		alive "$state/tcpdump.pid" || {
			cat "$state/tcpdump.log" >&2
			die "tcpdump did not start"
		}
		sleep 0.05
	done
}

capture_stop() {
	alive "$state/tcpdump.pid" || die "no capture is running"
	sleep 0.5 # what is on its way comes to the file
	stop_pid "$state/tcpdump.pid"
	cat "$state/tcpdump.log" >&2
}

verb=${1:-}
[ -z "$verb" ] || shift
case $verb in
up) up "$@" ;;
down) down ;;
exec) guest_exec "$@" ;;
host) PATH=$cache:$PATH exec ip netns exec "$ns" "$@" ;;
mtu) mtu_set "$@" ;;
capture-start) capture_start "$@" ;;
capture-stop) capture_stop ;;
pid) cat "$state/qemu.pid" ;;
log) cat "$state/console.log" ;;
*)
	sed -n '3,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//'
	exit 2
	;;
esac
