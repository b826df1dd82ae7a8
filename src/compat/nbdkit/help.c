/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/nbdkit/help.h"

const char plugin_usage[] = "nbdkit [OPTIONS] weft config=FILE device=NAME [wait=TIME]";

const char plugin_description[] =
	"Serves a device of weft's directed remote I/O to NBD clients: qemu, nbdcopy, fio, the Linux\n"
	"kernel. nbdkit is the requester. The data goes straight between the I/O unit and nbdkit's\n"
	"memory, and from there to the client: run nbdkit on the client's host.\n"
	"\n"
	"One nbdkit serves one device. The configuration of the owner (weft own) has a requester line\n"
	"for each nbdkit: docs/config.md. What the device can do, and what happens while the owner or\n"
	"the I/O unit is away, stands in docs/nbd.md.";

const char plugin_parameters[] =
	"config=FILE   (required) Configuration file of the requester.\n"
	"device=NAME   (required) Device to serve.\n"
	"wait=TIME     How long to wait for owner and device: 10s, 500ms. Default 10s.";
