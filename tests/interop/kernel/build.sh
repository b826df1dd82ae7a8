#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Makes what the guest boots: a Debian kernel with rxe, siw for it, and an initramfs with verbs
# programs.
#
#   build.sh [SERIES...]      6.1 (default; that of Debian 12) or 6.12
#
# All that is fetched or made is in $WEFT_RIG_CACHE (default ~/.cache/weft-rig), about 400 MB a
# kernel; what is there is not made again. Exit status 77, with the reason in the last line, when
# this machine lacks something.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${WEFT_RIG_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weft-rig}
[ $# -gt 0 ] || set -- 6.1

say() { echo "build: $*" >&2; }
skip() {
	echo "$*"
	exit 77
}

[ "$(id -u)" = 0 ] || skip "only root may make the guest's network"
command -v apt-get >/dev/null || skip "the guest is made of Debian packages, and apt-get is not here"
arch=$(dpkg --print-architecture)
case $arch in
arm64) qemu='qemu-system-arm' ;;
amd64) qemu='qemu-system-x86' ;;
*) skip "the guest is made on arm64 and amd64 only" ;;
esac

# --- tools of this machine ----------------------------------------------------------------------

missing=()
for p in "$qemu" tcpdump tshark mmdebstrap busybox-static cpio kmod xz-utils gcc-12 \
	libc6-dev make binutils iproute2 libibverbs-dev librdmacm-dev; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
