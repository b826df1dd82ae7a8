/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/nbdkit/help.h"

const char plugin_usage[] = "nbdkit [OPTIONS] weft device=DEVICE [config=FILE] [wait=TIME]";

const char plugin_description[] =
	"Serves a block device to NBD clients: qemu, nbdcopy, fio, the Linux kernel. DEVICE is a disk of\n"
	"an iSCSI target by its URL, iscsi://HOST/TARGET/LUN or iser://, or any other line of\n"
	"docs/store.md; with config it is the name of a device of directed remote I/O.\n"
	"\n"
	"Of directed remote I/O nbdkit is the requester. The data goes straight between the I/O unit and\n"
	"nbdkit's memory, and from there to the client: run nbdkit on the client's host.\n"
	"\n"
	"One nbdkit serves one device. The configuration of the owner (weft own) has a requester line\n"
	"for each nbdkit: docs/config.md. What the device can do, and what happens while the owner or\n"
	"the I/O unit is away, stands in docs/nbd.md.";

const char plugin_parameters[] =
	"device=DEVICE  (required) Device to serve.\n"
	"config=FILE    Configuration file of the requester: DEVICE is the name of a directed device.\n"
	"wait=TIME      With config, how long to wait for owner and device: 10s, 500ms. Default 10s.";
