/* SPDX-License-Identifier: BSD-2-Clause */
/* weft fabric run. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cmd/fabric/fabric.h"
#include "cmd/options.h"
#include "cmd/reason_text.h"
#include "cmd/roles/rio_role.h"
#include "cmd/topology/topology_file.h"
#include "roles/fabric_server.h"

static void stop(void *server)
{
	fabric_server_stop(server);
}

static void counted(const char *what, uint32_t count, const char *more)
{
	printf("%" PRIu32 " %s%s%s", count, what, count == 1 ? "" : "s", more);
}

static void say_what(const struct topology *t, const struct fabric_server *s)
{
	uint32_t counts[SM_NODE_ROUTER + 1] = { 0 };

	for (uint32_t i = 0; i < t->node_count; i++)
		counts[t->nodes[i].type]++;
	printf("fabric %s: ", fabric_server_name(s));
	counted("endnode", counts[SM_NODE_CA], ", ");
	printf("%" PRIu32 " switch%s, ", counts[SM_NODE_SWITCH],
	       counts[SM_NODE_SWITCH] == 1 ? "" : "es");
	counted("router", counts[SM_NODE_ROUTER], ", ");
	counted("cable", t->cable_count, "\n");
	(void)fflush(stdout);
}

/* Every adapter and every program of management has a descriptor here. */
static void descriptors_allow(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int serve(const char *path, const char *name)
{
	struct fabric_server *s;
	char text[REASON_TEXT];
	enum weft_reason reason;
	struct topology t;

	if (!topology_file_read(&t, "weft fabric", path))
		return 1;
	signal(SIGPIPE, SIG_IGN);
	descriptors_allow();
	reason = fabric_server_open(&t, name, &s);
	if (reason != WEFT_OK) {
		fprintf(stderr, "weft fabric: %s\n", reason_text(reason, text));
		topology_fini(&t);
		return 1;
	}
	rio_role_until_signal(stop, s);
	say_what(&t, s);
	topology_fini(&t);
	fabric_server_run(s);
	fabric_server_close(s);
	return 0;
}

int fabric_serve(int argc, char **argv)
{
	const char *name = NULL;
	const struct cmd_option options[] = { { .name = "name", .text = &name }, { 0 } };
	int status;

	if (!cmd_options_take(argc, argv, options, fabric_help, &status))
		return status;
	if (argc - optind != 1)
		return fabric_misused("run takes a file");
	if (name && (*name == '\0' || strlen(name) > FABRIC_SERVER_NAME))
		return fabric_misused("the name of a fabric has 1 to 40 characters");
	return serve(argv[optind], name);
}
