/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/iscsi/iscsi_end.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iscsi/initiator/url.h"
#include "roles/iscsi_store.h"
#include "store/plan.h"

/* ---- Opening -------------------------------------------------------------------------------- */

static bool open_url(struct iscsi_end *e, struct iscsi_user *u, const char *url)
{
	const struct iscsi_store_config c = { .url = url, .options = u->options };
	enum weft_reason r = iscsi_store_open(&c, &e->move.store, u->why);

	e->is_url = true;
	iscsi_user_plain(url, e->name);
	if (r != WEFT_OK)
		return iscsi_user_fail(e->name, r, u->why) == 0;
	e->move.fd = iscsi_store_descriptor(e->move.store);
	return true;
}

static bool open_device(struct iscsi_end *e, const char *text)
{
	struct device_refusal why;

	if (device_open(text, &e->device, &why) != WEFT_OK) {
		fprintf(stderr, "weft iscsi: %s: %s\n", text, why.text);
		return false;
	}
	e->move.store = device_store(e->device);
	e->move.fd = device_descriptor(e->device);
	return true;
}

static bool open_file(struct iscsi_end *e, const char *path, bool is_destination)
{
	int flags = is_destination ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY;

	e->move.fd = open(path, flags | O_CLOEXEC, 0666);
	if (e->move.fd < 0) {
		fprintf(stderr, "weft iscsi: %s: %s\n", path, strerror(errno));
		return false;
	}
	e->is_opened = true;
	return true;
}

/* Is it a line of docs/store.md, as far as it can be read? A path may hold what it likes. */
static bool is_device(const char *text)
{
	struct store_plan *plan = malloc(sizeof(*plan));
	struct store_complaint complaint;
	bool is = plan && store_plan_read(plan, text, &complaint);

	free(plan);
	return is;
}

bool iscsi_end_open(struct iscsi_end *e, struct iscsi_user *u, const char *text,
		    bool is_destination)
{
	*e = (struct iscsi_end){ 0 };
	if (!text) {
		snprintf(e->name, sizeof(e->name), "standard %s",
			 is_destination ? "output" : "input");
		e->move.fd = is_destination ? STDOUT_FILENO : STDIN_FILENO;
		return true;
	}
	if (iscsi_url_is(text))
		return open_url(e, u, text);
	snprintf(e->name, sizeof(e->name), "%s", text);
	if (is_device(text))
		return open_device(e, text);
	return open_file(e, text, is_destination);
}

bool iscsi_end_close(struct iscsi_end *e)
{
	struct device_refusal why;

	if (e->device && !device_close_report(e->device, &why))
		fprintf(stderr, "weft iscsi: %s: %s\n", e->name, why.text);
	if (e->is_url && e->move.store)
		store_destroy(e->move.store);
	if (!e->is_opened || close(e->move.fd) == 0)
		return true;
	fprintf(stderr, "weft iscsi: %s: %s\n", e->name, strerror(errno));
	return false;
}

/* ---- What is said --------------------------------------------------------------------------- */

int iscsi_end_fail(const struct iscsi_end *e, const struct move_outcome *o)
{
	const char *why = weft_reason_text(o->reason);

	if (strcmp(o->what, "verify") == 0) {
		fprintf(stderr,
			"weft iscsi: %s: what was read back differs from what was written "
			"at byte %" PRIu64 "\n",
			e->name, o->at);
		return 1;
	}
	if (o->error != 0)
		why = strerror(o->error);
	else if (e->is_url && iscsi_store_failure(e->move.store)[0])
		why = iscsi_store_failure(e->move.store);
	fprintf(stderr, "weft iscsi: %s of %s at byte %" PRIu64 ": %s (%s)\n", o->what, e->name,
		o->at, why, weft_reason_name(o->reason));
	return 1;
}
