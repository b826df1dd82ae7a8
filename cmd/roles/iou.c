/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/cmd.h"

#include <stdio.h>

#include "cmd/roles/cluster_view.h"
#include "cmd/roles/rio_role.h"
#include "cmd/roles/term_file.h"

static const char help[] =
	"usage: weft iou FILE\n"
	"\n"
	"Serves the devices of an I/O unit: moves data straight between them and the memory of\n"
	"requesters, as its owner directs. FILE is its configuration (docs/config.md). Runs until\n"
	"it is told to end by SIGINT or SIGTERM.\n";

static void stop(void *iounit)
{
	weft_rio_iounit_stop(iounit);
}

/* Before the owner is served: one that was there before it is refused also after a restart. */
static void keep(void *file, const struct weft_rio_term *term)
{
	term_file_keep("iou", ((const struct rio_role_file *)file)->host->key_path, term);
}

static void tell(void *context, const char *line)
{
	(void)context;
	rio_role_say(stdout, line);
	fflush(stdout);
}

static void say_devices(const struct rio_config *c, const struct weft_address *at)
{
	char address[WEFT_ADDRESS_TEXT], line[WEFT_ADDRESS_TEXT + 64];

	weft_address_text(at, address);
	for (uint32_t i = 0; i < c->device_count; i++) {
		char text[256];

		snprintf(text, sizeof(text), "device %u %s: %s", c->devices[i].number,
			 c->devices[i].name, c->devices[i].text);
		rio_role_say(stdout, text);
	}
	snprintf(line, sizeof(line), "I/O unit %u.%u serves at %s", c->self.unit, c->self.process,
		 address);
	rio_role_say(stdout, line);
	fflush(stdout);
}

static int serve(const struct rio_role_file *f)
{
	const struct rio_config *c = f->host->config;
	struct weft_rio_store stores[RIO_CONFIG_DEVICES_MAX];
	struct weft_rio_iounit_options options = { .stores = stores,
						   .store_count = c->device_count,
						   .commands_max = c->requests_max,
						   .timeout_ns = c->timeout_ns,
						   .memory_bytes = c->memory_bytes,
						   .adapters = c->adapters,
						   .term = term_file_read("iou", f->host->key_path),
						   .keep = keep,
						   .tell = tell,
						   .context = (void *)(uintptr_t)f };
	struct weft_rio_iounit *iounit;
	struct weft_rio_traffic moved;
	struct weft_address at;
	char why[WEFT_RIO_WHY_MAX] = "", carried[CLUSTER_MOVED_TEXT];
	enum weft_reason r;

	for (uint32_t i = 0; i < c->device_count; i++)
		stores[i] = (struct weft_rio_store){ .number = c->devices[i].number,
						     .name = c->devices[i].name,
						     .text = c->devices[i].text };
	r = weft_rio_iounit_open(&f->self, &options, &iounit, why);
	if (r != WEFT_OK)
		return rio_role_fail("iou", why[0] ? why : "cannot begin", r);
	rio_role_until_signal(stop, iounit);
	weft_rio_iounit_address(iounit, &at);
	say_devices(c, &at);
	weft_rio_iounit_run(iounit);
	weft_rio_iounit_traffic(iounit, &moved);
	cluster_view_moved(&moved, carried);
	rio_role_say(stdout, carried);
	weft_rio_iounit_close(iounit);
	return 0;
}

static int cmd_iou(int argc, char **argv)
{
	return rio_role_main(argc, argv, &(struct rio_role_command){ RIO_IOUNIT, help, serve });
}

const struct command command_iou = {
	.name = "iou",
	.args = "FILE",
	.what = "serve devices, as an owner directs",
	.help = help,
	.run = cmd_iou,
};
