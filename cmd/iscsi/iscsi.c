/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/iscsi/iscsi.h"

#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"

const char iscsi_help[] =
	"usage: weft iscsi discover URL [OPTIONS]           the targets of a portal, or the LUNs of a target\n"
	"       weft iscsi info URL [OPTIONS]               what a disk is, and what was negotiated\n"
	"       weft iscsi read URL [FILE] [OPTIONS]        to FILE, or to standard output\n"
	"       weft iscsi write URL [FILE] [OPTIONS]       from FILE, or from standard input\n"
	"       weft iscsi copy FROM TO [OPTIONS]           between disks, other devices and files\n"
	"       weft iscsi bench URL [OPTIONS]              how fast it is\n"
	"       weft iscsi serve FILE                       serve disks to iSCSI initiators\n"
	"       weft iscsi status [--json] [--watch SECONDS] [PID]\n"
	"                                                   the targets that run here, and their sessions\n"
	"\n"
	"Uses disks of iSCSI targets, and is such a target itself, without root (docs/iscsi.md). A URL\n"
	"is iscsi://[USER[%PASSWORD]@]HOST[:PORT]/TARGET/LUN for TCP, iser:// for RDMA, with options\n"
	"behind a question mark. discover takes one without LUN or target, too.\n"
	"\n"
	"FROM and TO of copy are a URL, a line of docs/store.md, or the path of a file. Blocks of zeroes\n"
	"are not sent: the disk makes them itself, and a thin one stays thin. write and copy end with\n"
	"a flush, so what they wrote is durable when they succeed. The last block of a file is filled up\n"
	"with zeroes.\n"
	"\n"
	"  --offset N       first byte of the disk, of copy: in FROM; with k, M, G, T; default 0\n"
	"  --length N       bytes; default: to the end of the disk, or of the input\n"
	"  --to N           copy: first byte in TO; default as --offset\n"
	"  --block N        bytes of a request; default 1M, of bench 4k\n"
	"  --depth N        requests under way; default 16, of bench 32\n"
	"  --fua            write, copy: each write is durable when it is done\n"
	"  --verify         write, copy: read back what was written, and compare\n"
	"  --write          bench: write, which destroys what is there; default: read\n"
	"  --random         bench: blocks in no order\n"
	"  --seconds S      bench: for so long; default 2\n"
	"  --initiator IQN  the name of this initiator; default: iqn.2026-11.local.weft:HOST\n"
	"  --secrets FILE   names and secrets of CHAP, which the words of a process would show to others\n"
	"  --timeout TIME   how long a request may take; default 60s\n"
	"  --retry TIME     how long a lost connection is made again; default 30s, 0s: not at all\n"
	"  --json           for programs to read\n"
	"  --quiet          no progress line\n"
	"  --watch SECONDS  status: again and again\n"
	"\n"
	"serve runs an iSCSI target. FILE says where it listens, which disks it has and who may log in;\n"
	"what it does not allow is denied, and without a rule only initiators of this host are allowed.\n"
	"Runs until it is told to end by SIGINT or SIGTERM: then initiators are asked to log out, and\n"
	"disks are flushed.\n"
	"\n"
	"status shows the targets of this user that run now, or the one of process PID: disks,\n"
	"sessions, what was negotiated, commands and bytes.\n"
	"\n"
	"The exit status is 0 if all was done, 1 if not, 2 if the command was called wrongly.\n";

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} verbs[] = {
	{ "discover", iscsi_discover }, { "info", iscsi_info },	    { "read", iscsi_read },
	{ "write", iscsi_write },	{ "copy", iscsi_copy },	    { "bench", iscsi_bench },
	{ "serve", iscsi_serve },	{ "status", iscsi_status },
};

static int cmd_iscsi(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
	}
	fputs(iscsi_help, stderr);
	return 2;
}

const struct command command_iscsi = {
	.name = "iscsi",
	.args = "VERB ...",
	.what = "serve disks by iSCSI, and use them",
	.help = iscsi_help,
	.run = cmd_iscsi,
};
