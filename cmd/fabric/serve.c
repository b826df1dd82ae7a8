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
#include "wire/iba.h"

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

static void tell(void *context, const char *line)
{
	(void)context;
	rio_role_say(stdout, line);
	(void)fflush(stdout);
}

struct wishes {
	const char *name;
	bool has_mtu;
	uint64_t mtu_bytes;
	struct fabric_cut_files cut;
	uint64_t spin_ns;
};

static bool open_all(const struct topology *t, const struct wishes *w, struct fabric_cut *cut,
		     struct fabric_server **s)
{
	const struct fabric_server_part part = { .cut = cut, .tell = tell };
	const struct fabric_server_options options = {
		.name = w->name,
		.part = w->cut.parts ? &part : NULL,
		.spin_ns = w->spin_ns,
		.mtu = iba_mtu_code((uint32_t)w->mtu_bytes),
	};
	char text[REASON_TEXT], why[CONFIG_FILE_WHY];
	enum weft_reason reason;

	if (w->cut.parts && !fabric_cut_open(cut, t, &w->cut, why)) {
		fprintf(stderr, "weft fabric: %s\n", why);
		return false;
	}
	reason = fabric_server_open(t, &options, s);
	if (reason == WEFT_OK)
		return true;
	fprintf(stderr, "weft fabric: %s\n", reason_text(reason, text));
	return false;
}

static int serve(const char *path, const struct wishes *w)
{
	struct fabric_cut cut = { 0 };
	struct fabric_server *s;
	struct topology t;
	int status = 1;

	if (!topology_file_read(&t, "weft fabric", path))
		return 1;
	signal(SIGPIPE, SIG_IGN);
	descriptors_allow();
	if (open_all(&t, w, &cut, &s)) {
		rio_role_until_signal(stop, s);
		say_what(&t, s);
		fabric_server_run(s);
		fabric_server_close(s);
		status = 0;
	}
	topology_fini(&t);
	fabric_cut_close(&cut);
	return status;
}

static bool is_mtu(uint64_t bytes)
{
	return bytes > 0 && bytes <= UINT32_MAX &&
	       iba_mtu_bytes(iba_mtu_code((uint32_t)bytes)) == bytes;
}

int fabric_serve(int argc, char **argv)
{
	struct wishes w = { 0 };
	const struct cmd_option options[] = {
		{ .name = "name", .text = &w.name },
		{ .name = "mtu",
		  .is_given = &w.has_mtu,
		  .read = quantity_size,
		  .to = &w.mtu_bytes },
		{ .name = "parts", .text = &w.cut.parts },
		{ .name = "part", .text = &w.cut.name },
		{ .name = "key", .text = &w.cut.key },
		{ .name = "spin", .read = quantity_time, .to = &w.spin_ns },
		{ 0 }
	};
	int status;

	if (!cmd_options_take(argc, argv, options, fabric_help, &status))
		return status;
	if (argc - optind != 1)
		return fabric_misused("run takes a file");
	if (w.name && (*w.name == '\0' || strlen(w.name) > FABRIC_SERVER_NAME))
		return fabric_misused("the name of a fabric has 1 to 40 characters");
	if (!w.cut.parts != !w.cut.name || (w.cut.key && !w.cut.parts))
		return fabric_misused("a part has its --part, and the --parts that there are");
	if (w.has_mtu && !is_mtu(w.mtu_bytes))
		return fabric_misused("the MTU of a fabric is 256, 512, 1024, 2048 or 4096");
	return serve(argv[optind], &w);
}
