/* SPDX-License-Identifier: BSD-2-Clause */
/* weft iscsi read, write and copy: one movement, with the ends where the verb has them. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cmd/clock.h"
#include "cmd/iscsi/iscsi.h"
#include "cmd/iscsi/iscsi_end.h"
#include "cmd/roles/cluster_view.h"
#include "iscsi/initiator/url.h"

enum { BLOCK = 1 << 20, DEPTH = 16, NS_PER_MS = 1000000 };

struct options {
	struct iscsi_user user;
	const char *from, *to; /* NULL: standard input or output */
	uint64_t offset, length, to_offset, block, depth;
	bool has_length, has_to, is_fua, is_verified;
	bool is_write; /* --offset is of the destination */
};

/* ---- Ranges --------------------------------------------------------------------------------- */

static bool say(const struct iscsi_end *e, const char *what, uint64_t number, const char *more)
{
	fprintf(stderr, "weft iscsi: %s: %s %" PRIu64 "%s\n", e->name, what, number, more);
	return false;
}

static bool is_aligned(const struct iscsi_end *e, uint64_t number, const char *what)
{
	uint64_t block = e->move.store ? e->move.store->shape.block_bytes : 1;

	if (number % block == 0)
		return true;
	fprintf(stderr,
		"weft iscsi: %s: %s %" PRIu64 " is no multiple of its blocks of %" PRIu64
		" bytes\n",
		e->name, what, number, block);
	return false;
}

/* at: where the range begins at this end. */
static bool end_check(struct iscsi_end *e, const struct options *o, uint64_t at, const char *option)
{
	uint64_t size;

	e->move.at = at;
	if (!e->move.store) {
		if (at == 0)
			return true;
		fprintf(stderr,
			"weft iscsi: %s: a file is read and written from its beginning; "
			"%s is for devices\n",
			e->name, option);
		return false;
	}
	size = e->move.store->shape.size_bytes;
	if (!is_aligned(e, at, option) || !is_aligned(e, o->block, "--block"))
		return false;
	if (at > size || (o->has_length && o->length > size - at))
		return say(e, "it has only", size, " bytes");
	return true;
}

static bool say_no_room(const struct iscsi_end ends[2], uint64_t from, uint64_t to)
{
	fprintf(stderr,
		"weft iscsi: %s: there is no room: it takes %" PRIu64 " bytes, and %s has %" PRIu64
		"\n",
		ends[1].name, to, ends[0].name, from);
	return false;
}

/* How much: what was said, what the source has, else what the destination can take. */
static bool length_take(struct move *m, const struct options *o, struct iscsi_end ends[2])
{
	uint64_t from = UINT64_MAX, to = UINT64_MAX;

	if (ends[0].move.store)
		from = ends[0].move.store->shape.size_bytes - m->from.at;
	if (ends[1].move.store)
		to = ends[1].move.store->shape.size_bytes - m->to.at;
	m->length = from < to ? from : to;
	if (o->has_length)
		m->length = o->length;
	else if (from != UINT64_MAX && from > to)
		return say_no_room(ends, from, to);
	return (!ends[0].move.store || is_aligned(&ends[0], m->length, "--length")) &&
	       (!ends[1].move.store || !ends[0].move.store ||
		is_aligned(&ends[1], m->length, "--length"));
}

static bool ends_check(struct move *m, const struct options *o, struct iscsi_end ends[2])
{
	struct store *to = ends[1].move.store;
	/* Of two devices, the same place in both if nothing else is said. */
	uint64_t to_at = o->has_to || (to && ends[0].move.store) ? o->to_offset : 0;

	if (o->is_write)
		to_at = o->offset;
	if (!end_check(&ends[0], o, o->is_write ? 0 : o->offset, "--offset") ||
	    !end_check(&ends[1], o, to_at, o->is_write ? "--offset" : "--to"))
		return false;
	m->from = ends[0].move;
	m->to = ends[1].move;
	if (to && to->shape.is_readonly) {
		fprintf(stderr, "weft iscsi: %s: it is read-only\n", ends[1].name);
		return false;
	}
	if (to && o->is_fua && !(to->shape.can & STORE_CAN_FUA)) {
		fprintf(stderr,
			"weft iscsi: %s: it has no FUA; leave --fua out: at the end a flush "
			"makes all of it durable\n",
			ends[1].name);
		return false;
	}
	if (!to && (o->is_fua || o->is_verified)) {
		fprintf(stderr,
			"weft iscsi: %s: --fua and --verify are for devices that are "
			"written\n",
			ends[1].name);
		return false;
	}
	return length_take(m, o, ends);
}

/* ---- What is shown -------------------------------------------------------------------------- */

/* Ten times a second at most. */
static void progress(uint64_t done, uint64_t all)
{
	static uint64_t begun_ns, shown_ns;
	uint64_t now_ns = clock_ns();
	char bytes[CLUSTER_BYTES_TEXT], rate[CLUSTER_BYTES_TEXT];

	if (begun_ns == 0)
		begun_ns = now_ns;
	if (now_ns - shown_ns < UINT64_C(100) * NS_PER_MS || now_ns == begun_ns)
		return;
	shown_ns = now_ns;
	cluster_view_bytes(done, bytes);
	cluster_view_bytes((uint64_t)((double)done * 1e9 / (double)(now_ns - begun_ns)), rate);
	fprintf(stderr, "\r\033[K%s", bytes);
	if (all > 0)
		fprintf(stderr, ", %.0f %%", (double)done * 100 / (double)all);
	fprintf(stderr, ", %s/s", rate);
}

