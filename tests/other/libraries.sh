#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# libraries.sh ARCHITECTURE CPU FOLDER PACKAGE...: unpacks packages of another processor, with all they
# depend on, in FOLDER/root, and writes FOLDER/cross.ini, by which meson compiles for that processor and
# runs what it compiled under QEMU. Neither apt nor dpkg of this machine learns of it, and no root is needed.
set -eu
architecture=$1 cpu=$2 folder=$3
shift 3

# Only apt's sources and keys are the machine's.
apt() {
	apt-get -q -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture" \
		-o Dir::State="$folder" -o Dir::State::status="$folder/status" -o Dir::Cache="$folder" \
		-o APT::Sandbox::User="$(id -un)" "$@"
}

rm -rf "$folder"
mkdir -p "$folder/lists/partial" "$folder/archives/partial"
: >"$folder/status"
apt update
apt install -y --download-only --no-install-recommends "$@"

# As base-files has it, which is not among them.
for name in bin lib lib64 sbin; do
	mkdir -p "$folder/root/usr/$name"
	ln -s "usr/$name" "$folder/root/$name"
done
for package in "$folder"/archives/*.deb; do
	dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$folder/root"
done
# Links to /lib/... would lead to the libraries of this machine.
find "$folder/root" -type l -lname '/*' | while read -r link; do
	ln -sfn "$folder/root$(readlink "$link")" "$link"
done
rm -rf "$folder/archives" "$folder/lists"

cat >"$folder/cross.ini" <<END
[binaries]
c = ['$cpu-linux-gnu-gcc', '--sysroot=$folder/root']
ar = '$cpu-linux-gnu-gcc-ar'
strip = '$cpu-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-$cpu-static', '-L', '$folder/root']
[properties]
sys_root = '$folder/root'
pkg_config_libdir = '$folder/root/usr/lib/$cpu-linux-gnu/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = '$cpu'
cpu = '$cpu'
endian = 'little'
END
