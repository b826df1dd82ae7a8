/* SPDX-License-Identifier: BSD-2-Clause */
/* weft run: an unmodified RDMA program, with weft's libraries in place of rdma-core's. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault_plan.h"
#include "cmd/cmd.h"
#include "cmd/fabric/elsewhere.h"
#include "cmd/run/dropin.h"
#include "cmd/run/program.h"
#include "driver/observe/observe.h"
#include "driver/sys/fabric_client.h"

static const char usage[] =
	"usage: weft run [OPTIONS] PROGRAM [ARGUMENTS...]\n"
	"\n"
	"Runs an RDMA program as it is, with weft's libibverbs, librdmacm and libibumad in place of\n"
	"the system's. Nothing stays in between: the program replaces weft, and its exit status and\n"
	"signals are its own.\n"
	"\n"
	"  --node NODE     it runs at this node of the fabric that weft fabric run is (WEFT_NODE); which\n"
	"                  fabric, if there are several: WEFT_FABRIC\n"
	"  --devices LIST  it sees only these, of those that weft devices shows (WEFT_DEVICES)\n"
	"  --pcap FILE     capture all that it says and hears, for Wireshark (WEFT_PCAP)\n"
	"  --trace FILE    write what happens, for weft trace (WEFT_TRACE)\n"
	"  --log LEVEL     off, error or info, on stderr (WEFT_LOG)\n"
	"  --near off      packets to programs of this host go by UDP, not by shared memory; packets: by\n"
	"                  shared memory, but no program accesses memory of the other (WEFT_NEAR)\n"
	"  --crc off       iWARP: agree to no CRC, if the other end does too (WEFT_CRC)\n"
	"  --policy WHICH  open or strict: then peers reach its memory by windows only (WEFT_POLICY)\n"
	"  --profile WHICH host or io: its adapter has the ports and queue pairs of one of a host, or\n"
	"                  of an I/O adapter, whose memory no peer reaches (WEFT_PROFILE)\n"
	"  --serve         a thread of weft's does all of the work, and keeps a processor busy: posting\n"
	"                  and polling make no system call (WEFT_SERVE=on)\n"
	"  --faults SPEC   make failures on purpose, such as seed=7,qp_error=0.001 (WEFT_FAULTS)\n"
	"\n"
	"%p in the name of a FILE is the process id. The exit status is 125 if weft run itself\n"
	"fails, 126 if the program cannot run this way, 127 if it is not found; weft doctor PROGRAM\n"
	"says more.\n";

enum {
	STATUS_OWN = 125, /* as env, nohup and timeout have them */
	STATUS_CANNOT = 126,
	STATUS_NOT_FOUND = 127,
};

static const struct {
	struct option option;
	const char *variable;
} settings[] = {
	{ { "crc", required_argument, NULL, 'c' }, "WEFT_CRC" },
	{ { "devices", required_argument, NULL, 'd' }, "WEFT_DEVICES" },
	{ { "faults", required_argument, NULL, 'f' }, "WEFT_FAULTS" },
	{ { "log", required_argument, NULL, 'l' }, "WEFT_LOG" },
	{ { "near", required_argument, NULL, 'n' }, "WEFT_NEAR" },
	{ { "node", required_argument, NULL, 'N' }, "WEFT_NODE" },
	{ { "pcap", required_argument, NULL, 'p' }, "WEFT_PCAP" },
	{ { "policy", required_argument, NULL, 'o' }, "WEFT_POLICY" },
	{ { "profile", required_argument, NULL, 'r' }, "WEFT_PROFILE" },
	{ { "serve", no_argument, NULL, 's' }, "WEFT_SERVE" },
	{ { "trace", required_argument, NULL, 't' }, "WEFT_TRACE" },
};

enum { SETTINGS = sizeof(settings) / sizeof(*settings) };

static int misused(const char *what, const char *word)
{
	fprintf(stderr, "weft run: %s%s\n\n%s", what, word, usage);
	return STATUS_OWN;
}

static const char *variable(int option)
{
	int i = 0;

	/* Bound: getopt_long() returns none but these. */
	while (settings[i].option.val != option)
		i++;
	return settings[i].variable;
}

/* A plan that cannot be read would be met only when the program opens a device. */
static bool is_plan(const char *text)
{
	struct fault_complaint complaint;
	struct fault_plan plan;

	if (fault_plan_read(&plan, text, &complaint))
		return true;
	fprintf(stderr, "weft run: --faults: %.*s: %s\n", (int)complaint.length, complaint.at,
		complaint.why);
	return false;
}