static void show_done(const struct options *o, const struct move_outcome *out, uint64_t elapsed_ns)
{
	double seconds = (double)elapsed_ns / 1e9;
	char bytes[CLUSTER_BYTES_TEXT], zeroes[CLUSTER_BYTES_TEXT];

	if (o->user.is_json && o->to) {
		printf("{\"bytes\":%" PRIu64 ",\"zero_bytes\":%" PRIu64 ",\"seconds\":%.3f"
		       ",\"verified\":%s}\n",
		       out->done_bytes, out->zero_bytes, seconds,
		       o->is_verified ? "true" : "false");
		return;
	}
	if (o->user.is_quiet || !isatty(STDERR_FILENO))
		return;
	cluster_view_bytes(out->done_bytes, bytes);
	cluster_view_bytes(out->zero_bytes, zeroes);
	fprintf(stderr,
		"\r\033[K%s in %.1f s, %.1f MB/s; of them zeroes that did not travel: %s%s\n",
		bytes, seconds, seconds > 0 ? (double)out->done_bytes / 1e6 / seconds : 0, zeroes,
		o->is_verified ? "; read back, and the same" : "");
}

/* ---- The movement --------------------------------------------------------------------------- */

/* Without a length, input that does not fit is an error. */
static bool is_all_written(const struct options *o, const struct move *m,
			   const struct iscsi_end *to)
{
	char more;

	if (o->has_length || m->from.store || !m->to.store || read(m->from.fd, &more, 1) != 1)
		return true;
	return say(to, "the input has more than the", m->length, " bytes that there are");
}

static int move(const struct options *o, struct iscsi_end ends[2])
{
	struct move m = { .block = (uint32_t)o->block,
			  .depth = (uint32_t)o->depth,
			  .is_fua = o->is_fua,
			  .is_verified = o->is_verified };
	uint64_t begun_ns = clock_ns();
	struct move_outcome out;

	if (!ends_check(&m, o, ends))
		return 1;
	if (!o->user.is_quiet && isatty(STDERR_FILENO))
		m.tell = progress;
	iscsi_move(&m, &out);
	if (out.reason != WEFT_OK) {
		if (m.tell)
			fputs("\r\033[K", stderr);
		return iscsi_end_fail(&ends[out.end == &m.to], &out);
	}
	if (!is_all_written(o, &m, &ends[1]))
		return 1;
	show_done(o, &out, clock_ns() - begun_ns);
	return 0;
}

static int move_between(struct options *o)
{
	struct iscsi_end ends[2];
	int status = 1;

	if (!iscsi_end_open(&ends[0], &o->user, o->from, false))
		return 1;
	if (iscsi_end_open(&ends[1], &o->user, o->to, true)) {
		status = move(o, ends);
		status |= !iscsi_end_close(&ends[1]);
	}
	(void)iscsi_end_close(&ends[0]);
	return status;
}

/* ---- The commands --------------------------------------------------------------------------- */

/* False: *status. */
static bool take(struct options *o, int argc, char **argv, int *status)
{
	const struct cmd_option own[] = {
		{ "offset", .read = quantity_size, .to = &o->offset },
		{ "length", .read = quantity_size, .to = &o->length, .is_given = &o->has_length },
		{ "to", .read = quantity_size, .to = &o->to_offset, .is_given = &o->has_to },
		{ "block", .read = quantity_size, .to = &o->block },
		{ "depth", .read = quantity_number, .to = &o->depth },
		{ "fua", .is_given = &o->is_fua },
		{ "verify", .is_given = &o->is_verified },
		{ 0 },
	};

	*o = (struct options){ .block = BLOCK, .depth = DEPTH };
	if (!iscsi_user_init(&o->user, argc, argv, own, status))
		return false;
	if (!o->has_to)
		o->to_offset = o->offset;
	if (o->block == 0 || o->block > MOVE_BLOCK_MAX || o->depth == 0 ||
	    o->depth > MOVE_DEPTH_MAX) {
		fprintf(stderr, "weft iscsi: --block is 1 to 64M, --depth 1 to 1024\n");
		*status = 2;
		return false;
	}
	return true;
}

/* A URL and perhaps a file. */
static int with_file(int argc, char **argv, bool is_write)
{
	const char *words[2] = { NULL, NULL };
	struct options o;
	int status;

	if (!take(&o, argc, argv, &status))
		return status;
	if (o.has_to ||
	    (!iscsi_user_words(argc, argv, words, 1) && !iscsi_user_words(argc, argv, words, 2)))
		return cmd_options_wrong(iscsi_help);
	if (!iscsi_url_is(words[0])) {
		fprintf(stderr,
			"weft iscsi: %s: this is no URL: iscsi://HOST[:PORT]/TARGET/LUN, or "
			"iser://\n",
			words[0]);
		return 2;
	}
	o.is_write = is_write;
	o.from = words[is_write ? 1 : 0];
	o.to = words[is_write ? 0 : 1];
	return move_between(&o);
}

int iscsi_read(int argc, char **argv)
{
	return with_file(argc, argv, false);
}

int iscsi_write(int argc, char **argv)
{
	return with_file(argc, argv, true);
}

int iscsi_copy(int argc, char **argv)
{
	const char *words[2];
	struct options o;
	int status;

	if (!take(&o, argc, argv, &status))
		return status;
	if (!iscsi_user_words(argc, argv, words, 2))
		return cmd_options_wrong(iscsi_help);
	o.from = words[0];
	o.to = words[1];
	return move_between(&o);
}