if [ ${#missing[@]} -gt 0 ]; then
	say "installing ${missing[*]}"
	{ apt-get update -q && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -q --no-install-recommends "${missing[@]}"; } >/dev/null 2>&1 ||
		skip "cannot install ${missing[*]}"
fi

mkdir -p "$cache/debs" "$cache/siw"
cd "$cache/siw"

# --- the guest's user space ---------------------------------------------------------------------

# Extracted, not installed: no maintainer script runs, and nothing in the guest is a service.
packages=busybox-static,dash,kmod,iproute2,ibverbs-providers,ibverbs-utils,rdmacm-utils,perftest
packages+=,open-iscsi,e2fsprogs,fio
if [ ! -e root.packages ] || [ "$(cat root.packages)" != "$packages" ]; then
	say "extracting $packages"
	rm -rf root
	mmdebstrap --quiet --mode=root --variant=extract --include="$packages" bookworm root \
		2>mmdebstrap.log || skip "cannot fetch the guest's packages, see $PWD/mmdebstrap.log"
	(cd root && rm -rf usr/share usr/lib/*/perl usr/lib/*/perl-base usr/lib/*/gconv \
		lib/*/security usr/lib/locale var boot dev/* usr/lib/systemd lib/systemd)
	echo "$packages" >root.packages
fi

tree_make() {
	rm -rf tree
	mkdir tree
	cp -a root/. tree/
	(
		cd tree
		mkdir -p bin sbin usr/bin usr/sbin proc sys dev etc root run tmp rig
		for a in $(bin/busybox --list); do
			for d in bin sbin usr/bin usr/sbin; do
				if [ -e "$d/$a" ] || [ -L "$d/$a" ]; then continue 2; fi
			done
			ln -s /bin/busybox "bin/$a"
		done
		ln -sf dash bin/sh # busybox sh would run its own ip and modprobe
		install -m 755 "$here/guest/init" init
		install -m 755 "$here"/guest/{both,disk,lio,lose,use} ../agent ../pair ../verbs rig/
		echo 'root:x:0:0:root:/root:/bin/sh' >etc/passwd
		echo 'root:x:0:' >etc/group
		printf '127.0.0.1 localhost\n' >etc/hosts
		find . -print0 | LC_ALL=C sort -z | cpio --null --quiet -o -H newc >../base.cpio.new
	)
	rm -rf tree
	mv base.cpio.new base.cpio
}

# Whether something was made of the same as now is told by a sum, not by the time of files.
sum=$(cat "$here/build.sh" "$here"/guest/* | sha256sum)
if [ "$(cat base.sum 2>/dev/null)" != "$sum" ]; then
	gcc-12 -std=gnu17 -O2 -Wall -Wextra -static -o agent "$here/guest/agent.c"
	gcc-12 -std=gnu17 -O2 -Wall -Wextra -o verbs "$here/guest/verbs.c" -lrdmacm -libverbs
	gcc-12 -std=gnu17 -O2 -Wall -Wextra -o pair "$here/guest/pair.c" -libverbs
	tree_make
	echo "$sum" >base.sum
fi

# --- one kernel ---------------------------------------------------------------------------------

fetch() { # fetch NAME=VERSION: the path of its .deb, downloaded at most once
	local name=${1%%=*} version=${1#*=} f
	f=$(printf '%s/debs/%s_%s_*.deb' "$cache" "$name" "${version//:/%3a}")
	if ! compgen -G "$f" >/dev/null; then
		(cd "$cache/debs" && apt-get download -q "$1" >/dev/null 2>&1) || return 1
	fi
	compgen -G "$f"
}

unpack() { # unpack NAME=VERSION DIRECTORY
	local deb
	deb=$(fetch "$1") || skip "cannot download $1"
	dpkg-deb -x "$deb" "$2"
}

compile() { # compile DIRECTORY: siw.ko of the sources there
	make -s -j"$(nproc)" -C "$headers" M="$1" CONFIG_RDMA_SIW=m modules >"$1.log" 2>&1 || {
		cat "$1.log" >&2
		exit 1
	}
	strip --strip-debug "$1/siw.ko"
}

# Debian does not configure siw (CONFIG_RDMA_SIW is not set): it is compiled, unmodified, from
# Debian's sources of exactly this kernel.
siw_make() { # siw_make SERIES VERSION OUT
	local path=drivers/infiniband/sw/siw deb
	deb=$(fetch "linux-source-$1=$2") || skip "cannot download linux-source-$1=$2"
	dpkg-deb --fsys-tarfile "$deb" | tar -xO "./usr/src/linux-source-$1.tar.xz" | xz -dc |
		tar -x -C "$3" "linux-source-$1/$path"
	mv "$3/linux-source-$1/$path" "$3/siw"
	rm -r "$3/linux-source-$1"
	cp -r "$3/siw" "$3/siw-tunable"
	compile "$3/siw"
}

# What siw does on the wire is decided by constants. A second copy, with nothing changed but those
# turned into parameters, can be asked for CRC, peer-to-peer set-up, MPA revision 1 and the rest.
siw_tunable_make() { # siw_tunable_make OUT
	local t=$1/siw-tunable s
	for s in try_gso mpa_crc_required mpa_crc_strict siw_tcp_nagle peer_to_peer; do
		sed -i "s/^extern const bool $s;/extern bool $s;/" "$t/siw.h"
		sed -i "s/^const bool $s;/bool $s;\nmodule_param($s, bool, 0444);/" "$t/siw_main.c"
	done
	sed -i 's/^u_char mpa_version = .*/&\nmodule_param(mpa_version, byte, 0444);/' "$t/siw_main.c"
	sed -i 's/^static __be16 rtr_type = .*/&\nmodule_param(rtr_type, ushort, 0444);/' "$t/siw_cm.c"
	compile "$t"
}

# crc32_generic: rxe's ICRC. The last line: a network that loses, what leaves and what comes.
modules="siw rdma_rxe ib_uverbs rdma_ucm virtio_pci virtio_net virtio-rng crc32c_generic"
modules+=" crc32_generic sch_netem sch_ingress cls_matchall act_gact"
# The kernel's initiator and target of iSCSI, on TCP and by iSER.
modules+=" iscsi_tcp ib_iser sd_mod iscsi_target_mod ib_isert target_core_file crct10dif_generic ext4"
# Faster ones, for processors that have the instructions.
[ "$arch" != amd64 ] || modules+=" crc32_pclmul crc32c_intel"

modules_make() { # modules_make RELEASE OUT: the few modules that the guest loads, as an archive
	local from=$2/pkg/lib/modules/$1 to=$2/modules/lib/modules/$1 name ko
	mkdir -p "$from/extra" "$to"
	cp "$2/siw/siw.ko" "$from/extra/"
	find "$from" -name '*.ko.xz' -print0 | xargs -0 -r -n 64 -P "$(nproc)" xz -d
	depmod -b "$2/pkg" "$1"
	for name in $modules; do
		modprobe -d "$2/pkg" -S "$1" --show-depends "$name" |
			awk '$1 == "insmod" {print $2}'
	done | sort -u | while read -r ko; do
		install -D -m 644 "$ko" "$to/${ko#"$from/"}"
	done
	cp "$from"/modules.builtin "$from"/modules.builtin.modinfo "$from"/modules.order "$to/"
	depmod -b "$2/modules" "$1"
	cp "$2/siw-tunable/siw.ko" "$2/modules/lib/modules/siw-tunable.ko" # not for depmod to see
	(cd "$2/modules" && find . -print0 | LC_ALL=C sort -z |
		cpio --null --quiet -o -H newc >../modules.cpio)
}

kernel_make() { # kernel_make SERIES
	local meta=linux-image-$1-$arch out=$PWD/kernel-$1 image version release stem kbuild p
	[ "$1" != 6.1 ] || meta=linux-image-$arch
	if [ "$(cat "$out/made-of" 2>/dev/null)" = "$modules" ]; then return; fi
	image=$(apt-cache depends "$meta" 2>/dev/null |
		awk '/Depends: linux-image/ {print $2; exit}') || true
	[ -n "$image" ] || skip "apt knows no $meta"
	version=$(apt-cache policy "$image" | awk '/Candidate:/ {print $2}')
	release=${image#linux-image-}
	stem=${release%-"$arch"}
	say "$1: $release ($version)"
	rm -rf "$out"
	mkdir -p "$out/pkg" "$out/headers"
	unpack "$image=$version" "$out/pkg"
	for p in "linux-headers-$release" "linux-headers-$stem-common"; do
		unpack "$p=$version" "$out/headers"
	done
	kbuild=$(dpkg-deb -f "$(fetch "linux-headers-$release=$version")" Depends |
		tr ',' '\n' | awk '{print $1}' | grep '^linux-kbuild-')
	unpack "$kbuild=$version" "$out/headers"
	headers=$out/headers/usr/src/linux-headers-$release
	sed -i "s,^include /usr/src/,include $out/headers/usr/src/," "$headers/Makefile"
	rm -f "$headers/vmlinux" # good for BTF only, which needs pahole
	siw_make "$1" "$version" "$out"
	siw_tunable_make "$out"
	modules_make "$release" "$out"
	cp "$out/pkg/boot/vmlinuz-$release" "$out/Image"
	rm -rf "$out/pkg" "$out/headers" "$out/modules"
	echo "$modules" >"$out/made-of"
}

for series; do
	kernel_make "$series"
	k=kernel-$series
	cat base.cpio "$k/modules.cpio" >"$k/initrd"
done