/* Puts the options into the environment. Returns an exit status, or -1 to go on. */
static int take_options(int argc, char **argv)
{
	struct option options[SETTINGS + 2] = { { "help", no_argument, NULL, 'h' } };
	enum weft_policy policy;
	enum weft_profile profile;
	enum near_wish near;
	bool is_on;
	int option;

	for (int i = 0; i < SETTINGS; i++)
		options[1 + i] = settings[i].option;
	opterr = 0;
	optind = 1;
	/* The first word that is no option is the program; what follows is the program's. */
	while ((option = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
		if (option == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		if (option == ':')
			return misused("what is to follow ", argv[optind - 1]);
		if (option == '?')
			return misused("there is no option ", argv[optind - 1]);
		if (option == 'l' && log_level_named(optarg) == LOG_UNSET)
			return misused("--log takes off, error or info, not ", optarg);
		if (option == 'c' && !switch_named(optarg, &is_on))
			return misused("--crc takes on or off, not ", optarg);
		if (option == 'n' && !near_named(optarg, &near))
			return misused("--near takes on, off or packets, not ", optarg);
		if (option == 'o' && !policy_named(optarg, &policy))
			return misused("--policy takes open or strict, not ", optarg);
		if (option == 'r' && !profile_named(optarg, &profile))
			return misused("--profile takes host or io, not ", optarg);
		if (option == 'f' && !is_plan(optarg))
			return STATUS_OWN;
		if (setenv(variable(option), option == 's' ? "on" : optarg, 1) < 0) {
			perror("weft run");
			return STATUS_OWN;
		}
	}
	return optind < argc ? -1 : misused("which program?", "");
}

/* Without it programs work, but some take RoCE's devices for others of an older version. */
static int take_preload(const struct dropin *libraries)
{
	char *value = dropin_preload(libraries);
	int result = value ? setenv("LD_PRELOAD", value, 1) : -errno;

	free(value);
	return result;
}

/* The libraries first in the loader's path. */
static int take_libraries(void)
{
	struct dropin libraries;
	char *path;
	int result;

	if (dropin_find(&libraries) < 0) {
		fprintf(stderr,
			"weft run: weft's libraries are not all in %s; build or install weft anew\n",
			libraries.directory);
		return STATUS_OWN;
	}
	if (strpbrk(libraries.directory, ":;")) {
		fprintf(stderr,
			"weft run: the loader cannot be told of %s, whose name has a colon or "
			"semicolon; move weft elsewhere\n",
			libraries.directory);
		return STATUS_OWN;
	}
	path = dropin_library_path(&libraries);
	result = path ? setenv("LD_LIBRARY_PATH", path, 1) : -1;
	free(path);
	if (result == 0)
		result = take_preload(&libraries);
	if (result < 0) {
		perror("weft run");
		return STATUS_OWN;
	}
	return 0;
}

/* A program would only find that it has no adapter. */
static bool is_at_node(void)
{
	struct fabric_msg_port port;
	char text[ELSEWHERE_TEXT];
	enum weft_reason reason;

	if (!fabric_client_node())
		return true;
	reason = fabric_client_port(1, &port);
	if (reason != WEFT_OK)
		fprintf(stderr, "weft run: --node %s: %s\n", fabric_client_node(),
			elsewhere_text(fabric_client_node(), reason, text));
	return reason == WEFT_OK;
}

static int cmd_run(int argc, char **argv)
{
	int status = take_options(argc, argv);
	enum program_fault fault;
	struct program program;
	char text[PATH_MAX + 256];

	if (status >= 0)
		return status;
	if (!is_at_node())
		return STATUS_OWN;
	argv += optind;
	fault = program_open(&program, argv[0]);
	program_fault_text(&program, fault, text, sizeof(text));
	program_close(&program);
	if (fault != PROGRAM_OK) {
		fprintf(stderr, "weft run: %s %s\n", program.path, text);
		return fault == PROGRAM_NOT_FOUND ? STATUS_NOT_FOUND : STATUS_CANNOT;
	}
	status = take_libraries();
	if (status != 0)
		return status;
	execv(program.path, argv);
	fprintf(stderr, "weft run: %s: %s\n", program.path, strerror(errno));
	return errno == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT;
}

const struct command command_run = {
	.name = "run",
	.args = "PROGRAM...",
	.what = "run an RDMA program as it is, without RDMA hardware",
	.help = usage,
	.run = cmd_run,
};
